//! Each rule of a sink's transactions as a table of events and the actions they give.

use std::collections::{BTreeMap, BTreeSet};
use std::format;
use std::vec::Vec;

use super::{TransactionToken, Transactions, TwoPhase, TwoPhaseAction, TwoPhaseEvent, TwoPhaseOptions};
use crate::ids::CheckpointId;
use crate::machine::Rejected;
use crate::time::{Millis, Now};

use TwoPhaseAction::{
    Abort, AbortLingering, Begin, FailTask, RecoverAndAbort, RecoverAndCommit, ReportLoss, WarnOfTimeout,
};
use TwoPhaseEvent::{Closed, Finished, Opened, PreCommitFailed, RecoverFailed, Recovered};

type Machine = TwoPhase<3>;
type Table<'a> = &'a [(TwoPhaseEvent, &'a [TwoPhaseAction])];

fn send(machine: &mut Machine, wall: u64, event: TwoPhaseEvent) -> Result<Vec<TwoPhaseAction>, Rejected> {
    let mut out = heapless::Vec::<_, { Machine::ACTIONS_MAX }>::new();
    let now = Now { monotonic: Millis(0), wall: Millis(wall) };
    machine.on_event(now, event, &mut out)?;
    machine.check();
    Ok(out.into_iter().collect())
}

fn go_on(machine: &mut Machine, table: Table<'_>) {
    for (row, (event, actions)) in table.iter().enumerate() {
        assert_eq!(send(machine, 0, *event).as_deref(), Ok(*actions), "row {row}: {event:?}");
    }
}

fn opened() -> Machine {
    let mut machine = Machine::new(TwoPhaseOptions::default());
    go_on(&mut machine, &[(Opened, &[AbortLingering, begin(0)])]);
    machine
}

fn run(table: Table<'_>) -> Machine {
    let mut machine = opened();
    go_on(&mut machine, table);
    machine
}

const fn token(number: u64) -> TransactionToken {
    TransactionToken(number)
}

const fn begin(number: u64) -> TwoPhaseAction {
    Begin(token(number))
}

const fn range(first: u64, last: u64) -> Transactions {
    Transactions { first: token(first), last: token(last) }
}

const fn snapshot(id: u64) -> TwoPhaseEvent {
    TwoPhaseEvent::SnapshotRequested(CheckpointId(id))
}

const fn durable(number: u64) -> TwoPhaseEvent {
    TwoPhaseEvent::PreCommitted(token(number))
}

const fn complete(id: u64) -> TwoPhaseEvent {
    TwoPhaseEvent::CompleteNotified(CheckpointId(id))
}

const fn abort(id: u64) -> TwoPhaseEvent {
    TwoPhaseEvent::AbortNotified(CheckpointId(id))
}

const fn pre_commit(number: u64, id: u64) -> TwoPhaseAction {
    TwoPhaseAction::PreCommit { token: token(number), id: CheckpointId(id) }
}

const fn commit(number: u64) -> TwoPhaseAction {
    TwoPhaseAction::Commit(range(number, number))
}

const fn committed(number: u64) -> TwoPhaseEvent {
    TwoPhaseEvent::Committed(range(number, number))
}

const fn failed(number: u64) -> TwoPhaseEvent {
    TwoPhaseEvent::CommitFailed(range(number, number))
}

const fn restored(number: u64) -> TwoPhaseEvent {
    TwoPhaseEvent::PendingRestored { token: token(number), begun_at: Millis(100) }
}

const fn was_current(number: u64) -> TwoPhaseEvent {
    TwoPhaseEvent::CurrentRestored { token: token(number) }
}

/// Checkpoints and first and last transaction of what is pending.
fn pending(machine: &Machine) -> Vec<(u64, u64, u64)> {
    let row =
        |pending: &super::Pending| (pending.id.0, pending.transactions.first.0, pending.transactions.last.0);
    machine.pending().map(row).collect()
}

#[test]
fn c1_without_a_restore_a_transaction_begins_at_once() {
    let machine = Machine::new(TwoPhaseOptions::default());
    assert_eq!(machine.current(), None);
    let machine = opened();
    assert_eq!((machine.current(), machine.pending().count()), (Some(token(0)), 0));
}

#[test]
fn c2_c3_a_checkpoint_closes_the_current_transaction_and_begins_the_next() {
    let mut machine = opened();
    for id in 1..=3 {
        let number = id - 1;
        assert_eq!(machine.current(), Some(token(number)), "records go here");
        go_on(&mut machine, &[(snapshot(id), &[pre_commit(number, id), begin(id)])]);
        assert!(!machine.is_durable(CheckpointId(id)));
        go_on(&mut machine, &[(durable(number), &[])]);
        assert!(machine.is_durable(CheckpointId(id)));
    }
    assert_eq!(pending(&machine), [(1, 0, 0), (2, 1, 1), (3, 2, 2)]);
}

#[test]
fn c3_nothing_begins_after_the_end_of_input() {
    let mut machine = run(&[(Finished, &[]), (snapshot(1), &[pre_commit(0, 1)]), (durable(0), &[])]);
    assert_eq!(machine.current(), None);
    go_on(
        &mut machine,
        &[(snapshot(2), &[]), (complete(2), &[commit(0)]), (committed(0), &[]), (Closed, &[])],
    );
}

#[test]
fn c4_a_completion_commits_everything_up_to_it_in_order_and_one_at_a_time() {
    let machine = run(&[
        (snapshot(1), &[pre_commit(0, 1), begin(1)]),
        (durable(0), &[]),
        (snapshot(2), &[pre_commit(1, 2), begin(2)]),
        (durable(1), &[]),
        (snapshot(3), &[pre_commit(2, 3), begin(3)]),
        (durable(2), &[]),
        (complete(2), &[commit(0)]),
        (complete(2), &[]),
        (committed(0), &[commit(1)]),
        (committed(1), &[]),
    ]);
    assert!(machine.is_committed(CheckpointId(2)) && !machine.is_committed(CheckpointId(3)));
    assert_eq!(pending(&machine), [(3, 2, 2)]);
}

#[test]
fn c4_a_lost_completion_is_made_up_for_by_the_next_even_during_a_commit() {
    run(&[
        (snapshot(1), &[pre_commit(0, 1), begin(1)]),
        (durable(0), &[]),
        (snapshot(2), &[pre_commit(1, 2), begin(2)]),
        (durable(1), &[]),
        (complete(1), &[commit(0)]),
        (complete(2), &[]),
        (committed(0), &[commit(1)]),
        (committed(1), &[]),
        (complete(1), &[]),
    ]);
}

#[test]
fn c4_a_failed_commit_is_taken_out_and_the_first_error_fails_the_task_after_the_others() {
    let table: Table<'_> = &[
        (snapshot(1), &[pre_commit(0, 1), begin(1)]),
        (durable(0), &[]),
        (snapshot(2), &[pre_commit(1, 2), begin(2)]),
        (durable(1), &[]),
        (snapshot(3), &[pre_commit(2, 3), begin(3)]),
        (durable(2), &[]),
        (complete(3), &[commit(0)]),
        (committed(0), &[commit(1)]),
        (failed(1), &[commit(2)]),
    ];
    for last in [committed(2), failed(2)] {
        let mut machine = run(table);
        assert_eq!(pending(&machine), [(3, 2, 2)], "the failed one is out");
        go_on(&mut machine, &[(last, &[FailTask(token(1))])]);
        assert_eq!(pending(&machine), []);
        assert!(matches!(send(&mut machine, 0, snapshot(4)), Err(Rejected::Unexpected { .. })));
    }
}

#[test]
fn c5_the_transaction_of_an_aborted_checkpoint_is_committed_with_a_later_one() {
    run(&[
        (snapshot(1), &[pre_commit(0, 1), begin(1)]),
        (abort(1), &[]),
        (durable(0), &[]),
        (snapshot(2), &[pre_commit(1, 2), begin(2)]),
        (durable(1), &[]),
        (complete(2), &[commit(0)]),
        (committed(0), &[commit(1)]),
    ]);
}

/// However many checkpoints fail in a row, the next one finds room, and its completion commits everything.
#[test]
fn c5_transactions_of_many_aborted_checkpoints_are_taken_together() {
    let mut machine = opened();
    for id in 1..=100 {
        let number = id - 1;
        assert!(machine.has_room());
        go_on(&mut machine, &[(snapshot(id), &[pre_commit(number, id), begin(id)])]);
        go_on(&mut machine, &[(durable(number), &[]), (abort(id), &[])]);
    }
    assert_eq!(pending(&machine), [(1, 0, 0), (2, 1, 1), (100, 2, 99)]);
    let all = range(2, 99);
    go_on(
        &mut machine,
        &[
            (complete(100), &[commit(0)]),
            (committed(0), &[commit(1)]),
            (committed(1), &[TwoPhaseAction::Commit(all)]),
            (TwoPhaseEvent::Committed(all), &[]),
        ],
    );
    assert!(all.contains(token(2)) && all.contains(token(99)) && !all.contains(token(100)));
    assert_eq!(pending(&machine), []);
}

/// Checkpoints 3 to 6 are under way at once and share the last place.
#[test]
fn c3_c5_a_checkpoint_waits_for_its_own_transactions_whatever_is_taken_together_with_them() {
    let mut machine = opened();
    for id in 1..=5 {
        go_on(&mut machine, &[(snapshot(id), &[pre_commit(id - 1, id), begin(id)])]);
    }
    assert_eq!(pending(&machine), [(1, 0, 0), (2, 1, 1), (5, 2, 4)]);
    let are_durable = |machine: &Machine| [2, 3, 4, 5, 6].map(|id| machine.is_durable(CheckpointId(id)));
    go_on(&mut machine, &[(durable(1), &[])]);
    assert_eq!(are_durable(&machine), [true, false, false, false, false]);
    // Which of those that are not durable closed what is not kept: the third waits for the fourth.
    go_on(&mut machine, &[(durable(3), &[])]);
    assert_eq!(are_durable(&machine), [true, true, true, false, false]);
    go_on(&mut machine, &[(snapshot(6), &[pre_commit(5, 6), begin(6)])]);
    assert_eq!(are_durable(&machine), [true, true, true, false, false], "what is durable stays so");
    go_on(&mut machine, &[(durable(4), &[])]);
    assert_eq!(are_durable(&machine), [true, true, true, true, false]);
    // Complete, but for what waits for the sixth.
    go_on(&mut machine, &[(complete(3), &[commit(0)]), (committed(0), &[commit(1)]), (committed(1), &[])]);
    assert!(machine.is_committed(CheckpointId(2)) && !machine.is_committed(CheckpointId(3)));
    assert!(matches!(send(&mut machine, 0, complete(6)), Err(Rejected::Unexpected { .. })));
    let all = range(2, 5);
    go_on(&mut machine, &[(durable(5), &[]), (complete(6), &[TwoPhaseAction::Commit(all)])]);
    go_on(&mut machine, &[(TwoPhaseEvent::Committed(all), &[])]);
    assert!(machine.is_committed(CheckpointId(6)));
}

#[test]
fn c5_what_is_being_committed_is_not_joined_by_a_later_transaction() {
    let mut machine = opened();
    for id in 1..=3 {
        go_on(&mut machine, &[(snapshot(id), &[pre_commit(id - 1, id), begin(id)]), (durable(id - 1), &[])]);
    }
    go_on(&mut machine, &[(complete(3), &[commit(0)])]);
    assert!(!machine.has_room());
    assert!(matches!(send(&mut machine, 0, snapshot(4)), Err(Rejected::Unexpected { .. })));
    go_on(&mut machine, &[(committed(0), &[commit(1)]), (snapshot(4), &[pre_commit(3, 4), begin(4)])]);
}

/// Two elements, as after a scale-in; each moves as a whole, so the numbers of both may be the same.
#[test]
fn c6_c10_a_restore_commits_what_is_pending_then_aborts_what_was_current_element_by_element() {
    let mut machine = Machine::new(TwoPhaseOptions::default());
    let element: Table<'_> = &[
        (restored(4), &[RecoverAndCommit(token(4))]),
        (Recovered(token(4)), &[]),
        (restored(5), &[RecoverAndCommit(token(5))]),
        (Recovered(token(5)), &[]),
        (was_current(6), &[RecoverAndAbort(token(6))]),
        (Recovered(token(6)), &[]),
    ];
    go_on(&mut machine, element);
    go_on(&mut machine, element);
    go_on(&mut machine, &[(Opened, &[AbortLingering, begin(0)])]);
    assert_eq!(pending(&machine), []);
}

