//! Does one operation of the heap in a fixed number, so that callgrind can count its instructions (`.ci/instructions`).

use std::hint::black_box;
use std::io::{self, Write};
use std::process::ExitCode;

use slackwater_benches::Failed;
use slackwater_benches::freezing::one_key_of_each_page;
use slackwater_benches::hash_map;
use slackwater_benches::stream::KeyStream;
use slackwater_benches::subject::{Shape, Subject, key};
use slackwater_mem::{Plain, StateError};

type Counts = Subject<Plain<u64>>;
type Operation = fn() -> Result<usize, Failed>;

/// Each does its operation under [`measured`], and says how often.
const OPERATIONS: [(&str, Operation); 9] = [
    ("get_hit", get_hit),
    ("get_miss", get_miss),
    ("get_many", get_many),
    ("update", update),
    ("insert", insert),
    ("first_touch", first_touch),
    ("freeze", freeze),
    ("hashbrown_get_hit", hashbrown_get_hit),
    ("hashbrown_update", hashbrown_update),
];

const KEYS: u32 = if cfg!(test) { 2_000 } else { 100_000 };
const TIMES: usize = if cfg!(test) { 1_000 } else { 50_000 };
const FREEZES: usize = 100;

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1);
    let found = OPERATIONS.iter().find(|(name, _)| Some(*name) == wanted.as_deref());
    let answer = match found {
        Some((_, operation)) => operation().map(|times| times.to_string()),
        None => Ok(OPERATIONS.map(|(name, _)| name).join("\n")),
    };
    match answer.and_then(|answer| Ok(writeln!(io::stdout(), "{answer}")?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to be told if this fails too.
            drop(writeln!(io::stderr(), "instructions: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Callgrind counts what happens in here, and finds it by its name.
#[inline(never)]
fn measured<R>(work: impl FnOnce() -> R) -> R {
    work()
}

fn counts() -> Result<Counts, Failed> {
    Ok(Subject::filled(shape())?)
}

const fn shape() -> Shape {
    Shape { keys: KEYS, value_len: 8 }
}

fn keys() -> Vec<u64> {
    KeyStream::new(KEYS, TIMES).take(TIMES).collect()
}

fn get_hit() -> Result<usize, Failed> {
    get(&keys())
}

fn get_miss() -> Result<usize, Failed> {
    get(&(KEYS..).take(TIMES).map(key).collect::<Vec<_>>())
}

fn get(keys: &[u64]) -> Result<usize, Failed> {
    let counts = counts()?;
    measured(|| {
        keys.iter().try_for_each(|key| {
            black_box(counts.state.get(&counts.heap, key)?);
            Ok::<(), StateError>(())
        })
    })?;
    Ok(keys.len())
}

/// Sixteen keys a call; counted by key.
fn get_many() -> Result<usize, Failed> {
    let (counts, keys) = (counts()?, keys());
    let (batches, _) = keys.as_chunks::<16>();
    measured(|| {
        batches.iter().try_for_each(|batch| {
            counts.state.get_many(&counts.heap, &batch.each_ref(), |value| _ = black_box(value))
        })
    })?;
    Ok(batches.len() * 16)
}

fn update() -> Result<usize, Failed> {
    let (mut counts, keys) = (counts()?, keys());
    measured(|| keys.iter().try_for_each(|key| counts.add_one(*key)))?;
    Ok(keys.len())
}

/// From nothing, so that all that growing costs is spread over the keys.
fn insert() -> Result<usize, Failed> {
    let mut counts = Counts::empty(shape())?;
    let keys: Vec<u64> = (0..KEYS).map(key).collect();
    measured(|| keys.iter().try_for_each(|key| counts.state.put(&mut counts.heap, key, &1)))?;
    Ok(keys.len())
}

fn first_touch() -> Result<usize, Failed> {
    let mut counts = counts()?;
    let touched = one_key_of_each_page(&counts.heap.freeze()?, counts.state.id())?;
    let snapshot = counts.heap.freeze()?;
    measured(|| touched.iter().try_for_each(|key| counts.add_one(*key)))?;
    drop(snapshot);
    Ok(touched.len())
}

fn freeze() -> Result<usize, Failed> {
    let (mut counts, keys) = (counts()?, keys());
    for updated in keys.chunks_exact(TIMES / FREEZES) {
        updated.iter().try_for_each(|key| counts.add_one(*key))?;
        drop(measured(|| counts.heap.freeze())?);
    }
    Ok(FREEZES)
}

fn hashbrown_get_hit() -> Result<usize, Failed> {
    let (map, keys) = (hash_map::filled(KEYS, false), keys());
    measured(|| {
        for key in &keys {
            black_box(map.get(key).copied());
        }
    });
    Ok(keys.len())
}

fn hashbrown_update() -> Result<usize, Failed> {
    let (mut map, keys) = (hash_map::filled(KEYS, false), keys());
    measured(|| {
        for key in &keys {
            let value = map.entry(*key).or_insert(0);
            *value = value.wrapping_add(1);
        }
    });
    Ok(keys.len())
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_operation_is_done() {
        for (name, operation) in super::OPERATIONS {
            assert!(operation().unwrap() >= super::FREEZES, "{name}");
        }
    }
}
