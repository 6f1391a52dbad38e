//! Two things measured in turn, so that what else the machine does meets both.

/// The middle half of some numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quartiles {
    /// A quarter lies below.
    pub lower: f64,
    /// The middle.
    pub median: f64,
    /// A quarter lies above.
    pub upper: f64,
}

impl Quartiles {
    /// Those of `numbers`; zeros if there are none.
    #[must_use]
    pub fn of(mut numbers: Vec<f64>) -> Self {
        numbers.sort_by(f64::total_cmp);
        let at = |quarter: usize| {
            let last = numbers.len().saturating_sub(1);
            numbers.get((last * quarter + 2) / 4).copied().unwrap_or_default()
        };
        Self { lower: at(1), median: at(2), upper: at(3) }
    }
}

/// What blocks of the one and of the other came to, in the order in which they ran side by side.
#[derive(Clone, Debug, Default)]
pub struct Paired {
    ours: Vec<f64>,
    theirs: Vec<f64>,
}

impl Paired {
    /// Runs blocks of both, ours, theirs, theirs, ours, and that `rounds` times after one that is not counted.
    ///
    /// # Errors
    /// What a block says.
    pub fn measure<E>(
        rounds: u32,
        mut ours: impl FnMut() -> Result<f64, E>,
        mut theirs: impl FnMut() -> Result<f64, E>,
    ) -> Result<Self, E> {
        let mut paired = Self::default();
        ours()?;
        theirs()?;
        for _ in 0..rounds {
            paired.ours.push(ours()?);
            paired.theirs.extend([theirs()?, theirs()?]);
            paired.ours.push(ours()?);
        }
        Ok(paired)
    }

    /// The same blocks in another unit.
    #[must_use]
    pub fn map(&self, unit: impl Fn(f64) -> f64) -> Self {
        let all = |blocks: &[f64]| blocks.iter().map(|block| unit(*block)).collect();
        Self { ours: all(&self.ours), theirs: all(&self.theirs) }
    }

    /// Our blocks.
    #[must_use]
    pub fn ours(&self) -> Quartiles {
        Quartiles::of(self.ours.clone())
    }

    /// Their blocks.
    #[must_use]
    pub fn theirs(&self) -> Quartiles {
        Quartiles::of(self.theirs.clone())
    }

    /// Ours by theirs, block by block.
    #[must_use]
    pub fn ratio(&self) -> Quartiles {
        Quartiles::of(self.ours.iter().zip(&self.theirs).map(|(ours, theirs)| ours / theirs).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn quartiles_part_sorted_numbers() {
        let quartiles = Quartiles::of(vec![5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!(quartiles, Quartiles { lower: 2.0, median: 3.0, upper: 4.0 });
        assert_eq!(Quartiles::of(vec![7.0]), Quartiles { lower: 7.0, median: 7.0, upper: 7.0 });
        assert_eq!(Quartiles::of(Vec::new()), Quartiles::default());
    }

    #[test]
    fn blocks_take_turns_and_the_first_two_are_not_counted() {
        let order = RefCell::new(String::new());
        let block = |name: char, value: f64| {
            order.borrow_mut().push(name);
            Ok::<f64, ()>(value)
        };
        let paired = Paired::measure(2, || block('a', 3.0), || block('b', 2.0)).unwrap();
        assert_eq!(*order.borrow(), "ababbaabba");
        assert_eq!((paired.ours().median, paired.theirs().median, paired.ratio().median), (3.0, 2.0, 1.5));
        assert_eq!((paired.ours.len(), paired.theirs.len()), (4, 4));
    }
}