#[test]
fn c6_transactions_are_recovered_one_at_a_time_and_before_the_first_one_begins() {
    let mut machine = Machine::new(TwoPhaseOptions::default());
    go_on(&mut machine, &[(restored(1), &[RecoverAndCommit(token(1))])]);
    for event in [
        restored(2),
        was_current(2),
        Opened,
        Recovered(token(2)),
        RecoverFailed(token(2)),
        snapshot(1),
        complete(1),
    ] {
        assert!(matches!(send(&mut machine, 0, event), Err(Rejected::Unexpected { .. })), "{event:?}");
    }
    let mut machine = opened();
    for event in [restored(2), was_current(2), Opened, Recovered(token(2)), RecoverFailed(token(2))] {
        assert!(matches!(send(&mut machine, 0, event), Err(Rejected::Unexpected { .. })), "{event:?}");
    }
}

/// A commit may be repeated; one that fails restarts the job, unless it is too old and that is allowed.
#[test]
fn c7_a_failed_recovery_fails_the_task_or_is_a_reported_loss_after_the_timeout() {
    let lost: &[_] = &[ReportLoss(token(1))];
    let failed: &[_] = &[FailTask(token(1))];
    let timeout = Some(Millis(50));
    for (ignores, timeout, wall, actions) in [
        (true, timeout, 151, lost),
        (true, timeout, 150, failed),
        (true, None, u64::MAX, failed),
        (false, timeout, 151, failed),
    ] {
        let options =
            TwoPhaseOptions { timeout, warn_percent: None, ignores_failures_after_timeout: ignores };
        let mut machine = Machine::new(options);
        go_on(&mut machine, &[(restored(1), &[RecoverAndCommit(token(1))])]);
        let answer = send(&mut machine, wall, RecoverFailed(token(1)));
        assert_eq!(answer.as_deref(), Ok(actions), "{options:?} at {wall}");
        let opened = send(&mut machine, wall, Opened);
        assert_eq!(opened.is_ok(), actions == lost);
        let mut machine = Machine::new(options);
        go_on(&mut machine, &[(was_current(1), &[RecoverAndAbort(token(1))])]);
        let answer = send(&mut machine, wall, RecoverFailed(token(1)));
        assert_eq!(answer.as_deref(), Ok(failed), "an abort that fails is never ignored");
    }
}

