//! The order of steps of one subtask's checkpoint (Flink: `SubtaskCheckpointCoordinatorImpl`, `StreamTask`).
//!
//! A checkpoint has a synchronous part, during which the subtask takes nothing from its inputs - operators prepare,
//! the barrier goes out, the state is frozen - and an asynchronous part, in which the frozen state becomes durable
//! while the subtask goes on. If the barrier has overtaken records, those are captured until the last barrier is in; they
//! are a part like any other, and the acknowledgement waits for all parts. The messages of the coordinator may be
//! lost or come in any order (rules X19 to X25). The work of each event is bounded by `PENDING`.
//!
//! What the gate orders of captures (`StartCapture`, `StopCapture`, `DropCapture`) goes to `channel_state`; when that
//! has everything of a checkpoint, this machine is told `InputCaptured`. Whatever this machine orders to drop, the
//! capture is told as aborted.
//!
//! Which checkpoints were aborted before their barrier came is remembered exactly for the 128 ids up to the highest
//! aborted one. Every older id counts as aborted: a checkpoint that was overtaken by 128 others has long expired, and
//! to skip it is safe, whereas to take part in one that was aborted is not.
//!
//! # Invariants
//! - SI1: no checkpoint is in the asynchronous part twice.
//! - SI2: a checkpoint in the asynchronous part is not newer than the last one taken part in, and awaits a part.
//! - SI3: the checkpoint in the synchronous part is the last one, and is not in the asynchronous part.
//! - SI4: during the synchronous part there is room for one more asynchronous part.
//! - SI5: a savepoint waits for the end of the data only while the subtask runs and the data goes on.
//! - SI6: the subtask closes only when it has nothing to wait for.
//! - SI7: the deadline of the outputs is that of the last checkpoint taken part in.
//! - SI8: records are being captured for one checkpoint at most.

mod asynchronous;
mod ending;
#[cfg(test)]
mod enumeration;
mod messages;
mod notices;
mod snapshot;
mod steps;
#[cfg(test)]
mod tests;
mod validate;

use heapless::VecView;

use ending::Ending;
pub use messages::{SubtaskAction, SubtaskEvent, TaskFailure};
use snapshot::{Input, Snapshot};
pub use snapshot::{Part, PartSet, PartSizes, SnapshotMetrics};

use crate::ids::{Barrier, CheckpointId, SavepointFormat, SnapshotKind};
use crate::machine::{Admission, Orders, Rejected, first_broken};
use crate::recent_ids::RecentIds;
use crate::time::{Millis, Now};

/// What a subtask is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubtaskOptions {
    /// Whether it has input channels; one without is a source.
    pub has_inputs: bool,
    /// Whether checkpoints go on after tasks have ended: then a task waits for a final one (rules X4 and X28).
    pub checkpoints_after_end: bool,
    /// Whether the source starts checkpoints itself, and so takes no triggers (rule X30).
    pub induces_checkpoints: bool,
    /// Whether its backend can take a checkpoint that shares nothing (rule X2).
    pub full_checkpoints: bool,
    /// Whether its backend can take canonical savepoints (rule X2).
    pub canonical_savepoints: bool,
    /// Whether its backend can take native savepoints (rule X2).
    pub native_savepoints: bool,
    /// Whether an operator has a coordinator (rule P29).
    pub has_coordinators: bool,
    /// Whether second copies are kept for restarts (rule V13).
    pub keeps_local_state: bool,
}

impl SubtaskOptions {
    /// A subtask with inputs whose backend can do everything.
    pub const INNER: Self = Self {
        has_inputs: true,
        checkpoints_after_end: true,
        induces_checkpoints: false,
        full_checkpoints: true,
        canonical_savepoints: true,
        native_savepoints: true,
        has_coordinators: false,
        keeps_local_state: false,
    };
    /// A source whose backend can do everything.
    pub const SOURCE: Self = Self { has_inputs: false, ..Self::INNER };

