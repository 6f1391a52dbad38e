//! What the entries of a segment are held against.

use std::collections::BTreeMap;

use slackwater_core::format::FormatError;
use slackwater_core::format::segment::{Distribution, FooterView, IndexView, KeyGroupRow};
use slackwater_core::key_group::KeyGroup;

/// The place of an entry in a list of `count`, which is its key.
pub(super) fn place_in_list(key: &[u8], count: u64) -> Result<u64, FormatError> {
    let place = <[u8; 8]>::try_from(key).map(u64::from_le_bytes);
    match place {
        Ok(place) if place < count => Ok(place),
        Ok(place) => Err(corrupt("place in a list", count, place)),
        Err(_) => Err(corrupt("length of a place in a list", 8, key.len() as u64)),
    }
}

/// Entries of states as a whole segment has them.
#[derive(Debug)]
pub(super) struct Tally {
    states: BTreeMap<u16, TalliedState>,
}

#[derive(Debug)]
struct TalliedState {
    distribution: Distribution,
    expected: u64,
    count: u64,
}

impl Tally {
    pub(super) fn of(footer: &FooterView<'_>) -> Self {
        let states = footer.states().map(|state| {
            let (distribution, expected) = (state.distribution, state.entry_count);
            (state.state_id, TalliedState { distribution, expected, count: 0 })
        });
        Self { states: states.collect() }
    }

    /// Takes in an entry: it lies where those of its state may.
    pub(super) fn add(&mut self, group: KeyGroup, state: u16, key: &[u8]) -> Result<(), FormatError> {
        let tallied = self.add_many(group, state, 1)?;
        if tallied.distribution.is_list() {
            place_in_list(key, tallied.expected)?;
        }
        Ok(())
    }

    /// Takes in entries of a state, but for their places in a list.
    fn add_many(
        &mut self,
        group: KeyGroup,
        state: u16,
        count: u64,
    ) -> Result<&mut TalliedState, FormatError> {
        let known = self.states.len() as u64;
        let Some(tallied) = self.states.get_mut(&state) else {
            return Err(corrupt("state of a page", known, state.into()));
        };
        let is_by_key = tallied.distribution == Distribution::ByKey;
        if is_by_key == (group == KeyGroup::NONE) {
            let what = "key group of a state";
            return Err(corrupt(what, tallied.distribution.number().into(), group.0.into()));
        }
        tallied.count = tallied.count.saturating_add(count);
        Ok(tallied)
    }

    /// Takes in as many entries as the index of a key group says, and gives their number.
    pub(super) fn add_index(&mut self, row: &KeyGroupRow, index: &IndexView<'_>) -> Result<u64, FormatError> {
        let mut entries = 0_u64;
        for section in index.sections() {
            let count = section.head.entry_count.get();
            self.add_many(KeyGroup(row.key_group.get()), section.head.state_id.get(), count)?;
            entries = entries.saturating_add(count);
        }
        Ok(entries)
    }

    /// Every state has as many entries as it should. A list then has one in each place, since no key occurs twice.
    pub(super) fn check(&self) -> Result<(), FormatError> {
        self.states.values().try_for_each(|state| expect("entries of a state", state.expected, state.count))
    }
}

pub(super) fn expect(what: &'static str, expected: u64, found: u64) -> Result<(), FormatError> {
    if expected == found { Ok(()) } else { Err(corrupt(what, expected, found)) }
}

pub(super) const fn corrupt(what: &'static str, expected: u64, found: u64) -> FormatError {
    FormatError::Corrupt { what, offset: 0, expected, found }
}
