use slackwater_benches::storage::Storage;

use super::Arguments;
use crate::Target;
use crate::lines::Lines;

/// Runs with little state and gives the names of what was printed, in order.
fn names(storage: Storage, value_bytes: usize) -> Vec<String> {
    let target = Target { storage, dir: None };
    let arguments = Arguments { keys: 400, value_bytes, updates: 500, target };
    let mut out = Vec::new();
    super::print(&arguments, &mut Lines::new(&mut out)).unwrap();
    let name = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["sys"], "slackwater");
        assert!(line["value"].as_f64().is_some_and(|value| value >= 0.0), "{line}");
        assert!(line["unit"].is_string(), "{line}");
        line["name"].as_str().unwrap().to_owned()
    };
    String::from_utf8(out).unwrap().lines().map(name).collect()
}

/// The harness for Flink's heap backend prints these, but for the bytes of retired frames and the first look-up, which it has none of.
fn expected() -> Vec<&'static str> {
    let round = ["update_ns_per_op", "read_ns_per_op"];
    let idle = ["snapshot_sync_us", "snapshot_async_ms_idle", "snapshot_bytes", "snapshot_MBps"];
    let busy = [
        "snapshot_sync_us",
        "update_during_snapshot_ns_per_op",
        "worst_256_updates_during_snapshot_us",
        "snapshot_async_ms_with_updates",
        "snapshot_bytes",
        "snapshot_MBps",
    ];
    let memory = ["heap_bytes_per_key", "retired_bytes_per_key"];
    let restore = ["restore_first_lookup_ms", "restore_ms"];
    let snapshots = [&idle[..], &busy[..]].concat();
    [&["populate_ns_per_op"][..], &round.repeat(3), &snapshots.repeat(2), &memory, &restore.repeat(2)]
        .concat()
}

#[test]
fn figures_of_numbers_have_the_names_of_the_flink_harness() {
    assert_eq!(names(Storage::Mem, 8), expected());
}

#[test]
fn figures_of_byte_strings_have_the_names_of_the_flink_harness() {
    assert_eq!(names(Storage::Mmap, 100), expected());
}

#[test]
fn figures_of_long_values_come_through_whatever_disk_there_is() {
    assert_eq!(names(Storage::Auto, 5_000), expected());
}
