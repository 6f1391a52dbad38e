//! Jobs with hooks.

use slackwater_core::reason::FailureReason;

use super::*;
use crate::hook::{HookAnswer, MasterHook};
use crate::recovery::find;

/// What a hook was called for, in order, shared by all of them.
type Calls = Arc<Mutex<Vec<String>>>;

/// How a hook answers.
#[derive(Clone, Copy, PartialEq)]
enum Answer {
    State,
    Nothing,
    /// With an error, every second time.
    ErrorAtTimes,
    /// Not before the next checkpoint begins.
    Late,
    Never,
}

struct Recorded {
    name: &'static str,
    calls: Calls,
    answer: Answer,
    owed: Option<HookAnswer>,
    unanswered: Arc<Mutex<Vec<HookAnswer>>>,
    count: u64,
}

impl Recorded {
    fn new(name: &'static str, calls: &Calls, answer: Answer) -> Self {
        Self { name, calls: Arc::clone(calls), answer, owed: None, unanswered: Arc::default(), count: 0 }
    }

    fn note(&self, call: &str) {
        lock(&self.calls).push(format!("{} {call}", self.name));
    }
}

impl MasterHook for Recorded {
    fn trigger(&mut self, checkpoint: CheckpointId, _triggered_at: Millis, answer: HookAnswer) {
        assert_eq!(answer.checkpoint(), checkpoint);
        self.count += 1;
        self.note(&format!("trigger {checkpoint}"));
        match self.answer {
            Answer::State => answer.give(Ok(Some(format!("{} {checkpoint}", self.name).into_bytes()))),
            Answer::Nothing => answer.give(Ok(None)),
            Answer::ErrorAtTimes if self.count % 2 == 1 => answer.give(Err(OperatorError::new("not now"))),
            Answer::ErrorAtTimes => answer.give(Ok(None)),
            Answer::Late => {
                let late = self.owed.replace(answer);
                late.into_iter().for_each(|late| late.give(Ok(Some(b"too late".to_vec()))));
            }
            Answer::Never => lock(&self.unanswered).push(answer),
        }
    }

    fn restore(&mut self, _checkpoint: CheckpointId, state: Option<&[u8]>) -> Result<(), OperatorError> {
        self.note(&format!("restore {:?}", state.map(String::from_utf8_lossy)));
        Ok(())
    }

    fn reset(&mut self) -> Result<(), OperatorError> {
        self.note("reset");
        Ok(())
    }

    fn close(&mut self) {
        self.note("close");
    }
}

