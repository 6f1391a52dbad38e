use std::time::Duration;

use slackwater_benches::paired::{Paired, Quartiles};
use slackwater_mem::MemDisk;

use super::{OnDisk, Plan, Ratios};
use crate::beside::Beside;
use crate::table::{Format, Goal, Table};

fn plan() -> Plan {
    Plan {
        rounds: 1,
        rounds_of_long: 1,
        block: 256,
        drawn: 1_024,
        freezes: 3,
        freezes_relocated: 2,
        ..Plan::quick(2_000)
    }
}

/// Runs the rows with little state and gives the lines.
fn lines(filters: &[&str], beside: &str) -> Vec<String> {
    let mut out = Vec::new();
    let filters = filters.iter().map(|filter| (*filter).to_owned()).collect();
    let mut table = Table::new(&mut out, Format::Text, filters, Beside::parse(beside));
    Ratios { plan: plan(), table: &mut table }.run(MemDisk::new()).unwrap();
    String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn every_goal_has_its_row() {
    let lines = lines(&[], "");
    let names = [
        "freeze/2k/1x128/p50",
        "freeze/2k/1x128/p99",
        "freeze/2k/16x128/relocated/p99",
        "freeze/2k/1x32768/p99",
        "freeze/p50_of_most_keys_by_fewest",
        "update/independent",
        "update/by_flink",
        "read/independent",
        "read/dependent",
        "read/batch_16",
        "update/while_a_snapshot_is_written",
        "update/while_a_snapshot_is_written/by_flink",
        "update/worst_256_after_freeze",
        "update/first_of_a_page_after_freeze",
        "map/get/10_entries",
        "map/get/2000_entries",
        "map/iterate/10_entries",
        "map/iterate/2000_entries",
        "timer/insert",
        "timer/pop",
        "timer/pop_and_insert",
        "memory/bytes_per_key_mean",
        "memory/bytes_per_key_max",
        "insert/growing_p99.99",
        "insert/growing_worst",
        "restore/first_lookup",
        "restore/all",
    ];
    for name in names {
        let found = lines.iter().filter(|line| line.split_whitespace().next() == Some(name)).count();
        assert_eq!(found, 1, "{name} in\n{}", lines.join("\n"));
    }
}

#[test]
fn only_the_rows_that_were_asked_for_are_measured() {
    let names: Vec<String> = lines(&["read/", "restore"], "")
        .iter()
        .skip(2)
        .map(|line| line.split_whitespace().next().unwrap().to_owned())
        .collect();
    assert_eq!(
        names,
        ["read/independent", "read/dependent", "read/batch_16", "restore/first_lookup", "restore/all"]
    );
}

#[test]
fn figures_of_flink_are_set_beside_ours() {
    let line = |value: u32| {
        format!(r#"{{"sys":"flink-heap","name":"update_ns_per_op","value":{value},"unit":"ns"}}"#)
    };
    let text = format!("{}\nnot a figure\n{}\n{}\n", line(9), line(1_000_000_000), line(2_000_000_000));
    let line = lines(&["update/by_flink"], &text).pop().unwrap();
    assert!(line.contains("1000000000.000 Flink "), "{line}");
    assert!(line.ends_with("10 x faster  met"), "{line}");
}

/// The line of a row with `ours` nanoseconds beside four.
fn verdict(ours: u64, goal: Goal) -> String {
    let mut out = Vec::new();
    let block = |nanos| Ok::<f64, ()>(Duration::from_nanos(nanos).as_secs_f64() * 1e9);
    let paired = Paired::measure(1, || block(ours), || block(4)).unwrap();
    assert_eq!(paired.theirs(), Quartiles { lower: 4.0, median: 4.0, upper: 4.0 });
    Table::new(&mut out, Format::Text, Vec::new(), Beside::default())
        .paired("row", "ns", ("other", &paired), goal)
        .unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_row_says_whether_its_goal_is_met_and_by_how_much_it_is_missed() {
    assert!(verdict(4, Goal::Times(1.0)).ends_with("<= 1.00 x    met\n"));
    assert!(verdict(6, Goal::Times(1.0)).ends_with("missed, 1.50 times it\n"));
    assert!(verdict(6, Goal::AtMost(5.0)).ends_with("missed, 1.20 times it\n"));
    assert!(verdict(2, Goal::Faster(2.0)).ends_with("2 x faster   met\n"));
    assert!(verdict(4, Goal::Faster(2.0)).ends_with("missed, 2.00 times it\n"));
    assert!(verdict(4, Goal::None).trim_end().ends_with('-'));
}
