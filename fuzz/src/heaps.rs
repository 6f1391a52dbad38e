//! A list of operations on a heap, against a model of it.

use std::collections::BTreeMap;

use slackwater_core::durable::Frozen;
use slackwater_core::key_group::{KeyGroup, KeyGroupRange};
use slackwater_mem::{CodecId, FrozenRun, Heap, HeapError, HeapOptions, Snapshot, StateId, Value};

const GROUPS: u8 = 3;
const STATE: StateId = StateId(0);

type Content = BTreeMap<(u16, Vec<u8>), Vec<u8>>;

/// Four bytes are an operation on a heap that is soon full: what to do, key group, key, value. Reads of the heap
/// and of its snapshots must show what the model says.
pub fn heap(data: &[u8]) {
    let mut model = Model::new();
    for operation in data.chunks_exact(4) {
        if let &[what, group, key, value] = operation {
            model.apply(what, u16::from(group % GROUPS), key, value);
        }
    }
    model.check();
}

struct Model {
    heap: Heap,
    content: Content,
    snapshots: Vec<(Snapshot, Content)>,
    runs: Vec<(FrozenRun, Vec<u8>)>,
}

impl Model {
    fn new() -> Self {
        let key_groups = KeyGroupRange { first: KeyGroup(0), last: KeyGroup(u16::from(GROUPS) - 1) };
        let options = HeapOptions { frame_size: 256, memory_limit_bytes: 48 << 10, key_groups, hash_seed: 1 };
        let mut heap = Heap::new(options).expect("sound options");
        let bytes = CodecId::variable("bytes", 1);
        assert_eq!(heap.register("o", "s", bytes, bytes), Ok(STATE));
        Self { heap, content: Content::new(), snapshots: Vec::new(), runs: Vec::new() }
    }

    fn apply(&mut self, what: u8, group: u16, key: u8, value: u8) {
        let chosen = usize::from(key).checked_rem(self.snapshots.len());
        match (what % 16, chosen) {
            (0..=6, _) => self.put(group, key, value),
            (7..=9, _) => self.remove(group, key),
            (10, _) => match self.heap.freeze() {
                Ok(snapshot) => self.snapshots.push((snapshot, self.content.clone())),
                Err(error) => assert_eq!(error, HeapError::TooManySnapshots),
            },
            (11, Some(chosen)) => {
                let (snapshot, content) = self.snapshots.swap_remove(chosen);
                check_snapshot(&snapshot, &content);
            }
            (12, Some(chosen)) => {
                if let Some((snapshot, content)) = self.snapshots.get_mut(chosen)
                    && snapshot.key_group_done(KeyGroup(group))
                {
                    content.retain(|(of, _), _| *of != group);
                }
            }
            (13, Some(chosen)) => {
                let snapshot = self.snapshots.get(chosen).map(|(snapshot, _)| snapshot);
                let page = snapshot.and_then(|snapshot| snapshot.pages(STATE, KeyGroup(group)).last());
                self.runs.extend(page.map(|page| (page.guard(), page.bytes().to_vec())));
            }
            (14, _) => {
                if let Some(chosen) = usize::from(key).checked_rem(self.runs.len()) {
                    let (run, bytes) = self.runs.swap_remove(chosen);
                    assert_eq!(run.bytes(), bytes);
                }
            }
            _ => self.get(group, key),
        }
    }

    fn put(&mut self, group: u16, key: u8, value: u8) {
        let (key, value) = (long(key), long(value));
        match self.heap.put(STATE, KeyGroup(group), &key, &value) {
            Ok(()) => drop(self.content.insert((group, key), value)),
            Err(error) => self.assert_full(error),
        }
    }

    fn remove(&mut self, group: u16, key: u8) {
        let key = long(key);
        match self.heap.remove(STATE, KeyGroup(group), &key) {
            Ok(removed) => assert_eq!(removed, self.content.remove(&(group, key)).is_some()),
            Err(error) => self.assert_full(error),
        }
    }

    fn get(&self, group: u16, key: u8) {
        let key = long(key);
        let got = self.heap.get(STATE, KeyGroup(group), &key).expect("it is registered");
        assert_eq!(got.map(owned).as_ref(), self.content.get(&(group, key)));
    }

    /// The heap may lack memory, and says rightly whether snapshots are why.
    fn assert_full(&self, error: HeapError) {
        let is_held = !self.snapshots.is_empty() || !self.runs.is_empty();
        let is_right = if is_held {
            matches!(error, HeapError::SnapshotHolds { .. })
        } else {
            matches!(error, HeapError::MemoryLimit { .. })
        };
        assert!(is_right, "{error}");
    }

    fn check(mut self) {
        for (snapshot, content) in &self.snapshots {
            check_snapshot(snapshot, content);
        }
        self.runs.iter().for_each(|(run, bytes)| assert_eq!(run.bytes(), bytes));
        self.snapshots.clear();
        self.runs.clear();
        check_snapshot(&self.heap.freeze().expect("there is no other"), &self.content);
    }
}

/// A key or value from its byte: mostly short, some of them chains of pages.
fn long(byte: u8) -> Vec<u8> {
    let len = if byte.is_multiple_of(23) { usize::from(byte) * 5 } else { usize::from(byte % 40) };
    let mut bytes = vec![byte; len];
    bytes.push(byte);
    bytes
}

fn owned(value: Value<'_>) -> Vec<u8> {
    value.chunks().flatten().copied().collect()
}

fn check_snapshot(snapshot: &Snapshot, expected: &Content) {
    let mut content = Content::new();
    snapshot.entries(STATE, &mut |group, key, value| {
        assert!(content.insert((group.0, owned(key)), owned(value)).is_none(), "an entry is visited once");
    });
    assert_eq!(&content, expected);
}
