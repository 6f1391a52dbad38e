use super::*;
use CheckpointKind::{Savepoint, SynchronousSavepoint, Unclaimed};
use JobStatus::{Canceled, Failed, Finished, Running, Suspended};

#[test]
fn s1_each_option_has_its_policy() {
    for (option, policy) in [
        (ExternalizedRetention::NoExternalizedCheckpoints, RetentionPolicy::NeverRetain),
        (ExternalizedRetention::DeleteOnCancellation, RetentionPolicy::RetainOnFailure),
        (ExternalizedRetention::RetainOnCancellation, RetentionPolicy::RetainOnCancellation),
    ] {
        assert_eq!(RetentionPolicy::from(option), policy);
    }
    assert_eq!(ExternalizedRetention::default(), ExternalizedRetention::NoExternalizedCheckpoints);
}

#[test]
fn s2_the_discard_matrix() {
    for (kind, subsumed, at_end) in [
        (NEVER, true, [true, true, true, true]),
        (ON_FAILURE, true, [true, true, false, true]),
        (ON_CANCELLATION, true, [true, false, false, false]),
        (Savepoint, false, [false; 4]),
        (SynchronousSavepoint, false, [false; 4]),
        (Unclaimed, false, [false; 4]),
    ] {
        assert_eq!(kind.is_discarded_when_subsumed(), subsumed, "{kind:?}");
        assert_eq!(
            [Finished, Canceled, Failed, Suspended].map(|status| kind.is_discarded_at(status)),
            at_end
        );
        assert!(!kind.is_discarded_at(Running), "{kind:?}");
    }
}

#[test]
fn s3_s29_shared_files_go_only_when_the_manifests_that_may_list_them_are_gone() {
    let mut world = World::new(1);
    world.is_slow = true;
    world.upload(1, 10);
    world.add(1, NEVER);
    assert_eq!(world.add(2, NEVER), [subsumed(1), remains(2), discard(1)]);
    assert_eq!(world.store.next_deadline(world.now()), None, "only the report helps");
    assert_eq!(world.discarded(1), [delete(10)]);
}

#[test]
fn s3_what_a_manifest_that_could_not_be_removed_lists_stays() {
    let mut world = World::new(1);
    world.is_slow = true;
    world.upload(1, 10);
    world.upload(1, 11);
    world.add(1, NEVER);
    world.reuse(2, 11);
    world.add(2, NEVER);
    let report = RetainedEvent::DiscardEnded { id: id(1), manifest_gone: false };
    assert_eq!(world.send(report), []);
    world.is_slow = false;
    assert_eq!(world.add(3, NEVER), [subsumed(2), remains(3), discard(2)]);
    assert_eq!(world.files(), [10, 11], "the first manifest may list them");
}

#[test]
fn s4_at_least_one_is_retained_and_the_last_that_came_is_the_latest() {
    for num_retained in [0, 8, 9] {
        assert!(matches!(Store::new(num_retained), Err(Rejected::OutOfRange { limit: 8, .. })));
    }
    let mut world = World::new(3);
    for number in [4, 7, 5] {
        world.recover(number, NEVER);
    }
    assert_eq!(world.retained(), [4, 7, 5]);
    assert_eq!(world.store.latest(), Some((id(5), NEVER)));
}

#[test]
fn s5_an_addition_subsumes_reports_and_releases() {
    let mut world = World::new(2);
    world.upload(1, 10);
    assert_eq!(world.add(1, NEVER), []);
    assert_eq!(world.add(2, NEVER), [remains(1)]);
    assert_eq!(world.add(3, NEVER), [subsumed(1), remains(2), discard(1), delete(10)]);
    assert_eq!(world.on_disk(), [2, 3]);
}

