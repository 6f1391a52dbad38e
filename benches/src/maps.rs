//! A heap with a map for each of many keys.

use slackwater_mem::{Heap, HeapOptions, MapState, Plain, StateError};

use crate::subject::{HASH_SEED, key, max_parallelism};

/// How much state there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapShape {
    /// How many maps.
    pub maps: u32,
    /// Entries of each; user's key and value have 8 bytes.
    pub entries: u32,
}

/// Maps from numbers to numbers. Entries are called by their numbers, from 0 to those of all maps.
#[derive(Debug)]
pub struct Maps {
    heap: Heap,
    state: MapState<Plain<u64>, Plain<u64>, Plain<u64>>,
    shape: MapShape,
}

impl Maps {
    /// A heap with all entries, put in an order in which the maps take turns.
    ///
    /// # Errors
    /// The heap's memory cannot be reserved, or does not suffice.
    pub fn filled(shape: MapShape) -> Result<Self, StateError> {
        let groups = max_parallelism();
        let mut heap = Heap::new(HeapOptions {
            frame_size: 4096,
            memory_limit_bytes: u64::from(shape.maps) * u64::from(shape.entries) * 160 + (64 << 20),
            key_groups: groups.all_key_groups(),
            hash_seed: HASH_SEED,
        })?;
        let state = MapState::register(&mut heap, "measured", "maps", groups)?;
        for entry in 0..shape.entries {
            for map in 0..shape.maps {
                state.put(&mut heap, &key(map), &key(entry), &entry.into())?;
            }
        }
        Ok(Self { heap, state, shape })
    }

    /// Reads the value of an entry; 0 if there is no such entry.
    ///
    /// # Errors
    /// As [`MapState::get`].
    #[inline]
    pub fn read(&self, number: u32) -> Result<u64, StateError> {
        let (map, entry) = (number % self.shape.maps, number / self.shape.maps);
        Ok(self.state.get(&self.heap, &key(map), &key(entry))?.unwrap_or(0))
    }

    /// Goes over all entries of a map and gives the sum of their user's keys and values.
    ///
    /// # Errors
    /// As [`MapState::iter`].
    #[inline]
    pub fn sum(&self, map: u32) -> Result<u64, StateError> {
        let add = |sum: u64, entry: Result<(u64, u64), StateError>| {
            entry.map(|(user_key, value)| sum.wrapping_add(user_key).wrapping_add(value))
        };
        self.state.iter(&self.heap, &key(map))?.try_fold(0, add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_in_its_map() {
        let maps = Maps::filled(MapShape { maps: 7, entries: 30 }).unwrap();
        assert_eq!((0..210).map(|number| maps.read(number).unwrap()).sum::<u64>(), 7 * (0..30).sum::<u64>());
        let keys = (0..30).fold(0, |sum: u64, entry| sum.wrapping_add(key(entry)));
        assert_eq!(maps.sum(3).unwrap(), keys.wrapping_add((0..30).sum()));
    }
}
