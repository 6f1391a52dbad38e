//! Compressed segments: all that holds for others, and what is their own.

use slackwater_core::assign::Rescaling;
use slackwater_core::format::segment::{
    CHUNK_LEN_MAX, ChunkHead, FooterView, KeyGroupRow, SegmentHeader, SegmentTrailer,
};
use zerocopy::FromBytes;

use super::*;
use crate::codec::{Bytes, Plain};
use crate::operator_state::{Broadcast, RawOperatorState, SplitList, UnionList};

/// Each kind of state: found by hash with records of any size and of one, with chains, ordered, lists, broadcast, raw.
fn every_kind(frame_size: u32) -> Heap {
    let mut heap = filled(frame_size, 0..=7, 700);
    fill_ordered(&mut heap, 700);
    let widths = CodecId { name: "eight", version: 1, width: Some(8) };
    let fixed = heap.register("op", "fixed", widths, widths).unwrap();
    for number in 0..2000_u64 {
        let group = KeyGroup((number % 8) as u16);
        heap.put(fixed, group, &number.to_le_bytes(), &(number * 3).to_le_bytes()).unwrap();
    }
    let split = SplitList::<Bytes>::register(&mut heap, "op", "split").unwrap();
    let union = UnionList::<Bytes>::register(&mut heap, "op", "union").unwrap();
    let rules = Broadcast::<Plain<u32>, Plain<u64>>::register(&mut heap, "op", "rules").unwrap();
    let raw = RawOperatorState::register(&mut heap, "op", "raw").unwrap();
    for number in 0..300_u32 {
        split.push(&mut heap, &number.to_le_bytes()[..]).unwrap();
        union.push(&mut heap, &number.to_le_bytes()[..]).unwrap();
        rules.put(&mut heap, &number, &7).unwrap();
    }
    raw.push(&mut heap, &[9; 5000]).unwrap();
    heap
}

fn copied(compression: Compression, frame_size: u32, into_frame_size: u32) {
    let mut heap = every_kind(frame_size);
    let snapshot = heap.freeze().unwrap();
    let expected = entries_of(&snapshot);
    let mut disk = TestDisk::new();
    let segment = write_with(compression, &mut disk, snapshot, "s.seg");
    assert_eq!(segment.len % 4096, 0);
    let verified = verify_segment(&mut disk, "s.seg", &segment).unwrap();
    assert_eq!((verified.entries, verified.key_groups), (expected.len() as u64, 8));

    let mut restored = self::heap(into_frame_size, 0..=7);
    let mut restore =
        SegmentRestore::open(&mut disk, "s.seg", &segment, range(0..=7), &mut restored).unwrap();
    restore.key_group_now(&mut disk, &mut restored, KeyGroup(5)).unwrap();
    while !restore.is_done() {
        restore.step(&mut disk, &mut restored).unwrap();
    }
    let adopted = if frame_size == into_frame_size { 8 } else { 0 };
    assert_eq!(restore.stats().key_groups_adopted, adopted);
    let old = [Some(OldSegment { path: "s.seg", segment: &segment })];
    let rescaling = Rescaling::new(MaxParallelism::new(8).unwrap(), 1, 1).unwrap();
    restore_operator_state(&mut disk, &old, rescaling, 0, &mut restored).unwrap();
    assert!(entries_of(&restored.freeze().unwrap()) == expected, "{compression} {frame_size}");
}

#[test]
fn every_kind_of_state_comes_back_from_every_compression() {
    for compression in compressions() {
        for frame_size in [256, 1024, 4096, 16384] {
            copied(compression, frame_size, frame_size);
        }
        copied(compression, 1024, 4096);
    }
}

#[test]
fn a_compressed_segment_is_smaller() {
    let len = |compression| {
        let mut disk = TestDisk::new();
        write_with(compression, &mut disk, filled(4096, 0..=3, 6000).freeze().unwrap(), "s.seg").len
    };
    let plain = len(Compression::None);
    for compression in compressing() {
        assert!(len(compression) < plain / 2, "{compression}: {} of {plain}", len(compression));
    }
}

pub(super) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let next = |random: &u64| Some(random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    let numbers = core::iter::successors(Some(seed), next).skip(3).take(len);
    numbers.map(|number| number.to_le_bytes()[7]).collect()
}

/// Those that are built in and compress.
fn compressing() -> impl Iterator<Item = Compression> {
    compressions().filter(|compression| *compression != Compression::None)
}

#[test]
fn frames_that_do_not_get_smaller_are_stored_as_they_are() {
    let mut heap = heap(4096, 0..=0);
    let state = heap.register("op", "state", BYTES, BYTES).unwrap();
    heap.put(state, KeyGroup(0), b"key", &noise(1, 300_000)).unwrap();
    let snapshot = heap.freeze().unwrap();
    let expected = entries_of(&snapshot);
    for compression in compressions() {
        let mut disk = TestDisk::new();
        let segment = write_with(compression, &mut disk, heap.freeze().unwrap(), "s.seg");
        assert!(segment.len < 300_000 + 40_000, "{compression}: {}", segment.len);
        let mut restored = self::heap(4096, 0..=0);
        restore_segment(&mut disk, "s.seg", &segment, range(0..=0), &mut restored).unwrap();
        assert!(entries_of(&restored.freeze().unwrap()) == expected);
    }
}