#[test]
fn s5_a_completion_that_comes_after_a_newer_one_counts_as_older_and_keeps_its_files_until_then() {
    for num_retained in [1, 2] {
        let mut world = World::new(num_retained);
        world.upload(1, 10);
        world.send(RetainedEvent::AllAcknowledged(id(1)));
        world.upload(2, 20);
        world.add(2, NEVER);
        assert_eq!(world.files(), [10, 20], "1 may complete");
        world.commit(1);
        let actions = world.send(RetainedEvent::CheckpointCompleted { id: id(1), kind: NEVER });
        assert_eq!(world.store.latest(), Some((id(2), NEVER)));
        if num_retained == 1 {
            assert_eq!(actions, [subsumed(1), remains(2), discard(1), delete(10)]);
        } else {
            assert_eq!((actions, world.retained()), (vec![remains(1)], vec![1, 2]));
        }
    }
}

#[test]
fn s5_a_manifest_that_fails_adds_nothing_and_what_it_may_list_stays() {
    for may_exist in [true, false] {
        let mut world = World::new(1);
        world.upload(1, 10);
        world.send(RetainedEvent::AllAcknowledged(id(1)));
        world.abort(1);
        assert_eq!(world.send(RetainedEvent::ManifestFailed { id: id(1), may_exist }), []);
        assert_eq!(world.retained(), []);
        world.add(2, NEVER);
        assert_eq!(world.files.contains(&10), may_exist);
    }
}

#[test]
fn s5_additions_that_cannot_be_are_refused_and_change_nothing() {
    let mut world = World::new(7);
    (1..=7).for_each(|number| assert!(!world.add(number, NEVER).contains(&discard(number))));
    world.is_slow = true;
    world.add(8, NEVER);
    let add = |number| RetainedEvent::CheckpointCompleted { id: id(number), kind: NEVER };
    let twice = world.try_send(RetainedEvent::AllAcknowledged(id(8)));
    assert_eq!(twice, Err(Rejected::Unexpected { what: "the checkpoint is there already" }));
    let refused = world.try_send(add(8));
    assert_eq!(refused, Err(Rejected::Unexpected { what: "the checkpoint is there already" }));
    assert!(!world.store.has_room());
    let full = Rejected::OutOfRange { what: "number of completed checkpoints", value: 8, limit: 8 };
    assert_eq!(world.try_send(add(9)), Err(full));
    assert_eq!(world.retained(), [2, 3, 4, 5, 6, 7, 8]);
    world.discarded(1);
    assert!(world.try_send(add(9)).is_ok());
    world.send(RetainedEvent::ShutDown(Suspended));
    assert_eq!(world.try_send(add(10)), Err(Rejected::Unexpected { what: "the job has ended" }));
}

#[test]
fn s6_the_oldest_that_may_leave_leave() {
    // What is there, how many are retained, what is left after checkpoint 9 or another last one came.
    type Row<'a> = (&'a [(u64, CheckpointKind)], usize, (u64, CheckpointKind), &'a [u64]);
    let rows: &[Row<'_>] = &[
        (&[(1, NEVER), (2, NEVER)], 3, (9, NEVER), &[1, 2, 9]),
        (&[(1, NEVER), (2, NEVER), (3, NEVER)], 2, (9, NEVER), &[3, 9]),
        (&[(1, NEVER), (2, Savepoint), (3, Savepoint)], 1, (9, NEVER), &[9]),
        (&[(1, NEVER), (2, Savepoint)], 1, (9, Savepoint), &[1, 9]),
        (&[(1, NEVER), (2, NEVER)], 1, (9, SynchronousSavepoint), &[9]),
        (&[(1, Savepoint), (2, Unclaimed)], 1, (9, Unclaimed), &[9]),
        (&[(1, NEVER), (2, Unclaimed), (3, NEVER)], 2, (9, Savepoint), &[3, 9]),
    ];
    for (before, num_retained, (last, kind), after) in rows {
        let mut world = World::new(*num_retained);
        before.iter().for_each(|(number, kind)| world.recover(*number, *kind));
        if kind.is_savepoint() {
            world.start_from(*last, *kind);
        } else {
            world.add(*last, *kind);
        }
        assert_eq!(world.retained(), *after, "{before:?}, then {kind:?}");
    }
}

