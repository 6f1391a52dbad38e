//! More subtasks and channels than any processor has threads.

use super::*;
use crate::savepoint::{RestoreFrom, RestoreMode};
use crate::stop::StopMode;

/// Enough for many reads of each source.
const NUMBERS: u64 = 400_000;

/// Numbers through 51 subtasks, over 16 * 17 and 17 * 18 channels.
fn wide(committed: &Committed) -> JobBuilder {
    let committed = Arc::clone(committed);
    let mut job = JobBuilder::new("wide", 128);
    job.source("source", 16, |info| Numbers {
        next: info.index.into(),
        end: NUMBERS,
        step: info.parallelism.into(),
    })
    .flat_map("double", |number: &u64, out: &mut Output<'_, u64>| out.emit(&(number * 2)))
    .rebalance("first", 17)
    .rebalance("second", 18)
    .sink("collect", move |_| Collect {
        committed: Arc::clone(&committed),
        current: Vec::new(),
        pending: Vec::new(),
    });
    job
}

#[test]
fn a_wide_job_takes_checkpoints_stops_with_a_savepoint_and_goes_on() {
    let (disk, committed) = (Disk::new(), Committed::default());
    let start = |attempt, restore_from| {
        let interval = Some(Millis(10));
        let options = JobOptions { interval, restore_from, ..JobOptions::new(attempt) };
        Job::assemble(wide(&committed), disk.clone(), Now::default(), &options).unwrap()
    };
    let mut job = start(1, None);
    let (observer, controller, mut stop) = (job.observer(), job.controller(), None);
    drive(&mut job.take_actors(), || {
        if stop.is_none() && observer.progress().checkpoints_completed > 0 {
            stop = Some(controller.stop("savepoint", StopMode::Suspend));
        }
        false
    });
    let (stopped, stop) = (job.report().unwrap(), stop.unwrap().result().unwrap());
    assert_eq!(stopped.stopped_with, Some(stop.unwrap()));
    let from = RestoreFrom { folder: "savepoint".into(), mode: RestoreMode::NoClaim };
    let report = run(start(2, Some(from))).unwrap();
    assert_eq!(stopped.source_records + report.source_records, NUMBERS, "it was stopped somewhere between");
    let mut numbers = std::mem::take(&mut *lock(&committed));
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq((0..NUMBERS).map(|number| number * 2)));
}
