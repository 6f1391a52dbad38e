//! What a run without failures commits, and whether a run with failures has committed the same.

use std::collections::BTreeMap;

use crate::job::{Job, Kind};
use crate::record::{KeyState, Record, Row, key_of};

/// Results as a multiset. In whatever order the records come, every key is counted through, and on each way the records
/// come in one order; so counts and ways are told apart, and which record gets which count is left open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Output {
    counts: BTreeMap<[u32; 4], u32>,
    ways: BTreeMap<[u32; 4], u32>,
}

impl Output {
    /// What a job commits if nothing fails, worked out record by record.
    pub(crate) fn of(job: &Job) -> Self {
        let mut plain = Plain { job, states: BTreeMap::new(), output: Self::default() };
        for (vertex, splits) in (0..).zip(&job.splits) {
            for id in splits.iter().flat_map(|split| split.next..split.end) {
                plain.send(vertex, Record::from_source(id));
            }
        }
        plain.output
    }

    pub(crate) fn add(&mut self, row: Row) {
        let [count, way] = Self::keys(row);
        *self.counts.entry(count).or_default() += 1;
        *self.ways.entry(way).or_default() += 1;
    }

    pub(crate) fn remove(&mut self, row: Row) {
        let [count, way] = Self::keys(row);
        for (found, key) in [(&mut self.counts, count), (&mut self.ways, way)] {
            let left = found.get(&key).map_or(0, |times| times - 1);
            if left == 0 {
                found.remove(&key)
            } else {
                found.insert(key, left)
            };
        }
    }

    fn keys(Row { sink, via, record }: Row) -> [[u32; 4]; 2] {
        let place = (u32::from(sink), u32::from(via));
        [[place.0, place.1, record.key, record.count], [place.0, place.1, record.id, record.chain]]
    }

    /// Nothing twice and nothing that a run without failures would not commit.
    pub(crate) fn check_within(&self, expected: &Self) -> Result<(), String> {
        for (name, found, wanted) in
            [("count", &self.counts, &expected.counts), ("way", &self.ways, &expected.ways)]
        {
            for (key, times) in found {
                let wanted = wanted.get(key).copied().unwrap_or(0);
                if *times > wanted {
                    return Err(format!("committed {times} times instead of {wanted}: {name} {key:?}"));
                }
            }
        }
        Ok(())
    }

    /// Exactly once: the same results.
    pub(crate) fn check_equals(&self, expected: &Self) -> Result<(), String> {
        self.check_within(expected)?;
        let is_missing = |(key, times): &(&[u32; 4], &u32)| self.ways.get(*key) != Some(*times);
        match expected.ways.iter().find(is_missing) {
            Some((key, _)) => Err(format!("not committed: way {key:?}")),
            None if self == expected => Ok(()),
            None => Err("counts are missing".to_owned()),
        }
    }

    /// At least once: no record is missing, none is made up, and every key is counted through.
    pub(crate) fn check_covers(&self, expected: &Self) -> Result<(), String> {
        let records =
            |output: &Self| output.ways.keys().map(|way| [way[0], way[1], way[2]]).collect::<Vec<_>>();
        let (mut found, mut wanted) = (records(self), records(expected));
        [&mut found, &mut wanted].into_iter().for_each(|records| {
            records.sort_unstable();
            records.dedup();
        });
        if found != wanted {
            let missing = wanted.iter().find(|record| !found.contains(record));
            let made_up = found.iter().find(|record| !wanted.contains(record));
            return Err(format!("missing {missing:?}, made up {made_up:?}"));
        }
        match expected.counts.keys().find(|count| !self.counts.contains_key(*count)) {
            Some(count) => Err(format!("a key was not counted through: {count:?}")),
            None => Ok(()),
        }
    }
}

struct Plain<'j> {
    job: &'j Job,
    states: BTreeMap<(u16, u32), KeyState>,
    output: Output,
}

impl Plain<'_> {
    fn send(&mut self, from: u16, record: Record) {
        let job = self.job;
        for edge in job.edges.iter().filter(|edge| edge.from == from) {
            if job.kind_of(edge.to) == Kind::Sink {
                self.output.add(Row { sink: edge.to, via: from, record });
            } else {
                let key = key_of(edge.to, record.id);
                let passed_on = self.states.entry((edge.to, key)).or_default().add(key, record);
                self.send(edge.to, passed_on);
            }
        }
    }
}
