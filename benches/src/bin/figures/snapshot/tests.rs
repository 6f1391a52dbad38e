use std::path::Path;

use serde_json::Value;
use slackwater_benches::raw_disk::RawDisk;
use slackwater_benches::storage::Storage;

use super::Arguments;
use crate::Target;
use crate::table::Shown;

const ROWS: [&str; 11] = [
    "full/scattered",
    "full/scattered/ms",
    "full/scattered/by_flink",
    "full/scattered/processor",
    "compressed/lz4",
    "update/checkpoint_every_second",
    "full/contiguous",
    "full/contiguous/ms",
    "full/contiguous/processor",
    "restore/first_lookup",
    "restore/all",
];

/// Nothing to compare with where there is no io_uring.
fn has_ring() -> bool {
    let found = RawDisk::new(Path::new("."), 4096, false);
    assert!(found.is_ok() || std::env::var_os("REQUIRE_URING").is_none(), "{found:?}");
    found.is_ok()
}

/// Runs with little state and gives the lines.
fn lines(json: bool, rows: &[&str], value_bytes: usize) -> Vec<String> {
    let target = Target { storage: Storage::Auto, dir: None };
    let arguments = Arguments { keys: 400, value_bytes, quick: true, shown: Shown::of(json, rows), target };
    let mut out = Vec::new();
    super::print(&arguments, &mut out).unwrap();
    String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn every_goal_has_its_row_and_says_whether_it_is_met() {
    if !has_ring() {
        return;
    }
    let rows: Vec<Value> =
        lines(true, &[], 8).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, [&ROWS[..], &["verify"]].concat());
    for row in &rows {
        let is_open = row["name"] == "full/scattered/by_flink";
        assert_eq!(row["met"].is_boolean(), row["goal"].is_string() && !is_open, "{row}");
        assert!(row["value"].as_f64().is_some_and(|value| value > 0.0), "{row}");
    }
}

#[test]
fn rows_of_byte_strings_are_printed_as_a_table() {
    if !has_ring() {
        return;
    }
    let lines = lines(false, &["compressed", "verify"], 100);
    let names: Vec<_> = lines.iter().skip(2).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["compressed/lz4", "verify"]);
}
