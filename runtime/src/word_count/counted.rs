//! Words on their way to where they are counted: a word alone, or with how often it has occurred.
//!
//! The number takes eight bytes behind a space. No word has a space in it, so both kinds of records can be told apart, and
//! a job that goes on without pre-aggregation reads those of one with it.

use crate::output::Output;
use crate::pre_aggregate::Combine;

/// A space, and the number in little-endian order.
const COUNT_LEN: usize = 9;

/// The word of a record and how often it has occurred.
#[inline]
pub(super) fn split(record: &[u8]) -> (&[u8], u64) {
    match record.split_last_chunk::<COUNT_LEN>() {
        Some((word, [b' ', count @ ..])) => (word, u64::from_le_bytes(*count)),
        _ => (record, 1),
    }
}

/// The word of a record.
#[inline]
pub(super) fn word(record: &[u8]) -> &[u8] {
    split(record).0
}

/// Counts words before they travel.
#[derive(Clone, Debug, Default)]
pub(super) struct CountEarly {
    /// The record in work, kept for its memory.
    record: Vec<u8>,
}

impl Combine for CountEarly {
    type In = [u8];
    type Out = [u8];
    type Partial = u64;

    #[inline]
    fn key(word: &[u8]) -> &[u8] {
        word
    }

    #[inline]
    fn add(count: &mut u64, _word: &[u8]) {
        *count += 1;
    }

    fn emit(&mut self, word: &[u8], count: &u64, out: &mut Output<'_, [u8]>) {
        if *count == 1 {
            return out.emit(word);
        }
        self.record.clear();
        self.record.extend_from_slice(word);
        self.record.push(b' ');
        self.record.extend_from_slice(&count.to_le_bytes());
        out.emit(&self.record);
    }
}

#[cfg(test)]
mod tests {
    use super::{Combine, CountEarly, split};
    use crate::output::Output;

    #[test]
    fn a_word_comes_back_with_its_count_whatever_it_ends_in() {
        for word in [&b"a"[..], b"", b"12345678", b"123456789", b"a word of more than 16 bytes".split_at(1).0]
        {
            for count in [1, 2, 0x2020_2020_2020_2020, u64::MAX] {
                let mut records = Vec::<Vec<u8>>::new();
                CountEarly::default().emit(word, &count, &mut Output::new(&mut records));
                assert_eq!(records.len(), 1);
                assert_eq!(split(&records[0]), (word, count));
            }
        }
    }
}
