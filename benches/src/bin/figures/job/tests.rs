use std::io::Write;

use serde_json::Value;
use slackwater_benches::delays::{Load, Subtasks};
use slackwater_benches::storage::Storage;

use super::wide::Wide;
use super::words::WordCount;
use super::{Arguments, PRE_AGGREGATE};
use crate::Target;
use crate::table::Shown;

fn arguments(input: &std::path::Path, rows: &[&str]) -> Arguments {
    Arguments {
        input: Some(input.to_owned()),
        interval_ms: 1000,
        parallelism: 2,
        bundle: PRE_AGGREGATE,
        quick: true,
        shown: Shown::of(true, rows),
        target: Target { storage: Storage::Mem, dir: None },
    }
}

fn text() -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all("to be or not to be\n".repeat(500).as_bytes()).unwrap();
    file
}

#[test]
fn a_job_counts_every_word_and_ends_with_a_checkpoint() {
    let (text, folder) = (text(), tempfile::tempdir().unwrap());
    let arguments = arguments(text.path(), &[]);
    let count = WordCount { arguments: &arguments, input: text.path(), interval_ms: 0 };
    let run = Storage::Mmap.with_disk(folder.path(), count).unwrap();
    assert_eq!(run.words, 3_000);
    assert!(run.checkpoints >= 1);
}

/// The names and goals of the rows.
fn rows(rows: &[&str]) -> Vec<(String, Value)> {
    let (text, mut out) = (text(), Vec::new());
    super::print(&arguments(text.path(), rows), &mut out).unwrap();
    let lines = String::from_utf8(out).unwrap();
    let rows = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.map(|row| (row["name"].as_str().unwrap().to_owned(), row["goal"].clone())).collect()
}

#[test]
fn the_figure_of_a_job_has_the_name_of_the_flink_harness_and_two_goals() {
    let found = rows(&["word", "checkpoints"]);
    let goals = [Some("<= 1.05 x"), Some("10 x faster"), None, None].map(Value::from);
    let names = ["wordcount_ms", "wordcount_ms/by_flink", "words_per_second", "checkpoints_completed"];
    assert!(
        found
            .iter()
            .zip(names.iter().zip(&goals))
            .all(|((name, goal), wanted)| (&name.as_str(), goal) == wanted)
    );
    assert_eq!(found.len(), names.len());
}

#[test]
fn all_but_one_in_a_hundred_records_are_to_arrive_within_a_millisecond() {
    let found = rows(&["delay/half_load/p99"]);
    let goal = found.iter().find(|(name, _)| name == "delay/half_load/p99").map(|(_, goal)| goal.clone());
    assert_eq!(goal, Some(Value::from("<= 1000")));
}

#[test]
fn a_wide_job_starts_takes_checkpoints_and_stops_with_a_savepoint() {
    let subtasks = Subtasks { sources: 20, counts: 20, sinks: 20 };
    let wide = Wide { load: Load::PerSecond(10_000), subtasks };
    let folder = tempfile::tempdir().unwrap();
    let values = Storage::Mem.with_disk(folder.path(), wide).unwrap();
    assert!(values.iter().all(|value| *value >= 0.0), "{values:?}");
}