#[test]
fn every_flipped_bit_of_a_compressed_segment_is_found() {
    for compression in compressing() {
        let mut heap = heap(256, 0..=0);
        let state = heap.register("op", "state", BYTES, BYTES).unwrap();
        heap.put(state, KeyGroup(0), b"key", &[7; 300]).unwrap();
        let mut disk = TestDisk::new();
        let segment = write_with(compression, &mut disk, heap.freeze().unwrap(), "s.seg");
        let bytes = read_back(&mut disk, "s.seg");
        verify_segment(&mut disk, "s.seg", &segment).unwrap();
        for bit in 0..bytes.len() * 8 {
            // Most of the file is padding, of which other tests try every byte.
            let around = bytes.get(bit / 8 - (bit / 8).min(12)..).unwrap_or_default();
            if around.iter().take(24).all(|byte| *byte == 0) && bit % 509 != 0 {
                continue;
            }
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let verified = verify_segment(&mut disk_with("s.seg", &damaged), "s.seg", &segment);
            assert!(verified.is_err(), "{compression}: bit {bit}");
        }
    }
}

#[test]
fn every_truncation_of_a_compressed_segment_is_found() {
    for compression in compressing() {
        let (bytes, segment) = small_segment_with(compression);
        let mut disk = disk_with("s.seg", &bytes);
        for len in (0..segment.len).rev() {
            cut(&mut disk, "s.seg", len);
            assert!(verify_segment(&mut disk, "s.seg", &segment).is_err(), "{compression}: cut to {len}");
            let believed = SegmentRef { len, ..segment.clone() };
            assert!(verify_segment(&mut disk, "s.seg", &believed).is_err(), "{compression}: cut to {len}");
        }
    }
}

fn parts(bytes: &[u8]) -> (SegmentHeader, Vec<KeyGroupRow>) {
    let header = SegmentHeader::parse(bytes).unwrap();
    let trailer = SegmentTrailer::parse(bytes, bytes.len() as u64).unwrap();
    let from = usize::try_from(trailer.footer_offset).unwrap();
    let footer = &bytes[from..from + usize::try_from(trailer.footer_len).unwrap()];
    (header, FooterView::parse(footer, &header, &trailer).unwrap().key_groups().to_vec())
}

/// Where the data of a key group lies.
fn place_of(row: &KeyGroupRow) -> core::ops::Range<usize> {
    let from = usize::try_from(row.data_offset.get()).unwrap();
    from..from + usize::try_from(row.data_len.get()).unwrap()
}

/// What comes of the first chunk of a small segment when its lengths or bytes are others, under a right checksum.
fn refused(compression: Compression, change: impl Fn(&mut ChunkHead, &mut [u8])) -> FormatError {
    let (mut bytes, segment) = small_segment_with(compression);
    let (header, rows) = parts(&bytes);
    let (head, rest) = ChunkHead::mut_from_prefix(&mut bytes[place_of(&rows[1])]).unwrap();
    assert!(head.stored_len.get() < head.raw_len.get(), "it is compressed");
    change(head, rest);
    let stored = rest.get(..head.stored_len.get() as usize).unwrap_or_default();
    head.checksum = head.sum(&header, rows[1].key_group.get(), 0, stored).into();
    let mut disk = disk_with("s.seg", &bytes);
    let error = verify_segment(&mut disk, "s.seg", &segment).unwrap_err();
    let mut heap = heap(256, 0..=3);
    let restored = restore_segment(&mut disk, "s.seg", &segment, range(0..=3), &mut heap).unwrap_err();
    assert_eq!(restored, error, "a restore says the same");
    let RestoreCause::Format(error) = error.cause else { panic!("{error}") };
    error
}

