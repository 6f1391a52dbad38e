//! Every interleaving of a heap with readers of its snapshots, on the heap's own code: loom is told which
//! parts of the arena each thread reads and writes, and fails on two that nothing orders.
//!
//! `.ci/loom` runs this, and demands that it fails for each mutant that the sources name.

/// A run that was meant to explore interleavings must not pass because there was nothing in it.
#[cfg(not(slackwater_loom))]
#[test]
fn loom_is_on_where_it_is_required() {
    assert!(
        std::env::var_os("REQUIRE_LOOM").is_none_or(|value| value != "1"),
        "REQUIRE_LOOM=1, but built without RUSTFLAGS=\"--cfg slackwater_loom\""
    );
}

#[cfg(test)]
#[cfg(slackwater_loom)]
mod models {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use loom::thread;
    use slackwater_core::durable::Frozen;
    use slackwater_core::key_group::{KeyGroup, KeyGroupRange};
    use slackwater_mem::{CodecId, FrozenRun, Heap, HeapOptions, Snapshot, StateId};

    const BYTES: CodecId<'static> = CodecId::variable("bytes", 1);
    const GROUP: KeyGroup = KeyGroup(0);

    fn heap() -> (Heap, StateId) {
        let key_groups = KeyGroupRange { first: GROUP, last: GROUP };
        let options = HeapOptions { frame_size: 256, memory_limit_bytes: 16 << 10, key_groups, hash_seed: 1 };
        let mut heap = Heap::new(options).unwrap();
        let state = heap.register("o", "s", BYTES, BYTES).unwrap();
        (heap, state)
    }

    fn put(heap: &mut Heap, state: StateId, value: u8) {
        heap.put(state, GROUP, b"key", &[value]).unwrap();
    }

    fn value_in(snapshot: &Snapshot, state: StateId) -> u8 {
        let mut found = None;
        snapshot.entries(state, &mut |_, _, value| found = value.as_slice().map(|bytes| bytes[0]));
        found.expect("the entry is there")
    }

    fn page_of(snapshot: &Snapshot, state: StateId) -> FrozenRun {
        snapshot.pages(state, GROUP).next().expect("there is a page").guard()
    }

    /// Explores `model`, which notes when it gets to what it is about, and demands that it does.
    fn explore(model: impl Fn(&AtomicUsize) + Sync + Send + 'static) {
        let reached = std::sync::Arc::new(AtomicUsize::new(0));
        let counter = reached.clone();
        loom::model(move || model(&counter));
        assert_ne!(reached.load(Relaxed), 0, "no interleaving gets there");
    }

    /// The heap moves what the snapshot sees, and writes in place again once the reader has gone.
    #[test]
    fn a_reader_sees_its_moment_and_its_frame_is_written_after_it() {
        explore(|reused| {
            let (mut heap, state) = heap();
            put(&mut heap, state, 1);
            let snapshot = heap.freeze().unwrap();
            let reader = thread::spawn(move || assert_eq!(value_in(&snapshot, state), 1));
            put(&mut heap, state, 2);
            // Without a copy, so in the very frame that the reader had.
            reused.fetch_add(usize::from(heap.memory_use().retired_bytes == 0), Relaxed);
            drop(heap.freeze().unwrap());
            put(&mut heap, state, 3);
            reader.join().unwrap();
            assert!(heap.get(state, GROUP, b"key").unwrap().unwrap().is(&[3]));
        });
    }

    /// A freed frame goes to another use as soon as the last reader of it has gone.
    #[test]
    fn frames_of_a_released_snapshot_are_not_read_any_more() {
        explore(|reused| {
            let (mut heap, state) = heap();
            put(&mut heap, state, 1);
            let snapshot = heap.freeze().unwrap();
            let page = page_of(&snapshot, state);
            let reader = thread::spawn(move || {
                drop(snapshot);
                assert_eq!(page.bytes().len(), 256);
            });
            put(&mut heap, state, 2);
            // Chains, until the memory is used up: every frame that looks free is taken and written.
            let before = heap.memory_use();
            while heap.put(state, GROUP, &heap.len(state).to_le_bytes(), &[7; 600]).is_ok() {}
            reused.fetch_add(usize::from(heap.memory_use().retired_bytes < before.retired_bytes), Relaxed);
            reader.join().unwrap();
        });
    }

    /// Two snapshots, released by two threads in any order.
    #[test]
    fn snapshots_may_be_released_out_of_order() {
        explore(|out_of_order| {
            let (mut heap, state) = heap();
            put(&mut heap, state, 1);
            let first = heap.freeze().unwrap();
            put(&mut heap, state, 2);
            let second = heap.freeze().unwrap();
            let readers = [(first, 1), (second, 2)].map(|(snapshot, expected)| {
                thread::spawn(move || assert_eq!(value_in(&snapshot, state), expected))
            });
            let retired = heap.memory_use().retired_bytes;
            put(&mut heap, state, 3);
            // In the frame that the second reader had, while the first may still read its own.
            out_of_order.fetch_add(usize::from(heap.memory_use().retired_bytes <= retired), Relaxed);
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
    }

    /// The heap goes away while a snapshot of it is read.
    #[test]
    fn a_snapshot_outlives_its_heap() {
        loom::model(|| {
            let (mut heap, state) = heap();
            put(&mut heap, state, 1);
            let snapshot = heap.freeze().unwrap();
            let reader = thread::spawn(move || assert_eq!(value_in(&snapshot, state), 1));
            put(&mut heap, state, 2);
            drop(heap);
            reader.join().unwrap();
        });
    }
}
