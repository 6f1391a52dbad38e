//! Pages taken over as they are.

use slackwater_core::format::page::{
    OVERFLOW_BYTES_OFFSET, OverflowRef, PAGE_TYPE_HASH, PAGE_TYPE_OVERFLOW, PageHeader, TAG_MASK,
    TAG_PADDING, TAGS_OFFSET, offs_offset,
};
use slackwater_core::format::segment::{IndexRow, SectionHead};
use zerocopy::FromBytes;

use super::forge::forge;
use super::*;
use crate::heap::hash_key;

/// A reproducible sequence of numbers.
struct Numbers(u64);

impl Numbers {
    fn below<T: TryFrom<u64, Error: core::fmt::Debug>>(&mut self, end: u64) -> T {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        T::try_from((self.0 >> 33) % end).unwrap()
    }
}

/// A segment of a heap like that of `filled`, and what is in it.
fn sample(frame_size: u32, groups: RangeInclusive<u16>, count: u32) -> (TestDisk, SegmentRef, Entries) {
    let mut heap = filled(frame_size, groups, count);
    let snapshot = heap.freeze().unwrap();
    let expected = entries_of(&snapshot);
    let mut disk = TestDisk::new();
    let segment = write(&mut disk, snapshot, "s.seg");
    (disk, segment, expected)
}

fn change(heap: &mut Heap, model: &mut Entries, numbers: &mut Numbers) {
    let name = ["small", "large"][numbers.below::<usize>(2)];
    let state = heap.state("op", name).unwrap();
    let group = numbers.below::<u16>(4);
    let known: Vec<u8> = match numbers.below::<u8>(3) {
        0 => format!("new-{}", numbers.below::<u64>(300)).into_bytes(),
        _ => {
            let from = (name.to_string(), group, vec![numbers.below::<u8>(256)]);
            let next = model.range(from..).next().filter(|((state, ..), _)| state == name);
            next.map_or_else(|| vec![1], |((.., key), _)| key.clone())
        }
    };
    let place = (name.to_string(), group, known.clone());
    if numbers.below::<u8>(3) == 0 {
        let was_there = heap.remove(state, KeyGroup(group), &known).unwrap();
        assert_eq!(was_there, model.remove(&place).is_some());
    } else {
        let value = vec![numbers.below::<u8>(256); numbers.below::<usize>(600)];
        heap.put(state, KeyGroup(group), &known, &value).unwrap();
        model.insert(place, value);
    }
}

#[test]
fn adopted_pages_are_pages_like_any_other() {
    for (seed, frame_size) in [(1, 256), (2, 256), (3, 1024), (4, 4096), (5, 16384)] {
        let mut numbers = Numbers(seed);
        let (mut disk, mut segment, mut model) = sample(frame_size, 0..=3, 700);
        for round in 0..3 {
            let mut heap = heap(frame_size, 0..=3);
            heap.register("op", "first here", BYTES, BYTES).unwrap();
            let stats =
                restore_segment(&mut disk, &segment.file_name, &segment, range(0..=3), &mut heap).unwrap();
            assert_eq!((stats.key_groups, stats.key_groups_adopted), (4, 4), "seed {seed}");
            assert!(entries_of(&heap.freeze().unwrap()) == model, "seed {seed} round {round}");
            for _ in 0..2000 {
                change(&mut heap, &mut model, &mut numbers);
            }
            for name in ["small", "large"] {
                let state = heap.state("op", name).unwrap();
                let count = model.keys().filter(|(state, ..)| state == name).count() as u64;
                assert_eq!(heap.len(state), count);
            }
            let snapshot = heap.freeze().unwrap();
            assert!(entries_of(&snapshot) == model, "seed {seed} round {round}");
            segment = write(&mut disk, snapshot, &format!("{round}.seg"));
            verify_segment(&mut disk, &segment.file_name, &segment).unwrap();
        }
    }
}

