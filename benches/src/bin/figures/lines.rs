//! The lines that are printed.

use std::io::{self, Write};
use std::time::Duration;

/// Prints figures as they are known.
#[derive(Debug)]
pub(crate) struct Lines<W> {
    out: W,
}

impl<W: Write> Lines<W> {
    pub(crate) const fn new(out: W) -> Self {
        Self { out }
    }

    /// Prints one figure. Names and units are words of this program, so nothing needs escaping.
    pub(crate) fn print(&mut self, name: &str, value: f64, unit: &str) -> io::Result<()> {
        writeln!(self.out, r#"{{"sys":"slackwater","name":"{name}","value":{value:.3},"unit":"{unit}"}}"#)?;
        self.out.flush()
    }
}

/// Nanoseconds for each of `count` operations.
pub(crate) fn nanos_each(span: Duration, count: u64) -> f64 {
    span.as_secs_f64() * 1e9 / float(count.max(1))
}

/// A count as a floating-point number; exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "figures have three decimals at most")]
pub(crate) const fn float(count: u64) -> f64 {
    count as f64
}

/// Nanoseconds for each of the keys.
pub(crate) fn nanos_of_slice(span: Duration, keys: &[u64]) -> f64 {
    nanos_each(span, keys.len() as u64)
}

/// A round number as people write it: 10k, 1M.
pub(crate) fn count_name(count: u32) -> String {
    match count {
        count if count >= 1_000_000 && count % 1_000_000 == 0 => format!("{}M", count / 1_000_000),
        count if count >= 1_000 && count % 1_000 == 0 => format!("{}k", count / 1_000),
        count => count.to_string(),
    }
}
