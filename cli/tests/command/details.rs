//! What `checkpoints --details` tells of every subtask after the job has ended.

use serde_json::Value;

use crate::support::{Place, program, told};

#[test]
fn every_subtask_of_every_checkpoint_is_listed_with_what_it_took() {
    let place = Place::new(&b"one two three two three three\n".repeat(2000));
    place.wordcount(&["--parallelism", "2", "--emit", "updates"]).fine();
    let listed = told(program().arg("checkpoints").arg(place.dir()).args(["--details", "--json"]));
    let newest: Value = serde_json::from_str(listed.fine().stdout.lines().last().unwrap()).unwrap();
    assert!(newest["state_bytes"].as_u64().unwrap() > 0, "{newest}");
    assert_eq!(newest["state_bytes"], newest["checkpointed_bytes"]);
    let details = newest["details"].as_array().unwrap();
    assert_eq!(details.len() as u64, newest["subtasks"].as_u64().unwrap());
    for name in [
        "operator",
        "subtask",
        "acknowledged_at_ms",
        "duration_ms",
        "start_delay_ms",
        "alignment_ms",
        "processed_bytes",
        "persisted_bytes",
        "sync_ms",
        "async_ms",
        "checkpointed_bytes",
        "state_bytes",
        "unaligned",
    ] {
        assert!(details.iter().all(|detail| !detail[name].is_null()), "{name}");
    }
    let sum: u64 = details.iter().map(|detail| detail["state_bytes"].as_u64().unwrap()).sum();
    assert_eq!(newest["state_bytes"].as_u64(), Some(sum));

    let told = told(program().arg("checkpoints").arg(place.dir()).arg("--details"));
    let table = &told.fine().stdout;
    assert!(table.contains(", times in ms\n") && table.contains("alignment"), "{table}");
}