#[test]
fn c8_closing_aborts_the_current_transaction_and_leaves_pending_ones() {
    let mut machine = run(&[
        (snapshot(1), &[pre_commit(0, 1), begin(1)]),
        (durable(0), &[]),
        (complete(1), &[commit(0)]),
        (Closed, &[Abort(token(1))]),
    ]);
    assert_eq!((machine.current(), pending(&machine)), (None, [(1, 0, 0)].into()));
    assert!(matches!(send(&mut machine, 0, complete(1)), Err(Rejected::Unexpected { .. })));
}

#[test]
fn c9_a_commit_close_to_the_timeout_is_warned_of() {
    let options =
        TwoPhaseOptions { timeout: Some(Millis(1_000)), warn_percent: Some(80), ..Default::default() };
    for (wall, warned) in [(900, false), (901, true), (50, false)] {
        let mut machine = Machine::new(options);
        for event in [Opened, snapshot(1), durable(0)] {
            send(&mut machine, 100, event).unwrap();
        }
        let warning = warned.then_some(WarnOfTimeout(range(0, 0)));
        let actions: Vec<_> = warning.into_iter().chain([commit(0)]).collect();
        assert_eq!(send(&mut machine, wall, complete(1)), Ok(actions), "at {wall}");
    }
}

#[test]
fn h01_a_later_completion_commits_earlier_work_and_the_earlier_one_then_does_nothing() {
    let machine = run(&[
        (snapshot(1), &[pre_commit(0, 1), begin(1)]),
        (durable(0), &[]),
        (snapshot(2), &[pre_commit(1, 2), begin(2)]),
        (durable(1), &[]),
        (complete(2), &[commit(0)]),
        (committed(0), &[commit(1)]),
        (committed(1), &[]),
        (complete(1), &[]),
        // No record came: the transaction is empty, but it is one.
        (snapshot(3), &[pre_commit(2, 3), begin(3)]),
        (durable(2), &[]),
        (complete(3), &[commit(2)]),
        (committed(2), &[]),
        (complete(3), &[]),
    ]);
    assert_eq!(pending(&machine), []);
}

