//! The compressor of segments by itself.

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use slackwater_core::format::segment::CHUNK_LEN_MAX;

use crate::Failed;

/// Compresses `bytes` in chunks as long as those of a segment, and says into how many bytes.
///
/// # Errors
/// None that the library documents for so much room.
pub fn compress(bytes: &[u8]) -> Result<usize, Failed> {
    let mut out = vec![0; get_maximum_output_size(CHUNK_LEN_MAX)];
    let mut table = CompressTable::large();
    let lens = bytes.chunks(CHUNK_LEN_MAX).map(|chunk| compress_into_with_table(chunk, &mut out, &mut table));
    Ok(lens.sum::<Result<usize, _>>()?)
}
