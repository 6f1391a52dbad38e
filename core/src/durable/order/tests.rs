//! Every sequence of events, failures at every step included, against an account kept beside the machine.

use std::collections::BTreeSet;
use std::format;
use std::string::String;
use std::vec::Vec as StdVec;

use heapless::Vec;

use super::*;
use crate::durable::OperationKind;

const WRITES_MAX: usize = 3;
const IO: DiskError = DiskError { operation: OperationKind::Write, errno: DiskError::IO };
const EXISTS: DiskError = DiskError { operation: OperationKind::Rename, errno: DiskError::EXISTS };
const STEPS: [Step; 7] = [
    Step::Create,
    Step::SetLength,
    Step::SyncFile,
    Step::Close,
    Step::Rename,
    Step::SyncFolder,
    Step::Remove,
];

/// What the caller saw: events taken, steps ordered, and how they ended.
#[derive(Clone, Debug, Default)]
struct Account {
    ordered: StdVec<Step>,
    went_well: StdVec<Step>,
    writes: usize,
    in_flight: usize,
    sealed: Option<bool>,
    first_failure: Option<&'static str>,
    end: Option<FileAction>,
}

fn alphabet() -> StdVec<FileEvent> {
    let mut events = StdVec::from([
        FileEvent::Started,
        FileEvent::WriteSubmitted,
        FileEvent::WriteDone,
        FileEvent::WriteFailed(IO),
        FileEvent::Sealed { set_length: false },
        FileEvent::Sealed { set_length: true },
        FileEvent::Abandoned,
    ]);
    for step in STEPS {
        events.extend([
            FileEvent::StepDone(step),
            FileEvent::StepFailed(step, IO),
            FileEvent::StepFailed(step, EXISTS),
        ]);
    }
    events
}

impl Account {
    fn note(&mut self, event: FileEvent) {
        match event {
            FileEvent::WriteSubmitted => {
                self.writes += 1;
                self.in_flight += 1;
            }
            FileEvent::WriteDone => self.in_flight -= 1,
            FileEvent::WriteFailed(_) => {
                self.in_flight -= 1;
                self.first_failure.get_or_insert("write");
            }
            FileEvent::Sealed { set_length } => self.sealed = Some(set_length),
            FileEvent::StepDone(step) => self.went_well.push(step),
            FileEvent::StepFailed(Step::Close | Step::Remove, _) | FileEvent::Started => {}
            FileEvent::StepFailed(_, _) => {
                self.first_failure.get_or_insert("step");
            }
            FileEvent::Abandoned => {
                self.first_failure.get_or_insert("abandoned");
            }
        }
    }

    fn obey(&mut self, birth: Birth, action: FileAction) {
        assert!(self.end.is_none(), "an action after the end: {self:?}");
        match action {
            FileAction::Perform(step) => self.obey_step(birth, step),
            FileAction::Durable => {
                assert_eq!(self.ordered, whole_plan(birth, self.sealed.unwrap()));
                assert_eq!(self.first_failure, None);
                self.end = Some(action);
            }
            FileAction::Failed(failure) => {
                self.check_failure(birth, failure);
                self.end = Some(action);
            }
        }
    }

    fn obey_step(&mut self, birth: Birth, step: Step) {
        assert!(!self.ordered.contains(&step), "{step:?} ordered twice: {self:?}");
        if self.first_failure.is_some() {
            assert!(matches!(step, Step::Close | Step::Remove), "{step:?} after a failure: {self:?}");
        }
        match step {
            Step::SyncFile => assert!(self.sealed.is_some() && self.in_flight == 0, "{self:?}"),
            Step::Rename => {
                assert!(birth == Birth::TemporaryName && self.went_well.contains(&Step::SyncFile));
            }
            Step::Remove => {
                assert!(self.went_well.contains(&Step::Create) && !self.went_well.contains(&Step::Rename));
                assert!(self.ordered.contains(&Step::Close));
            }
            Step::Close => assert_eq!(self.in_flight, 0),
            Step::Create | Step::SetLength | Step::SyncFolder => {}
        }
        self.ordered.push(step);
    }

