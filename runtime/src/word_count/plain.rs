//! The word count without streams, state or checkpoints: what the job's output is compared with.

use std::collections::BTreeMap;

/// Every word of a text and how often it occurs. Reads byte by byte and shares no code with the job.
#[must_use]
pub fn plain_count(text: &[u8]) -> BTreeMap<Vec<u8>, u64> {
    let mut counts = BTreeMap::new();
    add_counts(&mut counts, text);
    counts
}

/// Adds the words of a text; words do not go on from one text to the next.
pub fn add_counts(counts: &mut BTreeMap<Vec<u8>, u64>, text: &[u8]) {
    let mut word = Vec::new();
    for &byte in text.iter().chain(b"\n") {
        let is_space = matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r');
        if !is_space {
            word.push(byte);
        } else if !word.is_empty() {
            *counts.entry(std::mem::take(&mut word)).or_default() += 1;
        }
    }
}
