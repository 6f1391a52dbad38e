//! Segments with small frames, written by the real writer.

use slackwater_core::durable::run_to_end;
use slackwater_core::key_group::{KeyGroup, KeyGroupRange, MaxParallelism};
use slackwater_mem::heap::hash_key;
use slackwater_mem::segment::{Compression, SegmentRef, SegmentSpec, SegmentWriter, read_file};
use slackwater_mem::{
    Broadcast, Bytes, CodecId, FrozenRun, Heap, HeapOptions, MemDisk, Plain, RawKeyedState, RawOperatorState,
    SplitList, UnionList,
};

use crate::segments;

const HASH_SEED: u64 = 1;
const KEY_GROUPS: u16 = 3;

/// A segment and what a manifest says of it.
pub(super) struct Made {
    pub(super) bytes: Vec<u8>,
    pub(super) listed: SegmentRef,
}

/// What is in a segment.
#[derive(Clone, Copy)]
pub(super) enum Content {
    Empty,
    /// All kinds of pages and of state: see [`every_kind`].
    EveryKind,
    EveryKindLz4,
    EveryKindZstd,
    /// Bytes that no compressor makes smaller.
    Incompressible,
    /// Pages of keys whose hashes are alike.
    Linked,
    /// Frames so large that ordered pages have hints.
    Hints,
    /// A key group of more than a chunk.
    Long,
    /// As many records as a page can have: see [`super::forged::tiny_records`].
    Tiny,
}

