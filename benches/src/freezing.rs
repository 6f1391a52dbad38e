//! Heaps of many states or key groups that are frozen again and again.

use std::time::Duration;

use slackwater_core::format::page::{Content, PageView};
use slackwater_core::key_group::MaxParallelism;
use slackwater_mem::{Heap, HeapError, HeapOptions, Plain, Snapshot, StateError, StateId, ValueState};

use crate::Failed;
use crate::histogram::Histogram;
use crate::stopwatch::Stopwatch;
use crate::stream::{SplittableRandom, shuffle};
use crate::subject::{HASH_SEED, key};

/// What a heap to be frozen looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Keys in all.
    pub keys: u32,
    /// States that they are dealt out to.
    pub states: u16,
    /// Key groups of each.
    pub max_parallelism: MaxParallelism,
}

type Counts = ValueState<Plain<u64>, Plain<u64>>;

/// A heap whose keys are dealt out to several states of numbers.
#[derive(Debug)]
pub struct Freezing {
    heap: Heap,
    states: Vec<Counts>,
    layout: Layout,
    random: SplittableRandom,
}

/// Updates before each freeze, so that it finds pages to leave behind.
const UPDATES_BEFORE_FREEZE: u32 = 64;

impl Freezing {
    /// A heap with all keys.
    ///
    /// # Errors
    /// The heap's memory cannot be reserved.
    pub fn filled(layout: Layout) -> Result<Self, Failed> {
        let mut heap = Heap::new(HeapOptions {
            frame_size: 4096,
            memory_limit_bytes: memory_limit(layout),
            key_groups: layout.max_parallelism.all_key_groups(),
            hash_seed: HASH_SEED,
        })?;
        let register =
            |index| ValueState::register(&mut heap, "frozen", &format!("{index}"), layout.max_parallelism);
        let states = (0..layout.states.max(1)).map(register).collect::<Result<_, _>>()?;
        let mut freezing = Self { heap, states, layout, random: SplittableRandom::new(7) };
        (0..layout.keys).try_for_each(|number| freezing.update(number))?;
        Ok(freezing)
    }

    fn update(&mut self, number: u32) -> Result<(), StateError> {
        let index = number as usize % self.states.len();
        let Some(state) = self.states.get(index) else { return Ok(()) };
        state.update(&mut self.heap, &key(number), |old| old.unwrap_or(0).wrapping_add(1))
    }

    /// Freezes after some updates, which are not measured.
    ///
    /// # Errors
    /// As [`Heap::freeze`] and [`ValueState::update`].
    pub fn freeze_after_updates(&mut self) -> Result<Duration, StateError> {
        for _ in 0..UPDATES_BEFORE_FREEZE {
            let number = self.random.below(self.layout.keys);
            self.update(number)?;
        }
        Ok(self.freeze()?.1)
    }

    /// Freezes `times` times, each after some updates.
    ///
    /// # Errors
    /// As [`Freezing::freeze_after_updates`].
    pub fn freeze_often(&mut self, times: u32) -> Result<Histogram, StateError> {
        let mut histogram = Histogram::new();
        for _ in 0..times {
            histogram.record(self.freeze_after_updates()?);
        }
        Ok(histogram)
    }

    /// Freezes `times` times, each right after every page has moved because of the freeze before.
    ///
    /// # Errors
    /// As [`Freezing::freeze_after_updates`], or pages that cannot be read.
    pub fn freeze_relocated(&mut self, times: u32) -> Result<Histogram, Failed> {
        let mut histogram = Histogram::new();
        let (mut snapshot, _) = self.freeze()?;
        let touched = self.keys_of_pages(&snapshot)?;
        for _ in 0..times {
            for (state, key) in &touched {
                state.update(&mut self.heap, key, |old| old.unwrap_or(0).wrapping_add(1))?;
            }
            let (next, elapsed) = self.freeze()?;
            histogram.record(elapsed);
            snapshot = next;
        }
        drop(snapshot);
        Ok(histogram)
    }

    fn freeze(&mut self) -> Result<(Snapshot, Duration), HeapError> {
        let stopwatch = Stopwatch::start();
        let snapshot = self.heap.freeze()?;
        let elapsed = stopwatch.elapsed();
        Ok((snapshot, elapsed))
    }

    /// One key of each page, with its state.
    fn keys_of_pages(&self, snapshot: &Snapshot) -> Result<Vec<(Counts, u64)>, Failed> {
        let mut keys = Vec::new();
        for state in &self.states {
            keys.extend(one_key_of_each_page(snapshot, state.id())?.into_iter().map(|key| (*state, key)));
        }
        Ok(keys)
    }
}

/// One key of each page of a state of numbers, in random order.
///
/// # Errors
/// A page cannot be read.
pub fn one_key_of_each_page(snapshot: &Snapshot, state: StateId) -> Result<Vec<u64>, Failed> {
    let mut keys = Vec::new();
    for group in snapshot.key_groups().iter() {
        for page in snapshot.pages(state, group) {
            keys.extend(first_key(page.bytes())?);
        }
    }
    shuffle(&mut keys);
    Ok(keys)
}

fn first_key(frame: &[u8]) -> Result<Option<u64>, Failed> {
    let PageView::Hash(page) = PageView::parse(frame)? else { return Ok(None) };
    let Some(record) = page.records().next().transpose()? else { return Ok(None) };
    let Content::Inline(key) = record.key else { return Ok(None) };
    Ok(key.try_into().ok().map(u64::from_le_bytes))
}

/// Room for half-full pages and three times all of them, and for a page of each key group however few its keys.
fn memory_limit(layout: Layout) -> u64 {
    let groups = u64::from(layout.states) * u64::from(layout.max_parallelism.get());
    let pages = groups.min(layout.keys.into()) * 4096 + u64::from(layout.keys) * 40;
    4 * pages + groups * 64 * 4 + (64 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heap_of_many_states_is_frozen_as_often_as_asked() {
        let max_parallelism = MaxParallelism::new(300).unwrap();
        let mut freezing = Freezing::filled(Layout { keys: 3_000, states: 3, max_parallelism }).unwrap();
        assert!(freezing.freeze_often(5).unwrap().nanos_max() > 0);
        assert!(freezing.freeze_relocated(5).unwrap().nanos_max() > 0);
        let snapshot = freezing.heap.freeze().unwrap();
        assert_eq!(snapshot.states().map(|state| state.entries).sum::<u64>(), 3_000);
        let pages = freezing.keys_of_pages(&snapshot).unwrap();
        assert!((800..=900).contains(&pages.len()), "{} pages", pages.len());
    }
}
