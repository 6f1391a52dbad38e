use slackwater_core::durable::run_to_end;
use slackwater_core::ids::CheckpointId;
use slackwater_core::key_group::MaxParallelism;

use crate::disk::MemDisk;
use crate::segment::{
    Compression, RestoreCause, SegmentSpec, SegmentWriter, check_compression, restore_segment, verify_segment,
};

use super::*;

/// Each that is built in, in turn.
fn compression_of(epoch: u32) -> Compression {
    let wanted = Compression::ALL[epoch as usize % Compression::ALL.len()];
    check_compression(wanted).map_or(Compression::None, |()| wanted)
}

/// Makes `heap` hold what the snapshot holds; false if it has no memory for that.
pub(super) fn copy<A: ArenaHandle + 'static>(snapshot: Snapshot<A>, heap: &mut Heap<A>) -> bool {
    let spec = SegmentSpec {
        folder: "".into(),
        file_name: "s".into(),
        file_id: 1,
        job_id: 2,
        checkpoint: CheckpointId(3),
        subtask: 0,
        attempt: 0,
        max_parallelism: MaxParallelism::MAX,
        compression: compression_of(snapshot.epoch()),
    };
    let mut disk = MemDisk::<FrozenRun<A>>::new();
    let range = snapshot.key_groups();
    let mut writer = SegmentWriter::<MemDisk<FrozenRun<A>>, A>::new(snapshot, spec);
    run_to_end(&mut disk, &mut writer).unwrap();
    let segment = writer.result().unwrap().clone().unwrap();
    // Who verifies a file knows nothing of hashes that a test has made alike.
    if heap.hasher.mask == u64::MAX {
        verify_segment(&mut disk, "s", &segment).unwrap();
    }
    match restore_segment(&mut disk, "s", &segment, range, heap) {
        Ok(_) => true,
        Err(error) => {
            let short = matches!(
                error.cause,
                RestoreCause::Heap(HeapError::MemoryLimit { .. } | HeapError::SnapshotHolds { .. })
            );
            assert!(short, "{error}");
            false
        }
    }
}

fn reserved(plan: &Plan) -> Heap {
    Heap::new(plan.options()).unwrap()
}

/// A heap in memory of the caller, with no help of the system's.
fn in_callers_memory(plan: &Plan) -> Heap<&'static Arena<'static>> {
    let memory: &'static mut [u8] = vec![0x5a; plan.memory_bytes as usize].leak();
    let arena: &'static Arena<'static> = std::boxed::Box::leak(std::boxed::Box::new(Arena::new(memory)));
    Heap::in_arena(arena, plan.options()).unwrap()
}

fn run<A: ArenaHandle + 'static>(plan: Plan, new_heap: fn(&Plan) -> Heap<A>) -> u32 {
    let mut model = Model::new(plan, new_heap(&plan));
    model.run(&new_heap);
    model.finish(new_heap(&plan));
    assert!(model.restores > 0, "the heap was restored");
    model.refused
}

#[test]
fn every_snapshot_equals_its_moment_with_frames_of_256_bytes() {
    for seed in 1..=4 {
        assert_eq!(run(Plan::new(seed * 7_919, 256), reserved), 0);
    }
}

#[test]
fn every_snapshot_equals_its_moment_with_frames_of_512_bytes() {
    run(Plan { states: 5, groups: 1, ..Plan::new(31, 512) }, reserved);
    run(Plan { states: 1, groups: 40, keys: 12, ..Plan::new(32, 512) }, reserved);
}

#[test]
fn every_snapshot_equals_its_moment_with_frames_of_4096_bytes() {
    let plan = Plan { memory_bytes: 128 << 20, keys: 400, ..Plan::new(104_729, 4096) };
    run(plan, reserved);
    run(Plan { value_len_max: 4 << 20, steps: 1_500, seed: 11, ..plan }, reserved);
}

#[test]
fn every_snapshot_equals_its_moment_with_frames_of_16384_bytes() {
    run(Plan { memory_bytes: 128 << 20, keys: 300, steps: 1_500, ..Plan::new(5, 16_384) }, reserved);
}

#[test]
fn every_snapshot_equals_its_moment_with_keys_and_values_of_one_size() {
    for (seed, frame_size, widths) in
        [(1, 256, (8, 8)), (2, 256, (2, 0)), (3, 512, (17, 100)), (4, 4096, (8, 8)), (5, 4096, (16, 300))]
    {
        let plan = Plan { widths: Some(widths), keys: 900, steps: 5_000, ..Plan::new(seed, frame_size) };
        run(plan, reserved);
        run(Plan { mask: 0xf000_0000_0000_00ff, keys: 200, ..plan }, reserved);
    }
    let refused = run(
        Plan { widths: Some((8, 8)), keys: 900, memory_bytes: 256 * 90, ..Plan::new(6, 256) },
        in_callers_memory,
    );
    assert!(refused > 20, "{refused} calls were refused");
}

#[test]
fn every_snapshot_equals_its_moment_with_hashed_and_ordered_states() {
    for (seed, frame_size) in [(1, 256), (2, 512), (3, 4096)] {
        run(Plan { ordered: true, states: 4, groups: 2, ..Plan::new(seed, frame_size) }, reserved);
    }
    for (seed, frames) in [(4, 120), (5, 160)] {
        let plan = Plan { ordered: true, memory_bytes: 256 * frames, ..Plan::new(seed, 256) };
        let refused = run(plan, in_callers_memory);
        assert!(refused > 20, "{refused} calls were refused for seed {seed}");
    }
}

#[test]
fn every_snapshot_equals_its_moment_with_few_hashes() {
    for mask in [0xf000_0000_0000_000f, 0xff, 0] {
        run(Plan { mask, ..Plan::new(99, 256) }, reserved);
    }
}

#[test]
fn what_does_not_fit_into_the_memory_changes_nothing() {
    for (seed, frames) in [(1, 100), (2, 120), (3, 140), (4, 160)] {
        for frame_size in [256_u32, 512] {
            let memory_bytes = u64::from(frame_size) * frames;
            let refused = run(Plan { memory_bytes, ..Plan::new(seed, frame_size) }, in_callers_memory);
            assert!(refused > 20, "{refused} calls were refused for seed {seed}");
        }
    }
}

#[test]
fn what_does_not_fit_into_large_frames_changes_nothing() {
    for (seed, frame_size) in [(5, 4096_u32), (6, 16_384)] {
        let memory_bytes = u64::from(frame_size) * 130;
        let plan = Plan { memory_bytes, keys: 400, ..Plan::new(seed, frame_size) };
        let refused = run(plan, in_callers_memory);
        assert!(refused > 20, "{refused} calls were refused for seed {seed}");
    }
}
