//! The earliest of many, each of which may change: a tournament. The winner of each pairing is remembered, so that
//! a change is played out again up to the top.

/// The earliest timer of a key group, and the winner of a pairing of key groups.
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupMinimum {
    timestamp: i64,
    /// Whether there is a timer.
    is_some: bool,
    /// Of the pairing that has this slot's index: pairing 1 is the last, 2n and 2n + 1 come before n.
    winner: u16,
}

/// How many slots so many key groups need.
pub(super) const fn slots_for(groups: usize) -> usize {
    groups.next_power_of_two()
}

/// Sets the earliest of a group and plays again. There are as many slots as [`slots_for`] says.
pub(super) fn set(slots: &mut [GroupMinimum], group: usize, minimum: Option<i64>) {
    let count = slots.len();
    let Some(slot) = slots.get_mut(group) else { return };
    (slot.timestamp, slot.is_some) = (minimum.unwrap_or(0), minimum.is_some());
    let mut pairing = (count + group) / 2;
    while pairing > 0 {
        let winner = match [2 * pairing, 2 * pairing + 1].map(|entrant| winner_of(slots, entrant)) {
            [Some(first), Some(second)] if is_before(slots, second, first) => second,
            [Some(first), _] => first,
            [None, _] => return,
        };
        let Some(slot) = slots.get_mut(pairing) else { return };
        let before = core::mem::replace(&mut slot.winner, u16::try_from(winner).unwrap_or(u16::MAX));
        if usize::from(before) == winner && winner != group {
            // The one that changed has lost as before.
            return;
        }
        pairing /= 2;
    }
}

/// The group that comes out of a pairing, or the one that enters here. Of a pairing that was never played, any of its
/// own: another one's changes would not be played out here.
fn winner_of(slots: &[GroupMinimum], entrant: usize) -> Option<usize> {
    let rounds = slots.len().checked_ilog2()?.checked_sub(entrant.checked_ilog2()?)?;
    let first = (entrant << rounds).checked_sub(slots.len())?;
    let winner = slots.get(entrant).map_or(first, |slot| usize::from(slot.winner));
    Some(if (first..first + (1 << rounds)).contains(&winner) { winner } else { first })
}

fn is_before(slots: &[GroupMinimum], group: usize, other: usize) -> bool {
    match (get(slots, group), get(slots, other)) {
        (Some(minimum), Some(other)) => minimum < other,
        (Some(_), None) => true,
        (None, _) => false,
    }
}

/// The earliest of a group.
pub(super) fn get(slots: &[GroupMinimum], group: usize) -> Option<i64> {
    slots.get(group).filter(|slot| slot.is_some).map(|slot| slot.timestamp)
}

/// The group with the earliest of all, and that.
pub(super) fn earliest(slots: &[GroupMinimum]) -> Option<(usize, i64)> {
    let group = winner_of(slots, 1)?;
    get(slots, group).map(|minimum| (group, minimum))
}

#[cfg(test)]
mod tests {
    use std::vec;

    use super::*;

    #[test]
    fn the_earliest_is_known_whatever_changes() {
        // With few times and with many, and with whole pairings that nobody enters.
        for (groups, times) in
            [1_usize, 2, 3, 5, 7, 8, 40, 100].into_iter().flat_map(|n| [(n, 17), (n, 9_973)])
        {
            let mut slots = vec![GroupMinimum::default(); slots_for(groups)];
            let mut truth = vec![None; groups];
            assert_eq!(earliest(&slots), None);
            for number in 0..3_000_usize {
                let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                let group = random % groups;
                let minimum =
                    i64::try_from(random % times).ok().filter(|time| *time > 3).map(|time| time - 9);
                truth[group] = minimum;
                set(&mut slots, group, minimum);
                assert_eq!(earliest(&slots).map(|(_, time)| time), truth.iter().flatten().min().copied());
                assert!(earliest(&slots).is_none_or(|(group, time)| truth[group] == Some(time)));
            }
        }
    }
}
