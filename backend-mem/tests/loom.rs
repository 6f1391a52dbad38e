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
        heap_of(1)
    }

    fn heap_of(groups: u16) -> (Heap, StateId) {
        let key_groups = KeyGroupRange { first: GROUP, last: KeyGroup(groups - 1) };
        let options = HeapOptions { frame_size: 256, memory_limit_bytes: 16 << 10, key_groups, hash_seed: 1 };
        let mut heap = Heap::new(options).unwrap();
        let state = heap.register("o", "s", BYTES, BYTES).unwrap();
        (heap, state)
    }

    fn put(heap: &mut Heap, state: StateId, value: u8) {
        put_in(heap, state, GROUP, value);
    }

    fn put_in(heap: &mut Heap, state: StateId, group: KeyGroup, value: u8) {
        heap.put(state, group, b"key", &[value]).unwrap();
    }

    /// Frames that `change` copies.
    fn copies(heap: &mut Heap, change: impl FnOnce(&mut Heap)) -> u64 {
        let before = heap.memory_use().copied_bytes;
        change(heap);
        (heap.memory_use().copied_bytes - before) / 256
    }

    /// Root, table and heads: what the first change after a freeze copies beside its page.
    const WAY: u64 = 3;

    fn value_in(snapshot: &Snapshot, state: StateId) -> u8 {
        let mut found = None;
        snapshot.entries(state, &mut |_, _, value| found = value.as_slice().map(|bytes| bytes[0]));
        found.expect("the entry is there")
    }

    fn page_of(snapshot: &Snapshot, state: StateId) -> FrozenRun {
        snapshot.pages(state, GROUP).next().expect("there is a page").guard()
    }

    /// Reads the page and gives up its key group. Asks nothing of the key group in between: of two accesses of
    /// one thread to a number, loom would see the second alone, and miss what another does between them.
    fn give_up_after_reading(mut snapshot: Snapshot, state: StateId) -> thread::JoinHandle<Snapshot> {
        let run = page_of(&snapshot, state);
        thread::spawn(move || {
            assert_eq!(run.bytes().len(), 256);
            drop(run);
            assert!(snapshot.key_group_done(GROUP));
            snapshot
        })
    }

    /// Explores `model`, which notes when it gets to what it is about, and demands that it does. Larger
    /// models are explored up to two preemptions.
    fn explore(model: impl Fn(&AtomicUsize) + Sync + Send + 'static) {
        explore_up_to(None, model);
    }

    fn explore_up_to(preemptions: Option<usize>, model: impl Fn(&AtomicUsize) + Sync + Send + 'static) {
        let reached = std::sync::Arc::new(AtomicUsize::new(0));
        let counter = reached.clone();
        let mut explorer = loom::model::Builder::new();
        explorer.preemption_bound = preemptions;
        explorer.check(move || model(&counter));
        assert_ne!(reached.load(Relaxed), 0, "no interleaving gets there");
    }

    /// L1, L2: the heap moves what the snapshot sees, and writes in place again once the reader has gone.
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

    /// L4: a freed frame goes to another use as soon as the last reader of it has gone.
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

    /// L5: two snapshots, released by two threads in any order.
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

    /// L3: the heap writes to a page where it lies once its reader has given up the key group, and not before.
    #[test]
    fn a_key_group_given_up_is_written_in_place_after_the_last_read() {
        explore(|in_place| {
            let (mut heap, state) = heap();
            put(&mut heap, state, 1);
            let reader = give_up_after_reading(heap.freeze().unwrap(), state);
            let copies = copies(&mut heap, |heap| put(heap, state, 2));
            in_place.fetch_add(usize::from(copies == WAY), Relaxed);
            let snapshot = reader.join().unwrap();
            assert_eq!(snapshot.pages(state, GROUP).count(), 0, "it is not shown any more");
        });
    }

    /// L3: a run that another thread still reads keeps its key group from being given up.
    #[test]
    fn a_key_group_is_given_up_after_the_last_run_of_it() {
        explore(|given_up| {
            let (mut heap, state) = heap();
            put(&mut heap, state, 1);
            let mut snapshot = heap.freeze().unwrap();
            let run = page_of(&snapshot, state);
            let disk = thread::spawn(move || assert_eq!(run.bytes().len(), 256));
            let is_done = snapshot.key_group_done(GROUP);
            given_up.fetch_add(usize::from(is_done), Relaxed);
            let copies = copies(&mut heap, |heap| put(heap, state, 2));
            disk.join().unwrap();
            // What is dropped while a panic unwinds makes loom abort.
            drop((snapshot, heap));
            assert_eq!(copies, if is_done { WAY } else { WAY + 1 });
        });
    }

    /// L5: two snapshots of the same page, given up by two threads in any order.
    #[test]
    fn a_page_is_written_in_place_when_both_its_snapshots_have_given_it_up() {
        explore_up_to(Some(2), |in_place| {
            let (mut heap, state) = heap();
            put(&mut heap, state, 1);
            let snapshots = [heap.freeze().unwrap(), heap.freeze().unwrap()];
            let readers = snapshots.map(|snapshot| give_up_after_reading(snapshot, state));
            let copies = copies(&mut heap, |heap| put(heap, state, 2));
            in_place.fetch_add(usize::from(copies == WAY), Relaxed);
            readers.into_iter().for_each(|reader| drop(reader.join().unwrap()));
        });
    }

    /// L6: a reader walks a frozen directory while the heap splits its pages.
    #[test]
    fn a_frozen_directory_is_walked_while_the_live_one_changes() {
        loom::model(|| {
            let (mut heap, state) = heap();
            let put = |heap: &mut Heap, number: u8| heap.put(state, GROUP, &[number], &[number; 50]).unwrap();
            (0..3).for_each(|number| put(&mut heap, number));
            let snapshot = heap.freeze().unwrap();
            let pages = snapshot.pages(state, GROUP).count();
            let reader = thread::spawn(move || {
                assert_eq!(snapshot.pages(state, GROUP).count(), pages);
                let mut entries = 0;
                snapshot.entries(state, &mut |_, _, _| entries += 1);
                assert_eq!(entries, 3);
            });
            (3..6).for_each(|number| put(&mut heap, number));
            assert!(heap.freeze().unwrap().pages(state, GROUP).count() > pages, "pages were split");
            reader.join().unwrap();
        });
    }

    /// L7: what the disk has in flight when a snapshot is cancelled stays as it is until the disk is through.
    #[test]
    fn a_cancelled_snapshot_keeps_what_is_in_flight() {
        explore_up_to(Some(2), |cancelled| {
            let (mut heap, state) = heap();
            put(&mut heap, state, 1);
            let snapshot = heap.freeze().unwrap();
            let in_flight = page_of(&snapshot, state);
            let cancel = loom::sync::Arc::new(loom::sync::atomic::AtomicBool::new(false));
            let seen = cancel.clone();
            let writer = thread::spawn(move || {
                let runs = [page_of(&snapshot, state)];
                drop(snapshot);
                for run in &runs {
                    if seen.load(Relaxed) {
                        break;
                    }
                    assert_eq!(run.bytes().len(), 256);
                }
                drop(runs);
                assert_eq!(in_flight.bytes().len(), 256);
            });
            cancel.store(true, Relaxed);
            put(&mut heap, state, 2);
            drop(heap.freeze().unwrap());
            put(&mut heap, state, 3);
            cancelled.fetch_add(usize::from(heap.memory_use().retired_bytes == 0), Relaxed);
            writer.join().unwrap();
        });
    }

    /// L9: one key group is read while its neighbour, which lies beside it, is written in place.
    #[test]
    fn a_key_group_is_read_while_its_neighbour_is_written_in_place() {
        explore(|in_place| {
            let neighbour = KeyGroup(1);
            let (mut heap, state) = heap_of(2);
            [GROUP, neighbour].into_iter().for_each(|group| put_in(&mut heap, state, group, 1));
            let mut snapshot = heap.freeze().unwrap();
            let reader = thread::spawn(move || {
                assert!(snapshot.key_group_done(neighbour));
                assert_eq!(value_in(&snapshot, state), 1);
                snapshot
            });
            let copies_of = |heap: &mut Heap, group| copies(heap, |heap| put_in(heap, state, group, 2));
            let copied = copies_of(&mut heap, neighbour);
            in_place.fetch_add(usize::from(copied == WAY), Relaxed);
            let copied_here = copies_of(&mut heap, GROUP);
            drop((reader.join().unwrap(), heap));
            assert_eq!(copied_here, 1, "this one is not given up");
        });
    }

    /// L8: the heap goes away while a snapshot of it is read.
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
