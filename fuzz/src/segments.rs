//! Segments: verified, restored in every way there is, used, and written again.

use slackwater_core::assign::Rescaling;
use slackwater_core::durable::{Names, WriteFile, run_to_end};
use slackwater_core::format::segment::{IndexRow, SegmentHeader, SegmentTrailer};
use slackwater_core::ids::CheckpointId;
use slackwater_core::key_group::{KeyGroup, KeyGroupRange, MaxParallelism};
use slackwater_mem::segment::{
    Compression, MEMORY_FIXED, MEMORY_PER_BYTE, OldSegment, RestoreCause, RestoreError, RestoreStats,
    SegmentRef, SegmentRestore, SegmentSpec, SegmentWriter, VerifyStats, restore_operator_state,
    restore_segment, verify_segment,
};
use slackwater_mem::{FrozenRun, Heap, HeapOptions, MemDisk};

use crate::memory::within;
use crate::repair;
use crate::usage::use_up;

const ALL_KEY_GROUPS: KeyGroupRange = KeyGroupRange { first: KeyGroup(0), last: KeyGroup(u16::MAX >> 1) };
/// Bytes that say how a segment is restored.
pub(crate) const ORDER_LEN: usize = 2;

/// A whole segment: verified, then restored into a heap that puts its entries one by one, and into one that
/// takes over its pages, which is then written again and used.
pub fn segment(data: &[u8]) {
    let mut file = File::repaired(data);
    let verified = file.verify();
    assert!(verified.as_ref().err().is_none_or(|error| !error.to_string().is_empty()));
    for frame_size in [file.frame_size(), file.other_frame_size()] {
        let mut heap = file.heap(frame_size, ALL_KEY_GROUPS);
        let restored = file.restore(&mut heap);
        match (&verified, &restored) {
            (Ok(verified), Ok(restored)) => assert_eq!(verified.entries, *restored),
            (Ok(_), Err(error)) => assert!(matches!(error.cause, RestoreCause::Heap(_)), "{error}"),
            // A restore does not count all entries of a state: it may see only some of its key groups.
            (Err(_), Ok(_) | Err(_)) => {}
        }
        if let Ok(entries) = restored {
            file.write_again(&mut heap, entries);
            use_up(&mut heap);
        }
    }
}

/// A segment of which a part is restored, step by step. The two bytes before it say which key group is wanted first,
/// and where the range ends.
pub fn range(data: &[u8]) {
    let Some(([wanted, last], data)) = data.split_first_chunk::<ORDER_LEN>() else { return };
    let mut file = File::repaired(data);
    let ranges = [(0, u16::from(*last)), (u16::from(*last) + 1, ALL_KEY_GROUPS.last.0)];
    let mut entries = 0;
    for (first, last) in ranges {
        let key_groups = KeyGroupRange { first: KeyGroup(first), last: KeyGroup(last) };
        let mut heap = file.heap(file.frame_size(), key_groups);
        let Ok(stats) = file.restore_range(KeyGroup(u16::from(*wanted)), &mut heap) else { return };
        assert_eq!(stats.entries, entries_in(&mut heap));
        entries += stats.entries;
        use_up(&mut heap);
    }
    let mut whole = file.heap(file.frame_size(), ALL_KEY_GROUPS);
    match file.restore_by_key(&mut whole) {
        Ok(restored) => assert_eq!(restored.entries, entries),
        // Its parts were sound, but all of it may be too much for one heap.
        Err(error) => assert!(matches!(error.cause, RestoreCause::Heap(_)), "{error}"),
    }
}

