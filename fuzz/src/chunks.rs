use slackwater_core::format::segment::{
    CHUNK_LEN_MAX, ChunkHead, Chunks, Compression, KeyGroupRow, SegmentHeader,
};
use slackwater_core::key_group::{KeyGroup, KeyGroupRange};
use slackwater_mem::segment::decompress_key_group;

use crate::{memory, repair};

/// Bytes that say of which segment a key group is: its compression, its frame size.
pub(crate) const CHOICE_LEN: usize = 2;

/// The chunks of a key group, behind two bytes that choose the compression and the frame size.
pub fn chunk(data: &[u8]) {
    let Some((choice, data)) = data.split_first_chunk::<CHOICE_LEN>() else { return };
    let mut data = data.to_vec();
    let header = header(*choice);
    let frame_count = repair::chunks(&mut data, &header, 1);
    let row = row(data.len(), frame_count);
    let frames_len = u64::from(frame_count) * header.frame_size();
    let sound_len = data.len() / (ChunkHead::LEN + 1) * CHUNK_LEN_MAX;
    let memory_max = 3 * usize::try_from(frames_len).unwrap_or(usize::MAX).min(sound_len);
    let decompressed = memory::within("chunks", memory_max, || decompress_key_group(&header, &row, &data));
    if let Ok(frames) = decompressed {
        assert_eq!(frames.len() as u64, frames_len);
        let chunks = Chunks::new(&data, &header, &row).map(|chunk| chunk.expect("as it was"));
        assert_eq!(chunks.map(|chunk| chunk.raw_len).sum::<usize>(), frames.len());
    }
    // A frame more or less than the chunks have is found.
    for frame_count in [frame_count.saturating_add(1), frame_count.saturating_sub(1)] {
        let row = row_with(row, frame_count);
        let is_sound = decompress_key_group(&header, &row, &data).is_ok();
        assert!(!is_sound || u64::from(frame_count) * header.frame_size() == frames_len);
    }
}

fn row_with(row: KeyGroupRow, frame_count: u32) -> KeyGroupRow {
    KeyGroupRow { frame_count: frame_count.into(), ..row }
}

fn row(data_len: usize, frame_count: u32) -> KeyGroupRow {
    KeyGroupRow {
        key_group: 1.into(),
        section_count: 1.into(),
        index_len: 0.into(),
        index_offset: 0.into(),
        data_offset: 512.into(),
        data_len: (data_len as u64).into(),
        first_frame: 0.into(),
        frame_count: frame_count.into(),
        index_checksum: 0.into(),
        delta_count: 0.into(),
    }
}

pub(crate) fn header([compression, frame_size]: [u8; CHOICE_LEN]) -> SegmentHeader {
    let none = KeyGroup(1);
    SegmentHeader {
        block_size_log2: 9,
        frame_size_log2: 8 + frame_size % 7,
        compression: Compression::ALL[usize::from(compression) % Compression::ALL.len()],
        file_id: 2,
        job_id: 3,
        checkpoint: 1,
        epoch: 1,
        attempt: 0,
        hash_seed: 1,
        subtask: 0,
        max_parallelism: 3,
        key_groups: KeyGroupRange { first: none, last: none },
    }
}
