//! What a run says: fields of the JSON, the table, the most frequent words, and a reader who has gone.

use std::process::Stdio;

use crate::support::{Place, Running, program, text, told};

#[test]
fn json_has_every_field() {
    let place = Place::new(b"a b a c a b\n");
    let report = place.wordcount(&["--top", "2"]).fine().json();
    assert_eq!((report["words"].as_u64(), report["distinct"].as_u64()), (Some(6), Some(3)));
    assert!(report["seconds"].as_f64().unwrap() > 0.0);
    assert!(report["checkpoints_completed"].as_u64().unwrap() >= 1);
    assert_eq!((&report["checkpoints_failed"], &report["bytes_replayed"]), (&0.into(), &0.into()));
    let report = report.as_object().unwrap();
    assert!(report["resumed_from"].is_null());
    assert!(report["passed_over"].as_array().unwrap().is_empty());
    assert_eq!(report["top"], serde_json::json!([{ "word": "a", "count": 3 }, { "word": "b", "count": 2 }]));
    let again = place.wordcount(&[]).fine().json();
    let names =
        |object: &serde_json::Map<String, serde_json::Value>| object.keys().cloned().collect::<Vec<_>>();
    let (first, again) = (names(report), names(again.as_object().unwrap()));
    for name in [
        "words",
        "distinct",
        "seconds",
        "checkpoints_completed",
        "checkpoints_failed",
        "resumed_from",
        "bytes_replayed",
        "passed_over",
    ] {
        assert!(first.contains(&name.to_owned()) && again.contains(&name.to_owned()), "{name}");
    }
}

#[test]
fn the_table_ends_with_the_most_frequent_words() {
    let place = Place::new(b"a b a c a b\n");
    let told = told(&mut place.command(&["--top", "2", "--emit", "updates"]));
    let lines: Vec<&str> = told.fine().stdout.lines().collect();
    assert!(lines[0].starts_with("words") && lines[0].ends_with("6 (3 distinct)"), "{told:?}");
    let top: Vec<Vec<&str>> =
        lines[lines.len() - 2..].iter().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(top, [["3", "a"], ["2", "b"]]);
    assert!(told.stderr.is_empty(), "no bar where nobody looks: {told:?}");
}

#[test]
fn a_reader_who_has_gone_is_no_error() {
    let place = Place::new(&text(50_000));
    let dir = place.dir();
    let mut listing = program();
    listing.arg("checkpoints").arg(&dir);
    let mut verifying = program();
    verifying.arg("verify").arg(&dir).arg("--json");
    for mut command in [place.command(&["--events", "--top", "5"]), listing, verifying] {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut child = Running(child);
        drop(child.0.stdout.take());
        let status = child.0.wait().unwrap();
        let said = std::io::read_to_string(child.0.stderr.take().unwrap()).unwrap();
        assert!(status.success() && said.is_empty(), "{command:?}: {status}, {said}");
    }
    place.assert_exact("final");
}