#[test]
fn what_cannot_be_adopted_is_put_entry_by_entry() {
    let (mut disk, segment, expected) = sample(1024, 0..=3, 500);
    let mut adopted = |mut heap: Heap| {
        let stats = restore_segment(&mut disk, "s.seg", &segment, range(0..=3), &mut heap).unwrap();
        assert_eq!(stats.entries, expected.len() as u64);
        (stats.key_groups_adopted, entries_of(&heap.freeze().unwrap()))
    };
    assert_eq!(adopted(heap(1024, 0..=3)).0, 4);
    assert!(adopted(heap(2048, 0..=3)) == (0, expected.clone()), "other frames");
    let options = heap(1024, 0..=3).options();
    let other_seed = Heap::new(HeapOptions { hash_seed: 8, ..options }).unwrap();
    assert!(adopted(other_seed) == (0, expected.clone()), "another hash");

    let mut in_use = heap(1024, 0..=3);
    let state = in_use.register("op", "small", BYTES, BYTES).unwrap();
    in_use.put(state, KeyGroup(2), b"mine", b"value").unwrap();
    let (count, mut entries) = adopted(in_use);
    assert_eq!(entries.remove(&("small".to_string(), 2, b"mine".to_vec())), Some(b"value".to_vec()));
    assert!((count, entries) == (3, expected.clone()), "a key group in use");
}

#[test]
fn an_overflow_table_much_larger_than_its_pages_is_built_anew() {
    let mut heap = heap(256, 0..=0);
    let state = heap.register("op", "state", BYTES, BYTES).unwrap();
    for number in 0..100_u8 {
        heap.put(state, KeyGroup(0), &[number], &[number; 9000]).unwrap();
    }
    for number in 0..99 {
        heap.remove(state, KeyGroup(0), &[number]).unwrap();
    }
    let mut disk = TestDisk::new();
    let segment = write(&mut disk, heap.freeze().unwrap(), "s.seg");
    let mut restored = self::heap(256, 0..=0);
    let stats = restore_segment(&mut disk, "s.seg", &segment, range(0..=0), &mut restored).unwrap();
    assert_eq!((stats.key_groups_adopted, stats.entries), (0, 1));
    let value = restored.get(state, KeyGroup(0), &[99]).unwrap();
    assert!(value.unwrap().is(&[99; 9000]));
}

#[test]
fn a_restored_heap_goes_on_in_later_epochs() {
    let mut heap = filled(1024, 0..=3, 200);
    for _ in 0..5 {
        drop(heap.freeze().unwrap());
    }
    let mut disk = TestDisk::new();
    let segment = write(&mut disk, heap.freeze().unwrap(), "s.seg");
    let mut restored = self::heap(1024, 0..=3);
    restore_segment(&mut disk, "s.seg", &segment, range(0..=3), &mut restored).unwrap();
    let state = restored.state("op", "small").unwrap();
    restored.put(state, KeyGroup(1), b"key-1", b"now").unwrap();
    let snapshot = restored.freeze().unwrap();
    assert_eq!(snapshot.epoch(), 7, "the file was the snapshot of epoch 6");
    let (mut changed, mut unchanged) = (0, 0);
    for page in (0..4).flat_map(|group| snapshot.pages(state, KeyGroup(group))) {
        let (header, _) = PageHeader::ref_from_prefix(page.bytes()).unwrap();
        let slots = usize::from(header.n_slots.get());
        let dirty =
            page.bytes()[TAGS_OFFSET..TAGS_OFFSET + slots].iter().filter(|tag| **tag > TAG_MASK).count();
        match header.epoch.get() {
            7 => {
                assert_eq!((header.delta_base.get(), dirty), (6, 1), "changed since the file");
                changed += 1;
            }
            older => {
                assert!(older <= 6);
                unchanged += 1;
            }
        }
    }
    assert_eq!(changed, 1);
    assert!(unchanged >= 3);
}

