//! A restore reads what it is asked for, and little else.

use super::*;

const GROUPS: u16 = 16;

/// A heap whose key groups take some 400 KiB each, half of which cannot be compressed.
fn large() -> Heap {
    let mut heap = heap(4096, 0..=GROUPS - 1);
    let state = heap.register("op", "state", BYTES, BYTES).unwrap();
    for number in 0..u32::from(GROUPS) * 40 {
        let group = KeyGroup(u16::try_from(number).unwrap() % GROUPS);
        let mut value = compression::noise(number.into(), 5000);
        value.resize(10_000, 7);
        heap.put(state, group, &number.to_le_bytes(), &value).unwrap();
    }
    heap
}

/// What a segment takes for the frames of some key groups, and for all that are none.
fn lens(disk: &mut TestDisk, segment: &SegmentRef, groups: KeyGroupRange) -> (u64, u64) {
    let meta = source::SegmentMeta::read(disk, &segment.file_name, segment).unwrap();
    let data_len = meta.key_groups(groups).unwrap().iter().map(|row| row.data_len.get()).sum();
    (data_len, segment.len - meta.footer().unwrap().totals().data_len)
}

#[test]
fn key_groups_are_restored_without_reading_the_others() {
    let mut heap = large();
    let expected = entries_of(&heap.freeze().unwrap());
    for compression in compressions() {
        let mut disk = TestDisk::new();
        let segment = write_with(compression, &mut disk, heap.freeze().unwrap(), "s.seg");
        // The shares of subtasks: one of each kind at parallelisms of 1, 2, 3, 5, 16.
        for groups in [0..=15, 0..=7, 8..=15, 6..=10, 11..=15, 3..=6, 9..=9, 15..=15] {
            let mut counting = counting(disk.clone());
            let mut restored = self::heap(4096, groups.clone());
            let wanted = range(groups.clone());
            restore_segment(&mut counting, "s.seg", &segment, wanted, &mut restored).unwrap();
            let (data_len, others_len) = lens(&mut disk, &segment, wanted);
            let read_max = data_len + data_len / 20 + others_len;
            let read = counting.layer.read_len;
            assert!(read <= read_max, "{compression} {groups:?}: {read} bytes of at most {read_max}");
            assert!(read >= data_len);
            let own = expected.iter().filter(|((_, group, _), _)| groups.contains(group));
            let own = own.map(|(place, value)| (place.clone(), value.clone())).collect();
            assert!(entries_of(&restored.freeze().unwrap()) == own, "{compression} {groups:?}");
        }
    }
}

#[test]
fn all_but_key_groups_is_verified_without_reading_them() {
    let mut heap = large();
    let mut disk = TestDisk::new();
    let segment = write(&mut disk, heap.freeze().unwrap(), "s.seg");
    let (data_len, others_len) = lens(&mut disk, &segment, range(0..=GROUPS - 1));
    let mut counting = counting(disk);
    verify_all_but_key_groups(&mut counting, "s.seg", &segment).unwrap();
    assert!(
        counting.layer.read_len <= 2 * others_len && others_len < data_len / 20,
        "{}",
        counting.layer.read_len
    );
}

#[test]
fn a_change_of_any_byte_outside_of_key_groups_is_found_without_reading_them() {
    let (bytes, segment) = small_segment();
    let mut disk = disk_with("s.seg", &bytes);
    let (data_len, _) = lens(&mut disk, &segment, range(0..=3));
    verify_all_but_key_groups(&mut disk, "s.seg", &segment).unwrap();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let verified = verify_all_but_key_groups(&mut disk_with("s.seg", &damaged), "s.seg", &segment);
        let is_in_frames = (4096..4096 + data_len).contains(&(at as u64));
        assert_eq!(verified.is_ok(), is_in_frames, "byte {at} of {}", bytes.len());
    }
}

#[test]
fn states_that_lie_about_their_number_of_entries_are_found_without_reading_key_groups() {
    let (mut bytes, _) = small_segment();
    let segment = forge::forge(&mut bytes, |_| {}, |section, _| section.entry_count += 1);
    let error = verify_all_but_key_groups(&mut disk_with("s.seg", &bytes), "s.seg", &segment).unwrap_err();
    assert!(error.to_string().contains("entries of a state"), "{error}");
}

