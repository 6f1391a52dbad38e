//! A range of bytes of one input and how far it has been read.

use crate::inputs::{Digest, Identity, InputError, Inputs};

/// Where a split stands between two records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Looking for the first line that starts in the range; the one before belongs to another split.
    Skipping,
    /// A line starts at the position.
    AtLine,
    /// The position lies in a line whose beginning has been read already.
    InLine,
}

/// A range of bytes of one input: its lines are those that *start* in the range.
///
/// The unit in which a source's position is kept in checkpoints and moved to another parallelism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Index of the input.
    pub input: u32,
    /// First byte of the range.
    pub start: u64,
    /// End of the range; none for the last one of an input, which also reads what is appended.
    pub end: Option<u64>,
    /// Everything before it has been read and either emitted or skipped.
    pub position: u64,
    /// Where it stands.
    pub phase: Phase,
}

/// Length in bytes below which an input is not split any further.
pub const SPLIT_LEN_MIN: u64 = 256 * 1024;
/// The most splits of one input for each subtask: enough to share them out again at another parallelism.
const SPLITS_PER_SUBTASK_MAX: u64 = 8;

impl Split {
    /// The split of `input` from `start` to `end` with nothing read.
    #[must_use]
    pub fn new(input: u32, start: u64, end: Option<u64>) -> Self {
        // A line starts at `start` if the byte before it ends one: looking begins there.
        let (position, phase) = match start {
            0 => (0, Phase::AtLine),
            _ => (start - 1, Phase::Skipping),
        };
        Self { input, start, end, position, phase }
    }

    /// Whether no line is left in it, given the length of its input.
    #[must_use]
    pub fn is_done(&self, input_len: u64) -> bool {
        let end = match self.phase {
            Phase::InLine => input_len,
            Phase::Skipping | Phase::AtLine => self.end.unwrap_or(input_len).min(input_len),
        };
        self.position >= end
    }

    /// Bytes of its range that have been passed; over all splits they add up to the bytes of the inputs.
    #[must_use]
    pub fn bytes_passed(&self) -> u64 {
        self.position.min(self.end.unwrap_or(u64::MAX)).saturating_sub(self.start)
    }

    /// What the part of the input just before the position is recognised by.
    #[must_use]
    pub fn window(&self) -> (u64, u64) {
        let first = Self::new(self.input, self.start, self.end).position;
        (self.position.saturating_sub(Digest::WINDOW).max(first), self.position)
    }
}

/// The splits of all inputs for a job with this parallelism; subtask `i` reads every `parallelism`-th from `i` on.
///
/// An input has at most eight splits for each subtask and each has at least `split_len_min` bytes.
#[must_use]
pub fn plan(inputs: &Inputs, parallelism: u32, split_len_min: u64) -> Vec<Split> {
    let parallelism = u64::from(parallelism.max(1));
    let mut splits = Vec::new();
    for (index, input) in (0..).zip(inputs.iter()) {
        let count_max = parallelism * SPLITS_PER_SUBTASK_MAX;
        let count = (input.len() / split_len_min.max(1)).clamp(1, count_max);
        // Whole rounds, so that every subtask has the same share of a long input.
        let count = if count > parallelism { count - count % parallelism } else { count };
        // Without a product that could overflow; the remainder is spread over the first splits.
        let (each, rest) = (input.len() / count, input.len() % count);
        let bound = |n: u64| each * n + rest.min(n);
        splits.extend((0..count).map(|n| {
            let end = (n + 1 < count).then(|| bound(n + 1));
            Split::new(index, bound(n), end)
        }));
    }
    splits
}

/// A split as it lies in a checkpoint, with what the input is recognised by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedSplit {
    /// The split.
    pub split: Split,
    /// How many inputs the job had.
    pub input_count: u32,
    /// The input as a whole.
    pub identity: Identity,
    /// The bytes of [`Split::window`].
    pub window: Digest,
}

const VERSION: u8 = 1;
const LEN: usize = 66;
/// How "no end" is written.
const NO_END: u64 = u64::MAX;

impl RecordedSplit {
    /// Its bytes: version and phase (one byte each), input and number of inputs (4 bytes each), then start,
    /// end, position, length, digests of head, tail and window (8 bytes each), little-endian.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LEN);
        let phase = match self.split.phase {
            Phase::Skipping => 0,
            Phase::AtLine => 1,
            Phase::InLine => 2,
        };
        bytes.extend([VERSION, phase]);
        bytes.extend(self.split.input.to_le_bytes());
        bytes.extend(self.input_count.to_le_bytes());
        for number in [
            self.split.start,
            self.split.end.unwrap_or(NO_END),
            self.split.position,
            self.identity.len,
            self.identity.head.0,
            self.identity.tail.0,
            self.window.0,
        ] {
            bytes.extend(number.to_le_bytes());
        }
        bytes
    }

    /// Reads what [`RecordedSplit::encode`] wrote.
    ///
    /// # Errors
    /// [`InputError::BadPosition`] for any other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, InputError> {
        let bad = |what| InputError::BadPosition { what };
        let bytes: &[u8; LEN] = bytes.try_into().map_err(|_| bad("its length"))?;
        if bytes[0] != VERSION {
            return Err(bad("its version"));
        }
        let phase = match bytes[1] {
            0 => Phase::Skipping,
            1 => Phase::AtLine,
            2 => Phase::InLine,
            _ => return Err(bad("its phase")),
        };
        let short = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let long = |n: usize| {
            let at = 10 + 8 * n;
            u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
        };
        let end = Some(long(1)).filter(|&end| end != NO_END);
        let split = Split { input: short(2), start: long(0), end, position: long(2), phase };
        let recorded = Self {
            split,
            input_count: short(6),
            identity: Identity { len: long(3), head: Digest(long(4)), tail: Digest(long(5)) },
            window: Digest(long(6)),
        };
        recorded.check().map(|()| recorded)
    }

    fn check(&self) -> Result<(), InputError> {
        let split = self.split;
        let ordered = split.start <= split.end.unwrap_or(u64::MAX)
            && split.position <= self.identity.len
            && split.position.saturating_add(1) >= split.start;
        if !ordered || split.input >= self.input_count {
            return Err(InputError::BadPosition { what: "its numbers contradict each other" });
        }
        Ok(())
    }
}
