//! What was tried.

use core::fmt;
use core::ops::AddAssign;
use std::collections::BTreeMap;
use std::format;
use std::string::String;

use super::image::{Image, When};

/// How often each thing was tried: a suite that never tore a write has not shown that torn writes are harmless.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Images.
    pub images: u64,
    /// Of these, where the power went: kind of the operation and side.
    pub cuts: BTreeMap<(String, When), u64>,
    /// Writes of which nothing was left.
    pub lost_writes: u64,
    /// Writes of which a part was left.
    pub torn_writes: u64,
    /// Lengths of files that were not as set last.
    pub lost_lengths: u64,
    /// Changes of names that were undone.
    pub vanished_names: u64,
    /// Images in which something was left although something older was not.
    pub reordered: u64,
}

impl Tally {
    /// Of one image.
    #[must_use]
    pub fn of(image: &Image) -> Self {
        let lost = image.lost();
        let place = (format!("{:?}", image.submitted().kind), image.when());
        Self {
            images: 1,
            cuts: BTreeMap::from([(place, 1)]),
            lost_writes: lost.writes,
            torn_writes: lost.torn_writes,
            lost_lengths: lost.lengths,
            vanished_names: lost.names,
            reordered: u64::from(lost.is_reordered),
        }
    }

    /// How often the power went at an operation of this kind.
    #[must_use]
    pub fn cuts_at(&self, kind: &str) -> u64 {
        self.cuts.iter().filter(|((of, _), _)| of == kind).map(|(_, count)| count).sum()
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.images += other.images;
        for (place, count) in other.cuts {
            *self.cuts.entry(place).or_default() += count;
        }
        self.lost_writes += other.lost_writes;
        self.torn_writes += other.torn_writes;
        self.lost_lengths += other.lost_lengths;
        self.vanished_names += other.vanished_names;
        self.reordered += other.reordered;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} images", self.images)?;
        for ((kind, when), count) in &self.cuts {
            writeln!(f, "  {count} {when} {kind}")?;
        }
        let Self { lost_writes, torn_writes, lost_lengths, vanished_names, reordered, .. } = self;
        writeln!(f, "  {lost_writes} writes lost, {torn_writes} torn, {lost_lengths} lengths lost")?;
        write!(f, "  {vanished_names} changes of names vanished, {reordered} images out of order")
    }
}
