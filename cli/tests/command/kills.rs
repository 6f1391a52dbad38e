//! Killed three times, resumed with other parallelisms: exact.

use std::cell::Cell;

use crate::support::{has_uring, until_killed};

fn exact_after_three_kills(storage: &str, emit: &str) {
    let parallelisms = ["2", "3", "1", "2"];
    let resumes = Cell::new(0);
    let place = until_killed(768 << 10, |place| {
        let killed = parallelisms.iter().take(3).take_while(|parallelism| {
            place.killed(1, &["--storage", storage, "--emit", emit, "--parallelism", parallelism])
        });
        resumes.set(killed.count());
        resumes.get() == 3
    });
    let told = place.wordcount(&["--storage", storage, "--emit", emit, "--parallelism", parallelisms[3]]);
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
