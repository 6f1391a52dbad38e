//! Lists of operators without a key, at one parallelism after the other.

use super::*;
use crate::keyed::Rest;
use crate::list_state::{ListStates, RestoredLists};
use crate::transform::Transform;

/// What a subtask got back.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    index: u16,
    seen: Vec<u64>,
    notes: Vec<u64>,
}

type Finds = Arc<Mutex<Vec<Found>>>;

/// Passes each number on once, and remembers every hundredth. Notes the number of its first record for all to see.
struct Remember {
    index: u16,
    finds: Finds,
    seen: Vec<u64>,
    first: Option<u64>,
}

fn elements(numbers: impl IntoIterator<Item = u64>) -> Vec<Vec<u8>> {
    numbers.into_iter().map(|number| number.to_le_bytes().to_vec()).collect()
}

fn numbers(elements: Vec<Vec<u8>>) -> Vec<u64> {
    elements.into_iter().map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

impl Transform for Remember {
    type In = u64;
    type Out = u64;

    fn restore(&mut self, states: &RestoredLists<'_>) -> Result<(), OperatorError> {
        self.seen = numbers(states.list("seen")?);
        let notes = numbers(states.list("notes")?);
        assert!(states.list("never given")?.is_empty());
        lock(&self.finds).push(Found { index: self.index, seen: self.seen.clone(), notes });
        Ok(())
    }

    fn snapshot(&mut self, states: &mut ListStates<'_>) -> Result<(), OperatorError> {
        states.split("seen", elements(self.seen.iter().copied()))?;
        states.union("notes", elements(self.first))
    }

    fn on_record(&mut self, record: &u64, _now: Now, out: &mut Output<'_, u64>) -> Result<(), OperatorError> {
        self.first.get_or_insert(*record);
        if record.is_multiple_of(100) {
            self.seen.push(*record);
        }
        out.emit(record);
        Ok(())
    }

    fn before_barrier(&mut self, _out: &mut Output<'_, u64>) -> Result<Rest, OperatorError> {
        Ok(Rest::Done)
    }
}

fn remembering_job(finds: &Finds, committed: &Committed, parallelism: u16, name: &str) -> JobBuilder {
    let (finds, committed) = (Arc::clone(finds), Arc::clone(committed));
    let mut job = JobBuilder::new("remember", 128);
    if name != "remember" {
        job.previously(name, "remember");
    }
    job.source("source", 1, |_| Numbers { next: 0, end: END * 6, step: 1 })
        .rebalance("spread", parallelism)
        .transform(name, move |info| {
            assert_eq!((info.operator.is_empty(), info.parallelism), (false, parallelism));
            Remember { index: info.index, finds: Arc::clone(&finds), seen: Vec::new(), first: None }
        })
        .sink("collect", move |_| Collect {
            committed: Arc::clone(&committed),
            current: Vec::new(),
            pending: Vec::new(),
        });
    job
}

/// Starts the job, runs it until a checkpoint has completed, and gives what its subtasks had got back.
fn run_to_checkpoint(disk: &Disk, attempt: u64, parallelism: u16, name: &str) -> Vec<Found> {
    let (finds, committed) = (Finds::default(), Committed::default());
    let builder = remembering_job(&finds, &committed, parallelism, name);
    let mut job = Job::assemble(builder, disk.clone(), Now::default(), &options(attempt)).unwrap();
    let observer = job.observer();
    drive(&mut job.take_actors(), || observer.progress().checkpoints_completed >= 1);
    lock(&finds).clone()
}

fn sorted(numbers: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut numbers: Vec<u64> = numbers.into_iter().collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn r12_lists_of_an_operator_without_a_key_are_spread_at_any_parallelism_and_under_another_name() {
    let disk = Disk::new();
    assert_eq!(run_to_checkpoint(&disk, 1, 2, "remember"), [], "nothing is restored at the first start");
    let (mut before, mut had) = (0, 2);
    let later = [("remember", 5), ("recall", 3), ("recall", 1), ("recall", 4)];
    for (attempt, (name, parallelism)) in (2..).zip(later) {
        let found = run_to_checkpoint(&disk, attempt, parallelism, name);
        assert_eq!(found.len(), usize::from(parallelism));
        let all = sorted(found.iter().flat_map(|found| found.seen.clone()));
        assert!(all.iter().copied().eq((0..all.len() as u64).map(|nth| nth * 100)), "each once: {all:?}");
        let (share, odd) = (all.len() / found.len(), all.len() % found.len());
        for Found { seen, notes, .. } in &found {
            assert!((share..=share + usize::from(odd > 0)).contains(&seen.len()), "evenly: {}", seen.len());
            assert_eq!((notes.len(), notes), (had, &found[0].notes), "everyone has all");
        }
        assert!(all.len() > before, "{} at parallelism {parallelism}", all.len());
        (before, had) = (all.len(), usize::from(parallelism));
    }
}
