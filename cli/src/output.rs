//! The only place that prints to standard output and standard error.

use std::fmt::Display;
use std::io::{self, Write};

use serde_json::Value;

/// One JSON object on a line of its own.
pub(crate) fn json(value: &Value) {
    line(value);
}

/// A line on standard output. Whoever closed it early has seen enough: that is no error.
pub(crate) fn line(text: impl Display) {
    drop(writeln!(io::stdout().lock(), "{text}"));
}

/// Names and values in two columns.
pub(crate) fn table(rows: &[(&str, String)]) {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in rows {
        line(format_args!("{name:width$}  {value}"));
    }
}

/// Rows under headings, columns as wide as their widest cell; all but the last column are right-aligned.
pub(crate) fn columns(headings: &[&str], rows: &[Vec<String>]) {
    let all = || {
        std::iter::once(headings.iter().map(|heading| (*heading).to_owned()).collect()).chain(rows.to_vec())
    };
    let width =
        |column| all().filter_map(|row: Vec<String>| row.get(column).map(String::len)).max().unwrap_or(0);
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    for row in all() {
        let last = row.len().saturating_sub(1);
        let cells = row.iter().zip(&widths).enumerate();
        let line: Vec<String> = cells
            .map(
                |(index, (cell, width))| if index == last { cell.clone() } else { format!("{cell:>width$}") },
            )
            .collect();
        self::line(line.join("  "));
    }
}

/// A remark that is no error.
pub(crate) fn note(text: &str) {
    drop(writeln!(io::stderr().lock(), "slackwater: {text}"));
}

/// A number of bytes for people.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    let mut scaled = (count, 0);
    let mut unit = "B";
    for name in UNITS {
        if scaled.0 < 1000 {
            break;
        }
        scaled = (scaled.0 / 1000, scaled.0 % 1000 / 100);
        unit = name;
    }
    if unit == "B" { format!("{count} B") } else { format!("{}.{} {unit}", scaled.0, scaled.1) }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn bytes_are_rounded_down_to_a_tenth() {
        for (count, text) in
            [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (226_000_000, "226.0 MB"), (1_999_999, "1.9 MB")]
        {
            assert_eq!(bytes(count), text);
        }
    }
}
