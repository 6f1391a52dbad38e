//! From a request to the barriers.

use super::action::ParticipantSet;
use super::checkpoint::{Checkpoint, Folder, Plan, Stage};
use super::requests::Request;
use super::{
    Coordinator, CoordinatorAction, Graph, Orders, Participant, RequestKind, RequestToken, TaskSet,
    TriggerError,
};
use crate::ids::{Barrier, CheckpointId, SnapshotKind};
use crate::reason::FailureReason;
use crate::time::{Millis, Now};

/// The most actions that one request takes.
pub(super) const POLL_MAX: usize = 2;

impl<const TASK_WORDS: usize, const PENDING: usize, const QUEUE: usize, G: Graph<TASK_WORDS>>
    Coordinator<TASK_WORDS, PENDING, QUEUE, G>
{
    pub(super) fn on_requested(
        &mut self,
        now: Now,
        token: RequestToken,
        kind: RequestKind,
        orders: &mut Orders<'_, TASK_WORDS>,
    ) {
        let kind = kind.snapshot(self.options.kind);
        let is_forced = self.options.forces(kind);
        let request = Request { token: Some(token), kind, is_forced, requested_at: now.wall, refused: None };
        if self.schedule.is_shut_down() {
            let reason = FailureReason::CheckpointCoordinatorShutdown;
            return orders.push(CoordinatorAction::RequestRefused { request: request.token, reason });
        }
        self.line_up(request, orders);
    }

    /// Rules T18 and T19.
    pub(super) fn line_up(&mut self, request: Request, orders: &mut Orders<'_, TASK_WORDS>) {
        if let Some(Request { token: request, .. }) = self.requests.add(request) {
            let reason = FailureReason::TooManyCheckpointRequests;
            orders.push(CoordinatorAction::RequestRefused { request, reason });
        }
    }

    /// Whether a request is next, and may start or has to fail now (rule T20).
    pub(super) fn may_choose(&self) -> bool {
        let max_concurrent_checkpoints = self.options.max_concurrent_checkpoints;
        let Some(first) = self.requests.first() else { return false };
        let is_triggering = self.checkpoints.iter().flatten().any(|other| other.stage.is_triggering());
        let has_slot = self.checkpoints.iter().any(Option::is_none);
        let has_turn = first.is_forced || self.pending_count() < usize::from(max_concurrent_checkpoints);
        !is_triggering && self.cleaning <= max_concurrent_checkpoints && has_slot && has_turn
    }

    /// Lets the first request in line start, if its time has come (rules T20 to T23).
    pub(super) fn poll(&mut self, now: Now, orders: &mut Orders<'_, TASK_WORDS>) {
        while orders.left() >= POLL_MAX && self.may_choose() {
            let Some(request) = self.requests.take_first() else { return };
            let pause = self.schedule.pause_left(now, self.options.pause());
            if request.is_periodic() && pause > Millis(0) {
                self.schedule.reschedule(Some(now.monotonic.after(pause)));
                let reason = FailureReason::MinimumTimeBetweenCheckpoints;
                orders.push(CoordinatorAction::RequestRefused { request: None, reason });
            } else {
                self.start(now, &request, orders);
            }
        }
    }

    /// The plan comes before the id, the id and the time-out before all else, so both are used up whatever follows
    /// (rule T25).
    fn start(&mut self, now: Now, request: &Request, orders: &mut Orders<'_, TASK_WORDS>) {
        let id = self.next_id;
        let plan = match self.plan() {
            Ok(plan) if id < CheckpointId(u64::MAX) => plan,
            Ok(_) => return self.fail_trigger(request, FailureReason::TriggerCheckpointFailure, orders),
            Err(reason) => return self.fail_trigger(request, reason, orders),
        };
        self.next_id = id.next();
        if let Some(free) = self.checkpoints.iter_mut().find(|slot| slot.is_none()) {
            *free = Some(checkpoint(now, id, request, plan, self.options.timeout));
        }
        let Request { token, kind, .. } = *request;
        let with_base = !self.has_base && !kind.is_savepoint();
        orders.push(CoordinatorAction::PrepareLocation { id, kind, request: token, with_base });
    }

    /// A failure before there is a checkpoint (rule T29).
    fn fail_trigger(
        &mut self,
        request: &Request,
        reason: FailureReason,
        orders: &mut Orders<'_, TASK_WORDS>,
    ) {
        orders.push(CoordinatorAction::RequestFailed { request: request.token, id: None, reason });
        if self.failures.failed(None, request.kind, reason.into()) {
            orders.push(CoordinatorAction::FailJob { reason, task: None });
        }
    }

    /// Only after the folder do others learn of the checkpoint; if it was given up meanwhile, they never do.
    pub(super) fn on_location_prepared(&mut self, id: CheckpointId, orders: &mut Orders<'_, TASK_WORDS>) {
        let Some(checkpoint) = self.find_mut(id) else { return };
        let (stage, is_savepoint) = (checkpoint.stage, checkpoint.kind.is_savepoint());
        checkpoint.note_folder(Folder::Made);
        self.has_base |= !is_savepoint;
        if stage == Stage::AwaitingLocation {
            self.ask_coordinators(id, orders);
        } else if stage == Stage::Orphaned {
            self.discard(id, orders);
        }
    }

    /// Rules T30 and T31.
    pub(super) fn on_location_failed(&mut self, id: CheckpointId, error: TriggerError) {
        let Some(checkpoint) = self.find_mut(id) else { return };
        checkpoint.abort(error.reason().into());
        checkpoint.note_folder(Folder::NotOurs);
        if checkpoint.stage == Stage::Orphaned {
            self.remove(id);
        }
    }

    /// Step 7 of rule T25.
    fn ask_coordinators(&mut self, id: CheckpointId, orders: &mut Orders<'_, TASK_WORDS>) {
        let coordinators = ParticipantSet::first(self.options.operator_coordinators.into());
        if coordinators.is_empty() {
            return self.ask_hooks(id, orders);
        }
        self.await_participants(id, Stage::AwaitingCoordinators, coordinators);
        orders.push(CoordinatorAction::SnapshotOperatorCoordinators { id, coordinators });
    }

    /// Step 8 of rule T25.
    fn ask_hooks(&mut self, id: CheckpointId, orders: &mut Orders<'_, TASK_WORDS>) {
        let hooks = ParticipantSet::first(self.options.hooks.into());
        if hooks.is_empty() {
            return self.trigger_tasks(id, orders);
        }
        self.await_participants(id, Stage::AwaitingHooks, hooks);
        let triggered_at = self.find(id).map_or(Millis(0), |checkpoint| checkpoint.triggered_at);
        orders.push(CoordinatorAction::TriggerHooks { id, triggered_at, hooks });
    }

    fn await_participants(&mut self, id: CheckpointId, stage: Stage, participants: ParticipantSet) {
        if let Some(checkpoint) = self.find_mut(id) {
            checkpoint.stage = stage;
            checkpoint.participants = participants;
        }
    }

    /// Steps 9 and 10 of rule T25.
    fn trigger_tasks(&mut self, id: CheckpointId, orders: &mut Orders<'_, TASK_WORDS>) {
        let (options, force_full) = (self.options, self.force_full);
        let Some(checkpoint) = self.find_mut(id) else { return };
        checkpoint.stage = Stage::AwaitingAcknowledgements;
        // Rule T26.
        let is_full = force_full && !checkpoint.kind.is_savepoint();
        let kind = if is_full { SnapshotKind::FullCheckpoint } else { checkpoint.kind };
        let alignment = options.alignment.alignment_of(kind);
        let barrier = Barrier { id, triggered_at: checkpoint.triggered_at, kind, alignment };
        orders.push(CoordinatorAction::TriggerTasks { barrier, tasks: checkpoint.plan.triggered });
    }

    /// A coordinator or a hook has done its part, once or more often (rules P8, P30 and P32).
    pub(super) fn on_participant(
        &mut self,
        id: CheckpointId,
        by: Participant,
        orders: &mut Orders<'_, TASK_WORDS>,
    ) {
        let Some(checkpoint) = self.find_mut(id).filter(|checkpoint| checkpoint.stage.is_pending()) else {
            return self.discard_late(id, by, orders);
        };
        if let Participant::OperatorCoordinator(index) = by
            && checkpoint.take_participant(Stage::AwaitingCoordinators, index)
        {
            self.ask_hooks(id, orders);
        } else if let Participant::Hook(index) = by
            && checkpoint.take_participant(Stage::AwaitingHooks, index)
        {
            self.trigger_tasks(id, orders);
        }
    }
}

const fn checkpoint<const TASK_WORDS: usize>(
    now: Now,
    id: CheckpointId,
    request: &Request,
    plan: Plan<TASK_WORDS>,
    timeout: Millis,
) -> Checkpoint<TASK_WORDS> {
    Checkpoint {
        id,
        request: request.token,
        kind: request.kind,
        is_forced: request.is_forced,
        triggered_at: now.wall,
        expires_at: now.monotonic.after(timeout),
        participants: ParticipantSet::empty(),
        awaited: plan.taking_part,
        plan,
        reported_finished: TaskSet::empty(),
        with_union_state: TaskSet::empty(),
        stage: Stage::AwaitingLocation,
    }
}