    fn check_failure(&self, birth: Birth, failure: Failure) {
        assert!(self.first_failure.is_some());
        assert_eq!(failure == Failure::Abandoned, self.first_failure == Some("abandoned"), "{self:?}");
        assert_eq!(self.in_flight, 0);
        let is_created = self.went_well.contains(&Step::Create);
        let is_renamed = self.went_well.contains(&Step::Rename);
        assert_eq!(self.ordered.contains(&Step::Close), is_created, "{self:?}");
        assert_eq!(self.ordered.contains(&Step::Remove), is_created && !is_renamed, "{self:?}");
        if let Failure::Disk { error, name_may_exist } = failure {
            let unknown_rename =
                self.ordered.contains(&Step::Rename) && !is_renamed && error.errno != DiskError::EXISTS;
            assert_eq!(name_may_exist, birth == Birth::TemporaryName && (is_renamed || unknown_rename));
        }
    }
}

fn whole_plan(birth: Birth, set_length: bool) -> StdVec<Step> {
    let rename = birth == Birth::TemporaryName;
    STEPS
        .into_iter()
        .filter(|step| match step {
            Step::SetLength => set_length,
            Step::Rename => rename,
            Step::Remove => false,
            Step::Create | Step::SyncFile | Step::Close | Step::SyncFolder => true,
        })
        .collect()
}

#[derive(Default)]
struct Search {
    seen: BTreeSet<String>,
    durable: usize,
    failed: usize,
    rejected: usize,
}

impl Search {
    fn explore(&mut self, order: &FileOrder, account: &Account) {
        if !self.seen.insert(format!("{order:?} {account:?}")) {
            return;
        }
        match account.end {
            Some(FileAction::Durable) => self.durable += 1,
            Some(_) => self.failed += 1,
            None => {}
        }
        let mut accepted = 0;
        for event in alphabet() {
            if event == FileEvent::WriteSubmitted && account.writes == WRITES_MAX {
                continue;
            }
            accepted += usize::from(self.step(order, account, event));
        }
        assert_eq!(accepted == 0, account.end.is_some(), "stuck, or alive after the end: {order:?}");
    }

    fn step(&mut self, order: &FileOrder, account: &Account, event: FileEvent) -> bool {
        let (mut order_after, mut account_after) = (order.clone(), account.clone());
        let mut out = Vec::<_, { FileOrder::ACTIONS_MAX }>::new();
        if order_after.on_event(Now::default(), event, &mut out).is_err() {
            assert_eq!(format!("{order:?}"), format!("{order_after:?}"), "a refusal changed something");
            assert!(out.is_empty());
            self.rejected += 1;
            return false;
        }
        order_after.check();
        account_after.note(event);
        for action in out {
            account_after.obey(order.birth, action);
        }
        self.explore(&order_after, &account_after);
        true
    }
}

#[test]
fn every_sequence_keeps_the_order() {
    for birth in [Birth::FinalName, Birth::TemporaryName] {
        let mut search = Search::default();
        search.explore(&FileOrder::new(birth), &Account::default());
        assert!(search.durable >= 8, "{birth:?}: {} ways to be durable", search.durable);
        assert!(search.failed > 50, "{birth:?}: {} ways to fail", search.failed);
        assert!(search.rejected > 1000);
    }
}

#[test]
fn a_full_action_buffer_changes_nothing() {
    let mut order = FileOrder::new(Birth::FinalName);
    let before = format!("{order:?}");
    let refused = order.on_event(Now::default(), FileEvent::Started, &mut Vec::<_, 0>::new());
    assert_eq!(refused, Err(Rejected::NoRoom { needed: 1, free: 0 }));
    assert_eq!(format!("{order:?}"), before);
}

