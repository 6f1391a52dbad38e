//! What users of stream processors, storage engines and libraries of input and output have reported in public, as
//! scenarios; each has a test whose name begins with its id (`i03_...` for I-03), or a reason why it cannot happen here.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Every case: its id and what it is about.
const CASES: &[(&str, &str)] = &[
    ("a01", "a blocked channel when the others end"),
    ("a02", "one open channel and a checkpoint that several had begun"),
    ("a03", "cancel markers of several checkpoints, interleaved"),
    ("a04", "a stale cancel marker and a newer checkpoint"),
    ("a05", "an abort that comes before the barriers"),
    ("b01", "a time-out that is over at the first sign of a checkpoint"),
    ("b02", "a barrier that was never announced"),
    ("b03", "an edge that forbids overtaking"),
    ("b04", "an abort before the start"),
    ("b05", "a checkpoint replaced by a newer one"),
    ("b06", "a cancel between the barrier and the start"),
    ("c01", "late acknowledgements of a checkpoint that is over"),
    ("c02", "the cadence after an abort of everything pending"),
    ("c03", "a checkpoint that ends while it is being triggered"),
    ("c04", "the pause after a completion"),
    ("c05", "three ways to fail at storing a checkpoint"),
    ("c06", "a trigger for a task that has just finished"),
    ("c07", "one failing completion handler among several"),
    ("d01", "routing and ownership of key groups"),
    ("d02", "key groups that were never written"),
    ("d03", "rescaling and who owns a key"),
    ("d04", "another maximum parallelism"),
    ("e01", "a state registered while a snapshot is written"),
    ("e02", "a codec with a buffer of its own, and two threads"),
    ("e03", "a scan of a state that changes"),
    ("e04", "keys that collide"),
    ("f01", "a discard queued before a restart"),
    ("f02", "one file, uploaded by two checkpoints at once"),
    ("f03", "files of the checkpoint that a job started from"),
    ("f04", "the cleaning up of a failed snapshot"),
    ("g01", "the newest checkpoint damaged, and order by number"),
    ("g02", "the snapshot after a migration of values"),
    ("g03", "left-overs of a failed attempt, and numbers that repeat"),
    ("g04", "a crash in the very first checkpoint"),
    ("g05", "named lists in one file, some empty, compressed, rescaled"),
    ("h01", "completions out of order, and empty transactions"),
    ("h02", "a notice that returns before the commit"),
    ("h03", "a crash at every point around a checkpoint"),
    ("h04", "an acknowledgement before the flush"),
    ("h05", "the tail of a bounded input"),
    ("h06", "offsets committed too early, or backwards"),
    ("i01", "a full disk"),
    ("i02", "short writes and odd completions"),
    ("i03", "a failed sync that is tried again"),
    ("i04", "a crash at every operation of publishing and deleting"),
    ("i05", "temporary files that a crash has left"),
    ("i06", "a file that is shorter than it claims"),
    ("i07", "the last block of a file under direct access"),
    ("j01", "lengths that lie"),
    ("j02", "numbers of variable length"),
    ("j03", "a file cut off between two frames"),
    ("j04", "every bit turned over"),
];

/// Cases that cannot happen here, and why.
const NOT_APPLICABLE: &[(&str, &str)] =
    &[("c07", "no operator has a handler for completions: of each subtask only its one sink hears of them")];

const FOLDERS: &[&str] = &["core", "backend-mem", "backend-uring", "runtime", "cli", "fuzz", "tests"];

fn names_of_tests(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            names_of_tests(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let behind = text.split("#[test]").skip(1).filter_map(|rest| rest.split_once("fn "));
            found.extend(behind.filter_map(|(_, rest)| Some(rest.split_once('(')?.0.to_owned())));
        }
    }
}

/// The ids at the front of a test's name: `i01_i03_...`, `bug_b04_...`.
fn ids(name: &str) -> impl Iterator<Item = &str> {
    let is_id = |word: &&str| {
        let bytes = word.as_bytes();
        bytes.len() == 3 && bytes[0].is_ascii_lowercase() && bytes[1] == b'0' && bytes[2].is_ascii_digit()
    };
    name.strip_prefix("bug_").unwrap_or(name).split('_').take_while(is_id)
}

#[test]
fn every_case_has_a_test_or_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut names = Vec::new();
    FOLDERS.iter().for_each(|folder| names_of_tests(&root.join(folder), &mut names));
    let tested: BTreeSet<&str> = names.iter().flat_map(|name| ids(name)).collect();
    let known: BTreeSet<&str> = CASES.iter().map(|(id, _)| *id).collect();
    let excused: BTreeSet<&str> = NOT_APPLICABLE.iter().map(|(id, _)| *id).collect();
    assert_eq!(known.len(), 52, "each id once");
    let missing: Vec<_> =
        CASES.iter().filter(|(id, _)| !tested.contains(id) && !excused.contains(id)).collect();
    assert!(missing.is_empty(), "no test has these names: {missing:?}");
    let needless: Vec<_> = excused.intersection(&tested).collect();
    assert!(needless.is_empty(), "excused, but tested: {needless:?}");
    let unknown: Vec<_> = tested.difference(&known).collect();
    assert!(unknown.is_empty(), "names of tests for cases that are none: {unknown:?}");
}
