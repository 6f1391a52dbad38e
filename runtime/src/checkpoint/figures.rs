//! What a subtask's part took, as it lies in the manifest.
//!
//! It is a state of the subtask's own under a name that starts with a dot, as no operator's state does; FORMAT.md has its
//! fields. No restore reads it, and a manifest without it is as good.

use slackwater_core::coordinator::statistics::SubtaskFigures;
use slackwater_core::ids::TaskIndex;
use slackwater_core::time::Millis;

/// Name of the state.
pub(super) const FIGURES: &str = ".figures";

const VERSION: u8 = 1;
const NUMBERS: usize = 9;

pub(super) fn encode(figures: &SubtaskFigures) -> Vec<u8> {
    let numbers: [u64; NUMBERS] = [
        figures.acknowledged_at.0,
        figures.checkpointed_size,
        figures.state_size,
        figures.synchronous.0,
        figures.asynchronous.0,
        figures.processed,
        figures.persisted,
        figures.alignment.0,
        figures.start_delay.0,
    ];
    let mut bytes = vec![VERSION, u8::from(figures.is_unaligned)];
    bytes.extend(numbers.into_iter().flat_map(u64::to_le_bytes));
    bytes
}

/// None for bytes of another version, or none at all.
pub(super) fn decode(bytes: &[u8], task: TaskIndex) -> Option<SubtaskFigures> {
    let (&[VERSION, flags], numbers) = bytes.split_first_chunk::<2>()? else { return None };
    let (numbers, []) = numbers.as_chunks::<8>() else { return None };
    let numbers: [[u8; 8]; NUMBERS] = numbers.try_into().ok()?;
    let [
        acknowledged_at,
        checkpointed_size,
        state_size,
        synchronous,
        asynchronous,
        processed,
        persisted,
        alignment,
        start_delay,
    ] = numbers.map(u64::from_le_bytes);
    Some(SubtaskFigures {
        task,
        acknowledged_at: Millis(acknowledged_at),
        checkpointed_size,
        state_size,
        synchronous: Millis(synchronous),
        asynchronous: Millis(asynchronous),
        processed,
        persisted,
        alignment: Millis(alignment),
        start_delay: Millis(start_delay),
        is_unaligned: flags & 1 != 0,
        is_complete: true,
    })
}
