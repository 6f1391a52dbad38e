//! The job around a sink: what it has written, which checkpoints there are, what may be seen.

use std::collections::BTreeMap;
use std::fmt;
use std::task::Waker;

use slackwater_core::ids::CheckpointId;

use super::{Broken, KitDisk, Promise, Subject};
use crate::files::{FileRequest, FileTicket, Files};
use crate::operator::{Guarantee, OperatorError, Sink, SubtaskInfo};

/// Rounds in which a sink has to get on: its threads need some.
const ROUNDS_MAX: usize = 1_000_000;

/// Sinks on their disk, with the job's part played.
pub(super) struct Bench<S: Subject> {
    subject: S,
    disk: KitDisk,
    attempt: u64,
    sinks: Vec<(S::Sink, Files)>,
    /// The next number; all below were written in this or an earlier attempt.
    next: u64,
    /// The most that `next` has been.
    highest: u64,
    checkpoints: BTreeMap<CheckpointId, Checkpoint>,
    next_id: CheckpointId,
    story: Vec<Event>,
    pub(super) counts: Counts,
}

/// What a checkpoint covers and lists.
#[derive(Debug)]
struct Checkpoint {
    /// All numbers below.
    covers: u64,
    lists: Vec<Vec<u8>>,
    is_complete: bool,
}

/// How often something was done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) completed: u64,
    pub(super) notified: u64,
    pub(super) aborted: u64,
    pub(super) empty_transactions: u64,
}

impl Counts {
    pub(super) const fn notifications_lost(&self) -> u64 {
        self.completed - self.notified
    }
}

/// Why a row of steps was not done to its end.
#[derive(Debug)]
pub(super) enum Halt {
    /// The process died.
    Killed,
    /// A sink or its disk failed: so does the job.
    Failed(OperatorError),
    Broken(Broken),
}

impl From<OperatorError> for Halt {
    fn from(error: OperatorError) -> Self {
        Self::Failed(error)
    }
}

/// Something that was done.
#[derive(Clone, Copy, Debug)]
enum Event {
    Restart { parallelism: u16, restored: Option<CheckpointId> },
    Write(u64),
    PreCommit(CheckpointId, usize),
    Complete(CheckpointId),
    Notify(CheckpointId),
    Abort(CheckpointId),
    PassOver(CheckpointId),
    FuseOf(usize),
    CommitsFail(u32),
}

