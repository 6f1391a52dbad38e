//! What users of other engines have met with and reported: key groups and rescaling (cases D), snapshots that
//! are written while the state goes on (cases E).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use slackwater_core::durable::{Work, run_to_end};
use slackwater_core::ids::CheckpointId;
use slackwater_core::key_group::{KeyGroup, KeyGroupRange, MaxParallelism};
use slackwater_mem::segment::{Compression, SegmentRef, SegmentSpec, SegmentWriter};
use slackwater_mem::{CodecId, FrozenRun, Heap, HeapOptions, MemDisk, Snapshot, Value};

#[path = "cases/rescaling.rs"]
mod rescaling;
#[path = "cases/sizes.rs"]
mod sizes;
#[path = "cases/writing.rs"]
mod writing;

type TestDisk = MemDisk<FrozenRun>;
/// Entries by state's name, key group and key.
type Entries = BTreeMap<(String, u16, Vec<u8>), Vec<u8>>;

const BYTES: CodecId<'static> = CodecId::variable("bytes", 1);

fn groups(first: u16, last: u16) -> KeyGroupRange {
    KeyGroupRange { first: KeyGroup(first), last: KeyGroup(last) }
}

fn heap(key_groups: KeyGroupRange) -> Heap {
    let options = HeapOptions { frame_size: 512, memory_limit_bytes: 64 << 20, key_groups, hash_seed: 11 };
    Heap::new(options).unwrap()
}

fn writer(snapshot: Snapshot, file_name: &str) -> SegmentWriter<TestDisk> {
    let spec = SegmentSpec {
        folder: String::new(),
        file_name: file_name.into(),
        file_id: 7,
        job_id: 1,
        checkpoint: CheckpointId(1),
        subtask: 0,
        attempt: 0,
        max_parallelism: MaxParallelism::MAX,
        compression: Compression::None,
    };
    SegmentWriter::new(snapshot, spec)
}

fn write(disk: &mut TestDisk, snapshot: Snapshot, file_name: &str) -> SegmentRef {
    let mut writer = writer(snapshot, file_name);
    run_to_end(disk, &mut writer).unwrap();
    assert!(writer.is_done());
    writer.result().unwrap().clone().unwrap()
}

fn bytes_of(value: Value<'_>) -> Vec<u8> {
    value.chunks().collect::<Vec<_>>().concat()
}

fn entries_of(snapshot: &Snapshot) -> Entries {
    let mut entries = Entries::new();
    for state in snapshot.states() {
        snapshot.entries(state.id, &mut |group, key, value| {
            let before = entries.insert((state.name.into(), group.0, bytes_of(key)), bytes_of(value));
            assert!(before.is_none(), "an entry is visited once");
        });
    }
    entries
}