    /// Why the backend cannot take such a snapshot, if it cannot (rule X2).
    const fn unsupported(&self, kind: SnapshotKind) -> Option<TaskFailure> {
        let (is_supported, failure) = match kind {
            SnapshotKind::Checkpoint => return None,
            // A source that starts checkpoints itself cannot be asked for a kind of them (rule X30).
            SnapshotKind::FullCheckpoint => {
                (self.full_checkpoints && !self.induces_checkpoints, TaskFailure::FullCheckpointUnsupported)
            }
            SnapshotKind::Savepoint(format) | SnapshotKind::Suspend(format) | SnapshotKind::Drain(format) => {
                (
                    match format {
                        SavepointFormat::Canonical => self.canonical_savepoints,
                        SavepointFormat::Native => self.native_savepoints,
                    },
                    TaskFailure::SavepointFormatUnsupported,
                )
            }
        };
        if is_supported { None } else { Some(failure) }
    }
}

/// One subtask's part in checkpoints, of which up to `PENDING` may be in the asynchronous part.
///
/// A further one is declined, so `PENDING` should exceed the coordinator's `max_concurrent_checkpoints`: the news that an aborted
/// checkpoint is off may come after the next one's barrier.
#[derive(Clone, Debug)]
pub struct Subtask<const PENDING: usize> {
    admission: Admission,
    options: SubtaskOptions,
    state: State,
    persisting: [Option<Snapshot>; PENDING],
    /// The newest checkpoint this subtask took part in, skipped or gave up.
    last: Option<CheckpointId>,
    latest_completed: Option<CheckpointId>,
    aborted: RecentIds,
    ending: Ending,
    /// A savepoint that waits for the end of the data (rule X27).
    held: Option<Barrier>,
    /// When a barrier that still waits in outputs overtakes what is before it (rule X10).
    overtaking: Option<(Millis, Barrier)>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    AwaitingStart,
    Running,
    /// In the synchronous part of a checkpoint, which may have been aborted meanwhile.
    Snapshotting {
        snapshot: Snapshot,
        aborted: bool,
    },
    /// Was told to close: takes no more triggers, but still runs.
    Closing,
    Stopped,
}

impl<const PENDING: usize> Subtask<PENDING> {
    /// The most actions that one event gives.
    pub const ACTIONS_MAX: usize = 8;

    /// A subtask that has not started.
    #[must_use]
    pub fn new(options: SubtaskOptions) -> Self {
        Self {
            admission: Admission::default(),
            options,
            state: State::AwaitingStart,
            persisting: [None; PENDING],
            last: None,
            latest_completed: None,
            aborted: RecentIds::default(),
            ending: Ending::default(),
            held: None,
            overtaking: None,
        }
    }

    /// Takes an event and writes what must be done into `out`, in order.
    ///
    /// # Errors
    /// [`Rejected`]; the machine is unchanged.
    pub fn on_event(
        &mut self,
        now: Now,
        event: SubtaskEvent,
        out: &mut VecView<SubtaskAction>,
    ) -> Result<(), Rejected> {
        self.admission.admit(now, out, Self::ACTIONS_MAX)?;
        self.validate(event)?;
        let mut orders = Orders::new(out, Self::ACTIONS_MAX);
        self.step(now, event, &mut orders);
        self.close_if_over(&mut orders);
        self.admission.conclude(&orders, self.broken_invariant())
    }

