//! Counts words, one number for each.

use slackwater_core::key_group::MaxParallelism;
use slackwater_mem::{Bytes, Decode, Plain, ScanCursor, StateError, ValueState};

use super::totals::Slot;
use super::{Emit, counted};
use crate::keyed::{Context, KeyedProcess, Rest, Setup};
use crate::operator::OperatorError;
use crate::record::{Batch, PackedBytes};

type Counts = ValueState<Bytes, Plain<u64>>;

/// Pages of counts that are emitted at once.
const PAGES_PER_CALL: usize = 8;

/// Counts the words of one subtask's key groups.
#[derive(Debug)]
pub(super) struct Count {
    emit: Emit,
    counts: Option<Counts>,
    totals: Slot,
    /// The line in work, kept for its memory.
    line: Vec<u8>,
    /// How far the final counts have been emitted.
    cursor: ScanCursor,
}

impl Count {
    pub(super) fn new(emit: Emit, totals: Slot) -> Self {
        Self { emit, counts: None, totals, line: Vec::new(), cursor: ScanCursor::default() }
    }

    fn counts(&self) -> Counts {
        self.counts.expect("open comes before everything else")
    }
}

impl KeyedProcess for Count {
    type Key = Bytes;
    type In = [u8];
    type Out = [u8];

    fn open(&mut self, setup: &mut Setup<'_>) -> Result<(), OperatorError> {
        let max = MaxParallelism::new(u32::from(setup.info.max_parallelism)).map_err(refused)?;
        let counts = Counts::register(setup.heap, &setup.info.operator, "counts", max).map_err(refused)?;
        self.counts = Some(counts);
        Ok(())
    }

    /// Goes on from what earlier runs have counted.
    fn on_restored(&mut self, setup: &mut Setup<'_>) -> Result<(), OperatorError> {
        let counts = self.counts();
        let (mut cursor, mut words, mut damage) = (ScanCursor::default(), 0, None);
        loop {
            let mut add =
                |_: slackwater_mem::Value<'_>, count: slackwater_mem::Value<'_>| match Plain::<u64>::decode(
                    &count,
                ) {
                    Ok(count) => words += count,
                    Err(malformed) => damage = Some(malformed),
                };
            let more = setup.heap.scan(counts.id(), &mut cursor, &mut add).map_err(refused)?;
            if let Some(malformed) = damage {
                return Err(refused(malformed));
            }
            if !more {
                break;
            }
        }
        self.totals.start_from(words, setup.heap.len(counts.id()));
        Ok(())
    }

    fn process(
        &mut self,
        word: &[u8],
        record: &[u8],
        context: &mut Context<'_, [u8]>,
    ) -> Result<(), OperatorError> {
        let (_, count) = counted::split(record);
        let mut now = 0;
        let updated = self.counts().update(context.heap_mut(), word, |before| {
            now = before.unwrap_or(0) + count;
            now
        });
        updated.map_err(|error: StateError| refused(error))?;
        self.totals.add(count, now == count);
        if self.emit == Emit::Updates {
            self.line.clear();
            self.line.extend_from_slice(word);
            push_count(&mut self.line, now);
            context.emit(&self.line);
        }
        Ok(())
    }

    fn on_end_of_data(&mut self, context: &mut Context<'_, [u8]>) -> Result<Rest, OperatorError> {
        if self.emit == Emit::Updates {
            return Ok(Rest::Done);
        }
        let (line, mut lines, mut damage) = (&mut self.line, PackedBytes::default(), None);
        let counts = self.counts.expect("open comes before everything else");
        let mut format = |word: slackwater_mem::Value<'_>, count: slackwater_mem::Value<'_>| {
            line.clear();
            word.chunks().for_each(|chunk| line.extend_from_slice(chunk));
            match Plain::<u64>::decode(&count) {
                Ok(count) => push_count(line, count),
                Err(malformed) => damage = Some(malformed),
            }
            lines.push(line);
        };
        let mut more = true;
        for _ in 0..PAGES_PER_CALL {
            more =
                more && context.heap().scan(counts.id(), &mut self.cursor, &mut format).map_err(refused)?;
        }
        if let Some(malformed) = damage {
            return Err(refused(malformed));
        }
        for index in 0..lines.len() {
            context.emit(lines.get(index).expect("below the length"));
        }
        Ok(if more { Rest::More } else { Rest::Done })
    }
}

fn refused(error: impl std::fmt::Display) -> OperatorError {
    OperatorError::beyond_restart(error.to_string())
}

/// Appends a tab and the number in decimal.
fn push_count(line: &mut Vec<u8>, mut count: u64) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + u8::try_from(count % 10).expect("a digit");
        count /= 10;
        if count == 0 {
            break;
        }
    }
    line.push(b'\t');
    line.extend_from_slice(&digits[first..]);
}

#[cfg(test)]
mod tests {
    use super::push_count;

    #[test]
    fn counts_are_written_in_decimal() {
        for count in [0, 7, 10, 1_234_567_890, u64::MAX] {
            let mut line = b"word".to_vec();
            push_count(&mut line, count);
            assert_eq!(line, format!("word\t{count}").into_bytes());
        }
    }
}