fn hooked(committed: &Committed, calls: &Calls, hooks: &[(&'static str, Answer)]) -> JobBuilder {
    let mut builder = job(committed, 2);
    hooks.iter().for_each(|&(name, answer)| builder.hook(name, Recorded::new(name, calls, answer)));
    builder
}

fn start(builder: JobBuilder, disk: &Disk, attempt: u64) -> Result<AssembledJob, JobError> {
    Job::assemble(builder, disk.clone(), Now::default(), &options(attempt))
}

fn rounds(mut job: AssembledJob, mut rounds: u64) -> Option<CheckpointId> {
    drive(&mut job.take_actors(), || {
        rounds -= 1;
        rounds == 0
    });
    job.observer().progress().last_checkpoint
}

#[test]
fn p33_hooks_get_their_state_of_the_checkpoint_back_in_its_order() {
    let (disk, committed, calls) = (Disk::new(), Committed::default(), Calls::default());
    let hooks = [("first", Answer::State), ("none", Answer::Nothing), ("last", Answer::State)];
    let last = rounds(start(hooked(&committed, &calls, &hooks), &disk, 1).unwrap(), 45).unwrap();
    let first_run = std::mem::take(&mut *lock(&calls));
    assert_eq!(first_run[..3], ["first reset", "none reset", "last reset"], "rule P34");
    assert_eq!(first_run[3..6], ["first trigger 1", "none trigger 1", "last trigger 1"]);

    let hooks = [("last", Answer::State), ("new", Answer::State), ("first", Answer::State)];
    run(start(hooked(&committed, &calls, &hooks), &disk, 2).unwrap()).unwrap();
    let second_run = lock(&calls).clone();
    let restored = |name: &str| format!("{name} restore Some(\"{name} {last}\")");
    assert_eq!(second_run[..3], [restored("first"), restored("last"), "new restore None".into()]);
    assert_eq!(second_run[second_run.len() - 3..], ["last close", "new close", "first close"]);
    assert_exact(&committed);
}

#[test]
fn p32_a_hook_that_fails_fails_the_checkpoint_and_not_the_job() {
    let (disk, committed, calls) = (Disk::new(), Committed::default(), Calls::default());
    let builder = hooked(&committed, &calls, &[("moody", Answer::ErrorAtTimes)]);
    let report = run(start(builder, &disk, 1).unwrap()).unwrap();
    assert!(report.checkpoints_failed > 0 && report.checkpoints_completed > 0, "{report:?}");
    let note = "checkpoint 1 failed: hook moody: not now; the job went on";
    assert!(report.notes.iter().any(|said| said == note), "{:?}", report.notes);
    assert_exact(&committed);
}

#[test]
fn p32_a_hook_that_does_not_answer_lets_the_checkpoint_expire() {
    let (disk, committed, calls) = (Disk::new(), Committed::default(), Calls::default());
    for answer in [Answer::Never, Answer::Late] {
        let mut builder = job(&committed, 2);
        let hook = Recorded::new("silent", &calls, answer);
        let unanswered = Arc::clone(&hook.unanswered);
        builder.hook("silent", hook);
        let options = JobOptions { timeout: Millis(20), tolerable_failed_checkpoints: 2, ..options(1) };
        let mut assembled = Job::assemble(builder, disk.clone(), Now::default(), &options).unwrap();
        drive(&mut assembled.take_actors(), || false);
        let failure = assembled.report().unwrap_err();
        let expired = FailureReason::CheckpointExpired;
        assert!(matches!(failure, JobError::Checkpoint { reason, .. } if reason == expired), "{failure}");
        drop(std::mem::take(&mut *lock(&unanswered)));
    }
    let mut disk = disk;
    assert_eq!(find(&mut disk, "numbers").unwrap().retained, []);
}

#[test]
fn a_dropped_answer_fails_the_checkpoint_at_once() {
    struct Forgets;
    impl MasterHook for Forgets {
        fn trigger(&mut self, checkpoint: CheckpointId, _triggered_at: Millis, answer: HookAnswer) {
            if checkpoint > CheckpointId(1) {
                answer.give(Ok(None));
            }
        }
        fn restore(&mut self, _id: CheckpointId, _state: Option<&[u8]>) -> Result<(), OperatorError> {
            Ok(())
        }
    }
    let (disk, committed) = (Disk::new(), Committed::default());
    let mut builder = job(&committed, 2);
    builder.hook("forgets", Forgets);
    let report = run(start(builder, &disk, 1).unwrap()).unwrap();
    assert_eq!(report.checkpoints_failed, 1, "{report:?}");
    assert!(report.notes[0].contains("it has dropped its answer"), "{:?}", report.notes);
    assert_exact(&committed);
}

#[test]
fn p33_a_hook_that_is_gone_is_named_and_its_state_not_lost() {
    let (disk, committed, calls) = (Disk::new(), Committed::default(), Calls::default());
    let hooks = [("first", Answer::State), ("last", Answer::State)];
    rounds(start(hooked(&committed, &calls, &hooks), &disk, 1).unwrap(), 45).unwrap();
    for (hooks, missing) in [(&hooks[..1], "last"), (&hooks[1..], "first"), (&[], "first")] {
        let refused = start(hooked(&committed, &calls, hooks), &disk, 2).unwrap_err();
        assert!(
            refused.to_string().contains(&format!("has state of hook {missing}, which is not")),
            "{refused}"
        );
    }
}

#[test]
fn p33_state_of_a_hook_that_is_gone_is_dropped_where_that_is_allowed_and_the_others_get_theirs() {
    let (disk, committed, calls) = (Disk::new(), Committed::default(), Calls::default());
    let hooks = [("first", Answer::State), ("last", Answer::State)];
    let last = rounds(start(hooked(&committed, &calls, &hooks), &disk, 1).unwrap(), 45).unwrap();
    for (attempt, hooks) in (2..).zip([&hooks[1..], &[]]) {
        lock(&calls).clear();
        let lenient = JobOptions { allow_non_restored_state: true, ..options(attempt) };
        let builder = hooked(&committed, &calls, hooks);
        let job = Job::assemble(builder, disk.clone(), Now::default(), &lenient).unwrap();
        let notes = job.report().unwrap().notes;
        let dropped = |name: &str| {
            format!("dropped what checkpoint {last} has of hook {name}, which is not in the job")
        };
        assert!(notes.contains(&dropped("first")), "{notes:?}");
        assert_eq!(notes.contains(&dropped("last")), hooks.is_empty(), "{notes:?}");
        let restored = (!hooks.is_empty()).then(|| format!("last restore Some(\"last {last}\")"));
        assert!(lock(&calls).iter().eq(&restored), "{:?}", lock(&calls));
    }
}

#[test]
fn p31_hooks_need_names_of_their_own() {
    let (committed, calls) = (Committed::default(), Calls::default());
    let refuse =
        |hooks: &[_]| start(hooked(&committed, &calls, hooks), &Disk::new(), 1).unwrap_err().to_string();
    assert!(refuse(&[(" ", Answer::State)]).contains("a hook needs a name"));
    assert!(refuse(&[("a", Answer::State), ("a", Answer::State)]).contains("two hooks are named a"));
    assert!(refuse(&[("a", Answer::State); 1].repeat(2)).contains("two hooks"));
}

/// Panics in one of its calls.
struct Panics {
    at: &'static str,
    named: Recorded,
}

impl Panics {
    fn hook(at: &'static str, calls: &Calls) -> Self {
        Self { at, named: Recorded::new("falls", calls, Answer::State) }
    }

    fn at(&self, call: &str) {
        assert_ne!(self.at, call, "trapped");
    }
}

impl MasterHook for Panics {
    fn trigger(&mut self, checkpoint: CheckpointId, triggered_at: Millis, answer: HookAnswer) {
        self.at("trigger");
        self.named.trigger(checkpoint, triggered_at, answer);
    }

    fn restore(&mut self, checkpoint: CheckpointId, state: Option<&[u8]>) -> Result<(), OperatorError> {
        self.at("restore");
        self.named.restore(checkpoint, state)
    }

    fn reset(&mut self) -> Result<(), OperatorError> {
        self.at("reset");
        self.named.reset()
    }

    fn close(&mut self) {
        self.at("close");
        self.named.close();
    }
}

fn falling(at: &'static str, committed: &Committed, calls: &Calls) -> JobBuilder {
    let mut builder = job(committed, 2);
    builder.hook("falls", Panics::hook(at, calls));
    builder.hook("stands", Recorded::new("stands", calls, Answer::State));
    builder
}

#[test]
fn a_panic_of_a_hook_at_the_start_is_an_error_of_the_job() {
    let (disk, committed, calls) = (Disk::new(), Committed::default(), Calls::default());
    let refused = start(falling("reset", &committed, &calls), &disk, 1).unwrap_err();
    assert!(matches!(&refused, JobError::Panicked { task, .. } if task == "falls hook"), "{refused}");
    rounds(start(falling("nothing", &committed, &calls), &disk, 2).unwrap(), 45).unwrap();
    let refused = start(falling("restore", &committed, &calls), &disk, 3).unwrap_err();
    assert!(matches!(&refused, JobError::Panicked { task, .. } if task == "falls hook"), "{refused}");
}

#[test]
fn t14_a_panic_of_one_hook_leaves_no_other_open() {
    let (disk, committed, calls) = (Disk::new(), Committed::default(), Calls::default());
    let failure = run(start(falling("trigger", &committed, &calls), &disk, 1).unwrap()).unwrap_err();
    assert!(matches!(&failure, JobError::Panicked { task, .. } if task == "falls hook"), "{failure}");
    let closed = |calls: &Calls| lock(calls).iter().filter(|call| call.ends_with("close")).cloned().collect();
    let all: Vec<String> = closed(&calls);
    assert_eq!(all, ["falls close", "stands close"]);

    let calls = Calls::default();
    let report = run(start(falling("close", &committed, &calls), &disk, 2).unwrap()).unwrap();
    let all: Vec<String> = closed(&calls);
    assert_eq!(all, ["stands close"]);
    assert!(report.notes.iter().any(|note| note.contains("falls panicked when it was closed")), "{report:?}");
    assert_exact(&committed);
}
