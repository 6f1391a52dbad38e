//! What flows through a simulated job, and what the operators that keep state by key make of it.

use std::collections::BTreeMap;

/// Numbers of a split's records start at a multiple of this.
pub(crate) const SPLIT_SPAN: u32 = 1 << 12;
const KEYS: u32 = 13;

/// One record on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Which record of the sources it goes back to.
    pub(crate) id: u32,
    /// Under which key the last operator has counted it; 0 from a source.
    pub(crate) key: u32,
    /// The how many-th of that key it was.
    pub(crate) count: u32,
    /// A digest of those that it followed on the same way, itself included: it tells their order.
    pub(crate) chain: u32,
}

/// What an operator keeps for a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyState {
    count: u32,
    /// Records of one split and one earlier key come on one way, and so in one order.
    chains: BTreeMap<(u32, u32), u32>,
}

/// Part of a source's input: the records from `next` to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) next: u32,
    pub(crate) end: u32,
}

/// A committed result: which sink it came to, from which vertex, and what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) sink: u16,
    pub(crate) via: u16,
    pub(crate) record: Record,
}

impl Record {
    pub(crate) const fn from_source(id: u32) -> Self {
        Self { id, key: 0, count: 0, chain: 0 }
    }
}

impl KeyState {
    /// Counts a record of this key and gives what is passed on.
    pub(crate) fn add(&mut self, key: u32, record: Record) -> Record {
        self.count += 1;
        let chain = self.chains.entry((record.id / SPLIT_SPAN, record.key)).or_default();
        *chain = mix(chain.wrapping_add(record.id));
        Record { id: record.id, key, count: self.count, chain: *chain }
    }
}

/// The key of a record at a vertex: it depends on the record alone, so that every order of records gives the same keys.
pub(crate) const fn key_of(vertex: u16, id: u32) -> u32 {
    1 + mix(id.wrapping_mul(31).wrapping_add(vertex as u32)) % KEYS
}

pub(crate) const fn mix(value: u32) -> u32 {
    let value = (value ^ (value >> 16)).wrapping_mul(0x85eb_ca6b);
    let value = (value ^ (value >> 13)).wrapping_mul(0xc2b2_ae35);
    value ^ (value >> 16)
}