    fn step(&mut self, now: Now, event: SubtaskEvent, orders: &mut Orders<'_, SubtaskAction>) {
        use SubtaskEvent as E;
        match (self.state, event) {
            (_, E::Started) => self.state = State::Running,
            (_, E::InputsFinished) => self.ending.inputs_finished = true,
            (_, E::DataEnded { drained }) => self.on_data_ended(now, drained, orders),
            (_, E::OutputsConsumed) => self.ending.outputs_consumed = true,
            (_, E::Stopped) => self.on_stopped(now, orders),
            (State::Running, E::TriggerReceived(barrier)) => self.running_on_trigger(now, barrier, orders),
            (_, E::TriggerReceived(barrier)) => self.not_running_on_trigger(barrier, orders),
            (State::Running, E::CheckpointInduced(barrier)) => self.take_directly(now, barrier, orders),
            (State::Running, E::CheckpointTriggered { barrier, alignment }) => {
                self.running_on_barrier(now, barrier, alignment, orders);
            }
            (_, E::CheckpointInduced(barrier) | E::CheckpointTriggered { barrier, .. }) => {
                self.not_running_on_barrier(barrier, orders);
            }
            (_, E::AlignmentAborted { id, reason }) => self.give_up(now, id, reason, orders),
            (_, E::InputCaptured { id, alignment }) => self.on_input_captured(id, alignment, orders),
            (State::Snapshotting { snapshot, aborted }, E::SnapshotTaken { parts, since, .. }) => {
                self.snapshotting_on_taken(now, snapshot, aborted, (parts, since), orders);
            }
            (State::Snapshotting { snapshot, .. }, E::SnapshotFailed(_)) => {
                self.snapshotting_on_failed(snapshot, orders);
            }
            (_, E::SnapshotTaken { .. } | E::SnapshotFailed(_)) => {} // Refused by `validate`.
            (_, E::PartPersisted { id, part, sizes }) => self.on_persisted(now, id, part, sizes, orders),
            (_, E::PersistFailed { id, reason }) => self.on_persist_failed(id, reason, orders),
            (_, E::AbortNotified { id, latest_completed }) => {
                self.on_abort_notified(now, id, latest_completed, orders);
            }
            (_, E::CompleteNotified(id)) => self.complete(id, orders),
            (_, E::SubsumeNotified(id)) => self.on_subsume_notified(id, orders),
            (_, E::NotificationFailed(id)) => self.on_notification_failed(id, orders),
            (_, E::DeadlineReached) => self.on_deadline(now, orders),
        }
    }

    /// When to send `DeadlineReached`, by the monotonic clock.
    #[must_use]
    pub fn next_deadline(&self, _now: Now) -> Option<Millis> {
        self.overtaking.map(|(at, _)| at)
    }

    /// Whether the subtask processes records, or ends in order.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        matches!(self.state, State::Running | State::Snapshotting { .. } | State::Closing)
    }

    /// How many checkpoints are in the asynchronous part. A subtask that stops should wait until there is none.
    #[must_use]
    pub fn persisting_count(&self) -> usize {
        self.persisting.iter().flatten().count()
    }

    /// The newest checkpoint that the subtask knows to be complete.
    #[must_use]
    pub const fn latest_completed(&self) -> Option<CheckpointId> {
        self.latest_completed
    }

    /// Asserts every invariant.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        assert_eq!(self.broken_invariant(), None);
    }

    fn broken_invariant(&self) -> Option<&'static str> {
        let all = || self.persisting.iter().flatten();
        let is_once = |id| all().filter(|persisting| persisting.id == id).count() == 1;
        let is_taken = |snapshot: &Snapshot| Some(snapshot.id) <= self.last && !snapshot.awaited.is_empty();
        let may_hold = self.is_running() && self.ending.data_ended.is_none();
        first_broken(&[
            ("SI1", all().all(|persisting| is_once(persisting.id))),
            ("SI2", all().all(is_taken)),
            ("SI5", self.held.is_none() || may_hold),
            ("SI6", !matches!(self.state, State::Closing) || self.ending.may_close(&self.options)),
            ("SI7", self.overtaking.is_none_or(|(_, barrier)| Some(barrier.id) == self.last)),
            ("SI8", self.alive().filter(|alive| alive.input == Input::Capturing).count() <= 1),
        ])
        .or_else(|| {
            let State::Snapshotting { snapshot, .. } = self.state else { return None };
            let is_other = all().all(|persisting| persisting.id != snapshot.id);
            first_broken(&[
                ("SI3", is_other && Some(snapshot.id) <= self.last),
                ("SI4", self.persisting.iter().any(Option::is_none)),
            ])
        })
    }
}

/// Those behind must not wait for a barrier that will not come (rules X4 and X7).
fn skip(barrier: Barrier, orders: &mut Orders<'_, SubtaskAction>) {
    drop_capture(barrier, orders);
    orders.push(SubtaskAction::BroadcastCancel(barrier.id));
}

fn drop_capture(barrier: Barrier, orders: &mut Orders<'_, SubtaskAction>) {
    if barrier.alignment.is_unaligned() {
        orders.push(SubtaskAction::DropCapture(barrier.id));
    }
}
