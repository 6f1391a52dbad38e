//! What the fuzzer starts from: the output of the real encoders.

use slackwater_core::durable::run_to_end;
use slackwater_core::format::manifest::{
    InlineState, ManifestEncoder, ManifestHeader, StateMode, Subtask, Vertex,
};
use slackwater_core::format::page::{
    PAGE_TYPE_HASH, PAGE_TYPE_INNER, PAGE_TYPE_LEAF, PAGE_TYPE_OVERFLOW, PageView,
};
use slackwater_core::format::segment::{
    ChunkHead, FooterView, KeyGroupRow, SegmentHeader, SegmentHeaderLayout, SegmentTrailer,
};
use slackwater_core::ids::CheckpointId;
use slackwater_core::key_group::{KeyGroup, KeyGroupRange, MaxParallelism};
use slackwater_mem::segment::{Compression, SegmentRef, SegmentSpec, SegmentWriter, read_file};
use slackwater_mem::{Broadcast, CodecId, FrozenRun, Heap, HeapOptions, MemDisk, Plain, RawOperatorState};
use zerocopy::IntoBytes;

use crate::repair;

/// The seeds of a target, named by what they are.
pub(crate) fn named(target: &str) -> Vec<(String, Vec<u8>)> {
    let sound = of(target).into_iter().enumerate().map(|(number, seed)| (format!("sound-{number}"), seed));
    let circle = (target == "segment").then(|| (String::from("chain-in-a-circle"), circle()));
    sound.chain(circle).collect()
}

fn of(target: &str) -> Vec<Vec<u8>> {
    let segments =
        [(0, Compression::None), (30, Compression::None), (30, Compression::Lz4), (30, Compression::Zstd)]
            .map(|(count, compression)| segment(count, compression));
    match target {
        "manifest" => vec![manifest(&[]), manifest(&[segments[0].1.clone(), segments[1].1.clone()])],
        "segment" => segments.map(|(bytes, _)| bytes).into(),
        "header" => vec![segments[0].0[..SegmentHeaderLayout::LEN].to_vec()],
        "footer" => segments.iter().map(|(bytes, _)| footer(bytes)).collect(),
        "index" => vec![index(&segments[1].0)],
        "chunk" => segments[1..].iter().map(|(bytes, _)| chunks(bytes)).collect(),
        "heap" => operations(),
        "page" => pages(&segments[1].0),
        _ => Vec::new(),
    }
}

/// Lists of operations for a heap, each of them often.
fn operations() -> Vec<Vec<u8>> {
    let mix = |step: u32| (0..900_u32).map(move |at| (at * step + at / 7 * 31).to_le_bytes()[0]);
    [5, 11, 29].map(|step| mix(step).collect()).into()
}

/// Small frames, two states by key and two that are not, keys and values in chains; `count` entries.
fn segment(count: u8, compression: Compression) -> (Vec<u8>, SegmentRef) {
    let key_groups = KeyGroupRange { first: KeyGroup(0), last: KeyGroup(2) };
    let options = HeapOptions { frame_size: 256, memory_limit_bytes: 4 << 20, key_groups, hash_seed: 1 };
    let mut heap = Heap::new(options).expect("sound options");
    let bytes = CodecId::variable("bytes", 1);
    let words = heap.register("count", "words", bytes, bytes).expect("room for it");
    let other = heap.register("count", "other", bytes, bytes).expect("room for it");
    let ordered = heap.register_ordered("count", "ordered", bytes, bytes).expect("room for it");
    let lines = RawOperatorState::register(&mut heap, "source", "lines").expect("room for it");
    let rules =
        Broadcast::<Plain<u8>, Plain<u64>>::register(&mut heap, "count", "rules").expect("room for it");
    for number in 0..count {
        if number % 10 == 0 {
            lines.push(&mut heap, &vec![number; 20 * usize::from(number)]).expect("room for it");
            rules.put(&mut heap, &number, &1).expect("room for it");
        }
        let group = KeyGroup(u16::from(number % 3));
        heap.put(words, group, &[number; 4], &[number; 8]).expect("room for it");
        if number % 10 == 0 {
            heap.put(other, group, &vec![number; 300], &[1; 200]).expect("room for it");
        }
        heap.ordered_put(ordered, group, &[number; 40], &[number; 8]).expect("room for it");
    }
    let spec = SegmentSpec {
        folder: String::new(),
        file_name: String::from("s"),
        file_id: 2,
        job_id: 3,
        checkpoint: CheckpointId(1),
        subtask: 0,
        attempt: 0,
        max_parallelism: MaxParallelism::new(3).expect("small"),
        compression,
    };
    let mut disk = MemDisk::<FrozenRun>::new();
    let mut writer = SegmentWriter::<MemDisk<FrozenRun>>::new(heap.freeze().expect("the first"), spec);
    run_to_end(&mut disk, &mut writer).expect("a disk of its own");
    let segment = writer.result().expect("at its end").clone().expect("a disk without limits");
    (read_file(&mut disk, "s", 1 << 20).expect("just written"), segment)
}

