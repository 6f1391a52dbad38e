//! What actors tell each other. Records never travel here.

use slackwater_core::coordinator::gateways::DeliveryTicket;
use slackwater_core::coordinator::{Notification, Participant};
use slackwater_core::durable::DiskError;
use slackwater_core::ids::{Barrier, CheckpointId, TaskIndex};
use slackwater_core::reason::FailureReason;
use slackwater_core::subtask::SnapshotMetrics;

use crate::chain::HeldSink;
use crate::checkpoint::SubtaskPart;
use crate::files::{FileEvent, FileRequest, FileTicket};
use crate::operator::OperatorError;
use crate::savepoint::SavepointOrder;
use crate::stop::StopOrder;
use slackwater_mem::Snapshot;
use slackwater_mem::in_flight::{InFlight, StoredInFlight};
use slackwater_mem::segment::{KeyGroupBytes, KeyGroupReader, RestoreError, SegmentRef};

/// To a subtask.
#[derive(Debug)]
pub(crate) enum TaskMail {
    /// Start this checkpoint; only to subtasks without inputs.
    Trigger(Barrier),
    /// What became of a checkpoint.
    Notify(Notification),
    /// The segment of a checkpoint is durable, or never will be.
    Persisted(CheckpointId, Result<SegmentRef, DiskError>),
    /// What was in flight at a checkpoint is durable, or will be with the manifest; or never will be.
    InFlightPersisted(CheckpointId, Result<Option<StoredInFlight>, DiskError>),
    /// So many bytes that the sink appended are with the disk.
    Written(usize),
    /// A request of the sink has ended.
    File(FileEvent),
    /// A request of the sink has failed, on this path.
    FileFailed(String, DiskError),
    /// An event of the coordinator of its operator.
    OperatorEvent { ticket: DeliveryTicket, event: Vec<u8> },
    /// A key group was read that the task had asked for, or not.
    KeyGroup(Result<KeyGroupBytes, RestoreError>),
    /// All restored state has been verified and the sinks have recovered: the task's sink may begin. With the sink if
    /// it is the one that did that.
    SinkRecovered(Option<HeldSink>),
}

/// To the coordinator.
#[derive(Debug)]
pub(crate) enum CoordinatorMail {
    /// Somebody wants a savepoint.
    Savepoint(SavepointOrder),
    /// Somebody wants the job to end with a savepoint.
    Stop(StopOrder),
    /// A subtask's part is durable; with what it took.
    Acknowledge { id: CheckpointId, task: TaskIndex, part: Box<SubtaskPart>, metrics: SnapshotMetrics },
    /// What a part took that is not acknowledged, because its checkpoint is off.
    Incomplete { id: CheckpointId, task: TaskIndex, metrics: SnapshotMetrics },
    /// A subtask does not take part; with the disk's error where that is why.
    Decline { id: CheckpointId, task: TaskIndex, reason: FailureReason, cause: Option<DiskError> },
    /// A coordinator of an operator, or a hook, has done its part for a checkpoint, or has failed.
    ParticipantAnswered { id: CheckpointId, by: Participant, answer: Result<Option<Vec<u8>>, OperatorError> },
    /// A subtask has emitted everything it ever will.
    Drained(TaskIndex),
    /// All of a subtask's keyed state has come, and was verified; only from those that began without it.
    Restored(TaskIndex),
    /// The sinks have recovered.
    SinksRecovered,
    /// A subtask's sink has committed everything up to this checkpoint.
    Committed { id: CheckpointId, task: TaskIndex },
    /// The folder of a checkpoint is there, or not.
    LocationPrepared(CheckpointId, Result<(), DiskError>),
    /// The manifest is durable, or not.
    ManifestPersisted(CheckpointId, Result<(), DiskError>),
    /// A retained checkpoint has been deleted, or why not.
    Deleted(CheckpointId, Result<(), DiskError>),
}

/// To the coordinator of an operator.
#[derive(Debug)]
pub(crate) enum OperatorCoordinatorMail {
    /// A checkpoint needs its state.
    Snapshot(CheckpointId),
    /// What became of a checkpoint.
    Notify(Notification),
    /// A subtask has taken its snapshot.
    Snapshotted { id: CheckpointId, subtask: u16 },
    /// A subtask has this event.
    Delivered(DeliveryTicket),
    /// A subtask asks for something.
    Request { subtask: u16, request: Vec<u8> },
}

/// To the writer.
#[derive(Debug)]
pub(crate) enum WriterMail {
    /// Make the folder of a checkpoint; a savepoint's in a folder of its own.
    PrepareLocation { id: CheckpointId, savepoint: Option<String> },
    /// Write a subtask's frozen state as a segment.
    Persist { id: CheckpointId, task: TaskIndex, snapshot: Box<Snapshot> },
    /// Make durable what a subtask has captured of its channels.
    PersistInFlight { id: CheckpointId, task: TaskIndex, captured: InFlight },
    /// Nobody wants these any more.
    Abandon { id: CheckpointId, task: TaskIndex },
    /// Write the manifest that completes a checkpoint.
    PersistManifest { id: CheckpointId, bytes: Vec<u8> },
    /// Delete a checkpoint that is retained no longer: its manifest first.
    Delete(CheckpointId),
    /// Read a key group for a subtask.
    ReadKeyGroup { task: TaskIndex, reader: Box<KeyGroupReader> },
    /// Note that the restored checkpoint is damaged, for the next start, and end the job.
    NoteDamage { checkpoint: CheckpointId, message: String },
    /// All restored state has been verified: let the sinks recover.
    RecoverSinks,
    /// What a sink asks for.
    File { task: TaskIndex, ticket: FileTicket, request: FileRequest },
}