#[test]
fn pages_linked_to_each_other_are_adopted() {
    let mut heap = heap(256, 0..=0);
    heap.mask_hashes(0x0000_00ff_ffff_ffff);
    let state = heap.register("op", "state", BYTES, BYTES).unwrap();
    let mut expected = Entries::new();
    for number in 0..300_u32 {
        let key =
            if number % 50 == 0 { vec![number.to_le_bytes()[0]; 200] } else { number.to_le_bytes().to_vec() };
        heap.put(state, KeyGroup(0), &key, &number.to_le_bytes()).unwrap();
        expected.insert(("state".to_string(), 0, key), number.to_le_bytes().to_vec());
    }
    let mut disk = TestDisk::new();
    let segment = write(&mut disk, heap.freeze().unwrap(), "s.seg");
    let mut restored = self::heap(256, 0..=0);
    restored.mask_hashes(0x0000_00ff_ffff_ffff);
    let stats = restore_segment(&mut disk, "s.seg", &segment, range(0..=0), &mut restored).unwrap();
    assert_eq!((stats.key_groups_adopted, stats.entries), (1, 300));
    assert!(entries_of(&restored.freeze().unwrap()) == expected);
    for (_, group, key) in expected.keys() {
        assert!(restored.remove(state, KeyGroup(*group), key).unwrap());
    }
    assert!(restored.is_empty(state));
}

#[test]
fn rescaling_moves_each_key_group_once_and_reads_no_other() {
    let (mut disk, segment, expected) = sample(1024, 0..=11, 900);
    let mut files = vec![segment];
    // One subtask, two, three, and one again.
    for (step, parts) in [[0..=5, 6..=11].as_slice(), &[0..=3, 4..=7, 8..=11], &[0..=11]].iter().enumerate() {
        let (mut next, mut found) = (Vec::new(), Entries::new());
        let mut frames_len = 0;
        for (number, groups) in parts.iter().enumerate() {
            let mut heap = heap(1024, groups.clone());
            for file in &files {
                let Some(wanted) = file.key_groups.intersect(range(groups.clone())) else { continue };
                let stats = restore_segment(&mut disk, &file.file_name, file, wanted, &mut heap).unwrap();
                assert_eq!(stats.key_groups, u32::try_from(wanted.len()).unwrap());
                assert_eq!(stats.key_groups, stats.key_groups_adopted);
                frames_len += stats.frames_len;
            }
            let snapshot = heap.freeze().unwrap();
            found.extend(entries_of(&snapshot));
            next.push(write(&mut disk, snapshot, &format!("{step}-{number}.seg")));
        }
        assert!(found == expected, "step {step}");
        assert!(frames_len < files.iter().map(|file| file.len).sum(), "each frame is read once");
        files = next;
    }
}

#[test]
fn a_restore_that_does_not_fit_gives_back_what_it_took() {
    let (mut disk, segment, _) = sample(1024, 0..=1, 900);
    for kib in (16..400).step_by(16) {
        let mut small =
            Heap::new(HeapOptions { memory_limit_bytes: kib << 10, ..heap(1024, 0..=1).options() }).unwrap();
        match restore_segment(&mut disk, "s.seg", &segment, range(0..=1), &mut small) {
            Ok(stats) => assert_eq!(stats.key_groups_adopted, 2),
            Err(error) => {
                assert!(matches!(error.cause, RestoreCause::Heap(HeapError::MemoryLimit { .. })), "{error}");
                let entries: u64 = (0..3).map(|state| small.len(StateId(state))).sum();
                let live = small.memory_use().live_bytes;
                assert!(entries > 0 || live < 16 << 10, "{live} bytes of {kib} KiB are in use for nothing");
            }
        }
    }
}

/// A heap with one state whose records all have the same size.
fn with_widths(frame_size: u32, count: u32) -> (Heap, Entries) {
    let mut heap = heap(frame_size, 0..=1);
    let (key, value) = (CodecId { width: Some(4), ..BYTES }, CodecId { width: Some(6), ..BYTES });
    let state = heap.register("op", "widths", key, value).unwrap();
    let mut model = Entries::new();
    for number in 0..count {
        let (group, key) = (u16::try_from(number % 2).unwrap(), number.to_le_bytes());
        let value = [u8::try_from(number % 251).unwrap(); 6];
        heap.put(state, KeyGroup(group), &key, &value).unwrap();
        model.insert(("widths".to_string(), group, key.to_vec()), value.to_vec());
    }
    (heap, model)
}