#[test]
fn s6_a_savepoint_that_stops_the_job_and_then_another_one_leave_no_checkpoint_behind() {
    let mut world = World::new(1);
    world.recover(1, NEVER);
    world.start_from(9, SynchronousSavepoint);
    world.start_from(10, Savepoint);
    assert_eq!(world.retained(), [10]);
    world.add(11, NEVER);
    assert_eq!((world.retained(), world.on_disk()), (vec![11], vec![9, 10, 11]));
}

#[test]
fn s7_a_savepoint_that_is_restored_counts_and_its_files_stay() {
    let mut world = World::new(1);
    world.add(1, NEVER);
    assert_eq!(world.start_from(2, Savepoint), []);
    assert_eq!(world.retained(), [1, 2], "the newest checkpoint stays");
    assert_eq!(world.add(3, NEVER), [remains(3), discard(1)]);
    assert_eq!((world.retained(), world.on_disk()), ([3].to_vec(), [2, 3].to_vec()));
}

#[test]
fn s8_a_subsumed_checkpoint_waits_while_a_newer_one_is_not_the_oldest_retained() {
    let mut world = World::new(1);
    world.recover(5, NEVER);
    world.recover(3, NEVER);
    // The one with the larger id came first and leaves first; files of 3 may be used by both.
    assert_eq!(world.add(4, NEVER), [subsumed(5), remains(4), discard(3)]);
    assert_eq!(world.on_disk(), [4, 5]);
    assert_eq!(world.add(6, NEVER), [subsumed(4), remains(6), discard(5), discard(4)]);
}

#[test]
fn s9_discards_count_until_they_are_reported() {
    let mut world = World::new(1);
    world.is_slow = true;
    (1..=3).for_each(|number| drop(world.add(number, NEVER)));
    assert_eq!(world.store.cleaning_count(), 2);
    world.discarded(2);
    world.send(RetainedEvent::DiscardEnded { id: id(1), manifest_gone: false });
    assert_eq!(world.store.cleaning_count(), 0, "failed or not");
}

#[test]
fn s10_the_end_of_a_job_discards_by_policy() {
    for (status, kind, left) in [
        (Finished, NEVER, vec![]),
        (Canceled, ON_CANCELLATION, vec![1, 2]),
        (Finished, ON_CANCELLATION, vec![]),
        (Failed, ON_FAILURE, vec![1, 2]),
        (Canceled, ON_FAILURE, vec![]),
        (Suspended, NEVER, vec![1, 2]),
    ] {
        let mut world = World::new(2);
        world.upload(1, 10);
        world.add(1, kind);
        world.upload(2, 20);
        world.add(2, kind);
        world.upload(3, 30);
        world.abort(3);
        let actions = world.send(RetainedEvent::ShutDown(status));
        assert_eq!(world.on_disk(), left, "{status:?} {kind:?}");
        let files = match (status, left.is_empty()) {
            (Suspended, _) => vec![10, 20, 30],
            (_, true) => vec![],
            // Flink keeps what is newer than the oldest kept one; no kept one can use it.
            (_, false) => vec![10, 20],
        };
        assert_eq!(world.files(), files, "{status:?} {kind:?}: {actions:?}");
        assert_eq!(world.send(RetainedEvent::ShutDown(Finished)), [], "once");
        let late = world.reference(4, 40, Some(40), Ownership::Own);
        assert_eq!(late, Err(Rejected::Unexpected { what: "the job has ended" }));
    }
}

#[test]
fn s10_a_subsumed_checkpoint_with_a_file_that_a_kept_one_uses_is_left_in_place() {
    for (kind, left) in [(ON_CANCELLATION, vec![5, 6]), (NEVER, vec![])] {
        let mut world = World::new(1);
        world.reference(5, 50, Some(50), Ownership::InsideCheckpoint).unwrap();
        world.start_from(5, kind);
        world.reuse(6, 50);
        assert_eq!(world.add(6, kind), [subsumed(5), remains(6)]);
        world.send(RetainedEvent::ShutDown(Canceled));
        assert_eq!(world.on_disk(), left);
        assert_eq!(world.files.contains(&50), !left.is_empty());
    }
}

