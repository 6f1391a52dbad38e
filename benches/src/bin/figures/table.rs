//! The table that is printed, a line as soon as it is known.

use std::fmt::{self, Display};
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use slackwater_benches::Failed;
use slackwater_benches::paired::{Paired, Quartiles};

use crate::beside::Beside;

/// What a row has to reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    /// No more than this, in the row's unit.
    AtMost(f64),
    /// No more than so many times what stands beside it.
    Times(f64),
    /// What stands beside it takes at least so many times as long.
    Faster(f64),
    /// No less than so many times what stands beside it.
    AtLeast(f64),
    /// Only said.
    None,
}

/// One measurement.
#[derive(Clone, Debug)]
pub(crate) struct Row<'a> {
    pub(crate) name: &'a str,
    pub(crate) unit: &'static str,
    pub(crate) ours: f64,
    beside: Option<Other>,
    pub(crate) goal: Goal,
}

/// What a measurement is compared with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Other {
    pub(crate) name: &'static str,
    pub(crate) value: f64,
    /// Ours by this.
    pub(crate) ratio: Quartiles,
}

impl Row<'_> {
    /// How many times its goal the row is; none if there is none, or nothing to compare with.
    fn by_goal(&self) -> Option<f64> {
        let ratio = self.beside.map(|other| other.ratio.median);
        match self.goal {
            Goal::AtMost(value) => Some(self.ours / value),
            Goal::Times(times) => ratio.map(|ratio| ratio / times),
            Goal::Faster(times) => ratio.map(|ratio| ratio * times),
            Goal::AtLeast(times) => ratio.map(|ratio| times / ratio),
            Goal::None => None,
        }
    }

    fn json(&self) -> Value {
        let beside = self.beside.map(|Other { name, value, ratio }| {
            json!({
                "name": name,
                "value": value,
                "ratio": ratio.median,
                "ratio_lower_quartile": ratio.lower,
                "ratio_upper_quartile": ratio.upper,
            })
        });
        json!({
            "sys": "slackwater",
            "name": self.name,
            "value": self.ours,
            "unit": self.unit,
            "beside": beside,
            "goal": (self.goal != Goal::None).then(|| self.goal.to_string()),
            "met": self.by_goal().map(|times| times <= 1.0),
        })
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
            Self::AtLeast(times) => format!(">= {times:.2} x"),
            Self::None => "-".to_owned(),
        };
        f.pad(&text)
    }
}

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// A table for people.
    Text,
    /// A JSON object each, with the fields of the program's other figures and more.
    Json,
}

/// Which rows are shown, how, and beside what.
#[derive(Clone, Debug, Args)]
pub(crate) struct Shown {
    /// One JSON object a row
    #[arg(long)]
    json: bool,
    /// Only the rows whose names contain one of these, separated by commas
    #[arg(long, value_delimiter = ',')]
    rows: Vec<String>,
    /// Figures of the harness for Flink, taken on this machine: its lines, in a file
    #[arg(long, value_name = "FILE")]
    pub(crate) beside: Option<PathBuf>,
}

impl Shown {
    #[cfg(test)]
    pub(crate) fn of(json: bool, rows: &[&str]) -> Self {
        Self { json, rows: rows.iter().map(|row| (*row).to_owned()).collect(), beside: None }
    }

    pub(crate) fn table<W: Write>(&self, out: W) -> Result<Table<W>, Failed> {
        let beside = self.beside.as_deref().map(Beside::read).transpose()?.unwrap_or_default();
        let format = if self.json { Format::Json } else { Format::Text };
        Ok(Table::new(out, format, self.rows.clone(), beside))
    }
}

/// Prints rows.
#[derive(Debug)]
pub(crate) struct Table<W> {
    out: W,
    format: Format,
    filters: Vec<String>,
    beside: Beside,
}

impl<W: Write> Table<W> {
    pub(crate) const fn new(out: W, format: Format, filters: Vec<String>, beside: Beside) -> Self {
        Self { out, format, filters, beside }
    }

    /// Whether a row was asked for.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter.as_str()))
    }

    /// Whether any of these rows was asked for.
    pub(crate) fn wants_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.wants(name))
    }

    /// Begins the table; `about` says what was measured and how.
    pub(crate) fn heading(&mut self, about: &str) -> io::Result<()> {
        if self.format == Format::Json {
            return Ok(());
        }
        writeln!(self.out, "# {about}")?;
        writeln!(
            self.out,
            "{:<48} {:>11} {:<5} {:>11} {:<14} {:>7} {:>15}  {:<12} result",
            "row", "ours", "unit", "beside", "", "ratio", "25-75 %", "goal"
        )
    }

    pub(crate) fn print(&mut self, row: &Row<'_>) -> io::Result<()> {
        match self.format {
            Format::Text => self.print_text(row)?,
            Format::Json => writeln!(self.out, "{}", row.json())?,
        }
        self.out.flush()
    }

    fn print_text(&mut self, row: &Row<'_>) -> io::Result<()> {
        let Row { name, unit, ours, beside, goal } = row;
        write!(self.out, "{name:<48} {ours:>11.3} {unit:<5} ")?;
        match beside {
            Some(Other { name, value, ratio: Quartiles { lower, median, upper } }) => {
                let range = format!("{lower:.3}-{upper:.3}");
                write!(self.out, "{value:>11.3} {name:<14} {median:>7.3} {range:>15}")?;
            }
            None => write!(self.out, "{:>11} {:<14} {:>7} {:>15}", "-", "", "-", "-")?,
        }
        writeln!(self.out, "  {goal:<12} {}", row.verdict())
    }

    /// A row that has nothing beside it.
    pub(crate) fn alone(&mut self, name: &str, unit: &'static str, ours: f64, goal: Goal) -> io::Result<()> {
        self.print(&Row { name, unit, ours, beside: None, goal })
    }

    /// A row of two values, each measured once.
    pub(crate) fn once(
        &mut self,
        name: &str,
        unit: &'static str,
        (other, (ours, theirs)): (&'static str, (f64, f64)),
        goal: Goal,
    ) -> io::Result<()> {
        let (lower, median, upper) = (ours / theirs, ours / theirs, ours / theirs);
        let beside = Some(Other { name: other, value: theirs, ratio: Quartiles { lower, median, upper } });
        self.print(&Row { name, unit, ours, beside, goal })
    }

    /// A row of blocks that took turns with those of `other`.
    pub(crate) fn paired(
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
    pub(crate) fn against_flink(
        &mut self,
        name: &str,
        (unit, ours): (&'static str, Quartiles),
        (figure, times): (&str, f64),
    ) -> io::Result<()> {
        let beside = self.beside.median(figure).map(|value| {
            let Quartiles { lower, median, upper } = ours;
            let ratio = Quartiles { lower: lower / value, median: median / value, upper: upper / value };
            Other { name: "Flink", value, ratio }
        });
        let goal = Goal::Faster(times);
        self.print(&Row { name, unit, ours: ours.median, beside, goal })
    }
}

/// The name of the competitor.
pub(crate) const HASH_MAP: &str = "hashbrown";
