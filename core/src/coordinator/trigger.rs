//! When checkpoints start.

use super::checkpoint::{Checkpoint, Stage};
use super::{Coordinator, CoordinatorAction, RequestToken, State};
use crate::ids::CheckpointId;
use crate::machine::Orders;
use crate::reason::FailureReason;
use crate::time::{Millis, Now};

impl State {
    /// When the next periodic checkpoint is due, by the monotonic clock.
    pub(super) const fn next_trigger(self) -> Option<Millis> {
        match self {
            Self::Running { next_trigger } => next_trigger,
            Self::Stopped | Self::ShutDown => None,
        }
    }
}

impl<const TASK_WORDS: usize, const PENDING: usize> Coordinator<TASK_WORDS, PENDING> {
    /// The first periodic checkpoint comes after a random delay, so that jobs started together spread out (rule T8).
    pub(super) fn stopped_on_job_started(&mut self, now: Now) {
        let next_trigger = self.options.base_interval().map(|interval| {
            let delay = self.draw(self.options.pause(), interval);
            now.monotonic.after(delay)
        });
        self.state = State::Running { next_trigger };
    }

    /// Fails what waits, then gives up what is pending (rules T9, T14 and T24).
    pub(super) fn stop(
        &mut self,
        state: State,
        reason: FailureReason,
        orders: &mut Orders<'_, CoordinatorAction<TASK_WORDS>>,
    ) {
        self.state = state;
        while let Some(request) = self.requests.pop() {
            orders.push(CoordinatorAction::RequestFailed { request: Some(request), id: None, reason });
        }
        if core::mem::take(&mut self.requests.periodic) {
            orders.push(CoordinatorAction::RequestFailed { request: None, id: None, reason });
        }
        self.checkpoints.iter_mut().flatten().for_each(|checkpoint| checkpoint.abort(reason));
    }

    /// Expires what is due (rule P25) and puts a periodic request in line at each tick, missed ones included (T10).
    pub(super) fn on_deadline(&mut self, now: Now) {
        let due = self.checkpoints.iter_mut().flatten().filter(|due| due.expires_at <= now.monotonic);
        due.for_each(|checkpoint| checkpoint.abort(FailureReason::CheckpointExpired));
        if let State::Running { next_trigger: Some(tick) } = self.state
            && tick <= now.monotonic
        {
            let next_trigger = self.options.base_interval().map(|interval| tick.after(interval));
            self.state = State::Running { next_trigger };
            self.requests.periodic = true;
        }
    }

    pub(super) fn on_requested(
        &mut self,
        request: RequestToken,
        orders: &mut Orders<'_, CoordinatorAction<TASK_WORDS>>,
    ) {
        let reason = match self.state {
            State::Running { .. } if self.requests.push(request) => return,
            State::Running { .. } => FailureReason::TooManyCheckpointRequests,
            State::Stopped => FailureReason::NotAllRequiredTasksRunning,
            State::ShutDown => FailureReason::CheckpointCoordinatorShutdown,
        };
        orders.push(CoordinatorAction::RequestFailed { request: Some(request), id: None, reason });
    }

    /// Lets the first request in line start, if its time has come (rules T20 to T23).
    pub(super) fn poll(&mut self, now: Now, orders: &mut Orders<'_, CoordinatorAction<TASK_WORDS>>) {
        let is_triggering =
            self.checkpoints.iter().flatten().any(|other| other.stage == Stage::AwaitingLocation);
        let is_full = self.pending_count() >= usize::from(self.options.max_concurrent);
        if self.requests.is_empty()
            || is_triggering
            || is_full
            || self.checkpoints.iter().all(Option::is_some)
        {
            return;
        }
        let pause = self.pause_left(now);
        if !self.requests.has_manual() && pause > Millis(0) {
            self.requests.periodic = false;
            self.state = State::Running { next_trigger: Some(now.monotonic.after(pause)) };
            let reason = FailureReason::MinimumTimeBetweenCheckpoints;
            return orders.push(CoordinatorAction::RequestFailed { request: None, id: None, reason });
        }
        let request = self.requests.pop();
        if request.is_none() {
            self.requests.periodic = false;
        }
        self.start(now, request, orders);
    }

    /// How long periodic checkpoints have to wait after the last completion (rule T22).
    fn pause_left(&self, now: Now) -> Millis {
        self.last_completion.map_or(Millis(0), |last| last.after(self.options.pause()).since(now.monotonic))
    }

    /// The id is used up and the time-out runs from here, whatever follows (rule T25).
    fn start(
        &mut self,
        now: Now,
        request: Option<RequestToken>,
        orders: &mut Orders<'_, CoordinatorAction<TASK_WORDS>>,
    ) {
        let id = self.next_id;
        if id == CheckpointId(u64::MAX) {
            let reason = FailureReason::TriggerCheckpointFailure;
            return orders.push(CoordinatorAction::RequestFailed { request, id: None, reason });
        }
        self.next_id = id.next();
        let checkpoint = Checkpoint {
            id,
            request,
            triggered_at: now.wall,
            expires_at: now.monotonic.after(self.options.timeout),
            awaited: self.tasks,
            stage: Stage::AwaitingLocation,
        };
        if let Some(free) = self.checkpoints.iter_mut().find(|slot| slot.is_none()) {
            *free = Some(checkpoint);
        }
        orders.push(CoordinatorAction::PrepareLocation(id));
    }

    /// A span drawn evenly from `low` to `high`, both included (the generator is `SplitMix64`).
    fn draw(&mut self, low: Millis, high: Millis) -> Millis {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        let choices = u128::from(high.since(low).0).wrapping_add(1);
        let drawn = u128::from(bits).wrapping_mul(choices) >> 64;
        low.after(Millis(u64::try_from(drawn).unwrap_or(0)))
    }
}