#[test]
fn s10_a_manifest_that_is_being_written_when_the_job_ends_keeps_its_files() {
    let mut world = World::new(1);
    world.upload(1, 10);
    world.add(1, NEVER);
    world.upload(2, 20);
    world.send(RetainedEvent::AllAcknowledged(id(2)));
    world.send(RetainedEvent::ShutDown(Failed));
    assert_eq!((world.on_disk(), world.files()), (vec![], vec![20]));
}

#[test]
fn s12_more_recovered_checkpoints_than_are_retained_go_at_the_next_addition() {
    let mut world = World::new(2);
    (1..=4).for_each(|number| world.recover(number, NEVER));
    assert_eq!(world.retained(), [1, 2, 3, 4]);
    assert_eq!(world.add(5, NEVER), [subsumed(3), remains(4), discard(1), discard(2), discard(3)]);
    assert_eq!(world.retained(), [4, 5]);
}

#[test]
fn s14_a_file_remembers_its_first_and_last_use_and_no_count() {
    let mut world = World::new(1);
    world.upload(1, 10);
    for _again in 0..3 {
        world.reuse(1, 10);
    }
    world.add(1, NEVER);
    world.reuse(3, 10);
    assert_eq!(world.add(2, NEVER), [subsumed(1), remains(2), discard(1)], "3 may complete");
    assert_eq!(world.add(3, NEVER), [subsumed(2), remains(3), discard(2)]);
    assert_eq!(world.add(4, NEVER), [subsumed(3), remains(4), discard(3), delete(10)]);
}

#[test]
fn s14_news_out_of_order_widen_the_time_of_use() {
    let mut world = World::new(1);
    world.upload(3, 10);
    world.reuse(2, 10);
    world.add(2, ON_CANCELLATION);
    world.abort(3);
    world.send(RetainedEvent::ShutDown(Canceled));
    assert_eq!((world.on_disk(), world.files()), (vec![2], vec![10]));
}

#[test]
fn s15_attempts_that_write_the_same_have_keys_of_their_own() {
    let mut world = World::new(1);
    for attempt in [1, 2] {
        world.upload(attempt, 100 + attempt);
    }
    assert_eq!((world.reuse(2, 102), world.files()), (102, vec![101, 102]));
    world.abort(1);
    world.add(2, NEVER);
    assert_eq!(world.files(), [102]);
}

#[test]
fn s16_a_reference_finds_makes_or_replaces_its_file() {
    let mut world = World::new(2);
    world.upload(1, 10);
    assert_eq!(world.reuse(1, 10), 10, "a placeholder");
    world.upload(1, 10);
    // Unconfirmed: the new file takes the key over, the old one stays for whoever may complete with it.
    assert_eq!(world.reference(2, 10, Some(11), Ownership::Own), Ok(11));
    assert_eq!((world.reuse(3, 10), world.files()), (11, vec![10, 11]));
    assert_eq!(world.reference(1, 10, Some(10), Ownership::Own), Ok(10), "an older one, once more");
    // Confirmed: the old file stays, the new one goes at once.
    world.abort(3);
    world.add(1, NEVER);
    world.add(2, NEVER);
    assert_eq!(world.reuse(3, 10), 11);
    world.send(RetainedEvent::AllAcknowledged(id(3)));
    assert_eq!(world.reference(4, 10, Some(12), Ownership::Own), Ok(11));
    assert_eq!((world.deleted.as_slice(), world.files()), ([12].as_slice(), vec![10, 11]));
}

#[test]
fn s16_late_news_of_an_older_checkpoint_does_not_take_the_key() {
    let mut world = World::new(1);
    assert_eq!(world.reference(2, 10, Some(12), Ownership::Own), Ok(12));
    assert_eq!(world.reference(1, 10, Some(11), Ownership::Own), Ok(11));
    world.abort(1);
    world.add(2, NEVER);
    assert_eq!((world.reuse(3, 10), world.deleted.as_slice()), (12, [11].as_slice()));
}

