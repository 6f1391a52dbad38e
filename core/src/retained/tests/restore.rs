//! Restoring, and what a new job builds on.

use super::*;

fn plan(world: &World, entry: RestoreEntry) -> RestorePlan {
    world.store.restore(entry, None).unwrap()
}

/// A store with a checkpoint to restore, and one without.
fn worlds() -> [World; 2] {
    let mut full = World::new(2);
    full.recover(7, NEVER);
    [full, World::new(2)]
}

#[test]
fn s30_restarted_subtasks_leave_coordinators_alone() {
    for world in worlds() {
        let plan = plan(&world, RestoreEntry::LatestToSubtasks);
        assert_eq!(plan.coordinators, CoordinatorRestore::Untouched);
        assert!(plan.allow_non_restored && !plan.checks_finished);
    }
}

#[test]
fn s31_a_restarted_job_restores_or_resets_coordinators() {
    for allow_non_restored in [true, false] {
        let [full, empty] =
            worlds().map(|world| plan(&world, RestoreEntry::LatestToAll { allow_non_restored }));
        assert_eq!((full.checkpoint, empty.checkpoint), (Some(id(7)), None));
        assert_eq!(full.coordinators, CoordinatorRestore::Restored);
        assert_eq!(empty.coordinators, CoordinatorRestore::ResetToEmpty);
        assert_eq!([full, empty].map(|plan| plan.allow_non_restored), [allow_non_restored; 2]);
        assert!(!full.checks_finished);
    }
}

#[test]
fn s32_a_restarted_coordinator_is_strict() {
    let [full, empty] = worlds().map(|world| plan(&world, RestoreEntry::Initial));
    assert_eq!(full.coordinators, CoordinatorRestore::Restored);
    assert_eq!(empty.coordinators, CoordinatorRestore::Untouched);
    assert!([full, empty].iter().all(|plan| !plan.allow_non_restored && plan.checks_finished));
}

#[test]
fn s33_what_every_restore_has_in_common() {
    let [mut full, empty] = worlds();
    assert!(plan(&full, RestoreEntry::Initial).restores_hooks);
    assert!(!plan(&empty, RestoreEntry::Initial).restores_hooks, "hooks are reset");
    for (without, drops) in [(None, false), (Some(id(6)), false), (Some(id(7)), true)] {
        let plan = full.store.restore(RestoreEntry::LatestToSubtasks, without).unwrap();
        assert_eq!(plan.drops_in_flight, drops, "{without:?}");
    }
    assert!(!empty.store.restore(RestoreEntry::Initial, None).unwrap().drops_in_flight);
    let snapshot = RestoreEntry::Snapshot { allow_non_restored: true };
    let none = Rejected::Unexpected { what: "there is no snapshot to start from" };
    assert_eq!(empty.store.restore(snapshot, None), Err(none));
    full.send(RetainedEvent::ShutDown(JobStatus::Failed));
    let ended = Rejected::Unexpected { what: "the job has ended" };
    assert_eq!(full.store.restore(RestoreEntry::Initial, None), Err(ended));
}

#[test]
fn r4_s34_a_job_that_is_started_from_a_snapshot_goes_on_above_its_id() {
    for (claim, kind) in [(ClaimMode::Claim, ON_FAILURE), (ClaimMode::NoClaim, CheckpointKind::Unclaimed)] {
        assert_eq!(claim.kind_of_restored(RetentionPolicy::RetainOnFailure), kind);
        let mut world = World::new(1);
        assert_eq!(world.store.next_id(), CheckpointId::FIRST);
        world.upload(41, 1);
        world.start_from(41, kind);
        let plan = plan(&world, RestoreEntry::Snapshot { allow_non_restored: false });
        assert_eq!(plan.checkpoint, Some(id(41)));
        assert_eq!(plan.coordinators, CoordinatorRestore::Restored);
        assert!(plan.checks_finished && !plan.allow_non_restored);
        assert_eq!(world.store.next_id(), id(42));
    }
}

#[test]
fn v1_a_savepoint_enters_no_store_and_is_never_discarded() {
    let mut world = World::new(1);
    world.add(1, NEVER);
    for kind in [CheckpointKind::Savepoint, CheckpointKind::SynchronousSavepoint, CheckpointKind::Unclaimed] {
        let refused = world.try_send(RetainedEvent::CheckpointCompleted { id: id(2), kind });
        assert_eq!(
            refused,
            Err(Rejected::Unexpected { what: "a savepoint belongs to whoever asked for it" })
        );
        assert!(!kind.is_discarded_when_subsumed());
    }
    assert_eq!(world.retained(), [1]);
}

