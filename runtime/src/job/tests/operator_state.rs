//! Lists, broadcast maps and raw bytes of operators, at one parallelism after the other.

use std::collections::BTreeMap;

use slackwater_core::key_group::{KeyGroup, KeyGroupRange, MaxParallelism, key_group_of_hash};
use slackwater_mem::{
    Broadcast, Codec, Heap, HeapError, Plain, RawKeyedState, RawOperatorState, SplitList, StateError,
    UnionList,
};

use super::*;
use crate::keyed::{Context, KeyedProcess, Setup};

/// Few enough that some subtasks have no element of a state.
const KEYS: u64 = 64;
const RULES: u64 = 5;

/// What a subtask found in its states when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    index: u16,
    split: Vec<u64>,
    union: Vec<u64>,
    rules: BTreeMap<u64, u64>,
    raw: Vec<u64>,
    raw_keyed: BTreeMap<KeyGroup, Vec<u64>>,
    key_groups: KeyGroupRange,
}

type Finds = Arc<Mutex<Vec<Found>>>;

/// Keeps each record in state of every kind.
struct Keeper {
    finds: Finds,
    states: Option<States>,
}

#[derive(Clone, Copy)]
struct States {
    split: SplitList<Plain<u64>>,
    union: UnionList<Plain<u64>>,
    rules: Broadcast<Plain<u64>, Plain<u64>>,
    raw: RawOperatorState,
    raw_keyed: RawKeyedState,
}

impl States {
    fn register(heap: &mut Heap, operator: &str) -> Result<Self, HeapError> {
        Ok(Self {
            split: SplitList::register(heap, operator, "split")?,
            union: UnionList::register(heap, operator, "union")?,
            rules: Broadcast::register(heap, operator, "rules")?,
            raw: RawOperatorState::register(heap, operator, "raw")?,
            raw_keyed: RawKeyedState::register(heap, operator, "raw keyed")?,
        })
    }

    fn find(&self, heap: &Heap, index: u16) -> Result<Found, StateError> {
        let numbers = |bytes: Vec<u8>| -> Vec<u64> {
            bytes.chunks(8).map(|number| u64::from_le_bytes(number.try_into().unwrap())).collect()
        };
        let mut rules = BTreeMap::new();
        self.rules.for_each(heap, |rule, value| {
            rules.insert(rule, value);
        })?;
        let raw = (0..self.raw.len(heap)).map(|at| self.raw.value(heap, at).unwrap().unwrap().to_vec());
        let key_groups = heap.options().key_groups;
        let of_group = |group: KeyGroup| {
            // What has yet to come is refused.
            let parts = self.raw_keyed.read(heap, group).into_iter().flatten();
            (group, numbers(parts.flat_map(|part| part.to_vec()).collect()))
        };
        Ok(Found {
            index,
            split: self.split.iter(heap).collect::<Result<_, _>>()?,
            union: self.union.iter(heap).collect::<Result<_, _>>()?,
            rules,
            raw: raw.flat_map(numbers).collect(),
            raw_keyed: key_groups.iter().map(of_group).filter(|(_, numbers)| !numbers.is_empty()).collect(),
            key_groups,
        })
    }

    fn keep(&self, heap: &mut Heap, key: u64, record: u64) -> Result<(), StateError> {
        self.split.push(heap, &record)?;
        self.union.push(heap, &record)?;
        self.raw.push(heap, &record.to_le_bytes())?;
        Ok(self.raw_keyed.write(heap, group_of(key), &record.to_le_bytes())?)
    }
}

fn group_of(key: u64) -> KeyGroup {
    key_group_of_hash(Plain::<u64>::key_group_hash(&key), MaxParallelism::new(128).unwrap())
}

fn failed(error: impl std::fmt::Display) -> OperatorError {
    OperatorError::new(error.to_string())
}

impl KeyedProcess for Keeper {
    type Key = Plain<u64>;
    type In = (u64, u64);
    type Out = u64;

    fn open(&mut self, setup: &mut Setup<'_>) -> Result<(), OperatorError> {
        let states = States::register(setup.heap, &setup.info.operator).map_err(failed)?;
        let found = states.find(setup.heap, setup.info.index).map_err(failed)?;
        // Of what everyone has got, each subtask keeps a share, or there would be more each time.
        states.union.update(setup.heap, &found.split).map_err(failed)?;
        lock(&self.finds).push(found);
        for rule in 0..RULES {
            states.rules.put(setup.heap, &rule, &(rule * rule)).map_err(failed)?;
        }
        self.states = Some(states);
        Ok(())
    }

    fn process(
        &mut self,
        key: &u64,
        record: &(u64, u64),
        context: &mut Context<'_, u64>,
    ) -> Result<(), OperatorError> {
        let states = self.states.unwrap();
        states.keep(context.heap_mut(), *key, record.1).map_err(failed)?;
        context.emit(&record.1);
        Ok(())
    }
}