#[test]
fn a_key_group_that_has_not_been_restored_is_refused_in_every_way() {
    let mut full = filled(1024, 0..=7, 900);
    fill_ordered(&mut full, 100);
    let mut disk = TestDisk::new();
    let segment = write(&mut disk, full.freeze().unwrap(), "s.seg");
    let mut heap = heap(1024, 0..=7);
    let mut restore = SegmentRestore::open(&mut disk, "s.seg", &segment, range(0..=7), &mut heap).unwrap();
    let [small, ordered] = ["small", "ordered"].map(|name| heap.state("op", name).unwrap());
    restore.key_group_now(&mut disk, &mut heap, KeyGroup(3)).unwrap();
    for group in (0..8).map(KeyGroup) {
        let refused = Err(HeapError::NotRestored { key_group: group });
        let expected = if group.0 == 3 { Ok(()) } else { refused };
        assert_eq!(heap.is_awaited(group), group.0 != 3);
        assert_eq!(heap.get(small, group, b"key").map(drop), expected);
        assert_eq!(heap.get_mut(small, group, b"key").map(drop), expected);
        assert_eq!(heap.append(small, group, b"key", b"more"), expected);
        assert_eq!(heap.put(small, group, b"key", b"value"), expected);
        assert_eq!(heap.remove(small, group, b"key").map(drop), expected);
        assert_eq!(heap.group_len(small, group).map(drop), expected);
        assert_eq!(heap.ordered_get(ordered, group, b"key").map(drop), expected);
        assert_eq!(heap.ordered_put(ordered, group, b"key", b"value").map(drop), expected);
        assert_eq!(heap.ordered_within(ordered, group, b"k").map(drop), expected);
        assert_eq!(heap.ordered_remove(ordered, group, b"key").map(drop), expected);
    }
    let first = HeapError::NotRestored { key_group: KeyGroup(0) };
    assert_eq!(heap.freeze().unwrap_err(), first);
    assert_eq!(heap.scan(small, &mut crate::heap::ScanCursor::default(), &mut |_, _| {}), Err(first));
    while !restore.is_done() {
        restore.step(&mut disk, &mut heap).unwrap();
    }
    assert!(heap.get(small, KeyGroup(0), b"key").is_ok());
    assert_eq!(entries_of(&heap.freeze().unwrap()), entries_of(&full.freeze().unwrap()));
}

#[test]
fn key_groups_that_the_owner_of_the_disk_reads_are_taken_in_as_they_come() {
    let mut full = filled(1024, 0..=7, 900);
    fill_ordered(&mut full, 100);
    let expected = entries_of(&full.freeze().unwrap());
    for compression in compressions() {
        let mut disk = TestDisk::new();
        let segment = write_with(compression, &mut disk, full.freeze().unwrap(), "s.seg");
        let mut heap = heap(1024, 0..=7);
        let mut restore =
            SegmentRestore::open(&mut disk, "s.seg", &segment, range(0..=7), &mut heap).unwrap();
        for group in [5, 0, 5, 7, 1, 2, 3, 4, 6].map(KeyGroup) {
            assert_eq!(restore.awaited().any(|awaited| awaited == group), heap.is_awaited(group));
            let Some(mut reader) = restore.reader(group) else { continue };
            run_to_end(&mut disk, &mut reader).unwrap();
            let read = reader.into_result().unwrap();
            assert_eq!((read.path(), read.group()), ("s.seg", group));
            restore.take(&read, &mut heap).unwrap();
            restore.take(&read, &mut heap).unwrap();
        }
        assert!(restore.is_done() && restore.reader(KeyGroup(5)).is_none());
        assert_eq!(disk.in_flight(), 0);
        assert!(entries_of(&heap.freeze().unwrap()) == expected, "{compression}");
    }
}

#[test]
fn damage_in_a_key_group_is_found_when_it_is_taken_in() {
    let (bytes, segment) = small_segment();
    let mut disk = disk_with("s.seg", &bytes);
    let (data_len, _) = lens(&mut disk, &segment, range(0..=3));
    for at in (4096..4096 + usize::try_from(data_len).unwrap()).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let mut disk = disk_with("s.seg", &damaged);
        let mut heap = heap(256, 0..=3);
        let mut restore =
            SegmentRestore::open(&mut disk, "s.seg", &segment, range(0..=3), &mut heap).unwrap();
        let groups: Vec<KeyGroup> = restore.awaited().collect();
        let taken = groups.into_iter().try_for_each(|group| {
            let mut reader = restore.reader(group).unwrap();
            run_to_end(&mut disk, &mut reader).unwrap();
            restore.take(&reader.into_result()?, &mut heap)
        });
        assert!(taken.is_err() && !restore.is_done(), "byte {at}");
        assert!(heap.freeze().is_err(), "byte {at}");
    }
}

#[test]
fn a_file_that_has_become_shorter_is_an_error_of_the_disk() {
    let (bytes, segment) = small_segment();
    let mut disk = disk_with("s.seg", &bytes);
    let mut heap = heap(256, 0..=3);
    let restore = SegmentRestore::open(&mut disk, "s.seg", &segment, range(0..=3), &mut heap).unwrap();
    cut(&mut disk, "s.seg", 4096);
    let mut reader = restore.reader(KeyGroup(1)).unwrap();
    run_to_end(&mut disk, &mut reader).unwrap();
    let error = reader.into_result().unwrap_err();
    assert!(matches!(error.cause, RestoreCause::Disk(DiskError { errno: DiskError::IO, .. })), "{error}");
    let mut reader = restore.reader(KeyGroup(0)).unwrap();
    run_to_end(&mut TestDisk::new(), &mut reader).unwrap();
    let error = reader.into_result().unwrap_err();
    assert!(
        matches!(error.cause, RestoreCause::Disk(DiskError { errno: DiskError::NOT_FOUND, .. })),
        "{error}"
    );
}
