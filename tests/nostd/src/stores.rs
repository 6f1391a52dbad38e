use heapless::Vec;

use slackwater_core::assign::{JobOperator, NonRestored, StoredOperator, operator_of, restore_chain};
use slackwater_core::key_group::MaxParallelism;
use slackwater_core::retained::{
    CheckpointKind, FileKey, FileToken, IncrementalBase, JobStatus, Ownership, Recovery, RecoveryEvent,
    RestoreEntry, Retained, RetainedEvent, RetentionPolicy, Verdict,
};

use crate::data::{Data, used};

/// Events that each firmware function feeds to its machine.
const EVENTS: usize = 64;

fn kind(data: &mut Data) -> CheckpointKind {
    match data.word() & 7 {
        0 => CheckpointKind::Savepoint,
        1 => CheckpointKind::SynchronousSavepoint,
        2 => CheckpointKind::Unclaimed,
        3 => CheckpointKind::Checkpoint(RetentionPolicy::RetainOnFailure),
        4 => CheckpointKind::Checkpoint(RetentionPolicy::RetainOnCancellation),
        _ => CheckpointKind::Checkpoint(RetentionPolicy::NeverRetain),
    }
}

fn retained_event(data: &mut Data) -> RetainedEvent {
    let id = data.id();
    match data.word() & 15 {
        0 => RetainedEvent::AllAcknowledged(id),
        1 | 2 => RetainedEvent::CheckpointCompleted { id, kind: kind(data) },
        3 => RetainedEvent::CheckpointRecovered { id, kind: kind(data) },
        4 => RetainedEvent::SnapshotRestored { id, kind: kind(data) },
        5 => RetainedEvent::UnreadableManifestFound,
        6 => RetainedEvent::DiscardEnded { id, manifest_gone: data.bit() },
        7 => RetainedEvent::ShutDown(if data.bit() { JobStatus::Canceled } else { JobStatus::Suspended }),
        8 => RetainedEvent::DeadlineReached,
        9 => RetainedEvent::ManifestFailed { id, may_exist: data.bit() },
        _ => RetainedEvent::FileReferenced {
            checkpoint: id,
            key: FileKey(data.long()),
            file: data.bit().then(|| FileToken(data.long())),
            ownership: if data.bit() { Ownership::Own } else { Ownership::InsideCheckpoint },
        },
    }
}

pub(crate) fn retained(data: &mut Data) -> u32 {
    let Ok(mut store) = Retained::<6, 16>::new(usize::from(data.short())) else { return 0 };
    let mut actions = Vec::<_, 8>::new();
    let mut base = IncrementalBase::new();
    let mut sum = 0u32;
    for _ in 0..EVENTS {
        let event = retained_event(data);
        sum ^= used(&store.on_event(data.now(), event, &mut actions));
        sum ^= used(&actions) ^ used(&store.next_deadline(data.now())) ^ used(&store.cleaning_count());
        sum ^= used(&store.latest()) ^ used(&store.next_id()) ^ used(&store.forces_full());
        let plan =
            store.restore(RestoreEntry::LatestToAll { allow_non_restored: data.bit() }, Some(data.id()));
        base.on_complete(data.id(), data.barrier().kind);
        sum ^= used(&plan) ^ used(&base.base_of(data.barrier().kind));
        actions.clear();
    }
    sum
}

pub(crate) fn recovery(data: &mut Data) -> u32 {
    let mut recovery = Recovery::new();
    let mut actions = Vec::<_, 2>::new();
    let mut sum = 0u32;
    for _ in 0..EVENTS {
        let event = match data.word() & 7 {
            0 => RecoveryEvent::Examined(Verdict::Sound),
            1 => RecoveryEvent::Examined(Verdict::Damaged),
            2 => RecoveryEvent::Examined(Verdict::Unreadable),
            3 => RecoveryEvent::Examined(Verdict::Incomplete),
            _ => RecoveryEvent::FolderFound(data.id()),
        };
        sum ^= used(&recovery.on_event(data.now(), event, &mut actions)) ^ used(&actions);
        sum ^= used(&recovery.chosen()) ^ used(&recovery.next_id()) ^ used(&recovery.may_delete());
        actions.clear();
    }
    sum
}

pub(crate) fn matching(data: &mut Data) -> u32 {
    let Ok(max_parallelism) = MaxParallelism::new(data.word()) else { return 0 };
    let job = [data.long(), data.long()].map(|id| JobOperator {
        id,
        other_id: data.bit().then(|| data.long()),
        parallelism: data.word(),
        max_parallelism: data.bit().then_some(max_parallelism),
    });
    let stored = [data.long(), data.long(), data.long()].map(|id| StoredOperator {
        id,
        parallelism: data.word(),
        max_parallelism,
        has_state: data.bit(),
        is_keyed: data.bit(),
    });
    let found = stored.iter().map(|stored| used(&operator_of(stored, &job, NonRestored::RefusedIfAny)));
    found.fold(used(&restore_chain(&job, &stored, max_parallelism)), |sum, found| sum ^ found)
}