impl Content {
    pub(super) const ALL: [(&'static str, Self); 8] = [
        ("no-entries", Self::Empty),
        ("every-kind", Self::EveryKind),
        ("every-kind-lz4", Self::EveryKindLz4),
        ("every-kind-zstd", Self::EveryKindZstd),
        ("chunk-stored-as-it-is", Self::Incompressible),
        ("linked-pages", Self::Linked),
        ("frames-with-hints", Self::Hints),
        ("two-chunks", Self::Long),
    ];

    const fn frame_size(self) -> u32 {
        if matches!(self, Self::Hints) {
            1024
        } else if matches!(self, Self::Tiny) {
            512
        } else {
            256
        }
    }

    const fn compression(self) -> Compression {
        match self {
            Self::Empty | Self::EveryKind | Self::Linked | Self::Hints | Self::Tiny => Compression::None,
            Self::EveryKindLz4 | Self::Incompressible => Compression::Lz4,
            Self::EveryKindZstd | Self::Long => Compression::Zstd,
        }
    }
}

pub(super) fn of(content: Content) -> Made {
    let mut heap = heap(content.frame_size());
    match content {
        Content::Empty => every_kind(&mut heap, 0),
        Content::EveryKind | Content::EveryKindLz4 | Content::EveryKindZstd => every_kind(&mut heap, 24),
        Content::Incompressible => noise(&mut heap),
        Content::Linked => linked(&mut heap),
        Content::Hints => ordered(&mut heap, 60),
        Content::Long => long(&mut heap),
        Content::Tiny => tiny(&mut heap),
    }
    write(&mut heap, content.compression())
}

fn heap(frame_size: u32) -> Heap {
    let key_groups = KeyGroupRange { first: KeyGroup(0), last: KeyGroup(KEY_GROUPS - 1) };
    let options = HeapOptions { frame_size, memory_limit_bytes: 4 << 20, key_groups, hash_seed: HASH_SEED };
    Heap::new(options).expect("sound options")
}

const BYTES: CodecId<'static> = CodecId::variable("bytes", 1);

/// States by key: records of any size, of one size, in chains, ordered, raw; and not by key: split and union lists,
/// broadcast, raw. `count` entries of each, of the last ones a few.
fn every_kind(heap: &mut Heap, count: u8) {
    let words = heap.register("count", "words", BYTES, BYTES).expect("room for it");
    let other = heap.register("count", "other", BYTES, BYTES).expect("room for it");
    let width = CodecId::fixed("eight", 1, 8);
    let fixed = heap.register("count", "fixed", width, width).expect("room for it");
    for number in 0..count {
        let group = KeyGroup(u16::from(number) % KEY_GROUPS);
        heap.put(words, group, &[number; 4], &[number; 8]).expect("room for it");
        heap.put(fixed, group, &[number; 8], &[number; 8]).expect("room for it");
        if number % 10 == 0 {
            heap.put(other, group, &vec![number; 300], &[1; 200]).expect("room for it");
        }
    }
    ordered(heap, count);
    without_keys(heap, count / 10);
}

/// Keys that begin alike, and of which some are longer than half a page.
fn ordered(heap: &mut Heap, count: u8) {
    let state = heap.register_ordered("count", "ordered", BYTES, BYTES).expect("room for it");
    for number in 0..count {
        let mut key = b"a prefix of all".to_vec();
        key.push(number);
        key.resize(if number % 7 == 3 { 700 } else { 40 }, number);
        let value = vec![number; if number % 11 == 5 { 600 } else { 8 }];
        heap.ordered_put(state, KeyGroup(u16::from(number) % 2), &key, &value).expect("room for it");
    }
}

fn without_keys(heap: &mut Heap, count: u8) {
    let split = SplitList::<Bytes>::register(heap, "source", "split").expect("room for it");
    let union = UnionList::<Bytes>::register(heap, "source", "union").expect("room for it");
    let rules = Broadcast::<Plain<u8>, Plain<u64>>::register(heap, "count", "rules").expect("room for it");
    let raw = RawOperatorState::register(heap, "source", "raw").expect("room for it");
    let keyed = RawKeyedState::register(heap, "count", "raw").expect("room for it");
    for number in 0..count {
        let bytes = vec![number; 20 * usize::from(number)];
        split.push(heap, bytes.as_slice()).expect("room for it");
        union.push(heap, bytes.as_slice()).expect("room for it");
        raw.push(heap, &bytes).expect("room for it");
        rules.put(heap, &number, &1).expect("room for it");
        keyed.write(heap, KeyGroup(u16::from(number) % KEY_GROUPS), &bytes).expect("room for it");
    }
}

fn numbers(seed: u64) -> impl Iterator<Item = u64> {
    let next = |number: &u64| Some(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    std::iter::successors(Some(seed), next).skip(3)
}

fn noise(heap: &mut Heap) {
    let state = heap.register("count", "noise", BYTES, BYTES).expect("room for it");
    let value: Vec<u8> = numbers(1).take(900).map(|number| number.to_le_bytes()[7]).collect();
    heap.put(state, KeyGroup(0), b"key", &value).expect("room for it");
}

fn long(heap: &mut Heap) {
    let state = heap.register("count", "long", BYTES, BYTES).expect("room for it");
    heap.put(state, KeyGroup(0), b"key", &vec![7; 66_000]).expect("room for it");
}

fn tiny(heap: &mut Heap) {
    let (key, value) = (CodecId::fixed("u8", 1, 1), CodecId::fixed("unit", 1, 0));
    let state = heap.register("count", "tiny", key, value).expect("room for it");
    (0..190).for_each(|key| heap.put(state, KeyGroup(0), &[key], &[]).expect("room for it"));
}

/// Keys whose hashes begin with as many zeros as no directory of few pages tells apart.
fn linked(heap: &mut Heap) {
    let state = heap.register("count", "alike", BYTES, BYTES).expect("room for it");
    let width = CodecId::fixed("eight", 1, 8);
    let fixed = heap.register("count", "alike-fixed", width, width).expect("room for it");
    let alike = numbers(5).filter(|key| hash_key(HASH_SEED, &key.to_le_bytes()).leading_zeros() >= 16);
    for (number, key) in alike.take(26).enumerate() {
        // One of them lies in a chain, as its value does.
        let value = vec![7; if number == 9 { 300 } else { 8 }];
        heap.put(state, KeyGroup(0), &key.to_le_bytes(), &value).expect("room for it");
        heap.put(fixed, KeyGroup(0), &key.to_le_bytes(), &[7; 8]).expect("room for it");
    }
}

fn write(heap: &mut Heap, compression: Compression) -> Made {
    let max_parallelism = MaxParallelism::new(KEY_GROUPS.into()).expect("small");
    let spec = SegmentSpec { max_parallelism, ..segments::spec("s", compression) };
    let mut disk = MemDisk::<FrozenRun>::new();
    let mut writer = SegmentWriter::<MemDisk<FrozenRun>>::new(heap.freeze().expect("the first"), spec);
    run_to_end(&mut disk, &mut writer).expect("a disk of its own");
    let listed = writer.result().expect("at its end").clone().expect("a disk without limits");
    Made { bytes: read_file(&mut disk, "s", 1 << 20).expect("just written"), listed }
}
