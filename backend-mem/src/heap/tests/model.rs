//! Random work on a heap against a map, with every snapshot compared to the map as it was, however late.

use super::*;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

fn value(random: &mut Random, frame_size: u32) -> Vec<u8> {
    let len = match random.below(20) {
        0 => random.below(u64::from(frame_size) * 3),
        1..=3 => random.below(u64::from(frame_size) / 2),
        _ => random.below(24),
    };
    let seed = random.next();
    (0..len).map(|i| (seed.rotate_left(i as u32) & 0xff) as u8).collect()
}

fn key(random: &mut Random, keys: u64, frame_size: u32) -> Vec<u8> {
    let number = random.below(keys);
    let mut key = number.to_le_bytes().to_vec();
    if number.is_multiple_of(11) {
        key.resize(frame_size as usize / 4 + (number % 90) as usize, 5);
    }
    key
}

fn run(seed: u64, frame_size: u32, steps: u32, keys: u64, mask: u64) {
    let mut random = Random(seed);
    let (mut heap, state) = heap(frame_size, 5);
    heap.hasher.mask = mask;
    let mut truth = Content::new();
    let mut alive: Vec<(Snapshot, Content)> = Vec::new();
    for step in 0..steps {
        let group = random.below(5) as u16;
        let key = key(&mut random, keys, frame_size);
        match random.below(100) {
            0..=54 => {
                let value = value(&mut random, frame_size);
                heap.put(state, KeyGroup(group), &key, &value).unwrap();
                truth.insert((group, key), value);
            }
            55..=84 => {
                let removed = heap.remove(state, KeyGroup(group), &key).unwrap();
                assert_eq!(removed, truth.remove(&(group, key)).is_some());
            }
            85..=93 => {
                let place = heap.get_mut(state, KeyGroup(group), &key).unwrap();
                if let Some(place) = place {
                    place.fill(step as u8);
                    truth.get_mut(&(group, key)).unwrap().fill(step as u8);
                }
            }
            94..=96 if !alive.is_empty() => {
                let chosen = random.below(alive.len() as u64) as usize;
                let (snapshot, expected) = alive.swap_remove(chosen);
                assert_eq!(content_of(&snapshot, state), expected, "seed {seed} step {step}");
                check_pages(&snapshot, state);
            }
            97..=99 => match heap.freeze() {
                Ok(snapshot) => alive.push((snapshot, truth.clone())),
                Err(error) => assert_eq!((error, alive.len()), (HeapError::TooManySnapshots, 4)),
            },
            _ => {
                let got = heap.get(state, KeyGroup(group), &key).unwrap().map(|value| owned(&value));
                assert_eq!(got.as_ref(), truth.get(&(group, key)), "seed {seed} step {step}");
            }
        }
        assert_eq!(heap.len(state), truth.len() as u64);
    }
    for (snapshot, expected) in alive {
        assert_eq!(content_of(&snapshot, state), expected, "seed {seed}");
    }
    let entries: Vec<_> = truth.keys().cloned().collect();
    for (group, key) in entries {
        assert!(heap.remove(state, KeyGroup(group), &key).unwrap());
    }
    drop(heap.freeze().unwrap());
    heap.put(state, KeyGroup(0), b"last", b"one").unwrap();
    assert!(heap.memory_use().live_bytes <= 12 * u64::from(frame_size), "{:?}", heap.memory_use());
}

#[test]
fn every_snapshot_equals_its_moment_with_small_frames() {
    (1..=4).for_each(|seed| run(seed * 7919, 256, 3_000, 300, u64::MAX));
}

#[test]
fn every_snapshot_equals_its_moment_with_large_frames() {
    (1..=2).for_each(|seed| run(seed * 104_729, 4096, 3_000, 1_000, u64::MAX));
}

#[test]
fn every_snapshot_equals_its_moment_with_few_hashes() {
    run(99, 256, 3_000, 300, 0xf000_0000_0000_000f);
}
