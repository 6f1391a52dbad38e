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

#[cfg(test)]
mod tests {
    use super::{SplittableRandom, mix};

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