#[test]
fn h02_a_transaction_is_listed_until_its_commit_was_reported() {
    let mut machine = run(&[
        (snapshot(1), &[pre_commit(0, 1), begin(1)]),
        (durable(0), &[]),
        (complete(1), &[commit(0)]),
        (snapshot(2), &[pre_commit(1, 2), begin(2)]),
    ]);
    assert_eq!(pending(&machine), [(1, 0, 0), (2, 1, 1)], "the next checkpoint lists it, too");
    assert!(!machine.is_committed(CheckpointId(1)));
    go_on(&mut machine.clone(), &[(failed(0), &[FailTask(token(0))])]);
    go_on(&mut machine, &[(committed(0), &[])]);
    assert!(machine.is_committed(CheckpointId(1)));
}

#[test]
fn h04_a_checkpoint_is_durable_only_when_everything_it_lists_is_flushed() {
    let table: Table<'_> = &[
        (snapshot(1), &[pre_commit(0, 1), begin(1)]),
        (abort(1), &[]),
        (snapshot(2), &[pre_commit(1, 2), begin(2)]),
    ];
    let mut machine = run(table);
    go_on(&mut machine, &[(durable(0), &[])]);
    assert!(machine.is_durable(CheckpointId(1)) && !machine.is_durable(CheckpointId(2)));
    assert!(matches!(send(&mut machine, 0, complete(2)), Err(Rejected::Unexpected { .. })));
    go_on(&mut machine, &[(durable(1), &[])]);
    assert!(machine.is_durable(CheckpointId(2)));
    // The report of a later one stands for the earlier ones, which the checkpoint lists as well.
    let mut machine = run(table);
    go_on(&mut machine, &[(durable(1), &[])]);
    assert!(
        machine.is_durable(CheckpointId(1)) && machine.is_flushed(token(1)) && !machine.is_flushed(token(2))
    );
    for number in [0, 1] {
        let failed: Table<'_> = &[(PreCommitFailed(token(number)), &[FailTask(token(number))])];
        go_on(&mut run(table), failed);
    }
}

