//! A source of lines: several inputs, split by ranges of bytes between the subtasks.
//!
//! A split reads the lines that start in its range, to their end, so each line is read by exactly one split
//! wherever the bounds fall. A line is any bytes up to a newline, which is not part of it, or up to the end
//! of the input; nothing else is special, neither NUL nor carriage return nor invalid UTF-8.

mod cursor;
mod split;
#[cfg(test)]
mod tests;

use self::cursor::Cursor;
pub use self::split::{Phase, RecordedSplit, SPLIT_LEN_MIN, Split, plan};
use crate::inputs::{Digest, Input, InputError, Inputs};
use crate::operator::{OperatorError, Source, SourceStatus};
use crate::output::Output;

/// How lines are read.
#[derive(Clone, Copy, Debug)]
pub struct LineOptions {
    /// Bytes read at once, and the length from which on a line counts as long.
    pub chunk_len: usize,
    /// The least bytes of a split.
    pub split_len_min: u64,
    /// Bytes that may be cut away where a long line is broken into several records, for jobs to which it
    /// makes no difference. A line is then held in memory only up to its next break.
    pub cut_long_lines_at: Option<fn(u8) -> bool>,
    /// The most bytes of a line, or of what lies between two breaks of one that is cut.
    pub line_len_max: u64,
}

impl Default for LineOptions {
    fn default() -> Self {
        Self {
            chunk_len: 128 * 1024,
            split_len_min: SPLIT_LEN_MIN,
            cut_long_lines_at: None,
            line_len_max: u64::MAX,
        }
    }
}

/// Reads lines; one instance per subtask.
#[derive(Debug)]
pub struct LineSource {
    inputs: Inputs,
    options: LineOptions,
    splits: Vec<Share>,
    /// The split in work, or the first one to look at next.
    current: usize,
    /// Open while the current split is in work.
    cursor: Option<Cursor>,
    bytes_read: u64,
    bytes_restored: u64,
}

/// A split of this subtask.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// As it was when the cursor was last closed or recorded.
    split: Split,
    /// Digest of its window then.
    window: Digest,
}

impl LineSource {
    /// The source of subtask `index` of `parallelism`, at the beginning of the inputs.
    #[must_use]
    pub fn new(inputs: Inputs, options: LineOptions, index: u16, parallelism: u16) -> Self {
        let all = plan(&inputs, u32::from(parallelism), options.split_len_min);
        let mine = all.into_iter().skip(usize::from(index)).step_by(usize::from(parallelism.max(1)));
        let splits = mine.map(|split| Share { split, window: Digest::EMPTY }).collect();
        Self { inputs, options, splits, current: 0, cursor: None, bytes_read: 0, bytes_restored: 0 }
    }

    /// Takes up a split where a checkpoint left it, and lets it read what the input has grown by.
    fn take_over(&self, bytes: &[u8]) -> Result<Share, InputError> {
        let recorded = RecordedSplit::decode(bytes)?;
        let split = recorded.split;
        let (then, now) = (u64::from(recorded.input_count), self.inputs.count() as u64);
        let input = self.inputs.input(split.input as usize).filter(|_| then == now);
        let input = input.ok_or(InputError::OtherInputs { recorded: then, found: now })?;
        input.check_against(recorded.identity)?;
        let (from, to) = split.window();
        if from < to && Digest::of_range(&input.open()?, from, to)? != recorded.window {
            return Err(InputError::Changed { name: input.name().to_owned(), from, to });
        }
        if split.phase == Phase::InLine && split.position == recorded.identity.len {
            self.check_growth(input, split.position)?;
        }
        Ok(Share { split, window: recorded.window })
    }

    /// A last line that was read without an end must not go on; it may be ended, or cut where that is allowed.
    fn check_growth(&self, input: &Input, offset: u64) -> Result<(), InputError> {
        let from = offset.saturating_sub(1);
        let mut around = [b'\n'; 2];
        let len = input.open()?.read_at(from, &mut around)?;
        let is_break =
            |byte: u8| byte == b'\n' || self.options.cut_long_lines_at.is_some_and(|cut| cut(byte));
        if len < 2 || around.iter().any(|&byte| is_break(byte)) {
            return Ok(());
        }
        Err(InputError::LastLineGrew { name: input.name().to_owned(), offset })
    }

    fn record(&self, share: &Share) -> Vec<u8> {
        let split = share.split;
        let input = self.inputs.input(split.input as usize).expect("splits are of these inputs");
        let input_count = u32::try_from(self.inputs.count()).expect("splits count inputs in 32 bits");
        RecordedSplit { split, input_count, identity: input.identity(), window: share.window }.encode()
    }

    /// Brings the share of the split in work up to date.
    fn note_position(&mut self) {
        if let (Some(cursor), Some(share)) = (&self.cursor, self.splits.get_mut(self.current)) {
            *share = Share { split: cursor.split(), window: cursor.window() };
        }
    }

    /// Opens the next split that has lines left; false if there is none.
    fn advance(&mut self) -> Result<bool, InputError> {
        while self.cursor.is_none() {
            let Some(Share { split, .. }) = self.splits.get(self.current) else { return Ok(false) };
            let input = self.inputs.input(split.input as usize).expect("splits are of these inputs");
            if split.is_done(input.len()) {
                self.current += 1;
            } else {
                self.cursor = Some(Cursor::open(input, *split, self.options)?);
            }
        }
        Ok(true)
    }

    /// Emits what lies complete in the buffer. True if nothing is left there and there is still room.
    fn emit_buffered(&mut self, out: &mut Output<'_, [u8]>) -> Result<bool, InputError> {
        let Some(cursor) = &mut self.cursor else { return Ok(true) };
        let before = cursor.split().bytes_passed();
        let is_drained = loop {
            if !out.has_room() {
                break false;
            }
            match cursor.next_line()? {
                Some(line) => out.emit(line),
                None => break true,
            }
        };
        self.bytes_read += cursor.split().bytes_passed() - before;
        Ok(is_drained)
    }

    fn step(&mut self, out: &mut Output<'_, [u8]>) -> Result<SourceStatus, InputError> {
        if !self.advance()? {
            return Ok(SourceStatus::Ended);
        }
        if self.emit_buffered(out)?
            && let Some(cursor) = self.cursor.as_mut().filter(|cursor| !cursor.is_done())
        {
            cursor.read()?;
            self.emit_buffered(out)?;
        }
        if self.cursor.as_ref().is_some_and(Cursor::is_done) {
            self.note_position();
            self.cursor = None;
        }
        Ok(if self.advance()? { SourceStatus::More } else { SourceStatus::Ended })
    }
}

impl Source for LineSource {
    type Out = [u8];

    fn restore(&mut self, splits: Vec<Vec<u8>>) -> Result<(), OperatorError> {
        let shares: Result<Vec<Share>, InputError> =
            splits.iter().map(|bytes| self.take_over(bytes)).collect();
        self.splits = shares?;
        self.bytes_restored = self.splits.iter().map(|share| share.split.bytes_passed()).sum();
        self.current = 0;
        self.cursor = None;
        Ok(())
    }

    fn read(&mut self, out: &mut Output<'_, [u8]>) -> Result<SourceStatus, OperatorError> {
        Ok(self.step(out)?)
    }

    fn snapshot(&mut self) -> Vec<Vec<u8>> {
        self.note_position();
        self.splits.iter().map(|share| self.record(share)).collect()
    }

    fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    fn bytes_restored(&self) -> u64 {
        self.bytes_restored
    }
}
