//! What `--log` tells, and that nothing is told without it.

use crate::support::{Place, program, told};

#[test]
fn checkpoints_and_recoveries_are_told_as_far_as_asked() {
    let place = Place::new(b"a b a\n");
    assert_eq!(place.wordcount(&[]).fine().stderr, "", "nothing by default");
    let place = Place::new(b"a b a\n");
    let told = place.wordcount(&["--log", "debug"]);
    let log = &told.fine().stderr;
    for words in ["checkpoint complete", "INFO checkpoint{job=", "subtask reported", "duration_ms="] {
        assert!(log.contains(words), "{words} in {log}");
    }
    let place = Place::new(b"a b a\n");
    let told = place.wordcount(&["--log", "info"]);
    assert!(told.fine().stderr.contains("checkpoint complete"));
    assert!(!told.stderr.contains("DEBUG"), "{}", told.stderr);
}

#[test]
fn a_level_that_is_none_is_refused() {
    let place = Place::new(b"a\n");
    told(program().arg("wordcount").arg(place.input()).arg("--dir").arg(place.dir()).args(["--log", "loud"]))
        .refused(2, &["loud", "--log"]);
}
