//! The table that is printed, a line as soon as it is known.

use std::fmt::{self, Display};
use std::io::{self, Write};

use slackwater_benches::paired::{Paired, Quartiles};

use super::Plan;
use super::beside::Beside;

/// What a row has to reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Goal {
    /// No more than this, in the row's unit.
    AtMost(f64),
    /// No more than so many times what stands beside it.
    Times(f64),
    /// What stands beside it takes at least so many times as long.
    Faster(f64),
    /// Only said.
    None,
}

/// One measurement.
#[derive(Clone, Debug)]
pub(super) struct Row<'a> {
    pub(super) name: &'a str,
    pub(super) unit: &'static str,
    pub(super) ours: f64,
    pub(super) beside: Option<Other>,
    pub(super) goal: Goal,
}

/// What a measurement is compared with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Other {
    pub(super) name: &'static str,
    pub(super) value: f64,
    /// Ours by this.
    pub(super) ratio: Quartiles,
}

impl Row<'_> {
    /// How many times its goal the row is; none if there is none, or nothing to compare with.
    fn by_goal(&self) -> Option<f64> {
        let ratio = self.beside.map(|other| other.ratio.median);
        match self.goal {
            Goal::AtMost(value) => Some(self.ours / value),
            Goal::Times(times) => ratio.map(|ratio| ratio / times),
            Goal::Faster(times) => ratio.map(|ratio| ratio * times),
            Goal::None => None,
        }
    }

    fn verdict(&self) -> String {
        match self.by_goal() {
            Some(times) if times <= 1.0 => "met".to_owned(),
            Some(times) => format!("missed, {times:.2} times it"),
            None if self.goal == Goal::None => String::new(),
            None => "open: run it beside (--beside)".to_owned(),
        }
    }
}

impl Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::AtMost(value) => format!("<= {value}"),
            Self::Times(times) => format!("<= {times:.2} x"),
            Self::Faster(times) => format!("{times} x faster"),
            Self::None => "-".to_owned(),
        };
        f.pad(&text)
    }
}

/// Prints rows.
#[derive(Debug)]
pub(super) struct Table<W> {
    out: W,
    filters: Vec<String>,
    beside: Beside,
}

impl<W: Write> Table<W> {
    pub(super) const fn new(out: W, filters: Vec<String>, beside: Beside) -> Self {
        Self { out, filters, beside }
    }

    /// Whether a row was asked for.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter.as_str()))
    }

    /// Whether any of these rows was asked for.
    pub(super) fn wants_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.wants(name))
    }

    pub(super) fn heading(&mut self, plan: &Plan) -> io::Result<()> {
        let pages = if plan.huge_pages { "huge pages" } else { "pages of 4 KiB" };
        writeln!(self.out, "# {} keys; the heap, the hash map and the copies lie in {pages}", plan.keys)?;
        writeln!(
            self.out,
            "{:<48} {:>11} {:<5} {:>11} {:<14} {:>7} {:>15}  {:<12} result",
            "row", "ours", "unit", "beside", "", "ratio", "25-75 %", "goal"
        )
    }

    pub(super) fn print(&mut self, row: &Row<'_>) -> io::Result<()> {
        let Row { name, unit, ours, beside, goal } = row;
        write!(self.out, "{name:<48} {ours:>11.3} {unit:<5} ")?;
        match beside {
            Some(Other { name, value, ratio: Quartiles { lower, median, upper } }) => {
                let range = format!("{lower:.3}-{upper:.3}");
                write!(self.out, "{value:>11.3} {name:<14} {median:>7.3} {range:>15}")?;
            }
            None => write!(self.out, "{:>11} {:<14} {:>7} {:>15}", "-", "", "-", "-")?,
        }
        writeln!(self.out, "  {goal:<12} {}", row.verdict())?;
        self.out.flush()
    }

    /// A row that has nothing beside it.
    pub(super) fn alone(&mut self, name: &str, unit: &'static str, ours: f64, goal: Goal) -> io::Result<()> {
        self.print(&Row { name, unit, ours, beside: None, goal })
    }

    /// A row of two values, each measured once.
    pub(super) fn once(
        &mut self,
        name: &str,
        unit: &'static str,
        (ours, theirs): (f64, f64),
        goal: Goal,
    ) -> io::Result<()> {
        let (lower, median, upper) = (ours / theirs, ours / theirs, ours / theirs);
        let beside = Some(Other { name: HASH_MAP, value: theirs, ratio: Quartiles { lower, median, upper } });
        self.print(&Row { name, unit, ours, beside, goal })
    }

    /// A row of blocks that took turns with those of `other`.
    pub(super) fn paired(
        &mut self,
        name: &str,
        unit: &'static str,
        (other, paired): (&'static str, &Paired),
        goal: Goal,
    ) -> io::Result<()> {
        let beside = Some(Other { name: other, value: paired.theirs().median, ratio: paired.ratio() });
        self.print(&Row { name, unit, ours: paired.ours().median, beside, goal })
    }

    /// A row that has to be `times` faster than `figure` of the lines to be set beside.
    pub(super) fn against_flink(
        &mut self,
        name: &str,
        ours: Quartiles,
        (figure, times): (&str, f64),
    ) -> io::Result<()> {
        let beside = self.beside.median(figure).map(|value| {
            let Quartiles { lower, median, upper } = ours;
            let ratio = Quartiles { lower: lower / value, median: median / value, upper: upper / value };
            Other { name: "Flink's heap", value, ratio }
        });
        let goal = Goal::Faster(times);
        self.print(&Row { name, unit: "ns", ours: ours.median, beside, goal })
    }
}

/// The name of the competitor.
pub(super) const HASH_MAP: &str = "hashbrown";