#[test]
fn s16_references_that_do_not_fit_are_refused() {
    let mut world = World::new(1);
    (0..32).for_each(|file| world.upload(1, file));
    let full = Rejected::OutOfRange { what: "number of shared files", value: 32, limit: 32 };
    assert_eq!(world.reference(1, 32, Some(32), Ownership::Own), Err(full));
    assert_eq!(world.reference(1, 31, Some(32), Ownership::Own), Err(full));
    assert_eq!(world.reuse(1, 31), 31);
}

#[test]
fn s17_v16_files_last_used_before_the_oldest_retained_checkpoint_go() {
    let mut world = World::new(2);
    world.upload(1, 10);
    world.upload(1, 11);
    world.upload(1, 12);
    world.add(1, NEVER);
    world.reuse(2, 11);
    world.reuse(2, 12);
    world.add(2, NEVER);
    world.reuse(3, 12);
    world.add(3, NEVER);
    assert_eq!(world.deleted, [10]);
    world.add(4, NEVER);
    assert_eq!(world.deleted, [10, 11]);
    world.add(5, NEVER);
    assert_eq!(world.deleted, [10, 11, 12]);
}

#[test]
fn s17_more_deletions_than_one_event_orders_follow_at_once() {
    let mut world = World::new(1);
    (0..30).for_each(|file| world.upload(1, file));
    world.add(1, NEVER);
    world.is_slow = true;
    world.add(2, NEVER);
    assert_eq!(world.discarded(1).len(), Store::ACTIONS_MAX);
    assert_eq!(world.store.next_deadline(world.now()), Some(Millis(0)));
    let more = world.try_send(RetainedEvent::DeadlineReached).unwrap();
    assert_eq!(more.len(), Store::ACTIONS_MAX);
}

#[test]
fn s18_a_file_that_no_acknowledgement_named_is_the_tasks_business() {
    let mut world = World::new(1);
    world.files.insert(10); // Written, never acknowledged.
    world.add(1, NEVER);
    world.add(2, NEVER);
    assert_eq!(world.send(RetainedEvent::ShutDown(Finished)), [discard(2)]);
    assert_eq!(world.files(), [10]);
}

#[test]
fn s19_files_of_an_aborted_checkpoint_stay_until_a_later_one_completes() {
    let mut world = World::new(1);
    world.add(1, NEVER);
    world.upload(2, 20);
    world.abort(2);
    assert_eq!(world.files(), [20]);
    world.add(3, NEVER);
    assert_eq!(world.deleted, [20]);
}

#[test]
fn s20_v18_a_checkpoint_with_files_inside_waits_for_them() {
    let mut world = World::new(1);
    world.reference(5, 50, Some(50), Ownership::InsideCheckpoint).unwrap();
    world.start_from(5, NEVER);
    for number in [6, 7] {
        world.reuse(number, 50);
        world.add(number, NEVER);
    }
    assert_eq!(world.on_disk(), [5, 7]);
    assert_eq!(world.add(8, NEVER), [subsumed(7), remains(8), discard(7), discard(5)]);
    assert!(world.files().is_empty(), "it went with its folder");
}

#[test]
fn s20_a_folder_stays_if_a_manifest_that_could_not_be_removed_may_list_a_file_in_it() {
    for uses_it_still in [true, false] {
        let mut world = World::new(1);
        world.is_slow = true;
        world.reference(5, 50, Some(50), Ownership::InsideCheckpoint).unwrap();
        world.start_from(5, NEVER);
        world.reuse(6, 50);
        world.add(6, NEVER);
        if uses_it_still {
            world.reuse(7, 50);
        }
        assert_eq!(world.add(7, NEVER), [subsumed(6), remains(7), discard(6)]);
        assert_eq!(world.send(RetainedEvent::DiscardEnded { id: id(6), manifest_gone: false }), []);
        assert_eq!(world.add(8, NEVER), [subsumed(7), remains(8), discard(7)]);
        assert_eq!((world.discarded(7), world.files()), (vec![], vec![50]));
    }
}

#[test]
fn s20_a_file_inside_a_kept_snapshot_stays_with_it() {
    let mut world = World::new(1);
    world.reference(5, 50, Some(50), Ownership::InsideCheckpoint).unwrap();
    world.start_from(5, Savepoint);
    world.reuse(6, 50);
    world.add(6, NEVER);
    world.add(7, NEVER);
    assert_eq!((world.on_disk(), world.files()), (vec![5, 7], vec![50]));
}