fn manifest(segments: &[SegmentRef]) -> Vec<u8> {
    let header = ManifestHeader {
        is_finished: segments.is_empty(),
        checkpoint: 4,
        job_id: 5,
        job_name: "words",
        wall_time_ms: 6,
        max_parallelism: 3,
        hash_seed: 1,
    };
    let mut bytes = Vec::new();
    let mut manifest = ManifestEncoder::new(&mut bytes, &header).expect("sound");
    let mut vertex = manifest.vertex(&Vertex { uid: "count", parallelism: 2 }).expect("sound");
    for (index, segment) in (0..).zip(segments) {
        let mut subtask = vertex.subtask(Subtask { index, is_finished: false }).expect("sound");
        subtask.segment(&segment.as_manifest()).expect("sound");
        let state = InlineState { operator: "lines", name: "positions", mode: StateMode::Split };
        let mut state = subtask.state(&state).expect("sound");
        state.partition(b"a position").expect("sound");
        state.partition(&[]).expect("sound");
    }
    manifest.finish().expect("sound");
    bytes
}

fn part(bytes: &[u8], from: u64, len: u64) -> &[u8] {
    let from = usize::try_from(from).expect("small");
    &bytes[from..from + usize::try_from(len).expect("small")]
}

fn parts(bytes: &[u8]) -> (SegmentHeader, SegmentTrailer, &[u8]) {
    let header = SegmentHeader::parse(bytes).expect("sound");
    let trailer = SegmentTrailer::parse(bytes, bytes.len() as u64).expect("sound");
    (header, trailer, part(bytes, trailer.footer_offset, trailer.footer_len))
}

fn footer(bytes: &[u8]) -> Vec<u8> {
    let (header, _, footer) = parts(bytes);
    [header.encode().as_bytes(), footer].concat()
}

fn first_group(bytes: &[u8]) -> (SegmentHeader, KeyGroupRow) {
    let (header, trailer, footer) = parts(bytes);
    let footer = FooterView::parse(footer, &header, &trailer).expect("sound");
    (header, footer.key_groups()[0])
}

fn index(bytes: &[u8]) -> Vec<u8> {
    let (header, group) = first_group(bytes);
    let index = part(bytes, group.index_offset.get(), group.index_len.get().into());
    [header.encode().as_bytes(), group.as_bytes(), index].concat()
}

/// The chunks of a key group of a compressed segment; its frames as the only chunk where it is none.
fn chunks(bytes: &[u8]) -> Vec<u8> {
    let (header, group) = first_group(bytes);
    let data = part(bytes, group.data_offset.get(), group.data_len.get());
    // Checksums are put right before anybody looks at them.
    let mut seed = vec![header.compression.number(), header.frame_size_log2 - 8];
    if header.compression == Compression::None {
        let raw_len = u32::try_from(data.len()).expect("small");
        seed.extend_from_slice(ChunkHead::new(&header, 1, 0, raw_len, data).as_bytes());
    }
    seed.extend_from_slice(data);
    seed
}

/// A page of each type.
fn pages(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (header, group) = first_group(bytes);
    let len = u64::from(group.frame_count.get()) * header.frame_size();
    let frames = part(bytes, header.offset_of_frame(group.first_frame.get().into()), len);
    let of_type = |wanted: u16| frames.chunks(256).find(move |frame| frame[..2] == wanted.to_le_bytes());
    let types = [PAGE_TYPE_HASH, PAGE_TYPE_LEAF, PAGE_TYPE_INNER, PAGE_TYPE_OVERFLOW];
    types.into_iter().filter_map(of_type).map(<[u8]>::to_vec).collect()
}

/// A segment whose chains lead from each page to the page itself: a reader that believed their lengths and
/// links would go round and fill its memory.
fn circle() -> Vec<u8> {
    let (mut bytes, _) = segment(30, Compression::None);
    for frame in bytes.chunks_mut(256) {
        if matches!(PageView::parse(frame), Ok(PageView::Overflow(_))) {
            frame.copy_within(24..28, 64);
        }
    }
    repair::segment(&mut bytes).expect("it has the shape of a segment");
    bytes
}