#[test]
fn records_of_one_size_are_adopted() {
    for (frame_size, mask) in [(256, u64::MAX), (1024, u64::MAX), (4096, u64::MAX), (256, 0x00ff_ffff_ffff)] {
        let (mut heap, mut model) = with_widths(frame_size, if mask == u64::MAX { 3000 } else { 200 });
        if mask != u64::MAX {
            // Pages linked to each other: another heap, whose hashes were alike from the start.
            let mut alike = self::heap(frame_size, 0..=1);
            alike.mask_hashes(mask);
            let codecs = [Some(4), Some(6)].map(|width| CodecId { width, ..BYTES });
            let state = alike.register("op", "widths", codecs[0], codecs[1]).unwrap();
            for ((_, group, key), value) in &model {
                alike.put(state, KeyGroup(*group), key, value).unwrap();
            }
            heap = alike;
        }
        let mut disk = TestDisk::new();
        let segment = write(&mut disk, heap.freeze().unwrap(), "s.seg");
        let mut restored = self::heap(frame_size, 0..=1);
        restored.mask_hashes(mask);
        let stats = restore_segment(&mut disk, "s.seg", &segment, range(0..=1), &mut restored).unwrap();
        assert_eq!((stats.key_groups_adopted, stats.entries), (2, model.len() as u64));
        let state = restored.state("op", "widths").unwrap();
        let keys: Vec<_> = model.keys().cloned().collect();
        for (number, (name, group, key)) in keys.into_iter().enumerate() {
            if number % 3 == 0 {
                assert!(restored.remove(state, KeyGroup(group), &key).unwrap());
                model.remove(&(name, group, key));
            } else {
                restored.put(state, KeyGroup(group), &key, &[1; 6]).unwrap();
                model.insert((name, group, key), vec![1; 6]);
            }
        }
        assert!(entries_of(&restored.freeze().unwrap()) == model, "frame size {frame_size}");
    }
}

#[test]
fn a_page_of_another_shape_than_its_state_has_is_refused() {
    let (mut heap, _) = with_widths(256, 40);
    let mut disk = TestDisk::new();
    write(&mut disk, heap.freeze().unwrap(), "s.seg");
    let mut bytes = read_back(&mut disk, "s.seg");
    // One slot less, in a page whose last slot is empty: sound by itself, but not where the heap looks.
    let mut told = false;
    let on_frame = |frame: &mut [u8]| {
        let slots = usize::from(header(frame).n_slots.get());
        if !told && slots > 1 && frame[TAGS_OFFSET + slots - 1] & TAG_MASK == 0 {
            header_mut(frame).n_slots -= 1;
            frame[TAGS_OFFSET + slots - 1] = TAG_PADDING;
            told = true;
        }
    };
    let segment = forge(&mut bytes, on_frame, |_, _| {});
    assert!(told);
    is_refused(&bytes, &segment, &["slots of records of one size"], 0);
}

#[test]
fn a_key_group_can_be_had_before_the_others() {
    let (mut disk, segment, expected) = sample(1024, 0..=7, 900);
    let mut heap = heap(1024, 0..=7);
    let mut restore = SegmentRestore::open(&mut disk, "s.seg", &segment, range(1..=6), &mut heap).unwrap();
    let of_group = |wanted: u16| expected.iter().filter(move |((_, group, _), _)| *group == wanted);
    for group in [4, 2, 4, 0] {
        restore.key_group_now(&mut disk, &mut heap, KeyGroup(group)).unwrap();
        for ((state, _, key), value) in of_group(group).filter(|_| group != 0) {
            let state = heap.state("op", state).unwrap();
            assert!(heap.get(state, KeyGroup(group), key).unwrap().unwrap().is(value));
            heap.put(state, KeyGroup(group), key, value).unwrap();
        }
    }
    assert_eq!((restore.stats().key_groups, restore.is_done()), (2, false));
    let mut steps = 0;
    while !restore.is_done() {
        restore.step(&mut disk, &mut heap).unwrap();
        steps += 1;
    }
    // What was there already parts the rest: 1, 3, 5 with 6.
    assert_eq!((steps, restore.stats().key_groups_adopted), (3, 6));
    restore.step(&mut disk, &mut heap).unwrap();
    restore.key_group_now(&mut disk, &mut heap, KeyGroup(3)).unwrap();
    let wanted: Entries =
        (1..=6).flat_map(of_group).map(|(place, value)| (place.clone(), value.clone())).collect();
    assert_eq!(restore.stats().entries, wanted.len() as u64);
    assert!(entries_of(&heap.freeze().unwrap()) == wanted);
}

