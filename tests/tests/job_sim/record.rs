//! Records, and what a pipeline makes of them: worked out on lists, without any of the machinery under test.
//!
//! A record is `kk;ss;nnnn;` and what operators append: its key, the split it comes from, its number there. All
//! records of a stream differ, so a lost or repeated one shows.

use std::collections::BTreeMap;

use crate::plan::{Keyed, Pipeline, Stage};

/// Bytes of the key, at the front.
const KEY_LEN: usize = 2;
/// Names what [`Keyed::Count`] emits, in the place of a split.
const COUNTED: u16 = 99;

/// The record of a split with this number.
pub(crate) fn record(key: u64, split: u16, number: u64) -> Vec<u8> {
    format!("{key:02};{split:02};{number:04};").into_bytes()
}

/// The key, as bytes.
pub(crate) fn key_of(record: &[u8]) -> &[u8] {
    record.get(..KEY_LEN).unwrap_or(record)
}

/// The split that it comes from.
pub(crate) fn split_of(record: &[u8]) -> u16 {
    u16::try_from(digits(record, 3, 5)).expect("two digits")
}

/// Its number in the split.
pub(crate) fn number_of(record: &[u8]) -> u64 {
    digits(record, 6, 10)
}

fn digits(record: &[u8], from: usize, to: usize) -> u64 {
    let digits = record.get(from..to).and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("no record: {record:?}"))
}

/// What [`Stage::Fork`] makes of a record: none, one or two.
pub(crate) fn forked(record: &[u8]) -> Vec<Vec<u8>> {
    match number_of(record) % 7 {
        6 => Vec::new(),
        0 | 3 => vec![tagged(record, b"a"), tagged(record, b"b")],
        _ => vec![record.to_vec()],
    }
}

/// What [`Stage::Rekey`] makes of a record: the old key goes behind, so that all still differ.
pub(crate) fn rekeyed(record: &[u8], keys: u64) -> Vec<u8> {
    let old = digits(record, 0, KEY_LEN);
    let mut rekeyed = format!("{:02}", (old * 3 + number_of(record)) % keys).into_bytes();
    rekeyed.extend_from_slice(&record[KEY_LEN..]);
    tagged(&rekeyed, format!("k{old}").as_bytes())
}

/// What [`Keyed::Count`] emits for the record that is the `count`-th of its key.
pub(crate) fn counted(record: &[u8], count: u64) -> Vec<u8> {
    let mut counted = key_of(record).to_vec();
    counted.extend_from_slice(format!(";{COUNTED:02};{count:04};").as_bytes());
    counted
}

/// What [`Keyed::Tally`] emits for a record that it sees for the `count`-th time.
pub(crate) fn tallied(record: &[u8], count: u64) -> Vec<u8> {
    tagged(record, format!("#{count}").as_bytes())
}

fn tagged(record: &[u8], tag: &[u8]) -> Vec<u8> {
    [record, tag].concat()
}

/// All records of a pipeline's source.
pub(crate) fn records_of_source(pipeline: &Pipeline) -> Vec<Vec<u8>> {
    let of_split = |(split, len): (u16, &u64)| {
        let record = move |number| pipeline.record(split, number);
        (0..*len).map(record).collect::<Vec<_>>()
    };
    (0u16..).zip(&pipeline.splits).flat_map(of_split).collect()
}

/// What a run without failures commits, in order.
pub(crate) fn expected(pipeline: &Pipeline) -> Vec<Vec<u8>> {
    let mut records = records_of_source(pipeline);
    for stage in &pipeline.stages {
        records = after(stage, records, pipeline.keys);
    }
    records.sort();
    records
}

fn after(stage: &Stage, records: Vec<Vec<u8>>, keys: u64) -> Vec<Vec<u8>> {
    match stage {
        Stage::Fork => records.iter().flat_map(|record| forked(record)).collect(),
        Stage::Rekey => records.iter().map(|record| rekeyed(record, keys)).collect(),
        Stage::Keyed(Keyed::Count) => {
            let mut counts: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
            let count = |record: &Vec<u8>| {
                let count = counts.entry(key_of(record).to_vec()).or_default();
                *count += 1;
                counted(record, *count)
            };
            records.iter().map(count).collect()
        }
        Stage::Keyed(Keyed::Tally) => records.iter().map(|record| tallied(record, 1)).collect(),
        Stage::Bundle(_) | Stage::Rebalance | Stage::Keyed(Keyed::Hold | Keyed::Gather | Keyed::Ordered) => {
            records
        }
    }
}