/// A source of the numbers from 1 to 30, a sink, and a checkpoint after every ten; the process dies around the second.
struct Process {
    machine: Machine,
    /// Records of each transaction that is not committed, by its name outside, and the second checkpoint's view.
    outside: BTreeMap<(u8, u64), Vec<u32>>,
    visible: Vec<u32>,
    attempt: u8,
}

impl Process {
    fn start(
        attempt: u8,
        listed: &[(u8, u64)],
        outside: BTreeMap<(u8, u64), Vec<u32>>,
        visible: Vec<u32>,
    ) -> Self {
        let machine = Machine::new(TwoPhaseOptions::default());
        let mut process = Self { machine, outside, visible, attempt };
        for name in listed {
            assert_eq!(process.tell(restored(name.1)), [RecoverAndCommit(token(name.1))]);
            process.publish(*name);
            assert_eq!(process.tell(Recovered(token(name.1))), []);
        }
        assert_eq!(process.tell(Opened), [AbortLingering, begin(0)]);
        process.outside.clear();
        process
    }

    fn tell(&mut self, event: TwoPhaseEvent) -> Vec<TwoPhaseAction> {
        send(&mut self.machine, 0, event).unwrap()
    }

    /// Committing twice is harmless.
    fn publish(&mut self, name: (u8, u64)) {
        self.visible.extend(self.outside.remove(&name).unwrap_or_default());
    }