/// What is not kept by key in a segment that several old subtasks have, given out to new ones. The two bytes before it
/// say how many new ones there are, and which of eight old ones have it.
pub fn operator_state(data: &[u8]) {
    let Some(([parallelism, old], data)) = data.split_first_chunk::<ORDER_LEN>() else { return };
    let mut file = File::repaired(data);
    let listed = file.listed.clone();
    let segment = OldSegment { path: "s", segment: &listed };
    let old_parallelism = old.checked_ilog2().map_or(1, |last| last + 1);
    let old: Vec<_> = (0..old_parallelism).map(|at| (old >> at & 1 == 1).then_some(segment)).collect();
    let parallelism = u32::from(parallelism % 4) + 1;
    let rescaling = Rescaling::new(MaxParallelism::MAX, old_parallelism, parallelism).expect("few");
    for index in 0..parallelism {
        let mut heap = file.heap(file.frame_size(), ALL_KEY_GROUPS);
        let (memory_max, disk) = (file.memory_max(), &mut file.disk);
        let restored = within("a restore of operator state", memory_max, || {
            restore_operator_state(disk, &old, rescaling, index, &mut heap)
        });
        match restored {
            Ok(entries) => assert_eq!(entries, entries_in(&mut heap)),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

/// Verifies a segment as it is.
///
/// # Errors
/// What is wrong with it.
pub fn verify(data: &[u8]) -> Result<VerifyStats, RestoreError> {
    File::new(data).verify()
}

fn entries_in(heap: &mut Heap) -> u64 {
    heap.freeze().expect("the first").states().map(|state| state.entries).sum()
}

/// A segment on a disk, as `s`, and what a manifest would say of it, were it sound.
pub(crate) struct File {
    listed: SegmentRef,
    header: Option<SegmentHeader>,
    disk: MemDisk<FrozenRun>,
}

impl File {
    fn repaired(data: &[u8]) -> Self {
        let mut data = data.to_vec();
        // Without the shape of a segment it is tried as it is.
        let _is_repaired = repair::segment(&mut data).is_some();
        Self::new(&data)
    }

    pub(crate) fn new(data: &[u8]) -> Self {
        let mut disk = MemDisk::new();
        let mut file = WriteFile::<MemDisk<FrozenRun>, _, _>::new(Names::Final { path: "s" }, data);
        run_to_end(&mut disk, &mut file).expect("a disk of its own");
        Self { listed: listed("s", data), header: SegmentHeader::parse(data).ok(), disk }
    }

    fn frame_size(&self) -> u32 {
        self.header.map_or(1024, |header| 1 << header.frame_size_log2)
    }

    fn other_frame_size(&self) -> u32 {
        if self.frame_size() == 1024 { 2048 } else { 1024 }
    }

    fn heap(&self, frame_size: u32, key_groups: KeyGroupRange) -> Heap {
        let hash_seed = self.header.map_or(1, |header| header.hash_seed);
        let options = HeapOptions { frame_size, memory_limit_bytes: 8 << 20, key_groups, hash_seed };
        Heap::new(options).expect("sound options")
    }

    /// What FORMAT.md allows a reader: of a compressed segment also its frames, each of which has an index row.
    fn memory_max(&self) -> usize {
        let len = usize::try_from(self.listed.len).expect("it is in memory");
        let is_compressed = self.header.is_some_and(|header| header.compression != Compression::None);
        let frames = if is_compressed { len / IndexRow::LEN * self.frame_size() as usize } else { 0 };
        len * MEMORY_PER_BYTE + frames + MEMORY_FIXED
    }

    fn verify(&mut self) -> Result<VerifyStats, RestoreError> {
        within("a verification", self.memory_max(), || self.verify_as_it_is())
    }

    pub(crate) fn verify_as_it_is(&mut self) -> Result<VerifyStats, RestoreError> {
        verify_segment(&mut self.disk, "s", &self.listed)
    }

    fn restore_by_key(&mut self, heap: &mut Heap) -> Result<RestoreStats, RestoreError> {
        let memory_max = self.memory_max();
        within("a restore", memory_max, || {
            restore_segment(&mut self.disk, "s", &self.listed, ALL_KEY_GROUPS, heap)
        })
    }

    /// Puts all of a segment into a heap, and says how many entries that is.
    fn restore(&mut self, heap: &mut Heap) -> Result<u64, RestoreError> {
        let stats = self.restore_by_key(heap)?;
        let rescaling = Rescaling::new(MaxParallelism::MAX, 1, 1).expect("one is not too many");
        let old = [Some(OldSegment { path: "s", segment: &self.listed })];
        Ok(stats.entries + restore_operator_state(&mut self.disk, &old, rescaling, 0, heap)?)
    }

    /// Restores the key groups of the heap: `wanted` before the others, the next one from what was read of it before, the
    /// rest in batches.
    fn restore_range(&mut self, wanted: KeyGroup, heap: &mut Heap) -> Result<RestoreStats, RestoreError> {
        let (memory_max, key_groups) = (self.memory_max(), heap.options().key_groups);
        let (disk, listed) = (&mut self.disk, &self.listed);
        within("a restore step by step", memory_max, || {
            let mut restore = SegmentRestore::open(disk, "s", listed, key_groups, heap)?;
            restore.key_group_now(disk, heap, wanted)?;
            let next = restore.awaited().next();
            if let Some(mut reader) = next.and_then(|group| restore.reader(group)) {
                run_to_end(disk, &mut reader).expect("a disk of its own");
                restore.take(&reader.into_result()?, heap)?;
            }
            while !restore.is_done() {
                restore.step(disk, heap)?;
            }
            Ok(restore.stats())
        })
    }

    /// Writes what was restored to another file, which must be sound too.
    fn write_again(&mut self, heap: &mut Heap, entries: u64) {
        let compression = self.header.map_or(Compression::None, |header| header.compression);
        let spec = spec("again", compression);
        let snapshot = heap.freeze().expect("the first");
        let mut writer = SegmentWriter::<MemDisk<FrozenRun>>::new(snapshot, spec);
        run_to_end(&mut self.disk, &mut writer).expect("a disk of its own");
        let written = writer.result().expect("at its end").clone().expect("a disk without limits");
        let verified = verify_segment(&mut self.disk, "again", &written).expect("it was just written");
        assert_eq!(verified.entries, entries);
        let mut remove = slackwater::blocking::Blocking::new(&mut self.disk);
        slackwater::files::BlockingFiles::remove(&mut remove, "again").expect("it is there");
    }
}

pub(crate) fn spec(file_name: &str, compression: Compression) -> SegmentSpec {
    SegmentSpec {
        folder: String::new(),
        file_name: file_name.into(),
        file_id: 2,
        job_id: 3,
        checkpoint: CheckpointId(1),
        subtask: 0,
        attempt: 0,
        max_parallelism: MaxParallelism::MAX,
        compression,
    }
}

/// What a manifest would say of a segment, were it sound.
pub(crate) fn listed(file_name: &str, data: &[u8]) -> SegmentRef {
    let len = data.len() as u64;
    let header = SegmentHeader::parse(data).ok();
    let trailer = SegmentTrailer::parse(data, len).ok();
    let none = KeyGroupRange { first: KeyGroup(0), last: KeyGroup(0) };
    SegmentRef {
        file_name: file_name.into(),
        file_id: header.map_or(0, |header| header.file_id),
        len,
        used_len: len,
        footer_checksum: trailer.map_or(0, |trailer| trailer.footer_checksum),
        key_groups: header.map_or(none, |header| header.key_groups),
    }
}
