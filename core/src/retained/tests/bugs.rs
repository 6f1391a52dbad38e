//! Public bug reports about shared files and the store.

use super::*;

/// A delete that was queued before a restart does not touch what the new registry counts on.
#[test]
fn f01_a_discard_from_before_a_restart_leaves_the_new_registry_alone() {
    let mut before = World::new(1);
    before.is_slow = true;
    before.upload(1, 1);
    before.upload(1, 2);
    before.add(1, NEVER);
    before.reuse(2, 2);
    before.upload(2, 3);
    assert!(before.add(2, NEVER).contains(&discard(1)));

    let mut after = World { files: before.files.clone(), ..World::new(1) };
    after.upload(2, 2);
    after.upload(2, 3);
    after.recover(2, NEVER);
    // The queued discard runs now, and is reported to both.
    assert_eq!(before.discarded(1), [delete(1)]);
    assert_eq!(after.send(RetainedEvent::DiscardEnded { id: id(1), manifest_gone: true }), []);
    after.files.remove(&1);
    assert_eq!(after.files(), [2, 3]);
    after.add(3, NEVER);
    assert_eq!(after.deleted, [2, 3], "each once");
}

/// Two checkpoints under way upload the same file.
#[test]
fn f02_each_checkpoint_keeps_the_file_it_refers_to_and_each_upload_goes_once() {
    // In which order they are acknowledged and complete.
    #[derive(Clone, Copy, PartialEq)]
    enum Step {
        Acknowledge(u64),
        Complete(u64),
    }
    use Step::{Acknowledge, Complete};
    // And which uploads are there in the end.
    let rows = [
        ([Acknowledge(1), Complete(1), Acknowledge(2), Complete(2)].as_slice(), vec![101], vec![101]),
        (&[Acknowledge(1), Acknowledge(2), Complete(1), Complete(2)], vec![101, 102], vec![102]),
        (&[Acknowledge(2), Acknowledge(1), Complete(1), Complete(2)], vec![101, 102], vec![102]),
        (&[Acknowledge(1), Acknowledge(2), Complete(2)], vec![102], vec![102]),
        (&[Acknowledge(2), Complete(2)], vec![102], vec![102]),
    ];
    for (steps, both, second) in rows {
        let mut world = World::new(2);
        for step in steps {
            match step {
                Acknowledge(number) => drop(world.reference(*number, 7, Some(100 + number), Ownership::Own)),
                Complete(number) => {
                    if *number == 2 {
                        world.abort(1); // Or it is complete.
                    }
                    world.add(*number, NEVER);
                    assert!(world.manifests[number].is_subset(&world.files), "{number} can be restored");
                }
            }
        }
        assert_eq!(world.files(), both);
        world.add(3, NEVER);
        assert_eq!(world.files(), if steps.contains(&Complete(1)) { second } else { both });
        world.add(4, NEVER);
        assert_eq!(world.files(), [], "each went once");
    }
}

/// A job deletes no file that it has only inherited, not even after a restart.
#[test]
fn f03_inherited_files_outlive_the_job() {
    let mut world = World::new(1);
    world.upload(5, 1);
    world.upload(5, 2);
    world.start_from(5, CheckpointKind::Unclaimed);
    world.reuse(6, 1);
    world.upload(6, 3);
    world.add(6, NEVER);
    world.reuse(7, 3);
    world.add(7, NEVER);
    assert_eq!((world.on_disk(), world.deleted.as_slice()), (vec![5, 7], [].as_slice()));

    let (files, manifests) = (world.files, world.manifests);
    let mut world = World { files, manifests, ..World::new(1) };
    world.upload(7, 3);
    world.recover(7, NEVER);
    world.upload(8, 4);
    world.add(8, NEVER);
    assert_eq!((world.on_disk(), world.files()), (vec![5, 8], vec![1, 2, 4]));
    assert_eq!(world.deleted, [3]);
}

/// The same, restarted while a checkpoint that uses the inherited file is retained: its file lies elsewhere.
#[test]
fn f03_a_file_elsewhere_stays_foreign_after_a_restart() {
    let mut world = World::new(1);
    world.reference(6, 1, Some(1), Ownership::Foreign).unwrap();
    world.upload(6, 3);
    world.recover(6, NEVER);
    world.add(7, NEVER);
    assert_eq!((world.deleted.as_slice(), world.files()), ([3].as_slice(), vec![1]));
}

/// The clean-up of a snapshot that failed leaves alone what it only reused.
#[test]
fn f04_a_failed_snapshot_takes_only_its_own_files_along() {
    let mut world = World::new(1);
    world.upload(1, 1);
    world.add(1, NEVER);
    let base = IncrementalBase::restored(id(1), NEVER);
    // Another operator's part of 2 was acknowledged: it reuses 1 and has uploaded 2.
    world.reuse(2, 1);
    world.upload(2, 2);
    world.abort(2);
    assert_eq!(base.base_of(SnapshotKind::Checkpoint), Some(id(1)), "1 is still what is built on");
    assert!(world.files.contains(&1));
    world.reuse(3, 1);
    world.add(3, NEVER);
    assert_eq!((world.files(), world.deleted.as_slice()), (vec![1], [2].as_slice()));
}

/// The old checkpoint cannot be deleted: the new one is complete all the same.
#[test]
fn c05_a_discard_that_fails_leaves_the_new_checkpoint_alone() {
    let mut world = World::new(1);
    world.is_slow = true;
    world.upload(1, 1);
    world.add(1, NEVER);
    world.reuse(2, 1);
    assert_eq!(world.add(2, NEVER), [subsumed(1), remains(2), discard(1)]);
    assert_eq!(world.send(RetainedEvent::DiscardEnded { id: id(1), manifest_gone: false }), []);
    assert_eq!(world.store.latest(), Some((id(2), NEVER)));
    assert_eq!(world.files(), [1]);
    assert_eq!(world.add(3, NEVER), [subsumed(2), remains(3), discard(2)]);
}
