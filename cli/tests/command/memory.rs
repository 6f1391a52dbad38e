//! `--storage mem`: checkpoints in memory, the output on disk when the job has ended.

use std::fs;

use crate::support::{Place, parts, slackwater, text};

#[test]
fn the_output_is_on_disk_when_the_job_has_ended() {
    let place = Place::new(&text(100_000));
    let report = place.wordcount(&["--storage", "mem", "--emit", "updates"]).fine().json();
    assert_eq!(report["storage"], "mem");
    assert!(report["checkpoints_completed"].as_u64().unwrap() > 0);
    place.assert_exact("updates");
    assert!(!place.path("dir/wordcount").exists(), "no checkpoint reaches the disk");
    let hidden = fs::read_dir(place.output()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(hidden.into_iter().all(|name| name == ".lock" || name.to_str().unwrap().starts_with("part-")));
}

#[test]
fn parts_of_another_run_are_not_mixed_with() {
    let place = Place::new(b"a b a");
    place.wordcount(&["--storage", "mem"]).fine();
    place.wordcount(&["--storage", "mem"]).refused(2, &["output of another run"]);
    assert_eq!(parts(&place.output()).len(), 2);
    place.assert_exact("final");
    // A run with checkpoints moves them aside.
    place.wordcount(&[]).fine();
    place.assert_exact("final");
}

#[test]
fn help_says_that_nothing_survives() {
    let help = slackwater(["wordcount", "--help"]);
    assert!(help.fine().stdout.contains("nothing survives a kill"), "{help:?}");
}