    fn write_to(&mut self, last: u32) {
        let name = (self.attempt, self.machine.current().unwrap().0);
        self.outside.entry(name).or_default().extend(last - 9..=last);
    }

    /// What the checkpoint lists.
    fn pre_commit(&mut self, id: u64) -> Vec<(u8, u64)> {
        let current = self.machine.current().unwrap().0;
        assert_eq!(self.tell(snapshot(id)), [pre_commit(current, id), begin(current + 1)]);
        self.tell(durable(current));
        pending(&self.machine).iter().map(|(_, first, _)| (self.attempt, *first)).collect()
    }

    fn complete(&mut self, id: u64) {
        let ordered = self.tell(complete(id));
        let [TwoPhaseAction::Commit(transactions)] = ordered.as_slice() else { panic!("{ordered:?}") };
        self.publish((self.attempt, transactions.first.0));
        self.tell(TwoPhaseEvent::Committed(*transactions));
    }
}

#[test]
fn h03_c6_c7_wherever_the_process_dies_around_a_checkpoint_each_record_is_visible_once() {
    // After the pre-commit, before the manifest is durable, after it, after the notice, after the commit outside.
    for crash in 1..=5 {
        let mut process = Process::start(1, &[], BTreeMap::new(), Vec::new());
        process.write_to(10);
        let first = process.pre_commit(1);
        process.complete(1);
        process.write_to(20);
        let second = process.pre_commit(2);
        process.write_to(30);
        let manifest_is_durable = crash >= 3;
        if crash >= 4 {
            assert_eq!(process.tell(complete(2)), [commit(1)]);
        }
        if crash == 5 {
            process.publish((1, 1));
        }
        let (listed, done) = if manifest_is_durable { (second, 20) } else { (first, 10) };
        let mut process = Process::start(2, &listed, process.outside, process.visible);
        for (id, last) in [(2, 20), (3, 30)].into_iter().filter(|(_, last)| *last > done) {
            process.write_to(last);
            process.pre_commit(id);
            process.complete(id);
        }
        assert_eq!(process.visible, (1..=30).collect::<Vec<_>>(), "P{crash}");
    }
}

#[test]
fn h05_the_tail_of_a_bounded_input_is_committed_with_the_final_checkpoint() {
    let machine = run(&[
        (snapshot(1), &[pre_commit(0, 1), begin(1)]),
        (durable(0), &[]),
        (Finished, &[]),
        // The end came while checkpoint 1 was in flight: what followed it is closed by the next one, the last.
        (complete(1), &[commit(0)]),
        (committed(0), &[]),
        (snapshot(2), &[pre_commit(1, 2)]),
        (durable(1), &[]),
        (complete(2), &[commit(1)]),
        (committed(1), &[]),
        (Closed, &[]),
    ]);
    assert!(machine.is_committed(CheckpointId(2)) && machine.current().is_none());
}