impl<S: Subject> Bench<S> {
    pub(super) fn new(subject: S) -> Self {
        Self {
            subject,
            disk: KitDisk::default(),
            attempt: 0,
            sinks: Vec::new(),
            next: 0,
            highest: 0,
            checkpoints: BTreeMap::new(),
            next_id: CheckpointId::FIRST,
            story: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// From now on the process dies after so many operations.
    pub(super) fn light(&mut self, fuse: Option<usize>) {
        self.disk.light(fuse);
        self.story.extend(fuse.map(Event::FuseOf));
    }

    pub(super) const fn operations(&self) -> usize {
        self.disk.operations()
    }

    pub(super) fn fail_commits(&mut self, times: u32) {
        self.disk.fail_renames(times);
        self.subject.fail_commits(times);
        self.story.push(Event::CommitsFail(times));
    }

    /// The old process is gone; a new one goes on from the newest complete checkpoint.
    pub(super) fn restart(&mut self, parallelism: u16) -> Result<(), Halt> {
        self.sinks.clear();
        self.disk.forget_open();
        self.attempt += 1;
        // What was not complete does not come again.
        self.checkpoints.retain(|_, checkpoint| checkpoint.is_complete);
        let restored = self.checkpoints.keys().next_back().copied();
        self.story.push(Event::Restart { parallelism, restored });
        for index in 0..parallelism {
            let info = SubtaskInfo {
                operator: "sink".to_owned(),
                index,
                parallelism,
                max_parallelism: 128,
                attempt: self.attempt,
            };
            let mut sink = self.subject.sink(&info);
            sink.set_waker(Waker::noop().clone());
            self.sinks.push((sink, Files::default()));
        }
        if !self.disk.spend() {
            return Err(Halt::Killed);
        }
        let newest = self.checkpoints.values().next_back();
        let lists = newest.map_or(&[][..], |checkpoint| &checkpoint.lists);
        self.next = newest.map_or(0, |checkpoint| checkpoint.covers);
        for (sink, _) in self.sinks.iter_mut().take(1) {
            let recovered = sink.recover(restored, lists, &mut self.disk);
            if self.disk.is_dead() {
                return Err(Halt::Killed);
            }
            recovered?;
        }
        self.serve()?;
        self.expect_all(self.next, Promise::Recovers)
    }

    /// Writes so many numbers, dealt out to the subtasks.
    pub(super) fn write(&mut self, count: u64) -> Result<(), Halt> {
        self.story.push(Event::Write(count));
        for _ in 0..count {
            let number = self.next;
            let index = usize::try_from(number).unwrap_or(0) % self.sinks.len();
            self.wait_until("takes no record", |bench| {
                bench.sinks.get(index).is_some_and(|(sink, files)| sink.has_room(files))
            })?;
            self.moment()?;
            if let Some((sink, files)) = self.sinks.get_mut(index) {
                self.subject.write(sink, number, files)?;
            }
            self.next += 1;
            self.highest = self.highest.max(self.next);
            self.serve()?;
        }
        Ok(())
    }

    /// The id of a new checkpoint.
    pub(super) const fn begin(&mut self) -> CheckpointId {
        let id = self.next_id;
        self.next_id = id.next();
        id
    }

    /// Has the first `count` sinks pre-commit.
    pub(super) fn pre_commit(&mut self, id: CheckpointId, count: usize) -> Result<(), Halt> {
        let count = count.min(self.sinks.len());
        self.story.push(Event::PreCommit(id, count));
        let covers_before = self.checkpoints.values().next_back().map_or(0, |checkpoint| checkpoint.covers);
        self.counts.empty_transactions += u64::from(self.next == covers_before);
        let mut lists = Vec::new();
        for index in 0..count {
            self.moment()?;
            if let Some((sink, files)) = self.sinks.get_mut(index) {
                lists.extend(sink.pre_commit(id, files)?);
            }
        }
        self.checkpoints.insert(id, Checkpoint { covers: self.next, lists, is_complete: false });
        self.serve()?;
        self.wait_until("does not seal", |bench| {
            bench.sinks.iter().take(count).all(|(sink, _)| sink.is_sealed(id))
        })
    }

    /// The manifest is durable.
    pub(super) fn complete(&mut self, id: CheckpointId) -> Result<(), Halt> {
        self.moment()?;
        self.story.push(Event::Complete(id));
        self.counts.completed += 1;
        if let Some(checkpoint) = self.checkpoints.get_mut(&id) {
            checkpoint.is_complete = true;
        }
        Ok(())
    }

    /// The sinks hear that the checkpoint is complete.
    pub(super) fn notify(&mut self, id: CheckpointId) -> Result<(), Halt> {
        self.story.push(Event::Notify(id));
        self.counts.notified += 1;
        for index in 0..self.sinks.len() {
            self.moment()?;
            if let Some((sink, files)) = self.sinks.get_mut(index) {
                sink.commit(id, files)?;
            }
            self.serve()?;
        }
        self.wait_until("does not commit", |bench| {
            bench.sinks.iter().all(|(sink, _)| sink.is_committed(id))
        })?;
        let covers = self.checkpoints.get(&id).map_or(0, |checkpoint| checkpoint.covers);
        self.expect_all(covers, Promise::Commits)
    }

    /// The sinks hear that the checkpoint is off.
    pub(super) fn abort(&mut self, id: CheckpointId) -> Result<(), Halt> {
        self.story.push(Event::Abort(id));
        self.counts.aborted += 1;
        for index in 0..self.sinks.len() {
            self.moment()?;
            if let Some((sink, _)) = self.sinks.get_mut(index) {
                sink.abort(id);
            }
        }
        self.serve()
    }

    /// The newest complete checkpoint is lost.
    pub(super) fn pass_over_newest(&mut self) {
        let newest = self.checkpoints.iter().rev().find(|(_, checkpoint)| checkpoint.is_complete);
        if let Some(id) = newest.map(|(id, _)| *id) {
            self.story.push(Event::PassOver(id));
            self.checkpoints.remove(&id);
        }
    }

    /// Writes the rest up to `end` and commits it.
    pub(super) fn run_to_the_end(&mut self, end: u64) -> Result<(), Halt> {
        self.write(end.saturating_sub(self.next))?;
        let id = self.begin();
        self.pre_commit(id, usize::MAX)?;
        self.complete(id)?;
        self.notify(id)
    }

    /// Carries out what the sinks have asked for, until they ask for nothing more.
    fn serve(&mut self) -> Result<(), Halt> {
        loop {
            let mut is_idle = true;
            for index in (0..self.sinks.len()).rev() {
                let Some((sink, files)) = self.sinks.get_mut(index) else { continue };
                sink.poll(files)?;
                while let Some((ticket, request)) =
                    self.sinks.get_mut(index).and_then(|(_, f)| f.take_request())
                {
                    is_idle = false;
                    self.carry_out(index, ticket, request)?;
                }
            }
            if is_idle {
                return Ok(());
            }
        }
    }

    fn carry_out(&mut self, index: usize, ticket: FileTicket, request: FileRequest) -> Result<(), Halt> {
        self.moment()?;
        let written = if let FileRequest::Append { bytes } = &request { bytes.len() } else { 0 };
        let subtask = u16::try_from(index).unwrap_or(u16::MAX);
        let answer = self.disk.serve(subtask, ticket, request).map_err(OperatorError::from)?;
        if let Some((sink, files)) = self.sinks.get_mut(index) {
            files.written(written);
            answer.map_or(Ok(()), |event| sink.on_file(event, files))?;
        }
        Ok(())
    }

    fn wait_until(&mut self, what: &str, is_done: impl Fn(&Self) -> bool) -> Result<(), Halt> {
        for _ in 0..ROUNDS_MAX {
            if is_done(self) {
                return Ok(());
            }
            self.subject.work();
            self.serve()?;
        }
        Err(Halt::Broken(self.broken(Promise::GoesOn, format!("it {what}"))))
    }

    /// A moment at which the process may die, and at which everybody may look.
    fn moment(&mut self) -> Result<(), Halt> {
        let shown = self.subject.shown(&self.disk);
        if S::Sink::GUARANTEE == Guarantee::ExactlyOnce {
            let complete = self.checkpoints.values().rev().find(|checkpoint| checkpoint.is_complete);
            let covers = complete.map_or(0, |checkpoint| checkpoint.covers);
            if let Some(number) = shown.iter().find(|number| **number >= covers) {
                let what =
                    format!("number {number} is shown, complete checkpoints cover those below {covers}");
                return Err(Halt::Broken(self.broken(Promise::HoldsBack, what)));
            }
            self.expect_once(shown)?;
        } else if let Some(number) = shown.iter().find(|number| **number >= self.highest) {
            let what = format!("number {number} is shown, which was never written");
            return Err(Halt::Broken(self.broken(Promise::HoldsBack, what)));
        }
        if self.disk.spend() { Ok(()) } else { Err(Halt::Killed) }
    }

    fn expect_once(&self, mut shown: Vec<u64>) -> Result<(), Halt> {
        shown.sort_unstable();
        let Some(run) = shown.chunk_by(|one, other| one == other).find(|run| run.len() > 1) else {
            return Ok(());
        };
        let what = format!("number {} is shown {} times", run[0], run.len());
        Err(Halt::Broken(self.broken(Promise::ShowsOnce, what)))
    }

    /// Everything below `end` is shown.
    fn expect_all(&mut self, end: u64, promise: Promise) -> Result<(), Halt> {
        let shown = self.subject.shown(&self.disk);
        if let Some(missing) = (0..end).find(|number| !shown.contains(number)) {
            let what = format!("number {missing} is not shown, and all below {end} are to be");
            return Err(Halt::Broken(self.broken(promise, what)));
        }
        self.moment()
    }

    pub(super) fn broken(&self, promise: Promise, what: String) -> Broken {
        let story: Vec<String> = self.story.iter().map(Event::to_string).collect();
        Broken { promise, what, story: story.join("; ") }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restart { parallelism, restored: None } => write!(f, "{parallelism} subtasks start"),
            Self::Restart { parallelism, restored: Some(id) } => {
                write!(f, "{parallelism} subtasks start from checkpoint {id}")
            }
            Self::Write(count) => write!(f, "{count} numbers"),
            Self::PreCommit(id, count) => write!(f, "{count} subtasks pre-commit {id}"),
            Self::Complete(id) => write!(f, "{id} is complete"),
            Self::Notify(id) => write!(f, "commit {id}"),
            Self::Abort(id) => write!(f, "{id} is aborted"),
            Self::PassOver(id) => write!(f, "{id} is damaged"),
            Self::FuseOf(operations) => write!(f, "death after {operations} operations"),
            Self::CommitsFail(times) => write!(f, "{times} commits fail"),
        }
    }
}
