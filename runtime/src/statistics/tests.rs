//! Rules M1 to M8 of a whole job's figures; what one number means is tested with the machine.

use slackwater_core::ids::{CheckpointId, SnapshotKind, TaskIndex};
use slackwater_core::reason::FailureReason;
use slackwater_core::time::{Millis, Now};

use super::samples::Samples;
use super::{
    CheckpointRecord, CheckpointStatistics, CheckpointStatus, Distribution, HISTORY, RestoreFigures,
    SubtaskFigures, Tracker,
};
use crate::shared::Progress;

const fn at(millis: u64) -> Now {
    Now { monotonic: Millis(millis), wall: Millis(1_000_000 + millis) }
}

fn tracker() -> Tracker {
    Tracker::new("job", vec![("source".into(), 0), ("count".into(), 0), ("count".into(), 1)])
}

fn report(tracker: &mut Tracker, id: u64, task: u16, acknowledged: u64, size: u64) {
    let figures = SubtaskFigures {
        state_size: size,
        checkpointed_size: size,
        ..SubtaskFigures::finished(TaskIndex(task), at(acknowledged).wall)
    };
    tracker.reported(CheckpointId(id), figures);
}

fn complete(tracker: &mut Tracker, id: u64, start: u64) {
    tracker.triggered(at(start), CheckpointId(id), SnapshotKind::Checkpoint).unwrap();
    for task in 0..3 {
        report(tracker, id, task, start + 1 + u64::from(task), 10 * id);
    }
    tracker.completed(at(start + 10), CheckpointId(id), &Progress::default()).unwrap();
}

fn ids(statistics: &CheckpointStatistics) -> Vec<u64> {
    statistics.history.iter().map(|record| record.figures.id.0).collect()
}

#[test]
fn m3_only_the_newest_are_remembered_with_their_subtasks_and_the_latest_of_each_sort() {
    let mut tracker = tracker();
    tracker.triggered(at(0), CheckpointId(1), SnapshotKind::Checkpoint).unwrap();
    report(&mut tracker, 1, 2, 5, 7);
    tracker.failed(at(6), Some(CheckpointId(1)), FailureReason::CheckpointExpired).unwrap();
    for id in 2..30 {
        complete(&mut tracker, id, 100 * id);
    }
    let statistics = tracker.statistics();
    assert_eq!(ids(&statistics), (20..30).rev().collect::<Vec<u64>>());
    assert!(statistics.history.len() == HISTORY && statistics.history.iter().all(|r| r.subtasks.len() == 3));
    let failed = statistics.latest_failed.unwrap();
    assert_eq!((failed.figures.id.0, failed.subtasks.len()), (1, 1), "the latest failed one is still known");
    assert_eq!(statistics.latest_completed.unwrap().figures.id.0, 29);
    assert!(tracker.figures().details.len() <= HISTORY + 1, "nothing grows");
}

#[test]
fn m2_a_request_without_a_checkpoint_counts_as_failed_and_one_under_way_once() {
    let mut tracker = tracker();
    tracker.failed(at(0), None, FailureReason::CheckpointExpired).unwrap();
    tracker.triggered(at(1), CheckpointId(1), SnapshotKind::Checkpoint).unwrap();
    assert_eq!(tracker.statistics().in_progress.len(), 1);
    tracker.failed(at(2), Some(CheckpointId(1)), FailureReason::CheckpointExpired).unwrap();
    let counts = tracker.statistics().counts;
    assert_eq!((counts.total, counts.failed, counts.in_progress), (2, 2, 0));
}

#[test]
fn a_commit_lasts_until_the_last_sink_has_committed_that_checkpoint_or_a_later_one() {
    let mut tracker = tracker();
    complete(&mut tracker, 1, 100);
    complete(&mut tracker, 2, 200);
    tracker.committed(at(215), CheckpointId(1), TaskIndex(0));
    tracker.committed(at(220), CheckpointId(2), TaskIndex(1));
    tracker.committed(at(225), CheckpointId(2), TaskIndex(2));
    let commits =
        |tracker: &Tracker| tracker.statistics().history.iter().map(|r| r.commit).collect::<Vec<_>>();
    assert_eq!(commits(&tracker), [None, Some(Millis(115))]);
    tracker.committed(at(230), CheckpointId(2), TaskIndex(0));
    assert_eq!(commits(&tracker), [Some(Millis(20)), Some(Millis(115))]);
}