#[test]
fn refused_events_change_nothing() {
    let mut machine = run(&[
        (snapshot(5), &[pre_commit(0, 5), begin(1)]),
        (durable(0), &[]),
        (snapshot(6), &[pre_commit(1, 6), begin(2)]),
    ]);
    let before = format!("{machine:?}");
    let events = [
        snapshot(6),
        snapshot(5),
        durable(0),
        durable(2),
        PreCommitFailed(token(0)),
        complete(6),
        committed(0),
        failed(1),
        Recovered(token(0)),
        Opened,
    ];
    for event in events {
        assert!(matches!(send(&mut machine, 0, event), Err(Rejected::Unexpected { .. })), "{event:?}");
    }
    let mut short = heapless::Vec::<_, 1>::new();
    let refused = machine.on_event(Now::default(), complete(5), &mut short);
    assert_eq!(refused, Err(Rejected::NoRoom { needed: 2, free: 1 }));
    assert_eq!(format!("{machine:?}"), before);
}

/// One state of the search: a sink, what it must have committed by now, and a log.
#[derive(Clone)]
struct World {
    machine: TwoPhase<2>,
    next_id: u64,
    flushing: BTreeSet<u64>,
    committing: Option<Transactions>,
    closed: Vec<(u64, u64)>,
    /// What each checkpoint lists.
    listings: BTreeMap<u64, Vec<Transactions>>,
    published: Vec<u64>,
    completed: u64,
}

impl World {
    fn step(&mut self, event: TwoPhaseEvent) -> bool {
        let mut out = heapless::Vec::<_, { Machine::ACTIONS_MAX }>::new();
        if self.machine.on_event(Now::default(), event, &mut out).is_err() {
            return false;
        }
        self.machine.check();
        for action in out {
            match action {
                TwoPhaseAction::PreCommit { token, id } => {
                    self.flushing.insert(token.0);
                    self.closed.push((token.0, id.0));
                }
                TwoPhaseAction::Commit(transactions) => {
                    assert_eq!(self.committing.replace(transactions), None, "one at a time");
                }
                Begin(_) | AbortLingering => {}
                RecoverAndCommit(_) | RecoverAndAbort(_) | Abort(_) | WarnOfTimeout(_) | ReportLoss(_)
                | FailTask(_) => panic!("{action:?}"),
            }
        }
        true
    }

    /// Goes on with every event that can happen; gives the number of sequences.
    fn explore(&self, depth: u32) -> u64 {
        self.assert_exactly_once();
        if depth == 0 {
            return 1;
        }
        let flushed = self.flushing.iter().map(|number| durable(*number));
        let commit = self.committing.map(TwoPhaseEvent::Committed);
        let notices = (self.completed + 1..self.next_id).map(complete);
        let events = [snapshot(self.next_id)].into_iter().chain(flushed).chain(commit).chain(notices);
        events.map(|event| self.after(event).map_or(1, |next| next.explore(depth - 1))).sum()
    }

    fn after(&self, event: TwoPhaseEvent) -> Option<Self> {
        let mut next = self.clone();
        if let TwoPhaseEvent::Committed(transactions) = event {
            next.committing = None;
            next.published.extend(transactions.first.0..=transactions.last.0);
        }
        if !next.step(event) {
            return None;
        }
        if let TwoPhaseEvent::SnapshotRequested(id) = event {
            let listed = next.machine.pending().map(|pending| pending.transactions).collect();
            next.listings.insert(id.0, listed);
            next.next_id += 1;
        } else if let TwoPhaseEvent::PreCommitted(token) = event {
            next.flushing.remove(&token.0);
        } else if let TwoPhaseEvent::CompleteNotified(id) = event {
            next.completed = id.0;
        }
        Some(next)
    }