#[test]
fn damage_in_a_key_group_that_was_not_asked_for_is_found_before_the_end() {
    let (mut disk, _, _) = sample(1024, 0..=7, 300);
    let mut bytes = read_back(&mut disk, "s.seg");
    let sound = forge(&mut bytes, |_| {}, |_, _| {});
    bytes[4096 + 500] ^= 1;
    let mut disk = disk_with("s.seg", &bytes);
    let mut heap = heap(1024, 0..=7);
    let mut restore = SegmentRestore::open(&mut disk, "s.seg", &sound, range(0..=7), &mut heap).unwrap();
    restore.key_group_now(&mut disk, &mut heap, KeyGroup(7)).unwrap();
    let error = restore.step(&mut disk, &mut heap).unwrap_err();
    assert_eq!(complaint(&error), "checksum of a frame");
    assert!(!restore.is_done());
}

fn header(frame: &[u8]) -> &PageHeader {
    PageHeader::ref_from_prefix(frame).unwrap().0
}

fn header_mut(frame: &mut [u8]) -> &mut PageHeader {
    PageHeader::mut_from_prefix(frame).unwrap().0
}

/// The slots in use of a hash page.
fn used(frame: &[u8]) -> Vec<usize> {
    let slots = usize::from(header(frame).n_slots.get());
    (0..slots).filter(|slot| frame[TAGS_OFFSET + slot] & TAG_MASK != 0).collect()
}

fn offset_at(frame: &[u8], slot: usize) -> usize {
    offs_offset(usize::from(header(frame).n_slots.get())) + 2 * slot
}

fn u16_at(frame: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([frame[at], frame[at + 1]]))
}

/// Where the record of a slot, its key and its value begin and where it ends.
fn record(frame: &[u8], slot: usize) -> [usize; 4] {
    let at = u16_at(frame, offset_at(frame, slot));
    let [key, value] = [0, 2].map(|part| u16_at(frame, at + part) & 0x7fff);
    [at, at + 4, at + 4 + key, at + 4 + key + value]
}

/// Changes the first reference to a chain, a key's or a value's.
fn change_reference(frame: &mut [u8], of_key: bool, change: fn(&mut OverflowRef)) -> bool {
    for slot in used(frame) {
        let [head, key, value, _] = record(frame, slot);
        let (len, at) = if of_key { (head, key) } else { (head + 2, value) };
        if u16_at(frame, len) & 0x8000 != 0 {
            change(OverflowRef::mut_from_prefix(&mut frame[at..]).unwrap().0);
            return true;
        }
    }
    false
}

/// Two slots whose records have the same lengths.
fn twins(frame: &[u8]) -> Option<(usize, usize)> {
    let used = used(frame);
    let lens = |slot: usize| {
        let [head, key, value, end] = record(frame, slot);
        (value - key, end - value, u16_at(frame, head) | u16_at(frame, head + 2) < 0x8000)
    };
    let pairs = used.iter().flat_map(|a| used.iter().map(move |b| (*a, *b)));
    pairs.into_iter().find(|(a, b)| a < b && lens(*a).2 && lens(*a) == lens(*b))
}

/// Changes a page of one kind, if it can.
type Lie = fn(&mut [u8]) -> bool;

