//! A table of partial results of fixed size: what finds no place drives another one out.
//!
//! A key has two places, side by side in one cache line. A key that is found moves to the first of them, one that is new
//! takes the second, so what comes once does not drive out what comes often. Keys of up to 16 bytes lie in their entry,
//! longer ones in an arena that is emptied only together with the table. No access allocates, searches or moves more than
//! one entry.

use slackwater_mem::heap::{hash_key, key_ends};

/// Keys up to this length lie in their entry.
const SHORT_LEN_MAX: usize = 16;
/// The length of no key.
const FREE: u32 = u32::MAX;

/// Partial results by key.
#[derive(Debug)]
pub(super) struct Table<P> {
    sets: Box<[Set<P>]>,
    long_keys: Vec<u8>,
    len: usize,
}

/// The two places of a key.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Set<P>([Entry<P>; 2]);

/// A key of up to 16 bytes as [`key_ends`], a longer one as its hash and its place in the arena.
#[derive(Clone, Copy, Debug)]
struct Entry<P> {
    low: u64,
    high: u64,
    len: u32,
    partial: P,
}

impl<P: Copy + Default> Entry<P> {
    fn free() -> Self {
        Self { low: 0, high: 0, len: FREE, partial: P::default() }
    }
}

impl<P: Copy + Default> Table<P> {
    /// For about so many keys and so many bytes of long ones; both are rounded up.
    pub(super) fn new(keys: usize, long_key_bytes: usize) -> Self {
        let sets = keys.div_ceil(2).next_power_of_two();
        Self {
            sets: vec![Set([Entry::free(); 2]); sets].into_boxed_slice(),
            long_keys: Vec::with_capacity(long_key_bytes),
            len: 0,
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Lets `add` change the partial result of a key. What has to give way goes to `out`: one entry, or every entry when
    /// the arena is full.
    #[inline]
    pub(super) fn add(&mut self, key: &[u8], add: impl FnOnce(&mut P), out: &mut impl FnMut(&[u8], P)) {
        if key.len() > SHORT_LEN_MAX {
            return self.add_long(key, add, out);
        }
        let (low, high) = key_ends(key);
        let len = u32::try_from(key.len()).unwrap_or(FREE);
        let index = self.index(mix(low, high ^ u64::from(len)));
        let is_it = |entry: &Entry<P>| entry.low == low && entry.high == high && entry.len == len;
        let Set(pair) = &mut self.sets[index];
        if is_it(&pair[0]) {
            return add(&mut pair[0].partial);
        }
        if is_it(&pair[1]) {
            pair.swap(0, 1);
            return add(&mut pair[0].partial);
        }
        let mut partial = P::default();
        add(&mut partial);
        self.insert(index, Entry { low, high, len, partial }, out);
    }

    #[cold]
    fn add_long(&mut self, key: &[u8], add: impl FnOnce(&mut P), out: &mut impl FnMut(&[u8], P)) {
        let hash = hash_key(0, key);
        let index = self.index(hash);
        let found = self.sets[index].0.iter().position(|entry| self.is_long(entry, hash, key));
        if let Some(found) = found {
            return add(&mut self.sets[index].0[found].partial);
        }
        let mut partial = P::default();
        add(&mut partial);
        let Some(len) = u32::try_from(key.len()).ok().filter(|_| key.len() <= self.long_keys.capacity())
        else {
            return out(key, partial);
        };
        if self.long_keys.capacity() - self.long_keys.len() < key.len() {
            self.drain(out);
        }
        let high = self.long_keys.len() as u64;
        self.long_keys.extend_from_slice(key);
        self.insert(index, Entry { low: hash, high, len, partial }, out);
    }

    fn is_long(&self, entry: &Entry<P>, hash: u64, key: &[u8]) -> bool {
        entry.len != FREE
            && entry.low == hash
            && entry.len as usize == key.len()
            && self.long_key(entry) == key
    }

    fn long_key(&self, entry: &Entry<P>) -> &[u8] {
        let start = usize::try_from(entry.high).unwrap_or(usize::MAX);
        &self.long_keys[start..][..entry.len as usize]
    }

    /// The lower bits of the hash pick the set.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the lower bits are what is wanted")]
    const fn index(&self, hash: u64) -> usize {
        hash as usize & (self.sets.len() - 1)
    }

    /// Takes the first place if it is free, or else the second, whatever is in it.
    fn insert(&mut self, index: usize, entry: Entry<P>, out: &mut impl FnMut(&[u8], P)) {
        let Set(pair) = &mut self.sets[index];
        let place = usize::from(pair[0].len != FREE);
        let before = std::mem::replace(&mut pair[place], entry);
        if before.len == FREE {
            self.len += 1;
        } else {
            self.give(&before, out);
        }
    }

    #[inline]
    fn give(&self, entry: &Entry<P>, out: &mut impl FnMut(&[u8], P)) {
        let len = entry.len as usize;
        if len <= SHORT_LEN_MAX {
            out(&short_key(entry.low, entry.high, len)[..len], entry.partial);
        } else {
            out(self.long_key(entry), entry.partial);
        }
    }

    /// Gives everything to `out`, in no particular order but always the same, and is empty.
    pub(super) fn drain(&mut self, out: &mut impl FnMut(&[u8], P)) {
        if self.is_empty() {
            return;
        }
        for index in 0..self.sets.len() {
            for place in 0..2 {
                let entry = std::mem::replace(&mut self.sets[index].0[place], Entry::free());
                if entry.len != FREE {
                    self.give(&entry, out);
                }
            }
        }
        self.long_keys.clear();
        self.len = 0;
    }
}

/// A key of up to 16 bytes from its two numbers and its length.
#[inline]
fn short_key(low: u64, high: u64, len: usize) -> [u8; SHORT_LEN_MAX] {
    let mut key = [0; SHORT_LEN_MAX];
    let (low, high) = (low.to_le_bytes(), high.to_le_bytes());
    let half = match len {
        8.. => 8,
        4.. => 4,
        // The rest lies in order.
        _ => {
            key[0] = low[0];
            key[1..3].copy_from_slice(&high[..2]);
            return key;
        }
    };
    key[len - half..len].copy_from_slice(&high[..half]);
    key[..half].copy_from_slice(&low[..half]);
    key
}

/// Spreads keys over the sets. Nobody can do harm with keys that fall together: they drive each other out.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "both halves")]
const fn mix(low: u64, high: u64) -> u64 {
    let product = (low ^ 0x9e37_79b9_7f4a_7c15) as u128 * (high ^ 0xd1b5_4a32_d192_ed03) as u128;
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use slackwater_mem::heap::key_ends;

    use super::{Table, short_key};

    #[test]
    fn a_short_key_comes_back_from_its_entry() {
        let bytes: Vec<u8> = (1..=16).collect();
        for len in 0..=16 {
            let (low, high) = key_ends(&bytes[..len]);
            assert_eq!(&short_key(low, high, len)[..len], &bytes[..len], "{len}");
        }
    }

    /// Words of every length to 40, common ones common, in an order that a seed picks.
    fn words(count: usize) -> impl Iterator<Item = Vec<u8>> {
        let mut state = 0x5eed_u64;
        (0..count).map(move |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let draw = state >> 33;
            let rank = (draw % 17) * (draw % 29) * (draw % 5);
            let len = usize::try_from(rank % 41).unwrap();
            rank.to_string().into_bytes().into_iter().cycle().take(len).collect()
        })
    }

    #[test]
    fn whatever_gives_way_the_sums_are_those_of_a_map() {
        for (keys, long_key_bytes) in [(1, 0), (2, 41), (16, 64), (64, 100), (4096, 10_000)] {
            let (mut table, mut sums) = (Table::<u64>::new(keys, long_key_bytes), BTreeMap::new());
            let mut plain = BTreeMap::<_, u64>::new();
            let mut given = 0;
            let mut out = |key: &[u8], count: u64| {
                given += 1;
                *sums.entry(key.to_vec()).or_default() += count;
            };
            for word in words(20_000) {
                *plain.entry(word.clone()).or_default() += 1;
                table.add(&word, |count| *count += 1, &mut out);
                assert!(table.len <= table.sets.len() * 2);
                assert!(table.long_keys.len() <= table.long_keys.capacity());
            }
            table.drain(&mut out);
            assert!(table.is_empty() && table.long_keys.is_empty());
            table.drain(&mut |_, _| panic!("it is empty"));
            assert_eq!(sums, plain, "{keys} keys");
            assert!(
                given >= plain.len() && (keys < 4096 || given < 2 * plain.len()),
                "{given} partial results"
            );
        }
    }

    #[test]
    fn what_comes_once_does_not_drive_out_what_comes_often() {
        let mut table = Table::<u64>::new(2, 0);
        let mut out = Vec::new();
        for once in 0..100_u64 {
            table
                .add(b"often", |count| *count += 1, &mut |key: &[u8], count| out.push((key.to_vec(), count)));
            table.add(&once.to_le_bytes(), |count| *count += 1, &mut |key: &[u8], count| {
                out.push((key.to_vec(), count));
            });
        }
        assert_eq!(out.len(), 99);
        assert!(out.iter().all(|(key, count)| key != b"often" && *count == 1));
    }
}
