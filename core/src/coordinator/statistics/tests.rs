//! Rules M1 to M8.

use std::vec::Vec;

use super::{
    CheckpointCounts, CheckpointFigures, CheckpointStatus, RestoreFigures, Spread, Statistics, SubtaskFigures,
};
use crate::ids::{CheckpointId, SavepointFormat, SnapshotKind, TaskIndex};
use crate::reason::FailureReason;
use crate::time::Millis;

type Tracker = Statistics<3, 4>;

const SAVEPOINT: SnapshotKind = SnapshotKind::Savepoint(SavepointFormat::Canonical);

const fn id(number: u64) -> CheckpointId {
    CheckpointId(number)
}

fn trigger(statistics: &mut Tracker, number: u64, kind: SnapshotKind) {
    statistics.triggered(id(number), kind, Millis(number * 100), 3, 1).unwrap();
}

/// A part of `size` bytes, half of which were written, acknowledged at `at`.
fn part(task: u16, at: u64, size: u64) -> SubtaskFigures {
    SubtaskFigures {
        acknowledged_at: Millis(at),
        checkpointed_size: size / 2,
        state_size: size,
        synchronous: Millis(1),
        asynchronous: Millis(size),
        processed: 7,
        persisted: 5,
        alignment: Millis(3),
        start_delay: Millis(2),
        ..SubtaskFigures::finished(TaskIndex(task), Millis(0))
    }
}

fn complete(statistics: &mut Tracker, number: u64, kind: SnapshotKind) {
    trigger(statistics, number, kind);
    statistics.reported(id(number), &part(0, number * 100 + 10, number * 20));
    statistics.reported(id(number), &part(1, number * 100 + 30, 0));
    statistics.completed(id(number)).unwrap();
}

fn ids<'a>(records: impl Iterator<Item = &'a CheckpointFigures>) -> Vec<u64> {
    records.map(|record| record.id.0).collect()
}

#[test]
fn m1_the_gauges_of_a_job_are_those_of_its_latest_completed_checkpoint() {
    let mut statistics = Tracker::new();
    complete(&mut statistics, 1, SnapshotKind::Checkpoint);
    complete(&mut statistics, 2, SnapshotKind::FullCheckpoint);
    complete(&mut statistics, 3, SAVEPOINT);
    let last = statistics.latest().completed.unwrap();
    assert_eq!((last.id, last.checkpointed_size, last.state_size), (id(2), 20, 40));
    assert_eq!((last.duration(), last.processed, last.persisted), (Millis(30), 14, 10));
    let restored = RestoreFigures { id: id(2), kind: SAVEPOINT, at: Millis(900), state_size: 40 };
    statistics.restored(restored);
    assert_eq!(statistics.latest().restored, Some(restored));
}

#[test]
fn m2_what_was_triggered_is_in_progress_completed_or_failed_and_some_fail_before() {
    let mut statistics = Tracker::new();
    complete(&mut statistics, 1, SnapshotKind::Checkpoint);
    trigger(&mut statistics, 2, SnapshotKind::Checkpoint);
    trigger(&mut statistics, 3, SnapshotKind::Checkpoint);
    statistics.failed(id(3), Millis(350), FailureReason::CheckpointExpired).unwrap();
    statistics.failed_without_checkpoint();
    let from = RestoreFigures { id: id(1), kind: SnapshotKind::Checkpoint, at: Millis(1), state_size: 1 };
    statistics.restored(from);
    let expected = CheckpointCounts { total: 4, in_progress: 1, completed: 1, failed: 2, restored: 1 };
    assert_eq!(statistics.counts(), expected);
    assert_eq!(ids(statistics.in_progress()), [2]);
}

#[test]
fn m2_only_what_is_under_way_can_end_and_only_so_many_are() {
    let mut statistics = Tracker::new();
    assert!(statistics.completed(id(1)).is_err());
    (1..=3).for_each(|number| trigger(&mut statistics, number, SnapshotKind::Checkpoint));
    for number in [3, 4] {
        assert!(statistics.triggered(id(number), SnapshotKind::Checkpoint, Millis(0), 3, 0).is_err());
    }
    statistics.completed(id(1)).unwrap();
    assert!(statistics.completed(id(1)).is_err());
    assert!(statistics.failed(id(1), Millis(0), FailureReason::TaskFailure).is_err());
    let expected = CheckpointCounts { total: 3, in_progress: 2, completed: 1, ..Default::default() };
    assert_eq!(statistics.counts(), expected);
}

#[test]
fn m3_the_history_forgets_the_oldest_but_never_the_latest_of_a_sort() {
    let mut statistics = Tracker::new();
    complete(&mut statistics, 1, SAVEPOINT);
    trigger(&mut statistics, 2, SnapshotKind::Checkpoint);
    statistics.failed(id(2), Millis(250), FailureReason::CheckpointExpired).unwrap();
    (3..=7).for_each(|number| complete(&mut statistics, number, SnapshotKind::Checkpoint));
    assert_eq!(ids(statistics.history()), [7, 6, 5, 4], "newest first");
    let latest = statistics.latest();
    assert_eq!(
        [latest.savepoint, latest.failed, latest.completed].map(|record| record.map(|record| record.id.0)),
        [Some(1), Some(2), Some(7)]
    );
    assert!(statistics.find(id(2)).is_some() && statistics.find(id(3)).is_none());

    let mut without = Statistics::<1, 0>::new();
    without.triggered(id(1), SnapshotKind::Checkpoint, Millis(0), 1, 0).unwrap();
    without.completed(id(1)).unwrap();
    assert_eq!(without.history().count(), 0);
    assert!(without.latest().completed.is_some());
}

