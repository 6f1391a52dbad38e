//! Which checkpoint a job goes on from.

use super::super::recovery::{Recovery, RecoveryAction, RecoveryEvent, Verdict};
use super::*;
use RecoveryAction::{NoteRemains, PassOver, ReadManifest, Restore, Retain, StopDeleting, Verify};
use Verdict::{Damaged, Incomplete, Sound, Unreadable};

fn send(recovery: &mut Recovery, event: RecoveryEvent) -> Result<Vec<RecoveryAction>, Rejected> {
    let mut out = heapless::Vec::<_, { Recovery::ACTIONS_MAX }>::new();
    recovery.on_event(Now::default(), event, &mut out)?;
    recovery.check();
    Ok(out.into_iter().collect())
}

/// Looks through folders, newest first; the answers to the verdicts.
fn look(folders: &[(u64, Verdict)]) -> (Recovery, Vec<RecoveryAction>) {
    let (mut recovery, mut actions) = (Recovery::new(), Vec::new());
    for (number, verdict) in folders {
        let depth = send(&mut recovery, RecoveryEvent::FolderFound(id(*number))).unwrap();
        let wanted =
            if recovery.chosen().is_none() { Verify(id(*number)) } else { ReadManifest(id(*number)) };
        assert_eq!(depth, [wanted]);
        actions.extend(send(&mut recovery, RecoveryEvent::Examined(*verdict)).unwrap());
    }
    (recovery, actions)
}

#[test]
fn s11_the_newest_that_verifies_is_restored_and_newer_ones_are_named() {
    let (recovery, actions) = look(&[(7, Damaged), (5, Incomplete), (4, Sound), (2, Sound), (1, Incomplete)]);
    assert_eq!(
        actions,
        [PassOver(id(7), Damaged), NoteRemains(id(5)), Restore(id(4)), Retain(id(2)), NoteRemains(id(1))]
    );
    assert_eq!((recovery.chosen(), recovery.next_id()), (Some(id(4)), id(8)));
    assert!(recovery.may_delete());
}

#[test]
fn s11_a_manifest_that_cannot_be_read_stops_all_deletion_wherever_it_lies() {
    let (recovery, actions) = look(&[(3, Unreadable), (2, Sound)]);
    assert_eq!(actions, [PassOver(id(3), Unreadable), StopDeleting, Restore(id(2))]);
    assert!(!recovery.may_delete());
    let (recovery, actions) = look(&[(3, Sound), (2, Unreadable), (1, Sound)]);
    assert_eq!(actions, [Restore(id(3)), StopDeleting, Retain(id(1))]);
    assert!(!recovery.may_delete());
}

#[test]
fn v13_v15_nothing_is_restored_but_what_was_verified() {
    for verdicts in [[Sound, Sound], [Damaged, Sound], [Unreadable, Sound], [Incomplete, Sound]] {
        let mut recovery = Recovery::new();
        for (number, verdict) in [4, 3].into_iter().zip(verdicts) {
            let depth = send(&mut recovery, RecoveryEvent::FolderFound(id(number))).unwrap();
            let answer = send(&mut recovery, RecoveryEvent::Examined(verdict)).unwrap();
            if answer.contains(&Restore(id(number))) {
                assert_eq!((depth.as_slice(), verdict), ([Verify(id(number))].as_slice(), Sound));
            }
        }
        assert!(recovery.chosen().is_some());
    }
}

#[test]
fn s11_events_out_of_order_are_refused() {
    let mut recovery = Recovery::new();
    let refused = |what| Err(Rejected::Unexpected { what });
    let examined = RecoveryEvent::Examined(Sound);
    assert_eq!(send(&mut recovery, examined), refused("no folder is being examined"));
    send(&mut recovery, RecoveryEvent::FolderFound(id(9))).unwrap();
    let next = RecoveryEvent::FolderFound(id(8));
    assert_eq!(send(&mut recovery, next), refused("the last folder has not been examined"));
    send(&mut recovery, examined).unwrap();
    for number in [9, 10, 100] {
        let found = send(&mut recovery, RecoveryEvent::FolderFound(id(number)));
        assert_eq!(found, refused("folders must come by number, newest first"));
    }
    assert_eq!((recovery.chosen(), recovery.next_id()), (Some(id(9)), id(10)));
}

#[test]
fn s13_where_nothing_was_kept_a_job_starts_from_nothing() {
    let (recovery, actions) = look(&[]);
    assert_eq!((recovery.chosen(), recovery.next_id(), actions), (None, CheckpointId::FIRST, vec![]));
}

/// 9, 10 and 100 are there, and 100 and then 10 are damaged.
#[test]
fn g01_damaged_checkpoints_are_passed_over_by_number() {
    let chosen = |verdicts: [Verdict; 3]| {
        let (recovery, actions) = look(&[(100, verdicts[0]), (10, verdicts[1]), (9, verdicts[2])]);
        let passed = actions.iter().filter(|action| matches!(action, PassOver(..))).count();
        (recovery.chosen().map(|id| id.0), passed)
    };
    assert_eq!(chosen([Sound, Sound, Sound]), (Some(100), 0));
    assert_eq!(chosen([Unreadable, Sound, Sound]), (Some(10), 1));
    assert_eq!(chosen([Damaged, Sound, Sound]), (Some(10), 1));
    assert_eq!(chosen([Damaged, Unreadable, Sound]), (Some(9), 2));
    assert_eq!(chosen([Damaged, Damaged, Damaged]), (None, 3));
}

/// 7 is complete, 8 was cut off, 9 was declined: the next one is none of them.
#[test]
fn g03_ids_go_on_above_what_a_failed_attempt_left_behind() {
    let (recovery, actions) = look(&[(9, Incomplete), (8, Incomplete), (7, Sound)]);
    assert_eq!(actions, [NoteRemains(id(9)), NoteRemains(id(8)), Restore(id(7))]);
    assert_eq!(recovery.next_id(), id(10));
}

/// Files of some tasks, or of all, without a manifest are no checkpoint.
#[test]
fn g04_a_first_checkpoint_without_a_manifest_is_none() {
    let (recovery, actions) = look(&[(1, Incomplete)]);
    assert_eq!((recovery.chosen(), actions), (None, vec![NoteRemains(id(1))]));
    assert_eq!(recovery.next_id(), id(2));
}
