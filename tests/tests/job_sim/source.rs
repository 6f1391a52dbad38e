//! A source of numbered records in splits, which spread over any number of subtasks.

use slackwater::operator::{OperatorError, Source, SourceStatus};
use slackwater::output::Output;
use slackwater_tests::rng::Rng;

use crate::cut::Cut;
use crate::graph::Shared;
use crate::hooks::{Hooks, Place};
use crate::plan::{Mutant, Pipeline};

/// Reads its splits in an order of its own.
pub(crate) struct Numbers {
    pipeline: Pipeline,
    hooks: Hooks,
    cut: Cut,
    rng: Rng,
    splits: Vec<Split>,
}

#[derive(Clone, Copy, Debug)]
struct Split {
    number: u16,
    /// The next record.
    position: u64,
    len: u64,
}

impl Numbers {
    /// The subtask `index` of so many.
    pub(crate) fn new(pipeline: Pipeline, shared: &Shared, seed: u64, index: u16, parallelism: u16) -> Self {
        let splits = (0u16..).zip(&pipeline.splits).filter(|(number, _)| number % parallelism == index);
        let splits = splits.map(|(number, len)| Split { number, position: 0, len: *len }).collect();
        let (hooks, cut) = (shared.hooks.clone(), shared.cut.clone());
        Self { pipeline, hooks, cut, rng: Rng::new(seed), splits }
    }
}

impl Source for Numbers {
    type Out = [u8];

    fn restore(&mut self, splits: Vec<Vec<u8>>) -> Result<(), OperatorError> {
        self.hooks.at(Place::Restore)?;
        self.splits = splits.iter().map(|bytes| Split::decode(bytes)).collect();
        Ok(())
    }

    fn read(&mut self, out: &mut Output<'_, [u8]>) -> Result<SourceStatus, OperatorError> {
        self.hooks.at(Place::Read)?;
        if self.rng.chance(self.pipeline.pauses) {
            return Ok(SourceStatus::More);
        }
        let mut left: Vec<_> = self.splits.iter_mut().filter(|split| split.position < split.len).collect();
        let index = self.rng.index(left.len());
        let Some(split) = left.get_mut(index) else { return Ok(SourceStatus::Ended) };
        for _ in 0..=self.rng.below(self.pipeline.burst) {
            if split.position < split.len && out.has_room() {
                out.emit(&self.pipeline.record(split.number, split.position));
                split.position += 1;
                self.cut.note_read(1);
            }
        }
        Ok(SourceStatus::More)
    }

    fn snapshot(&mut self) -> Vec<Vec<u8>> {
        let ahead = u64::from(self.hooks.has(Mutant::PositionAhead));
        self.splits
            .iter()
            .map(|split| Split { position: split.position + ahead, ..*split }.encode())
            .collect()
    }
}

/// A split of a checkpoint, and the record that is next in it.
pub(crate) fn position(split: &[u8]) -> (u16, u64) {
    let Split { number, position, .. } = Split::decode(split);
    (number, position)
}

impl Split {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = self.number.to_le_bytes().to_vec();
        bytes.extend(self.position.to_le_bytes());
        bytes.extend(self.len.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Self {
        let number = |from: usize| u64::from_le_bytes(bytes[from..from + 8].try_into().expect("eight bytes"));
        let split = u16::from_le_bytes(bytes[..2].try_into().expect("two bytes"));
        Self { number: split, position: number(2), len: number(10) }
    }
}
