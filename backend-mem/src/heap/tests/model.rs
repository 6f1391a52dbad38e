//! Random work on a heap against maps, with every snapshot compared to the maps as they were, however late.

use slackwater_core::format::page::inline_len_max;

use super::*;

mod random;
mod runs;

pub(super) use random::Random;

/// What a run is made of. One that fails prints it.
#[derive(Clone, Copy, Debug)]
struct Plan {
    seed: u64,
    steps: u32,
    frame_size: u32,
    memory_bytes: u64,
    states: u16,
    groups: u16,
    /// Different keys of a state and key group.
    keys: u64,
    /// One value of four hundred is up to so long.
    value_len_max: usize,
    /// Bits of the hash that are used.
    mask: u64,
    hash_seed: u64,
    /// Whether every other state keeps its entries in order.
    ordered: bool,
    /// Bytes of every key and of every value, if they are fixed.
    widths: Option<(u16, u16)>,
}

impl Plan {
    const fn new(seed: u64, frame_size: u32) -> Self {
        let value_len_max = frame_size as usize * 20;
        let memory_bytes = 8 << 20;
        Self {
            seed,
            steps: 2_500,
            frame_size,
            memory_bytes,
            states: 2,
            groups: 3,
            keys: 60,
            value_len_max,
            mask: u64::MAX,
            hash_seed: 42,
            ordered: false,
            widths: None,
        }
    }

    fn codecs(&self) -> [CodecId<'static>; 2] {
        self.widths
            .map_or([BYTES; 2], |(key, value)| [key, value].map(|width| CodecId::fixed("bytes", 1, width)))
    }

    const fn kind(&self, state: StateId) -> StateKind {
        if self.ordered && state.0 % 2 == 1 { StateKind::Ordered } else { StateKind::Hash }
    }

    fn options(&self) -> HeapOptions {
        HeapOptions { hash_seed: self.hash_seed, ..options(self.frame_size, self.memory_bytes, self.groups) }
    }
}

/// The entries of each state.
type Truth = Vec<Content>;

struct Model<A: ArenaHandle + 'static> {
    plan: Plan,
    step: u32,
    random: Random,
    heap: Heap<A>,
    truth: Truth,
    /// Snapshots of this heap and of those that it was restored from, by the number of restores before.
    alive: Vec<(Snapshot<A>, Truth, u32)>,
    /// How many calls were refused for want of memory.
    refused: u32,
    restores: u32,
}

impl<A: ArenaHandle + 'static> Drop for Model<A> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::eprintln!("failed at step {} of {:?}", self.step, self.plan);
        }
    }
}

