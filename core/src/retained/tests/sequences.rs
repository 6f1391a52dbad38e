//! Worked sequences.

use super::*;

#[test]
fn z1_the_oldest_goes_and_is_reported() {
    let mut world = World::new(2);
    world.add(1, NEVER);
    world.add(2, NEVER);
    assert_eq!(world.retained(), [1, 2]);
    assert_eq!(world.add(3, NEVER), [subsumed(1), remains(2), discard(1)]);
    assert_eq!(world.retained(), [2, 3]);
}

#[test]
fn z2_what_is_not_owned_leaves_without_a_word() {
    let mut world = World::new(2);
    world.start_from(1, CheckpointKind::Unclaimed);
    world.add(2, NEVER);
    assert_eq!(world.add(3, NEVER), [remains(2)]);
    assert_eq!((world.retained(), world.on_disk()), (vec![2, 3], vec![1, 2, 3]));
}

#[test]
fn z3_a_claimed_savepoint_waits_for_the_file_inside_it() {
    let mut world = World::new(1);
    world.reference(5, 50, Some(50), Ownership::InsideCheckpoint).unwrap();
    world.start_from(5, ClaimMode::Claim.kind_of_restored(RetentionPolicy::NeverRetain));
    world.reuse(6, 50);
    assert_eq!(world.add(6, NEVER), [subsumed(5), remains(6)], "50 is in use");
    assert_eq!(world.add(7, NEVER), [subsumed(6), remains(7), discard(6), discard(5)]);
    assert!(world.files().is_empty());
}

#[test]
fn z4_v17_a_file_of_an_aborted_checkpoint_is_used_or_goes() {
    for uses_it in [true, false] {
        let mut world = World::new(1);
        world.upload(1, 10);
        world.add(1, NEVER);
        world.upload(2, 20);
        world.abort(2);
        world.reuse(3, 10);
        if uses_it {
            world.reuse(3, 20);
        }
        world.add(3, NEVER);
        assert_eq!(world.files.contains(&20), uses_it);
    }
}

#[test]
fn z5_a_late_acknowledgement_registers_its_file() {
    for uses_it in [true, false] {
        let mut world = World::new(1);
        world.add(1, NEVER);
        world.upload(2, 20); // After 2 was aborted.
        world.abort(2);
        if uses_it {
            assert_eq!(world.reuse(3, 20), 20);
        }
        world.add(3, NEVER);
        assert_eq!(world.files.contains(&20), uses_it);
    }
}

#[test]
fn z6_a_placeholder_for_what_was_never_registered_is_refused() {
    let mut world = World::new(1);
    world.upload(1, 10);
    let refused = Rejected::Unexpected { what: "a placeholder for a file that was never registered" };
    assert_eq!(world.reference(1, 11, None, Ownership::Own), Err(refused));
    world.add(1, NEVER);
    world.add(2, NEVER);
    assert_eq!(world.reference(3, 10, None, Ownership::Own), Err(refused), "it is gone");
}

#[test]
fn z7_a_canceled_job_leaves_what_its_policy_keeps() {
    for (kind, manifests, files) in [(ON_CANCELLATION, vec![2, 3], vec![20, 30]), (NEVER, vec![], vec![])] {
        let mut world = World::new(2);
        for number in 1..=3 {
            world.upload(number, number * 10);
            world.add(number, kind);
        }
        world.send(RetainedEvent::ShutDown(JobStatus::Canceled));
        assert_eq!((world.on_disk(), world.files()), (manifests, files));
    }
}

#[test]
fn z8_a_suspended_job_is_found_as_it_was() {
    let mut world = World::new(2);
    for number in 1..=3 {
        world.upload(number, number * 10);
        world.add(number, NEVER);
    }
    let retained = world.retained();
    assert_eq!(world.send(RetainedEvent::ShutDown(JobStatus::Suspended)), []);
    assert_eq!((world.on_disk(), world.files()), (vec![2, 3], vec![20, 30]));

    let mut again = World { files: world.files, ..World::new(2) };
    for (number, files) in world.manifests {
        files.iter().for_each(|file| again.upload(number, *file));
        again.recover(number, NEVER);
    }
    assert_eq!(again.retained(), retained);
    assert_eq!(again.add(4, NEVER), [subsumed(2), remains(3), discard(2), delete(20)]);
}
