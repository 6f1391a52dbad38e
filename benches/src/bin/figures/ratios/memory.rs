//! Memory of the machine for each key, while the number of keys doubles.

use std::io::Write;

use slackwater_benches::Failed;
use slackwater_benches::hash_map;
use slackwater_benches::resident::Resident;
use slackwater_benches::subject::key;

use super::{Counts, Plan};
use crate::lines::float;
use crate::table::{Goal, HASH_MAP, Table};

const MEAN: &str = "memory/bytes_per_key_mean";
const MAX: &str = "memory/bytes_per_key_max";
/// Over a doubling, in which pages and tables pass through all that they can be filled to.
const LEVELS: u32 = 10;

pub(super) fn rows<W: Write>(plan: &Plan, table: &mut Table<W>) -> Result<(), Failed> {
    if !table.wants_any(&[MEAN, MAX]) {
        return Ok(());
    }
    let mut counts = Counts::empty(plan.shape())?;
    let ours = bytes_per_key(plan.keys, |number| Ok(counts.put(number)?))?;
    drop(counts);
    let mut map = hash_map::empty(plan.huge_pages);
    let theirs = bytes_per_key(plan.keys, |number| {
        map.insert(key(number), number.into());
        Ok(())
    })?;
    table.once(MEAN, "bytes", (HASH_MAP, (mean(&ours), mean(&theirs))), Goal::AtMost(30.0))?;
    Ok(table.once(MAX, "bytes", (HASH_MAP, (max(&ours), max(&theirs))), Goal::AtMost(38.0))?)
}

/// What the process has grown by for each key, at each level.
fn bytes_per_key(keys: u32, mut insert: impl FnMut(u32) -> Result<(), Failed>) -> Result<Vec<f64>, Failed> {
    let before = Resident::now()?;
    let mut number = 0;
    let mut levels = Vec::new();
    for level in levels_of(keys) {
        (number..level).try_for_each(&mut insert)?;
        number = level;
        levels.push(float(Resident::now()?.since(before).bytes) / float(level.into()));
    }
    Ok(levels)
}

/// From a little more than half of the keys to all of them, each level by the same factor above the one before.
fn levels_of(keys: u32) -> impl Iterator<Item = u32> {
    (1..=LEVELS).map(move |step| {
        let factor = (f64::from(step) / f64::from(LEVELS)).exp2() / 2.0;
        rounded(f64::from(keys) * factor)
    })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a number of keys")]
const fn rounded(number: f64) -> u32 {
    number.round() as u32
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / f64::from(LEVELS)
}

fn max(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::levels_of;

    #[test]
    fn levels_go_through_one_doubling() {
        let levels: Vec<u32> = levels_of(1_000).collect();
        assert_eq!(levels, [536, 574, 616, 660, 707, 758, 812, 871, 933, 1_000]);
    }
}