    /// Commits come in order, each once, and none of a transaction that no complete checkpoint lists. Whatever is not
    /// committed is still pending, and a restore from the newest complete checkpoint would commit the rest.
    fn assert_exactly_once(&self) {
        let count = self.published.len() as u64;
        assert_eq!(self.published, (0..count).collect::<Vec<_>>());
        for (token, id) in &self.closed {
            let is_published = self.published.contains(token);
            assert!(!is_published || *id <= self.completed, "{token} of {id}");
            let is_flushed = self.machine.is_flushed(TransactionToken(*token));
            assert!(*id > self.completed || is_flushed, "{token} of {id} would be lost with its task");
            let is_listed =
                self.machine.pending().any(|pending| pending.transactions.contains(TransactionToken(*token)));
            assert_ne!(is_published, is_listed, "{token} is lost or twice");
            let is_in = |listed: &Vec<Transactions>| {
                listed.iter().any(|transactions| transactions.contains(TransactionToken(*token)))
            };
            let is_recovered = self.listings.get(&self.completed).is_some_and(is_in);
            assert!(
                *id > self.completed || is_published || is_recovered,
                "{token} would be lost by a restore"
            );
        }
    }
}

#[test]
fn c3_c4_every_order_of_events_commits_each_closed_transaction_once_and_in_order() {
    let mut world = World {
        machine: TwoPhase::new(TwoPhaseOptions::default()),
        next_id: 1,
        flushing: BTreeSet::new(),
        committing: None,
        closed: Vec::new(),
        listings: BTreeMap::new(),
        published: Vec::new(),
        completed: 0,
    };
    assert!(world.step(Opened));
    let sequences = world.explore(11);
    assert!(sequences > 300_000, "{sequences}");
}

/// An open sink whose transactions 0 and 1 wait for checkpoints 1 and 2, with something set wrong.
fn spoilt(spoil: impl FnOnce(&mut Machine)) -> Option<&'static str> {
    let mut machine = run(&[
        (snapshot(1), &[pre_commit(0, 1), begin(1)]),
        (snapshot(2), &[pre_commit(1, 2), begin(2)]),
        (durable(1), &[]),
    ]);
    assert_eq!(machine.broken_invariant(), None);
    spoil(&mut machine);
    machine.broken_invariant()
}

#[test]
fn each_broken_invariant_is_named() {
    fn pending(machine: &mut Machine, index: usize) -> &mut super::Pending {
        machine.pending[index].as_mut().unwrap()
    }
    for id in [0, 1] {
        assert_eq!(spoilt(|machine| pending(machine, 1).id = CheckpointId(id)), Some("FI1"));
    }
    assert_eq!(spoilt(|machine| pending(machine, 1).transactions.first = token(0)), Some("FI1"));
    assert_eq!(spoilt(|machine| machine.pending[0] = None), Some("FI1"));
    assert_eq!(spoilt(|machine| pending(machine, 1).transactions.last = token(2)), Some("FI2"));
    assert_eq!(spoilt(|machine| machine.next = token(2)), Some("FI2"));
    assert_eq!(spoilt(|machine| machine.flushing = token(3)), Some("FI2"));
    let commits = |completed, flushing| {
        spoilt(|machine| {
            machine.is_committing = true;
            (machine.completed, machine.flushing) = (completed, token(flushing));
        })
    };
    assert_eq!(commits(Some(CheckpointId(1)), 1), None);
    assert_eq!(commits(Some(CheckpointId(1)), 0), Some("FI3"));
    assert_eq!(commits(Some(CheckpointId(0)), 1), Some("FI3"));
    assert_eq!(commits(None, 1), Some("FI3"));
    let recovers = |machine: &mut Machine| {
        (machine.state, machine.current) = (super::State::Recovering { outstanding: None }, None);
    };
    assert_eq!(spoilt(recovers), Some("FI4"));
}

#[test]
#[should_panic(expected = "FI1")]
fn check_panics_at_a_broken_invariant() {
    let mut machine = opened();
    let closed = super::Current { token: token(0), begun_at: Millis(0) };
    machine.pending[1] = Some(super::Pending::new(CheckpointId(1), closed));
    machine.check();
}