fn keeper_job(finds: &Finds, committed: &Committed, parallelism: u16) -> JobBuilder {
    let (finds, committed) = (Arc::clone(finds), Arc::clone(committed));
    let mut job = JobBuilder::new("keeper", 128);
    job.source("source", 2, |info| Numbers { next: info.index.into(), end: END * 6, step: 2 })
        .flat_map("pair", |number: &u64, out: &mut Output<'_, (u64, u64)>| {
            // Few, so that state is small and checkpoints are quick.
            if number.is_multiple_of(11) {
                out.emit(&(number % KEYS, *number));
            }
        })
        .key_by::<Plain<u64>, _>(|pair: &(u64, u64)| &pair.0)
        .process("keep", parallelism, move |_| Keeper { finds: Arc::clone(&finds), states: None })
        .sink("collect", move |_| Collect {
            committed: Arc::clone(&committed),
            current: Vec::new(),
            pending: Vec::new(),
        });
    job
}

/// Starts the job at a parallelism; what its subtasks find.
fn start(disk: &Disk, attempt: u64, parallelism: u16, is_lazy: bool) -> (AssembledJob, Vec<Found>) {
    let (finds, committed) = (Finds::default(), Committed::default());
    let options = JobOptions { memory_limit_bytes: 64 << 20, lazy_restore: is_lazy, ..options(attempt) };
    let builder = keeper_job(&finds, &committed, parallelism);
    let job = Job::assemble(builder, disk.clone(), Now::default(), &options).unwrap();
    let found = lock(&finds).clone();
    (job, found)
}

/// Until a checkpoint has completed.
fn drive_to_checkpoint(job: &mut AssembledJob) {
    let observer = job.observer();
    drive(&mut job.take_actors(), || observer.progress().checkpoints_completed >= 1);
}

fn sorted(numbers: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut numbers: Vec<u64> = numbers.into_iter().collect();
    numbers.sort_unstable();
    numbers
}

/// Everything that was kept lies in each kind of state once, where that kind belongs. Gives how much it is. What is kept by
/// key comes later in a lazy restore.
fn assert_spread(found: &[Found], is_lazy: bool) -> usize {
    let all = sorted(found.iter().flat_map(|found| found.split.clone()));
    assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "each once");
    let (share, odd) = (all.len() / found.len(), all.len() % found.len());
    for Found { split, union, rules, .. } in found {
        assert!((share..=share + usize::from(odd > 0)).contains(&split.len()), "rule R12: evenly");
        assert!(sorted(union.iter().copied()) == all, "rule R12: everyone has all");
        assert_eq!(*rules, (0..RULES).map(|rule| (rule, rule * rule)).collect());
    }
    assert!(sorted(found.iter().flat_map(|found| found.raw.clone())) == all, "rule R14");
    let raw_keyed = found.iter().flat_map(|found| found.raw_keyed.values().flatten().copied());
    assert!(is_lazy || sorted(raw_keyed) == all, "rule R9");
    for Found { raw_keyed, key_groups, .. } in found {
        for (group, numbers) in raw_keyed {
            assert!(key_groups.contains(*group));
            assert!(numbers.iter().all(|number| group_of(number % KEYS) == *group), "rule R9");
        }
    }
    all.len()
}

#[test]
fn r12_r14_state_that_is_not_kept_by_key_is_restored_at_any_parallelism() {
    for is_lazy in [false, true] {
        let disk = Disk::new();
        let (mut job, found) = start(&disk, 1, 2, is_lazy);
        assert!(found.iter().all(|found| found.split.is_empty() && found.rules.is_empty()));
        drive_to_checkpoint(&mut job);
        let mut kept = 0;
        for (attempt, parallelism) in (2..).zip([5, 3, 1, 7]) {
            let (mut job, found) = start(&disk, attempt, parallelism, is_lazy);
            assert!(job.resumed_from.is_some());
            assert_eq!(found.len(), usize::from(parallelism));
            let all = assert_spread(&found, is_lazy);
            assert!(all > kept, "{all} records are kept at parallelism {parallelism}");
            kept = all;
            drive_to_checkpoint(&mut job);
        }
    }
}

#[test]
fn r11_split_state_stays_with_its_subtask_at_the_same_parallelism() {
    let disk = Disk::new();
    drive_to_checkpoint(&mut start(&disk, 1, 3, false).0);
    let (_, found) = start(&disk, 2, 3, false);
    for Found { index, split, raw, raw_keyed, union, .. } in &found {
        assert!(!split.is_empty(), "subtask {index}");
        // Where nothing moves, a subtask has kept the records of its own key groups alone.
        let own = sorted(raw_keyed.values().flatten().copied());
        assert!(sorted(split.iter().copied()) == own, "subtask {index}");
        assert!(sorted(raw.iter().copied()) == own, "subtask {index}");
        assert!(union.len() > split.len(), "rule R11: a union is redistributed all the same");
    }
}
