//! A set of small numbers in `WORDS` words of 32 bits: channels of a gate, tasks of a job.

/// A set of numbers below `32 * WORDS`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BitSet<const WORDS: usize> {
    words: [u32; WORDS],
}

impl<const WORDS: usize> BitSet<WORDS> {
    /// The first number that does not fit.
    pub const CAPACITY: usize = 32 * WORDS;

    /// The set of nothing.
    #[must_use]
    pub const fn empty() -> Self {
        Self { words: [0; WORDS] }
    }

    /// The numbers whose bits are set, the lowest bit of the first word being 0.
    #[must_use]
    pub const fn of_words(words: [u32; WORDS]) -> Self {
        Self { words }
    }

    /// The numbers from 0 to `count - 1`; those beyond the capacity are left out.
    #[must_use]
    pub fn first(count: usize) -> Self {
        let mut left = count;
        let mut set = Self::empty();
        for word in &mut set.words {
            let here = left.min(32);
            *word = if here == 32 { u32::MAX } else { (1u32 << here).wrapping_sub(1) };
            left = left.saturating_sub(here);
        }
        set
    }

    /// Adds `index`. False if it was there already or does not fit.
    pub fn insert(&mut self, index: u16) -> bool {
        let Some(word) = self.words.get_mut(usize::from(index / 32)) else { return false };
        let bit = 1u32 << (index % 32);
        let added = *word & bit == 0;
        *word |= bit;
        added
    }

    /// Takes `index` out. False if it was not there.
    pub fn remove(&mut self, index: u16) -> bool {
        let Some(word) = self.words.get_mut(usize::from(index / 32)) else { return false };
        let bit = 1u32 << (index % 32);
        let removed = *word & bit != 0;
        *word &= !bit;
        removed
    }

    /// Whether `index` is in the set.
    #[must_use]
    pub fn contains(&self, index: u16) -> bool {
        self.words.get(usize::from(index / 32)).is_some_and(|word| word & (1 << (index % 32)) != 0)
    }

    /// How many numbers are in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().fold(0, |sum, word| sum.saturating_add(word.count_ones() as usize))
    }

    /// Whether nothing is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Whether every number of `self` is in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(mine, theirs)| mine & !theirs == 0)
    }

    /// Whether no number is in both sets.
    #[must_use]
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(mine, theirs)| mine & theirs == 0)
    }

    /// The numbers that are in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut both = *self;
        both.words.iter_mut().zip(&other.words).for_each(|(mine, theirs)| *mine |= theirs);
        both
    }

    /// The numbers of `self` that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut rest = *self;
        rest.words.iter_mut().zip(&other.words).for_each(|(mine, theirs)| *mine &= !theirs);
        rest
    }

    /// The numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.words.iter().zip(0u16..).flat_map(|(word, base)| {
            let mut left = *word;
            core::iter::from_fn(move || {
                let bit = u16::try_from(left.trailing_zeros()).ok().filter(|bit| *bit < 32)?;
                left &= left.wrapping_sub(1);
                Some(base.wrapping_mul(32).wrapping_add(bit))
            })
        })
    }
}

impl<const WORDS: usize> FromIterator<u16> for BitSet<WORDS> {
    /// Numbers that do not fit are left out.
    fn from_iter<I: IntoIterator<Item = u16>>(numbers: I) -> Self {
        let mut set = Self::empty();
        for number in numbers {
            set.insert(number);
        }
        set
    }
}

impl<const WORDS: usize> core::fmt::Debug for BitSet<WORDS> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl<const WORDS: usize> Default for BitSet<WORDS> {
    fn default() -> Self {
        Self::empty()
    }
}

#[cfg(test)]
mod tests {
    use super::BitSet;
    use std::vec::Vec;

    #[test]
    fn holds_what_was_inserted_and_nothing_else() {
        let mut set = BitSet::<2>::empty();
        assert!(set.insert(0) && set.insert(31) && set.insert(32) && set.insert(63));
        assert!(!set.insert(31), "inserted twice");
        assert!(!set.insert(64), "beyond the capacity");
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 31, 32, 63]);
        assert!(set.remove(31) && !set.remove(31));
        assert_eq!(set.len(), 3);
    }

    #[test]
    fn sets_are_compared_and_joined_word_by_word() {
        let (low, high) = (BitSet::<2>::first(32), BitSet::<2>::first(40));
        assert!(low.is_subset(&high) && !high.is_subset(&low) && !low.is_disjoint(&high));
        let mut last = BitSet::<2>::empty();
        last.insert(63);
        assert!(last.is_disjoint(&high));
        assert_eq!(last.union(&low).len(), 33);
        assert_eq!(high.difference(&low).iter().collect::<Vec<_>>(), (32..40).collect::<Vec<_>>());
        assert!(high.difference(&low).iter().eq(32..40) && low.difference(&high).is_empty());
        assert_eq!([0, 63, 64].into_iter().collect::<BitSet<2>>().len(), 2);
    }

    #[test]
    fn first_takes_whole_and_partial_words() {
        for count in [0, 1, 31, 32, 33, 63, 64, 65] {
            assert_eq!(BitSet::<2>::first(count).len(), count.min(64), "{count}");
        }
    }
}
