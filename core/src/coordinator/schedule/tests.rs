//! The draw of the initial delay.

use super::Schedule;
use crate::time::Millis;

/// The first numbers that `SplitMix64` gives for the seed 1234567.
#[test]
fn t8_the_delay_is_drawn_by_the_published_generator() {
    let mut schedule = Schedule::new(1_234_567);
    let numbers = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
    for number in numbers {
        assert_eq!(schedule.draw(Millis(0), Millis::MAX), Millis(number));
    }
}

#[test]
fn t8_every_delay_within_the_span_is_drawn_and_no_other() {
    let mut schedule = Schedule::new(1);
    let drawn = (0..200).map(|_| schedule.draw(Millis(10), Millis(13)).0);
    assert_eq!(drawn.collect::<std::collections::BTreeSet<_>>(), [10, 11, 12, 13].into());
    assert_eq!(schedule.draw(Millis(7), Millis(7)), Millis(7));
}