impl<A: ArenaHandle + 'static> Model<A> {
    fn new(plan: Plan, heap: Heap<A>) -> Self {
        let truth = vec![Content::new(); usize::from(plan.states)];
        let random = Random(plan.seed);
        let mut model =
            Self { plan, step: 0, random, heap, truth, alive: Vec::new(), refused: 0, restores: 0 };
        model.prepare();
        model
    }

    fn prepare(&mut self) {
        self.heap.hasher.mask = self.plan.mask;
        for state in 0..self.plan.states {
            let ([key, value], kind) = (self.plan.codecs(), self.plan.kind(StateId(state)));
            let id = self.heap.register_kind(kind, ("op", &std::format!("s{state}")), key, value);
            assert_eq!(id, Ok(StateId(state)));
        }
    }

    /// Works until the plan's steps are done; `new_heap` makes heaps to restore into.
    fn run(&mut self, new_heap: &dyn Fn(&Plan) -> Heap<A>) {
        for step in 0..self.plan.steps {
            self.step = step;
            match self.random.below(1_000) {
                0..=459 => self.put(),
                460..=699 => self.remove(),
                700..=789 => self.change(),
                790..=889 => self.get(),
                890..=924 => self.release(true),
                925..=934 => self.release(false),
                935..=974 => self.freeze(),
                975..=989 => self.compare(),
                990..=994 => self.empty_group(),
                _ => self.restore(new_heap),
            }
            for (state, truth) in self.truth.iter().enumerate() {
                assert_eq!(self.heap.len(StateId(state as u16)), truth.len() as u64);
            }
        }
    }

    fn place(&mut self) -> (StateId, KeyGroup, Vec<u8>) {
        let state = self.random.below(self.plan.states.into()) as u16;
        let group = self.random.below(self.plan.groups.into()) as u16;
        (StateId(state), KeyGroup(group), self.random.key(&self.plan))
    }

    fn truth_of(&mut self, state: StateId) -> &mut Content {
        &mut self.truth[usize::from(state.0)]
    }

    fn put(&mut self) {
        let (state, group, key) = self.place();
        let value = self.random.value(&self.plan);
        match self.heap.put_any(state, group, &key, &value) {
            Ok(()) => drop(self.truth_of(state).insert((group.0, key), value)),
            Err(error) => self.refuse(error),
        }
    }

    fn remove(&mut self) {
        let (state, group, key) = self.place();
        match remove_any(&mut self.heap, self.plan.kind(state), state, (group, &key)) {
            Ok(removed) => assert_eq!(removed, self.truth_of(state).remove(&(group.0, key)).is_some()),
            Err(error) => self.refuse(error),
        }
    }

    fn change(&mut self) {
        let (state, group, key) = self.place();
        if self.plan.kind(state) == StateKind::Ordered {
            return;
        }
        let byte = self.step as u8;
        match self.heap.get_mut(state, group, &key) {
            Ok(Some(place)) => {
                place.fill(byte);
                self.truth_of(state).get_mut(&(group.0, key)).unwrap().fill(byte);
            }
            Ok(None) => {}
            Err(error) => self.refuse(error),
        }
    }

    fn get(&mut self) {
        let (state, group, key) = self.place();
        let got = get_any(&self.heap, self.plan.kind(state), state, (group, &key)).map(|value| owned(&value));
        assert_eq!(got.as_ref(), self.truth_of(state).get(&(group.0, key)));
    }

    /// The heap lacked memory: nothing has changed. Some room is made.
    fn refuse(&mut self, error: HeapError) {
        assert!(matches!(error, HeapError::MemoryLimit { .. } | HeapError::SnapshotHolds { .. }), "{error}");
        self.refused += 1;
        self.compare();
        match self.random.below(4) {
            0 => self.release(true),
            1 => self.empty_group(),
            _ => {}
        }
    }

    /// The whole heap equals the maps.
    fn compare(&mut self) {
        for (state, truth) in (0..).map(StateId).zip(&self.truth) {
            for ((group, key), value) in truth {
                let got = get_any(&self.heap, self.plan.kind(state), state, (KeyGroup(*group), key));
                assert!(got.is_some_and(|got| got.is(value)), "{state:?}, key group {group}, {key:?}");
            }
            assert_eq!(self.heap.len(state), truth.len() as u64);
            if self.plan.kind(state) == StateKind::Hash {
                let (mut cursor, mut seen) = (ScanCursor::default(), 0);
                while self.heap.scan(state, &mut cursor, &mut |_, _| seen += 1).unwrap() {}
                assert_eq!(seen, truth.len());
            }
        }
        let used = self.heap.memory_use();
        assert!(used.live_bytes + used.retired_bytes <= used.total_bytes, "{used:?}");
    }

    fn freeze(&mut self) {
        match self.heap.freeze() {
            Ok(snapshot) => self.alive.push((snapshot, self.truth.clone(), self.restores)),
            Err(error) => {
                let own = self.alive.iter().filter(|(.., restores)| *restores == self.restores).count();
                assert_eq!((error, own), (HeapError::TooManySnapshots, 4));
            }
        }
    }

    fn release(&mut self, check: bool) {
        let Some(last) = self.alive.len().checked_sub(1) else { return };
        let chosen = self.random.below(last as u64 + 1) as usize;
        let (snapshot, expected, _) = self.alive.swap_remove(chosen);
        if check {
            check_snapshot(&snapshot, &expected);
        }
    }

    fn empty_group(&mut self) {
        let (state, group, _) = self.place();
        let keys: Vec<_> = self
            .truth_of(state)
            .keys()
            .filter(|(of, _)| *of == group.0)
            .map(|(_, key)| key.clone())
            .collect();
        for key in keys {
            match remove_any(&mut self.heap, self.plan.kind(state), state, (group, &key)) {
                Ok(removed) => assert!(removed),
                // Only if the page is frozen and there is no room for a copy.
                Err(error) => {
                    assert!(
                        matches!(error, HeapError::MemoryLimit { .. } | HeapError::SnapshotHolds { .. }),
                        "{error}"
                    );
                    return;
                }
            }
            self.truth_of(state).remove(&(group.0, key));
        }
    }

    /// Goes on with another heap that has what a snapshot of this one had. Snapshots of this one stay.
    fn restore(&mut self, new_heap: &dyn Fn(&Plan) -> Heap<A>) {
        let Ok(snapshot) = self.heap.freeze() else { return };
        // Pages are taken over by a heap with the same hash; another one inserts their entries.
        if self.plan.mask == u64::MAX {
            self.plan.hash_seed = 42 + self.random.below(2);
        }
        let mut fresh = new_heap(&self.plan);
        fresh.hasher.mask = self.plan.mask;
        if runs::copy(snapshot, &mut fresh) {
            self.heap = fresh;
            self.prepare();
            self.compare();
            self.restores += 1;
        }
    }

    /// Every snapshot is what it was. An emptied heap has given back all but what registers states and key groups.
    fn finish(&mut self, mut fresh: Heap<A>) {
        while !self.alive.is_empty() {
            self.release(true);
        }
        self.compare();
        for state in 0..self.plan.states {
            for (group, key) in core::mem::take(self.truth_of(StateId(state))).into_keys() {
                let (kind, at) = (self.plan.kind(StateId(state)), (KeyGroup(group), &key[..]));
                assert!(remove_any(&mut self.heap, kind, StateId(state), at).unwrap());
            }
        }
        core::mem::swap(&mut self.heap, &mut fresh);
        self.prepare();
        self.touch_all();
        let (emptied, touched) = (fresh.memory_use().live_bytes, self.heap.memory_use().live_bytes);
        assert!(emptied <= touched, "{emptied} bytes are left, {touched} would be enough");
    }

    /// Writes to every key group and empties it again.
    fn touch_all(&mut self) {
        for state in (0..self.plan.states).map(StateId) {
            for group in self.heap.options().key_groups.iter() {
                let (key, value) = (self.random.key(&self.plan), self.random.value(&self.plan));
                self.heap.put_any(state, group, &key, &value).unwrap();
                remove_any(&mut self.heap, self.plan.kind(state), state, (group, &key)).unwrap();
            }
        }
    }
}

fn check_snapshot<A: ArenaHandle>(snapshot: &Snapshot<A>, expected: &Truth) {
    for (state, expected) in (0..).map(StateId).zip(expected) {
        assert!(content_of(snapshot, state) == *expected, "{state:?} of the snapshot is as it was");
        check_pages(snapshot, state);
    }
}

fn get_any<'h, A: ArenaHandle>(
    heap: &'h Heap<A>,
    kind: StateKind,
    state: StateId,
    (group, key): (KeyGroup, &[u8]),
) -> Option<Value<'h>> {
    match kind {
        StateKind::Hash => heap.get(state, group, key),
        StateKind::Ordered => heap.ordered_get(state, group, key),
    }
    .unwrap()
}

fn remove_any<A: ArenaHandle>(
    heap: &mut Heap<A>,
    kind: StateKind,
    state: StateId,
    (group, key): (KeyGroup, &[u8]),
) -> Result<bool, HeapError> {
    match kind {
        StateKind::Hash => heap.remove(state, group, key),
        StateKind::Ordered => heap.ordered_remove(state, group, key),
    }
}
