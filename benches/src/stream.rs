//! Streams of keys, the same numbers in the same order as the harnesses in Java that the figures are paired with.

/// Spreads the numbers 0, 1, 2 and so on over all 64 bits, each to another number (the finalizer of `MurmurHash3`). What
/// the keys of the heap figures are.
#[must_use]
pub const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let number = (number ^ (number >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ (number >> 33)
}

/// A stream of random numbers that gives what `java.util.SplittableRandom` gives.
#[derive(Clone, Debug)]
pub struct SplittableRandom {
    state: u64,
}

impl SplittableRandom {
    /// The stream of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A number below `bound`, each as likely as any other; 0 if `bound` is 0. As `nextInt(bound)`, for bounds up
    /// to 2^31 - 1.
    pub fn below(&mut self, bound: u32) -> u32 {
        let Some(last) = bound.checked_sub(1) else { return 0 };
        let mut drawn = self.draw();
        if bound & last == 0 {
            return drawn & last;
        }
        loop {
            let half = drawn >> 1;
            let number = half % bound;
            // Beyond the last whole multiple of the bound, small numbers would be likelier.
            if half - number <= (1u32 << 31).saturating_sub(bound) {
                return number;
            }
            drawn = self.draw();
        }
    }

    fn draw(&mut self) -> u32 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 33)).wrapping_mul(0x62a9_d9ed_7997_05f5);
        let mixed = (mixed ^ (mixed >> 28)).wrapping_mul(0xcb24_d0a5_c88c_35b3);
        // The upper half fits by the shift.
        u32::try_from(mixed >> 32).unwrap_or_default()
    }
}

/// Puts items into a random order, the same each time.
pub fn shuffle<T>(items: &mut [T]) {
    let mut random = SplittableRandom::new(11);
    for last in (1..items.len()).rev() {
        let other = u32::try_from(last + 1).map(|bound| random.below(bound)).unwrap_or_default();
        items.swap(last, other as usize);
    }
}

/// Random keys of the first `keys` there are, drawn beforehand and given again and again in the same order.
#[derive(Clone, Debug)]
pub struct KeyStream {
    drawn: Vec<u64>,
    at: usize,
}

impl KeyStream {
    /// Draws `count` keys.
    #[must_use]
    pub fn new(keys: u32, count: usize) -> Self {
        let mut random = SplittableRandom::new(7);
        Self { drawn: (0..count).map(|_| mix(random.below(keys).into())).collect(), at: 0 }
    }

    /// The next `count` keys; fewer if not so many were drawn.
    pub fn block(&mut self, count: usize) -> &[u64] {
        let count = count.min(self.drawn.len());
        let start = if self.at + count <= self.drawn.len() { self.at } else { 0 };
        self.at = start + count;
        self.drawn.get(start..self.at).unwrap_or_default()
    }
}

/// One key after the other.
impl Iterator for KeyStream {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.block(1).first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyStream, SplittableRandom, mix, shuffle};

    #[test]
    fn a_stream_of_keys_begins_again_when_no_block_is_left() {
        let mut keys = KeyStream::new(1_000, 10);
        let all: Vec<u64> = keys.clone().take(20).collect();
        assert_eq!(all[..10], all[10..]);
        assert_eq!(keys.block(7).to_vec(), all[..7]);
        assert_eq!(keys.block(7).to_vec(), all[..7]);
        assert_eq!(keys.block(99).len(), 10);
    }

    #[test]
    fn shuffling_loses_nothing() {
        let mut numbers: Vec<u32> = (0..100).collect();
        shuffle(&mut numbers);
        assert!(!numbers.is_sorted());
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..100));
    }

    #[test]
    fn random_numbers_are_those_of_java() {
        let expected: [(u32, [u32; 6]); 4] = [
            (1000, [696, 553, 53, 521, 205, 107]),
            (1024, [336, 258, 59, 883, 27, 87]),
            (1_000_000, [694_696, 607_553, 385_053, 486_521, 536_205, 107]),
            (
                2_000_000_000,
                [1_332_694_696, 349_607_553, 784_385_053, 493_486_521, 1_158_536_205, 527_000_107],
            ),
        ];
        for (bound, numbers) in expected {
            let mut random = SplittableRandom::new(7);
            assert_eq!(numbers.map(|_| random.below(bound)), numbers, "below {bound}");
        }
    }

    #[test]
    fn keys_are_those_of_the_java_harness() {
        let keys = [0, 1, 2, 3].map(|number| mix(number).cast_signed());
        assert_eq!(keys, [0, -5_451_962_507_482_445_012, 4_233_148_493_373_801_447, 815_575_690_806_614_222]);
    }
}