#[test]
fn s21_all_acknowledgements_confirm_what_the_checkpoint_used_last() {
    let mut world = World::new(1);
    world.upload(1, 10);
    world.upload(1, 11);
    world.reuse(2, 11);
    world.send(RetainedEvent::AllAcknowledged(id(1)));
    assert_eq!(world.reference(3, 10, Some(12), Ownership::Own), Ok(10), "confirmed");
    assert_eq!(world.reference(3, 11, Some(13), Ownership::Own), Ok(13), "not yet");
}

#[test]
fn s22_what_was_not_claimed_is_never_deleted() {
    for (kind, deleted) in [(Unclaimed, vec![]), (NEVER, vec![50, 51])] {
        let mut world = World::new(1);
        world.upload(5, 50);
        world.upload(5, 51);
        world.start_from(5, kind);
        world.upload(6, 60);
        world.reuse(6, 51);
        world.add(6, NEVER);
        world.add(7, NEVER);
        world.send(RetainedEvent::ShutDown(Finished));
        world.deleted.retain(|file| *file != 60);
        assert_eq!(world.deleted, deleted);
        assert_eq!(world.on_disk(), if deleted.is_empty() { vec![5] } else { vec![] });
    }
}

#[test]
fn s22_files_of_somebody_else_are_never_deleted_whoever_refers_to_them() {
    let mut world = World::new(1);
    world.reference(1, 10, Some(10), Ownership::Foreign).unwrap();
    world.upload(1, 10);
    world.upload(1, 20);
    world.reference(1, 20, Some(20), Ownership::Foreign).unwrap();
    world.add(1, NEVER);
    assert_eq!(world.reference(2, 10, Some(11), Ownership::Foreign), Ok(10));
    world.add(2, NEVER);
    world.add(3, NEVER);
    assert_eq!((world.deleted.as_slice(), world.files()), ([].as_slice(), vec![10, 11, 20]));
}

#[test]
fn s23_incremental_checkpoints_in_a_row() {
    let mut world = World::new(1);
    world.upload(1, 10);
    world.add(1, NEVER);
    world.reuse(2, 10);
    world.upload(2, 20);
    assert_eq!(world.add(2, NEVER), [subsumed(1), remains(2), discard(1)]);
    world.reuse(3, 20);
    assert_eq!(world.add(3, NEVER), [subsumed(2), remains(3), discard(2), delete(10)]);
    assert_eq!(world.files(), [20]);
}

#[test]
fn s24_a_file_that_is_uploaded_again_for_want_of_a_confirmation_goes() {
    let mut world = World::new(1);
    world.upload(1, 10);
    world.add(1, NEVER);
    assert_eq!(world.reference(2, 10, Some(99), Ownership::Own), Ok(10));
    assert_eq!(world.deleted, [99]);
    world.add(2, NEVER);
    assert_eq!(world.files(), [10]);
}

#[test]
fn an_unreadable_manifest_stops_all_deletion() {
    let mut world = World::new(1);
    world.upload(1, 10);
    world.recover(1, NEVER);
    world.send(RetainedEvent::UnreadableManifestFound);
    assert_eq!(world.add(2, NEVER), [subsumed(1)]);
    assert_eq!(world.send(RetainedEvent::ShutDown(Finished)), []);
    assert_eq!((world.on_disk(), world.files()), (vec![1, 2], vec![10]));
}

#[test]
fn a_report_of_a_discard_that_nobody_ordered_changes_nothing() {
    let mut world = World::new(2);
    world.upload(1, 10);
    world.add(1, NEVER);
    for manifest_gone in [true, false] {
        assert_eq!(world.send(RetainedEvent::DiscardEnded { id: id(1), manifest_gone }), []);
    }
    assert_eq!(world.retained(), [1]);
    world.add(2, NEVER);
    world.add(3, NEVER);
    assert_eq!(world.deleted, [10], "it is still ours");
}