/// Lies with checksums that are right, the kind of page they are told about, and how they are found.
const LIES: &[(&str, u16, Lie)] = &[
    ("record that overlaps another", PAGE_TYPE_HASH, |frame| {
        let Some((one, other)) = twins(frame) else { return false };
        let from = offset_at(frame, one);
        frame.copy_within(from..from + 2, offset_at(frame, other));
        true
    }),
    ("slot where a key is found", PAGE_TYPE_HASH, |frame| {
        // The same record twice, each in a place of its own.
        let Some((one, other)) = twins(frame) else { return false };
        let ([from, .., end], [to, ..]) = (record(frame, one), record(frame, other));
        frame.copy_within(from..end, to);
        frame[TAGS_OFFSET + other] = frame[TAGS_OFFSET + one];
        true
    }),
    ("slot where a key is found", PAGE_TYPE_HASH, |frame| {
        let Some(slot) = used(frame).first().copied() else { return false };
        frame[TAGS_OFFSET + slot] = frame[TAGS_OFFSET + slot] % 126 + 1;
        true
    }),
    ("hash of a key", PAGE_TYPE_HASH, |frame| {
        let (prefix, depth) = (header(frame).hash_prefix.get(), u32::from(header(frame).local_depth));
        let Some(slot) = used(frame).first().copied() else { return false };
        let [head, key, value, _] = record(frame, slot);
        u16_at(frame, head) < 0x8000
            && (0..=255).any(|byte| {
                frame[key] = byte;
                (hash_key(7, &frame[key..value]) ^ prefix).leading_zeros() < depth
            })
    }),
    ("epoch of a page", PAGE_TYPE_HASH, |frame| {
        header_mut(frame).epoch = 9.into();
        true
    }),
    ("page that another refers to", PAGE_TYPE_HASH, |frame| {
        header_mut(frame).right_lpn = 77.into();
        true
    }),
    ("page that another refers to", PAGE_TYPE_HASH, |frame| {
        let own = header(frame).lpn;
        header_mut(frame).right_lpn = own;
        true
    }),
    ("prefix of a linked page", PAGE_TYPE_HASH, |frame| {
        // The first page of the overflow table, which is one of a chain.
        header_mut(frame).right_lpn = (1 << 31).into();
        header(frame).state_id.get() == 1
    }),
    ("page that another refers to", PAGE_TYPE_HASH, |frame| {
        change_reference(frame, false, |found| found.first_lpn = 5.into())
    }),
    ("length of a chain", PAGE_TYPE_HASH, |frame| change_reference(frame, false, |found| found.len += 1)),
    ("last page of a chain", PAGE_TYPE_HASH, |frame| {
        change_reference(frame, false, |found| found.digest = (u64::from(found.first_lpn.get()) + 999).into())
    }),
    ("digest of a key", PAGE_TYPE_HASH, |frame| change_reference(frame, true, |found| found.digest ^= 1)),
    ("page that another refers to", PAGE_TYPE_OVERFLOW, |frame| {
        frame[OVERFLOW_BYTES_OFFSET - 8..OVERFLOW_BYTES_OFFSET - 4].copy_from_slice(&1_u32.to_le_bytes());
        true
    }),
    ("page that two others refer to", PAGE_TYPE_OVERFLOW, |frame| {
        frame.copy_within(24..28, OVERFLOW_BYTES_OFFSET - 8);
        true
    }),
];

/// What is wrong with a page, by the name of it.
fn complaint(error: &RestoreError) -> &'static str {
    let RestoreCause::Page { error: FormatError::Corrupt { what, .. }, .. } = error.cause else {
        panic!("{error}")
    };
    what
}

#[test]
fn no_lie_about_a_page_is_believed() {
    let (mut disk, _, _) = sample(256, 0..=1, 300);
    let sound = read_back(&mut disk, "s.seg");
    for (number, (what, kind, lie)) in LIES.iter().enumerate() {
        let mut bytes = sound.clone();
        let mut told = false;
        let on_frame = |frame: &mut [u8]| {
            if !told && header(frame).page_type == *kind {
                let before = frame.to_vec();
                told = lie(frame);
                if !told {
                    frame.copy_from_slice(&before);
                }
            }
        };
        let segment = forge(&mut bytes, on_frame, |_, _| {});
        assert!(told, "{number}: no page for {what}");
        is_refused(&bytes, &segment, &[what], number);
    }
}

