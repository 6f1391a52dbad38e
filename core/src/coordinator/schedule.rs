//! When periodic checkpoints are on, and when the next one is due.

use super::checkpoint::Failure;
use super::requests::Request;
use super::{Attempt, Coordinator, CoordinatorAction, Graph, Orders, TaskState};
use crate::bit_set::BitSet;
use crate::draw::Draws;
use crate::reason::FailureReason;
use crate::time::{Millis, Now};

/// Whether and when checkpoints start by themselves.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    state: State,
    is_job_running: bool,
    is_paused: bool,
    /// Sources that have fallen behind.
    behind: BitSet<1>,
    last_completion: Option<Millis>,
    draws: Draws,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Off,
    /// On, even if the job has no periodic checkpoints.
    On {
        next_trigger: Option<Millis>,
    },
    ShutDown,
}

impl Schedule {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            state: State::Off,
            is_job_running: false,
            is_paused: false,
            behind: BitSet::empty(),
            last_completion: None,
            draws: Draws::new(seed),
        }
    }

    pub(super) fn is_shut_down(&self) -> bool {
        self.state == State::ShutDown
    }

    pub(super) const fn is_on(&self) -> bool {
        matches!(self.state, State::On { .. })
    }

    pub(super) const fn is_job_running(&self) -> bool {
        self.is_job_running
    }

    /// When the next periodic checkpoint is due, by the monotonic clock.
    pub(super) const fn next_trigger(&self) -> Option<Millis> {
        match self.state {
            State::On { next_trigger } => next_trigger,
            State::Off | State::ShutDown => None,
        }
    }

    /// Rule T11.
    pub(super) const fn reschedule(&mut self, at: Option<Millis>) {
        if self.is_on() {
            self.state = State::On { next_trigger: at };
        }
    }

    pub(super) const fn completed(&mut self, now: Now) {
        self.last_completion = Some(now.monotonic);
    }

    /// How much of the pause after the last completion is left (rule T22).
    pub(super) fn pause_left(&self, now: Now, pause: Millis) -> Millis {
        self.last_completion.map_or(Millis(0), |last| last.after(pause).since(now.monotonic))
    }
}

impl<const TASK_WORDS: usize, const PENDING: usize, const QUEUE: usize, G: Graph<TASK_WORDS>>
    Coordinator<TASK_WORDS, PENDING, QUEUE, G>
{
    /// A job that stops gives everything up, even where periodic checkpoints were off.
    pub(super) fn on_job_changed(&mut self, now: Now, is_running: bool) {
        let was_running = core::mem::replace(&mut self.schedule.is_job_running, is_running);
        if was_running && !is_running {
            self.turn_off(State::Off, FailureReason::CheckpointCoordinatorSuspend);
        }
        self.decide_schedule(now);
    }

    pub(super) fn on_periodic_wanted(&mut self, now: Now, is_wanted: bool) {
        self.schedule.is_paused = !is_wanted;
        self.decide_schedule(now);
    }

    /// A checkpoint that waits for an attempt which was replaced cannot complete (rule P22).
    pub(super) fn on_task_changed(&mut self, now: Now, attempt: Attempt, state: TaskState) {
        let task = attempt.task;
        if !self.tasks.is_current(attempt) {
            self.abort_awaiting(task);
            self.tasks.attempt_mut(task).into_iter().for_each(|number| *number = attempt.number);
        }
        self.tasks.running.remove(task.0);
        self.tasks.finished.remove(task.0);
        match state {
            TaskState::Pending => false,
            TaskState::Running => self.tasks.running.insert(task.0),
            TaskState::Finished => self.tasks.finished.insert(task.0),
        };
        self.decide_schedule(now);
    }

    /// Rule T6.
    fn decide_schedule(&mut self, now: Now) {
        let should_be_on =
            self.schedule.is_job_running && !self.schedule.is_paused && !self.tasks.has_pending();
        match (self.schedule.state, should_be_on) {
            (State::Off, true) => self.turn_on(now),
            (State::On { .. }, false) => {
                self.turn_off(State::Off, FailureReason::CheckpointCoordinatorSuspend);
            }
            (State::Off, false) | (State::On { .. }, true) | (State::ShutDown, _) => {}
        }
    }

    /// The first periodic checkpoint comes after a random delay, so that jobs started together spread out (rule T8).
    fn turn_on(&mut self, now: Now) {
        let next_trigger = self.options.base_interval().map(|interval| {
            let delay = self.schedule.draws.within(self.options.pause(), interval);
            now.monotonic.after(delay)
        });
        self.turn_off(State::On { next_trigger }, FailureReason::CheckpointCoordinatorSuspend);
    }

    /// Gives up what waits, then what is pending (rules T9, T14 and T24).
    fn turn_off(&mut self, state: State, reason: FailureReason) {
        self.schedule.state = state;
        self.requests.refuse_all(reason);
        self.abort_all(&|_| true, reason.into());
    }

    /// Rule T14.
    pub(super) fn on_shut_down(&mut self, orders: &mut Orders<'_, TASK_WORDS>) {
        self.turn_off(State::ShutDown, FailureReason::CheckpointCoordinatorShutdown);
        if self.options.hooks > 0 {
            orders.push(CoordinatorAction::CloseHooks);
        }
    }

    /// The next trigger never moves further away (rule T13).
    pub(super) fn on_backlog_changed(&mut self, now: Now, source: u16, is_behind: bool) {
        if is_behind {
            self.schedule.behind.insert(source);
        } else {
            self.schedule.behind.remove(source);
        }
        let next = self.current_interval().map(|interval| now.monotonic.after(interval));
        if let Some(next) = next
            && self.schedule.next_trigger().is_none_or(|planned| next < planned)
        {
            self.schedule.reschedule(Some(next));
        }
    }

    fn current_interval(&self) -> Option<Millis> {
        self.options.current_interval(!self.schedule.behind.is_empty())
    }

    /// Expires what is due (rule P25) and puts a periodic request in line at each tick, missed ones included (T10).
    pub(super) fn on_deadline(&mut self, now: Now, orders: &mut Orders<'_, TASK_WORDS>) {
        let expired = Failure::from(FailureReason::CheckpointExpired);
        self.abort_all(&|checkpoint| checkpoint.expires_at <= now.monotonic, expired);
        if let Some(tick) = self.schedule.next_trigger()
            && tick <= now.monotonic
        {
            let next_trigger = self.current_interval().map(|interval| tick.after(interval));
            self.schedule.reschedule(next_trigger);
            self.request_periodic(now, orders);
        }
    }

    /// A tick that finds the request of an earlier one still waiting adds nothing: both ask for the same thing.
    fn request_periodic(&mut self, now: Now, orders: &mut Orders<'_, TASK_WORDS>) {
        if self.requests.has_periodic() {
            return;
        }
        let kind = self.options.kind;
        let request = Request { token: None, kind, is_forced: false, requested_at: now.wall, refused: None };
        self.line_up(request, orders);
    }
}