#[test]
fn a_manifest_cannot_be_abandoned_once_its_name_may_exist() {
    let mut order = FileOrder::new(Birth::TemporaryName);
    let mut out = Vec::<_, 16>::new();
    for event in [
        FileEvent::Started,
        FileEvent::StepDone(Step::Create),
        FileEvent::Sealed { set_length: false },
        FileEvent::StepDone(Step::SyncFile),
        FileEvent::StepDone(Step::Close),
    ] {
        order.on_event(Now::default(), event, &mut out).unwrap();
    }
    assert_eq!(out.last(), Some(&FileAction::Perform(Step::Rename)));
    assert!(order.on_event(Now::default(), FileEvent::Abandoned, &mut out).is_err());
}

/// A file that has got that far, with one field set wrong.
fn spoilt(spoil: impl FnOnce(&mut FileOrder)) -> Option<&'static str> {
    let mut order = FileOrder::new(Birth::TemporaryName);
    spoil(&mut order);
    order.broken_invariant()
}

#[test]
fn each_broken_invariant_is_named() {
    let error = Failure::Disk { error: IO, name_may_exist: false };
    assert_eq!(spoilt(|_| {}), None);
    assert_eq!(spoilt(|order| order.is_synced = true), Some("D1"));
    assert_eq!(spoilt(|order| order.state = State::Awaiting(Step::SyncFile)), Some("D1"));
    let sealed_in_flight = |order: &mut FileOrder| {
        (order.is_synced, order.sealed, order.writes_in_flight) = (true, Some(false), 1);
    };
    assert_eq!(spoilt(sealed_in_flight), Some("D1"));
    assert_eq!(spoilt(|order| order.is_renamed = true), Some("D2"));
    assert_eq!(spoilt(|order| order.state = State::Awaiting(Step::Rename)), Some("D2"));
    assert_eq!(spoilt(|order| order.state = State::Durable), Some("D3"));
    let not_renamed = |order: &mut FileOrder| {
        (order.state, order.sealed, order.is_synced) = (State::Durable, Some(false), true);
    };
    assert_eq!(spoilt(not_renamed), Some("D3"));
    let unsynced = |order: &mut FileOrder| (order.birth, order.state) = (Birth::FinalName, State::Durable);
    assert_eq!(spoilt(unsynced), Some("D3"));
    for state in [State::Failed, State::Cleaning(Step::Close)] {
        let in_flight = |order: &mut FileOrder| {
            (order.state, order.failure, order.writes_in_flight) = (state, Some(error), 1);
        };
        assert_eq!(spoilt(in_flight), Some("D4"));
    }
    for state in [State::Failed, State::Cleaning(Step::Remove), State::Draining] {
        assert_eq!(spoilt(|order| order.state = state), Some("D5"));
        assert_eq!(spoilt(|order| (order.state, order.failure) = (state, Some(error))), None);
    }
    let failed_and_durable = |order: &mut FileOrder| {
        not_renamed(order);
        (order.is_renamed, order.failure) = (true, Some(error));
    };
    assert_eq!(spoilt(failed_and_durable), Some("D5"));
}

#[test]
#[should_panic(expected = "D2")]
fn check_panics_at_a_broken_invariant() {
    let mut order = FileOrder::new(Birth::TemporaryName);
    order.is_renamed = true;
    order.check();
}

#[test]
fn a_failure_is_known_while_it_is_cleaned_up() {
    let mut order = FileOrder::new(Birth::FinalName);
    let mut out = Vec::<_, 16>::new();
    for event in [FileEvent::Started, FileEvent::StepDone(Step::Create)] {
        order.on_event(Now::default(), event, &mut out).unwrap();
        assert_eq!(order.failure(), None);
    }
    order.on_event(Now::default(), FileEvent::Abandoned, &mut out).unwrap();
    assert_eq!(out.last(), Some(&FileAction::Perform(Step::Close)));
    assert_eq!(order.failure(), Some(Failure::Abandoned));
}

#[test]
fn a_failure_says_whether_the_name_may_exist() {
    let said = |name_may_exist| format!("{}", Failure::Disk { error: IO, name_may_exist });
    assert_eq!(format!("{}", Failure::Abandoned), "the file was abandoned");
    assert_eq!(said(false), "Write failed: input/output error");
    assert_eq!(said(true), "Write failed: input/output error; the file may still appear under its name");
}