#[test]
fn chunks_that_lie_about_their_length_are_refused() {
    let what = |error| {
        let FormatError::Corrupt { what, offset, .. } = error else { panic!("{error}") };
        assert!(offset >= 4096, "offsets are those in the file");
        what
    };
    for compression in compressing() {
        for raw_len in [0, 1, 255, 65_536 + 256, u32::MAX] {
            let error = refused(compression, |head, _| head.raw_len = raw_len.into());
            assert_eq!(what(error), "length of a chunk's frames", "{compression} {raw_len}");
        }
        let error = refused(compression, |head, _| head.raw_len = 257.into());
        assert_eq!(what(error), "bytes of a chunk behind its last frame");
        for stored_len in [0, 65_536, u32::MAX] {
            let error = refused(compression, |head, _| head.stored_len = stored_len.into());
            assert_eq!(what(error), "length of a chunk's stored bytes", "{compression} {stored_len}");
        }
        // A frame less than the stored bytes stand for, and bytes that stand for nothing.
        let fewer = |head: &mut ChunkHead, _: &mut [u8]| head.raw_len = (head.raw_len.get() - 256).into();
        assert_eq!(what(refused(compression, fewer)), "bytes that a chunk decompresses to");
        let shorter =
            |head: &mut ChunkHead, _: &mut [u8]| head.stored_len = (head.stored_len.get() - 1).into();
        assert_eq!(what(refused(compression, shorter)), "bytes that a chunk decompresses to");
        let garbage = |_: &mut ChunkHead, stored: &mut [u8]| stored[..8].fill(0xff);
        assert_eq!(what(refused(compression, garbage)), "bytes that a chunk decompresses to");
    }
}

#[test]
fn chunks_do_not_span_key_groups_and_each_key_group_can_be_read_alone() {
    for compression in compressing() {
        let mut heap = heap(4096, 0..=7);
        let state = heap.register("op", "state", BYTES, BYTES).unwrap();
        for number in 0..80_u16 {
            let value = noise(number.into(), 5_000).repeat(2);
            heap.put(state, KeyGroup(number % 8), &number.to_le_bytes(), &value).unwrap();
        }
        let expected = entries_of(&heap.freeze().unwrap());
        let mut counting = counting(TestDisk::new());
        let spec = SegmentSpec { compression, ..spec("s.seg") };
        let mut writer = SegmentWriter::<Counting>::new(heap.freeze().unwrap(), spec);
        run_to_end(&mut counting, &mut writer).unwrap();
        let segment = writer.result().unwrap().clone().unwrap();
        let bytes = read_back(&mut counting.disk, "s.seg");
        let (header, rows) = parts(&bytes);
        assert_eq!(rows.len(), 8);
        for row in &rows {
            let frames = decompress_key_group(&header, row, &bytes[place_of(row)]).unwrap();
            assert_eq!(frames.len(), row.frame_count.get() as usize * 4096);
            assert!(frames.len() > CHUNK_LEN_MAX && row.data_len.get() < frames.len() as u64 * 3 / 4);
        }
        // Nothing but the wanted key groups, the index and what a block is longer is read.
        counting.layer.read_len = 0;
        let mut restored = self::heap(4096, 2..=4);
        restore_segment(&mut counting, "s.seg", &segment, range(2..=4), &mut restored).unwrap();
        let wanted = rows[2..=4].iter().map(|row| row.data_len.get()).sum::<u64>();
        let tail = segment.len - rows[0].index_offset.get();
        // Header, trailer and the ends of three ranges, each rounded up to blocks.
        let limit = wanted + tail + 65_536 + 8 * 4096;
        let all = rows.iter().map(|row| row.data_len.get()).sum::<u64>();
        assert!(limit < all, "the test could fail");
        assert!(counting.layer.read_len <= limit, "{} of {limit}", counting.layer.read_len);
        let wanted = expected.into_iter().filter(|((_, group, _), _)| (2..=4).contains(group));
        assert!(entries_of(&restored.freeze().unwrap()) == wanted.collect::<Entries>());
    }
}

#[test]
fn data_of_one_key_group_is_not_taken_for_anothers() {
    for compression in compressing() {
        let (bytes, _) = small_segment_with(compression);
        let (header, rows) = parts(&bytes);
        let other = KeyGroupRow { key_group: rows[1].key_group, ..rows[0] };
        assert!(decompress_key_group(&header, &other, &bytes[place_of(&rows[0])]).is_err());
        let other = SegmentHeader { epoch: header.epoch + 1, ..header };
        assert!(decompress_key_group(&other, &rows[0], &bytes[place_of(&rows[0])]).is_err());
    }
}

#[cfg(not(feature = "lz4"))]
#[test]
fn what_is_not_built_in_is_refused_by_the_name_of_its_feature() {
    let mut disk = TestDisk::new();
    let spec = SegmentSpec { compression: Compression::Lz4, ..spec("s.seg") };
    let mut writer = SegmentWriter::<TestDisk>::new(filled(256, 0..=3, 10).freeze().unwrap(), spec);
    run_to_end(&mut disk, &mut writer).unwrap();
    let error = writer.result().unwrap().clone().unwrap_err();
    assert_eq!(error, WriteError::Unsupported(Unsupported(Compression::Lz4)));
    assert!(read_file(&mut disk, "s.seg", 1 << 20).is_err(), "no file is left");

    let (bytes, segment) = golden::read("lz4");
    let error = verify_segment(&mut disk_with("s.seg", &bytes), "s.seg", &segment).unwrap_err();
    assert_eq!(error.cause, RestoreCause::Unsupported(Unsupported(Compression::Lz4)));
    assert!(error.to_string().contains("feature `lz4`"), "{error}");
}
