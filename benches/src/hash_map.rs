//! What the heap is compared with: hashbrown's map with the heap's own hash function.

use std::hash::{BuildHasher, Hasher};

use slackwater_mem::heap::hash_key;

use crate::mappings::Mappings;
use crate::subject::{HASH_SEED, key};

/// A map of numbers. It has no key groups, no codecs and no snapshots.
pub type HashMap = hashbrown::HashMap<u64, u64, HeapHash, Mappings>;

/// A map of nothing yet.
#[must_use]
pub fn empty(huge_pages: bool) -> HashMap {
    HashMap::with_hasher_in(HeapHash::default(), Mappings::new(huge_pages))
}

/// A map of the keys and values of a [`crate::subject::Subject`] of numbers, grown from nothing as that is.
#[must_use]
pub fn filled(keys: u32, huge_pages: bool) -> HashMap {
    let mut map = empty(huge_pages);
    for number in 0..keys {
        map.insert(key(number), number.into());
    }
    map
}

/// The heap's hash of the one number it is given.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeapHash(u64);

impl BuildHasher for HeapHash {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self(HASH_SEED)
    }
}

impl Hasher for HeapHash {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash_key(self.0, bytes);
    }

    fn write_u64(&mut self, number: u64) {
        self.write(&number.to_le_bytes());
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
