//! Spans drawn at random from a seed.

use crate::time::Millis;

/// The generator `SplitMix64`: equal seeds give equal draws.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draws(u64);

impl Draws {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A span drawn evenly from `low` to `high`, both included.
    pub(crate) fn within(&mut self, low: Millis, high: Millis) -> Millis {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        let choices = u128::from(high.since(low).0).wrapping_add(1);
        let drawn = u128::from(bits).wrapping_mul(choices) >> 64;
        low.after(Millis(u64::try_from(drawn).unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::Draws;
    use crate::time::Millis;

    /// The first numbers that `SplitMix64` gives for the seed 1234567.
    #[test]
    fn t8_the_delay_is_drawn_by_the_published_generator() {
        let mut draws = Draws::new(1_234_567);
        let numbers = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        for number in numbers {
            assert_eq!(draws.within(Millis(0), Millis::MAX), Millis(number));
        }
    }

    #[test]
    fn t8_every_delay_within_the_span_is_drawn_and_no_other() {
        let mut draws = Draws::new(1);
        let drawn = (0..200).map(|_| draws.within(Millis(10), Millis(13)).0);
        assert_eq!(drawn.collect::<std::collections::BTreeSet<_>>(), [10, 11, 12, 13].into());
        assert_eq!(draws.within(Millis(7), Millis(7)), Millis(7));
    }
}
