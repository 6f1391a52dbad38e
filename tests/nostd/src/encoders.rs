use heapless::{Vec, VecView};

use slackwater_core::format::in_flight::{ChannelRow, InFlightEncoder, InFlightHeader};
use slackwater_core::format::manifest::{
    InlineState, ManifestEncoder, ManifestHeader, SegmentRef, StateMode, Subtask, Vertex,
};
use slackwater_core::format::segment::{
    Compression, Distribution, FooterEncoder, FooterTotals, IndexEncoder, IndexRow, KeyGroupRow,
    STATE_KIND_HASH, SectionHead, SegmentHeader, SegmentTrailer, StateEntry,
};
use slackwater_core::format::{EncodeError, Full};
use slackwater_core::key_group::{KeyGroup, KeyGroupRange};
use zerocopy::FromBytes;

use crate::data::{Data, used};

type Encoded = Result<u32, EncodeError<Full>>;

fn key_groups(data: &mut Data) -> KeyGroupRange {
    KeyGroupRange { first: KeyGroup(data.short()), last: KeyGroup(data.short()) }
}

fn wide(data: &mut Data) -> u128 {
    u128::from(data.long()) << 64 | u128::from(data.long())
}

pub(crate) fn manifest(data: &mut Data) -> u32 {
    let mut out = Vec::<u8, 4096>::new();
    encode_manifest(data, &mut out).unwrap_or(0) ^ used(&out)
}

fn encode_manifest(data: &mut Data, out: &mut VecView<u8>) -> Encoded {
    let header = ManifestHeader {
        is_finished: data.bit(),
        checkpoint: data.long(),
        job_id: wide(data),
        job_name: "job",
        wall_time_ms: data.long(),
        max_parallelism: data.word(),
        hash_seed: data.long(),
    };
    let mut encoder = ManifestEncoder::new(out, &header)?;
    for _ in 0..data.short() {
        let mut vertex = encoder.vertex(&Vertex { uid: "vertex", parallelism: data.word() })?;
        let mut subtask = vertex.subtask(Subtask { index: data.word(), is_finished: data.bit() })?;
        let segment = SegmentRef {
            file_name: "chk-1/0-0.seg",
            file_id: wide(data),
            len: data.long(),
            used_len: data.long(),
            footer_checksum: data.word(),
            key_groups: key_groups(data),
        };
        subtask.segment(&segment)?;
        let mode = if data.bit() { StateMode::Union } else { StateMode::Split };
        let mut state = subtask.state(&InlineState { operator: "source", name: "positions", mode })?;
        state.partition(&data.word().to_le_bytes())?;
    }
    encoder.finish().map(|len| used(&len))
}

pub(crate) fn in_flight(data: &mut Data) -> u32 {
    let mut out = Vec::<u8, 4096>::new();
    encode_in_flight(data, &mut out).unwrap_or(0) ^ used(&out)
}

fn encode_in_flight(data: &mut Data, out: &mut VecView<u8>) -> Encoded {
    let header = InFlightHeader {
        subtask: data.word(),
        file_id: wide(data),
        job_id: wide(data),
        checkpoint: data.long(),
        attempt: data.long(),
    };
    let lengths = [usize::from(data.short()), 4];
    let rows = [ChannelRow::new(data.short(), data.short(), lengths), ChannelRow::new(1, 0, [4])];
    let mut encoder = InFlightEncoder::new(out, &header, rows)?;
    for _ in 0..data.short() {
        encoder.batch(&data.word().to_le_bytes())?;
    }
    encoder.finish().map(|(_, checksum)| checksum)
}

pub(crate) fn segment(data: &mut Data) -> u32 {
    let mut out = Vec::<u8, 4096>::new();
    encode_segment(data, &mut out).unwrap_or(0) ^ used(&out)
}

fn encode_segment(data: &mut Data, out: &mut VecView<u8>) -> Encoded {
    let header = SegmentHeader {
        block_size_log2: 12,
        frame_size_log2: 12,
        compression: Compression::None,
        file_id: wide(data),
        job_id: wide(data),
        checkpoint: data.long(),
        epoch: data.long(),
        attempt: data.long(),
        hash_seed: data.long(),
        subtask: data.word(),
        max_parallelism: data.word(),
        key_groups: key_groups(data),
    };
    let raw = [data.long(); 32];
    let raw = zerocopy::IntoBytes::as_bytes(&raw);
    let (Ok((head, _)), Ok((row, _)), Ok((mut group, _))) = (
        SectionHead::read_from_prefix(raw),
        IndexRow::read_from_prefix(raw),
        KeyGroupRow::read_from_prefix(raw),
    ) else {
        return Ok(1);
    };
    let mut index = IndexEncoder::new(&mut *out, &header, data.short());
    index.section(head, &[row; 3])?;
    index.finish(&mut group)?;
    let totals = FooterTotals {
        key_group_count: data.word(),
        state_count: data.word(),
        frame_count: data.long(),
        data_len: data.long(),
        index_len: data.long(),
        entry_count: data.long(),
    };
    let mut footer = FooterEncoder::new(&mut *out, &header, &totals)?;
    footer.key_group(&group)?;
    footer.state(&StateEntry {
        distribution: Distribution::Split,
        state_id: data.short(),
        kind: STATE_KIND_HASH,
        operator: "count",
        state: "counts",
        key_codec: "utf8",
        key_codec_version: data.short(),
        value_codec: "u64",
        value_codec_version: data.short(),
        key_width: Some(data.short()),
        value_width: None,
        entry_count: data.long(),
    })?;
    let footer = footer.finish()?;
    let file_len = SegmentTrailer::file_len(data.long(), footer.len, &header);
    let trailer = SegmentTrailer {
        footer_checksum: footer.checksum,
        footer_offset: data.long(),
        footer_len: footer.len,
        file_len,
        file_id: header.file_id,
    };
    Ok(used(&trailer.encode()) ^ used(&header.encode()))
}