#[test]
fn m4_the_summary_is_over_completed_checkpoints() {
    let mut statistics = Tracker::new();
    assert_eq!(statistics.summary().duration.mean(), 0, "of nothing");
    (1..=4).for_each(|number| complete(&mut statistics, number, SnapshotKind::Checkpoint));
    trigger(&mut statistics, 5, SnapshotKind::Checkpoint);
    statistics.reported(id(5), &part(0, 9_999, 9_999));
    statistics.failed(id(5), Millis(9_999), FailureReason::CheckpointExpired).unwrap();
    let summary = statistics.summary();
    let size = summary.state_size;
    assert_eq!((size.min(), size.mean(), size.max(), size.count(), size.sum()), (20, 50, 80, 4, 200));
    let written = summary.checkpointed_size;
    assert_eq!((written.min(), written.mean(), written.max()), (10, 25, 40));
    assert_eq!([summary.duration.min(), summary.duration.max()], [30, 30]);
    assert_eq!([summary.processed.mean(), summary.persisted.mean()], [14, 10]);
}

#[test]
fn m5_a_checkpoint_has_its_times_sizes_and_end() {
    let mut statistics = Tracker::new();
    trigger(&mut statistics, 4, SAVEPOINT);
    let find = |statistics: &Tracker| *statistics.find(id(4)).unwrap();
    assert_eq!(find(&statistics).duration(), Millis(0), "nobody has acknowledged");
    statistics.reported(id(4), &part(1, 430, 8));
    statistics.reported(id(4), &part(0, 420, 4));
    let record = find(&statistics);
    assert_eq!((record.kind, record.status), (SAVEPOINT, CheckpointStatus::InProgress));
    assert_eq!((record.triggered_at, record.acknowledged_at), (Millis(400), Some(Millis(430))));
    assert_eq!((record.acknowledged, record.tasks, record.duration()), (3, 3, Millis(30)));
    assert_eq!((record.state_size, record.checkpointed_size), (12, 6));
    let (at, reason) = (Millis(500), FailureReason::CheckpointDeclined);
    statistics.failed(id(4), at, reason).unwrap();
    assert_eq!(find(&statistics).status, CheckpointStatus::Failed { at, reason });
    assert!(!find(&statistics).is_discarded);
    statistics.discarded(id(4));
    assert!(find(&statistics).is_discarded && statistics.latest().failed.unwrap().is_discarded);
}

#[test]
fn m6_a_tasks_duration_is_from_the_trigger_and_a_clock_set_back_counts_as_none() {
    assert_eq!(part(0, 430, 1).duration(Millis(400)), Millis(30));
    assert_eq!(part(0, 390, 1).duration(Millis(400)), Millis(0));
}

#[test]
fn m7_finished_tasks_count_at_once_and_late_parts_as_incomplete() {
    let mut statistics = Tracker::new();
    trigger(&mut statistics, 1, SnapshotKind::Checkpoint);
    assert_eq!(statistics.find(id(1)).unwrap().acknowledged, 1, "one had finished");
    let finished = SubtaskFigures::finished(TaskIndex(2), Millis(100));
    assert_eq!(
        (finished.state_size, finished.duration(Millis(100)), finished.is_complete),
        (0, Millis(0), true)
    );
    statistics.failed(id(1), Millis(150), FailureReason::CheckpointExpired).unwrap();
    statistics.reported(id(1), &SubtaskFigures { is_complete: false, ..part(0, 180, 6) });
    let record = statistics.find(id(1)).unwrap();
    assert_eq!((record.acknowledged, record.incomplete, record.state_size), (1, 1, 6));
    assert_eq!(statistics.latest().failed.as_ref(), Some(record), "both copies");
    statistics.reported(id(9), &part(0, 1, 1)); // Nobody knows it.
}

#[test]
fn m8_a_vertex_has_the_spread_of_its_subtasks() {
    let mut spread = Spread::default();
    let parts = [part(0, 430, 4), part(1, 410, 8), part(2, 420, 6)];
    parts.iter().for_each(|part| spread.add(part, Millis(400)));
    spread.add(&SubtaskFigures { is_complete: false, ..part(3, 999, 99) }, Millis(400));
    let duration = spread.duration;
    assert_eq!((duration.min(), duration.mean(), duration.max(), duration.count()), (10, 20, 30, 3));
    assert_eq!((spread.state_size.min(), spread.state_size.max(), spread.state_size.sum()), (4, 8, 18));
    assert_eq!((spread.checkpointed_size.sum(), spread.asynchronous.mean()), (9, 6));
    assert_eq!([spread.synchronous.max(), spread.alignment.max(), spread.start_delay.max()], [1, 3, 2]);
    assert_eq!([spread.processed.sum(), spread.persisted.sum()], [21, 15]);
}

#[test]
fn m2_a_checkpoint_is_triggered_once() {
    let mut statistics = Tracker::new();
    trigger(&mut statistics, 1, SnapshotKind::Checkpoint);
    let again = statistics.triggered(id(1), SnapshotKind::Checkpoint, Millis(200), 3, 1);
    assert!(matches!(again, Err(crate::machine::Rejected::Unexpected { .. })));
    assert_eq!(statistics.counts().total, 1);
}
