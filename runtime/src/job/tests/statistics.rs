//! What is known of a job's checkpoints while it runs, and afterwards.

use slackwater_core::reason::FailureReason;
use slackwater_core::time::{Millis, Now};

use super::{Committed, Disk, END, assemble, assert_exact, job, options};
use crate::actor::{Actor, Step};
use crate::job::{AssembledJob, Job, JobOptions};
use crate::recovery;
use crate::shared::Observer;
use crate::statistics::{CheckpointStatus, HISTORY};

/// Steps all actors in turn, but one of them only when `is_its_turn`, until all have finished.
fn drive_unevenly(job: &mut AssembledJob, slow: &str, mut is_its_turn: impl FnMut(u64) -> bool) {
    let mut actors: Vec<Box<dyn Actor>> = job.take_actors();
    for round in 0..1_000_000 {
        let now = Now { monotonic: Millis(round), wall: Millis(1_000_000 + round) };
        let is_slow_turn = is_its_turn(round);
        actors
            .retain_mut(|actor| (actor.name() == slow && !is_slow_turn) || actor.step(now) != Step::Finished);
        if actors.is_empty() {
            return;
        }
    }
    panic!("the job does not end");
}

fn run(disk: &Disk, committed: &Committed, slow: &str, every: u64) -> Observer {
    let mut job = assemble(disk, committed, 1).unwrap();
    drive_unevenly(&mut job, slow, |round| round.is_multiple_of(every));
    job.report().unwrap();
    job.observer()
}

#[test]
fn m3_m5_m6_every_checkpoint_is_known_with_all_its_subtasks() {
    let (disk, committed) = (Disk::new(), Committed::default());
    let observer = run(&disk, &committed, "nobody", 1);
    let (statistics, progress) = (observer.checkpoints(), observer.progress());
    let counts = statistics.counts;
    assert_eq!((counts.completed, counts.failed), (progress.checkpoints_completed, 0));
    assert_eq!(statistics.summary.duration.count, counts.completed);
    assert!(statistics.history.len() == HISTORY.min(usize::try_from(counts.completed).unwrap()));
    let newest = statistics.latest_completed.as_ref().unwrap();
    assert_eq!(Some(newest.figures.id), progress.last_checkpoint);
    for record in &statistics.history {
        let names: Vec<_> = record.subtasks.iter().map(|s| (s.operator.as_str(), s.index)).collect();
        assert_eq!(names, [("source", 0), ("source", 1), ("spread", 0), ("spread", 1)]);
        let figures = &record.figures;
        assert_eq!((figures.acknowledged, figures.tasks, figures.incomplete), (4, 4, 0));
        let parts = record.subtasks.iter().map(|s| s.figures);
        assert_eq!(parts.clone().map(|part| part.state_size).sum::<u64>(), figures.state_size);
        assert!(figures.state_size > 0 && figures.checkpointed_size == figures.state_size);
        assert_eq!(parts.map(|part| part.acknowledged_at).max(), figures.acknowledged_at);
        assert!(record.commit.is_some_and(|commit| commit < Millis(100)), "{record:?}");
        assert_eq!(record.vertices().len(), 2);
    }
    assert!(statistics.latest_restored.is_none() && statistics.latest_failed.is_none());
}

#[test]
fn what_the_subtasks_took_lies_in_the_manifest_and_the_restored_checkpoint_is_known() {
    let (mut disk, committed) = (Disk::new(), Committed::default());
    let mut job = assemble(&disk, &committed, 1).unwrap();
    let observer = job.observer();
    let mut actors = job.take_actors();
    super::drive(&mut actors, || observer.progress().checkpoints_completed == 2);
    let known = observer.checkpoints().latest_completed.unwrap();
    let manifest = recovery::find(&mut disk, "numbers").unwrap().newest.unwrap();
    let written: Vec<_> = manifest.vertices.iter().flat_map(|vertex| &vertex.subtasks).collect();
    assert_eq!(manifest.id, known.figures.id);
    for (written, known) in written.iter().zip(&known.subtasks) {
        let figures = written.figures.unwrap();
        assert_eq!(
            (figures.acknowledged_at, figures.state_size),
            (known.figures.acknowledged_at, written.state_bytes())
        );
    }
    let restored = assemble(&disk, &committed, 2).unwrap().observer().checkpoints();
    let from = restored.latest_restored.unwrap();
    assert_eq!(
        (from.id, from.state_size, restored.counts.restored),
        (known.figures.id, known.figures.state_size, 1)
    );
}

#[test]
fn m6_a_subtask_that_waits_for_a_barrier_shows_how_long_and_what_went_by() {
    let (disk, committed) = (Disk::new(), Committed::default());
    let statistics = run(&disk, &committed, "source (2/2)", 40).checkpoints();
    let all = || statistics.history.iter().flat_map(|record| &record.subtasks);
    let aligning =
        |operator: &str| all().filter(|s| s.operator == operator && s.figures.alignment > Millis(10)).count();
    assert!(aligning("spread") > 0 && aligning("source") == 0, "{statistics:?}");
    assert!(all().any(|subtask| subtask.operator == "source" && subtask.figures.start_delay > Millis(10)));
    assert!(all().any(|subtask| subtask.figures.processed > 0), "records of the other channel went by");
    assert!(statistics.summary.processed.max > 0 && statistics.summary.persisted.max == 0);
    assert_exact(&committed);
}

#[test]
fn m2_a_checkpoint_that_expires_is_known_as_failed_with_those_that_took_part() {
    let (disk, committed) = (Disk::new(), Committed::default());
    let impatient = JobOptions { timeout: Millis(50), tolerable_failed_checkpoints: 100, ..options(1) };
    let mut job = Job::assemble(job(&committed, 2), disk, Now::default(), &impatient).unwrap();
    let observer = job.observer();
    // The second source stands still for a while: its barrier does not come.
    drive_unevenly(&mut job, "source (2/2)", |round| !(20..200).contains(&round));
    job.report().unwrap();
    let statistics = observer.checkpoints();
    let failed = statistics.latest_failed.unwrap();
    let CheckpointStatus::Failed { reason, .. } = failed.figures.status else { panic!("{failed:?}") };
    assert_eq!((reason, failed.figures.tasks), (FailureReason::CheckpointExpired, 4));
    assert!(failed.figures.acknowledged < 4 && failed.subtasks.len() < 5, "{failed:?}");
    assert_eq!(statistics.counts.failed, observer.progress().checkpoints_failed);
    assert_exact(&committed);
    assert!(END > 0 && statistics.counts.completed > 1);
}