#[test]
fn v2_v3_snapshots_share_files_or_not() {
    let shares = |kind: SnapshotKind| (kind.may_build_on_earlier(), kind.may_be_built_on());
    assert_eq!(shares(SnapshotKind::Checkpoint), (true, true));
    assert_eq!(shares(SnapshotKind::FullCheckpoint), (false, true));
    assert!(SAVEPOINTS.iter().all(|savepoint| shares(*savepoint) == (false, false)));
}

#[test]
fn v4_a_savepoint_is_not_built_on() {
    let mut base = IncrementalBase::new();
    base.on_complete(id(3), SnapshotKind::Checkpoint);
    for savepoint in SAVEPOINTS {
        base.on_complete(id(4), savepoint);
        assert_eq!(base.base_of(savepoint), None, "it stands alone");
    }
    assert_eq!(base.base_of(SnapshotKind::Checkpoint), Some(id(3)));
}

#[test]
fn v5_a_claimed_snapshot_is_built_on_and_goes_when_it_is_unused() {
    let base = IncrementalBase::restored(id(5), NEVER);
    assert_eq!(base.base_of(SnapshotKind::Checkpoint), Some(id(5)));
    let mut world = World::new(1);
    world.upload(5, 1);
    world.start_from(5, ClaimMode::Claim.kind_of_restored(RetentionPolicy::NeverRetain));
    assert!(!world.store.forces_full());
    world.reuse(6, 1);
    world.add(6, NEVER);
    world.add(7, NEVER);
    assert_eq!((world.on_disk(), world.files()), (vec![7], vec![]));
}

#[test]
fn v6_what_is_not_claimed_is_neither_built_on_nor_deleted() {
    let base = IncrementalBase::restored(id(5), CheckpointKind::Unclaimed);
    assert_eq!(base.base_of(SnapshotKind::Checkpoint), None);
    let mut world = World::new(1);
    world.upload(5, 1);
    world.start_from(5, CheckpointKind::Unclaimed);
    world.add(6, NEVER);
    world.send(RetainedEvent::ShutDown(JobStatus::Finished));
    assert_eq!((world.on_disk(), world.files()), (vec![5], vec![1]));
    assert_eq!(ClaimMode::default(), ClaimMode::NoClaim);
}

#[test]
fn v7_there_is_no_mode_between_claim_and_no_claim() {
    let names: Vec<_> = ClaimMode::ALL.iter().map(|mode| mode.name()).collect();
    assert_eq!(names, ["CLAIM", "NO_CLAIM"]);
}

#[test]
fn v8_the_next_checkpoints_are_full_until_one_completes() {
    let mut world = World::new(1);
    assert!(!world.store.forces_full());
    world.start_from(5, CheckpointKind::Unclaimed);
    assert!(plan(&world, RestoreEntry::Initial).forces_full);
    world.upload(6, 1);
    world.abort(6);
    let forced = world.store.forces_full();
    assert_eq!(SnapshotKind::Checkpoint.when_full_is_forced(forced), SnapshotKind::FullCheckpoint);
    assert_eq!(SAVEPOINTS[1].when_full_is_forced(forced), SAVEPOINTS[1]);
    world.add(7, NEVER);
    assert!(!world.store.forces_full());
    assert_eq!(SnapshotKind::Checkpoint.when_full_is_forced(false), SnapshotKind::Checkpoint);
    // Known again from what is stored of the latest one.
    let mut again = World::new(1);
    again.recover(5, CheckpointKind::Unclaimed);
    assert!(again.store.forces_full());
}

#[test]
fn v9_ids_go_on_above_all_that_were_named() {
    let mut world = World::new(2);
    world.recover(9, NEVER);
    world.recover(8, NEVER);
    assert_eq!(world.store.next_id(), id(10));
    world.upload(12, 1);
    world.abort(12);
    assert_eq!(world.store.next_id(), id(13));
}

#[test]
fn v10_v14_only_a_complete_checkpoint_is_built_on() {
    let mut base = IncrementalBase::new();
    assert_eq!(base.base_of(SnapshotKind::Checkpoint), None);
    base.on_complete(id(4), SnapshotKind::FullCheckpoint);
    base.on_complete(id(2), SnapshotKind::Checkpoint);
    assert_eq!(base.base_of(SnapshotKind::Checkpoint), Some(id(4)), "a late word of an older one");
    assert_eq!(base.base_of(SnapshotKind::FullCheckpoint), None);
}