/// Verification and restore say the same, and the heap has lost no frame.
fn is_refused(bytes: &[u8], segment: &SegmentRef, whats: &[&str], number: usize) {
    let mut disk = disk_with("s.seg", bytes);
    let error = verify_segment(&mut disk, "s.seg", segment).unwrap_err();
    assert!(whats.contains(&complaint(&error)), "{number}: {whats:?}: {error}");
    let mut heap = heap(256, 0..=1);
    let mut live_bytes = 0;
    for round in 0..2 {
        let error = restore_segment(&mut disk, "s.seg", segment, range(0..=1), &mut heap).unwrap_err();
        assert!(whats.contains(&complaint(&error)), "{number}: {whats:?}: {error}");
        assert!(error.to_string().contains("in key group "), "{error}");
        let before = core::mem::replace(&mut live_bytes, heap.memory_use().live_bytes);
        assert!(round == 0 || live_bytes == before, "{number}: what was taken was given back");
    }
}

#[test]
fn no_lie_about_a_section_is_believed() {
    let (mut disk, _, _) = sample(256, 0..=1, 300);
    let sound = read_back(&mut disk, "s.seg");
    type Lie = fn(&mut SectionHead, &mut [IndexRow]);
    let lies: [(&str, Lie); 2] = [
        ("entries of a state", |head, _| head.entry_count += 1),
        ("frame of two pages", |_, rows| {
            if let [first, second, ..] = rows {
                second.frame_no = first.frame_no;
            }
        }),
    ];
    for (number, (what, lie)) in lies.iter().enumerate() {
        let mut bytes = sound.clone();
        let segment = forge(&mut bytes, |_| {}, lie);
        is_refused(&bytes, &segment, &[what], number);
    }
}

#[test]
fn nothing_a_forger_does_to_one_byte_of_a_page_makes_a_heap_that_breaks() {
    let (mut disk, _, _) = sample(256, 0..=0, 40);
    let sound = read_back(&mut disk, "s.seg");
    let frames = (sound.len() - 4096) / 256;
    let mut numbers = Numbers(11);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..1000 {
        let mut bytes = sound.clone();
        let at = 4096 + numbers.below::<usize>(256 * frames as u64);
        let value = numbers.below::<u8>(256);
        let is_frame =
            bytes[at & !255..].starts_with(&[2, 0, 1, 8]) || bytes[at & !255..].starts_with(&[5, 0, 1, 8]);
        if !is_frame {
            continue;
        }
        bytes[at] = value;
        let segment = forge(&mut bytes, |_| {}, |_, _| {});
        let mut disk = disk_with("s.seg", &bytes);
        let mut heap = heap(256, 0..=0);
        let Ok(stats) = restore_segment(&mut disk, "s.seg", &segment, range(0..=0), &mut heap) else {
            refused += 1;
            continue;
        };
        accepted += 1;
        assert_eq!(stats.key_groups_adopted, 1);
        assert!(verify_segment(&mut disk, "s.seg", &segment).is_ok());
        let entries = entries_of(&heap.freeze().unwrap());
        assert_eq!(entries.len() as u64, stats.entries);
        for (state, group, key) in entries.keys() {
            let state = heap.state("op", state).unwrap();
            heap.put(state, KeyGroup(*group), key, &[1; 70]).unwrap();
            heap.put(state, KeyGroup(*group), key, &[2; 7]).unwrap();
        }
        for (state, group, key) in entries.keys() {
            let state = heap.state("op", state).unwrap();
            assert!(heap.remove(state, KeyGroup(*group), key).unwrap());
        }
        assert!(heap.is_empty(StateId(0)));
    }
    assert!(accepted > 30, "{accepted}");
    assert!(refused > 50, "{refused}");
}