#[test]
fn m2_m3_m4_a_job_that_starts_again_goes_on_with_its_figures() {
    let mut first = tracker();
    complete(&mut first, 1, 100);
    first.triggered(at(200), CheckpointId(2), SnapshotKind::Checkpoint).unwrap();
    report(&mut first, 2, 0, 205, 7);
    let figures = first.interrupted(at(210)).unwrap();
    // The graph may be another, and the number of a checkpoint without a folder is given again.
    let mut second = Tracker::new("job", vec![("other".into(), 0), ("other".into(), 1), ("other".into(), 2)]);
    let kind = SnapshotKind::Checkpoint;
    second.restored(RestoreFigures { id: CheckpointId(1), kind, at: at(300).wall, state_size: 30 });
    second.go_on_from(figures);
    complete(&mut second, 2, 400);
    second.committed(at(420), CheckpointId(2), TaskIndex(0));
    let statistics = second.statistics();
    let counts = statistics.counts;
    assert_eq!((counts.total, counts.completed, counts.failed), (3, 2, 1));
    assert_eq!((counts.in_progress, counts.restored), (0, 1));
    assert_eq!(statistics.latest_restored.unwrap().id, CheckpointId(1));
    assert_eq!((ids(&statistics), statistics.summary.duration.count), (vec![2, 2, 1], 2));
    let operators = |record: &CheckpointRecord| -> Vec<_> {
        record.subtasks.iter().map(|subtask| (subtask.operator.clone(), subtask.figures.state_size)).collect()
    };
    let [completed, failed, before] = &statistics.history[..] else { panic!("{statistics:?}") };
    assert_eq!(operators(completed), vec![("other".to_owned(), 20); 3]);
    assert_eq!(operators(failed), [("source".to_owned(), 7)]);
    let reason = FailureReason::JobFailoverRegion;
    assert_eq!((failed.figures.acknowledged, completed.figures.acknowledged), (1, 3));
    assert_eq!(failed.figures.status, CheckpointStatus::Failed { at: at(210).wall, reason });
    assert_eq!((operators(before).len(), before.commit), (3, None), "nobody knows when that was committed");
}

#[test]
fn m8_a_vertex_has_the_spread_of_its_subtasks() {
    let mut tracker = tracker();
    complete(&mut tracker, 3, 0);
    let statistics = tracker.statistics();
    let vertices = statistics.history[0].vertices();
    let rows = vertices.iter().map(|(name, spread)| (*name, spread.duration.min(), spread.duration.max()));
    assert_eq!(rows.collect::<Vec<_>>(), [("source", 1, 1), ("count", 2, 3)]);
    assert_eq!(vertices[1].1.state_size.sum(), 60);
}

#[test]
fn m4_quantiles_lie_where_flinks_do() {
    let spread = |values: &[u64]| {
        let mut samples = Samples::default();
        values.iter().for_each(|value| samples.add(*value));
        samples.distribution()
    };
    assert_eq!(spread(&[]), Distribution::default());
    let one = spread(&[7]);
    assert_eq!((one.min, one.p50, one.p999, one.mean), (7, 7, 7, 7));
    // Place 0.5 * 5 = 2.5 of four values, 0.9 * 5 = 4.5 is behind the last.
    let four = spread(&[40, 10, 20, 30]);
    assert_eq!((four.p50, four.p90, four.max, four.mean), (25, 40, 40, 25));
    let hundred = spread(&(1..=100).map(|n| n * 10).collect::<Vec<_>>());
    assert_eq!((hundred.p50, hundred.p90, hundred.p95, hundred.p99), (505, 909, 959, 999));
    let many = spread(&(0..20_000).collect::<Vec<_>>());
    assert_eq!((many.count, many.min, many.p50), (20_000, 0, 14_999), "quantiles are of the newest 10,000");
}
