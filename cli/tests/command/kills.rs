//! Killed three times, resumed with other parallelisms: exact.

use std::cell::Cell;

use crate::support::{has_uring, until_killed};

fn exact_after_three_kills(storage: &str, emit: &str) {
    exact_with(storage, emit, ["none"; 4]);
}

/// Each start with another compression.
fn exact_with(storage: &str, emit: &str, compressions: [&str; 4]) {
    let parallelisms = ["2", "3", "1", "2"];
    let resumes = Cell::new(0);
    let place = until_killed(768 << 10, |place| {
        let killed =
            parallelisms.iter().zip(compressions).take(3).take_while(|(parallelism, compression)| {
                let args = ["--storage", storage, "--emit", emit, "--parallelism", parallelism];
                place.killed(1, &[&args[..], &["--compression", compression]].concat())
            });
        resumes.set(killed.count());
        resumes.get() == 3
    });
    let args = ["--storage", storage, "--emit", emit, "--parallelism", parallelisms[3]];
    let told = place.wordcount(&[&args[..], &["--compression", compressions[3]]].concat());
    let report = told.fine().json();
    assert!(report["resumed_from"].is_u64(), "{report}");
    assert_eq!(report["storage"], storage);
    assert_eq!(report["passed_over"].as_array().unwrap().len(), 0);
    let read = report["bytes_read"].as_u64().unwrap();
    assert!(read < place.text.len() as u64, "a resume reads less than everything");
    assert!(report["bytes_replayed"].as_u64().unwrap() <= read);
    place.assert_exact(emit);
}

#[test]
fn each_word_once_on_mapped_files() {
    exact_after_three_kills("mmap", "final");
}

#[test]
fn every_update_once_on_mapped_files() {
    exact_after_three_kills("mmap", "updates");
}

#[test]
fn each_word_once_on_io_uring() {
    if has_uring() {
        exact_after_three_kills("uring", "final");
    }
}

#[test]
fn every_update_once_on_io_uring() {
    if has_uring() {
        exact_after_three_kills("uring", "updates");
    }
}

#[test]
fn each_word_once_with_lz4() {
    exact_with("mmap", "final", ["lz4"; 4]);
}

#[test]
fn each_word_once_with_zstd() {
    exact_with("mmap", "final", ["zstd"; 4]);
}

#[test]
fn every_update_once_with_another_compression_after_each_kill() {
    exact_with("mmap", "updates", ["zstd", "lz4", "none", "zstd"]);
}
