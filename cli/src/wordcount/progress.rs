//! The bar on a terminal: bytes, words per second, the last checkpoint. Without a bar where nobody knows how much there is.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use slackwater::Progress;

/// A progress bar, or nothing where nobody looks.
#[derive(Debug)]
pub(crate) struct Bar {
    bar: ProgressBar,
    words_before: Option<u64>,
}

impl Bar {
    /// A bar over `total` bytes, if that is known.
    pub(crate) fn new(total: Option<u64>, is_shown: bool) -> Self {
        if !is_shown {
            return Self { bar: ProgressBar::hidden(), words_before: None };
        }
        let (bar, template) = match total {
            Some(total) => (ProgressBar::new(total), "{bar:30} {bytes}/{total_bytes}  {msg}"),
            None => (ProgressBar::new_spinner(), "{spinner} {bytes}  {msg}"),
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        Self { bar: bar.with_style(style), words_before: None }
    }

    /// An attempt begins, behind `start` bytes that earlier ones had read.
    pub(crate) fn start_at(&mut self, start: u64) {
        self.words_before = None;
        self.bar.set_position(start);
        self.bar.reset_elapsed();
    }

    /// Prints something without the bar in its way.
    pub(crate) fn aside(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    /// Shows how far the job is.
    pub(crate) fn show(&mut self, position: u64, progress: &Progress, words: u64) {
        if self.bar.is_hidden() {
            return;
        }
        let counted = words.saturating_sub(*self.words_before.get_or_insert(words));
        let rate = per_second(counted, self.bar.elapsed());
        let checkpoint = match progress.last_checkpoint {
            Some(id) => format!("checkpoint {id}"),
            None => "no checkpoint yet".to_owned(),
        };
        self.bar.set_position(position);
        self.bar.set_message(format!("{rate} words/s, {checkpoint}"));
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// A count over a span; 0 for a span too short to tell.
pub(crate) fn per_second(count: u64, span: Duration) -> u64 {
    let per_second = u128::from(count) * 1000;
    per_second.checked_div(span.as_millis()).and_then(|rate| u64::try_from(rate).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::per_second;
    use std::time::Duration;

    #[test]
    fn a_rate_needs_a_span() {
        assert_eq!(per_second(10, Duration::ZERO), 0);
        assert_eq!(per_second(10, Duration::from_millis(2500)), 4);
    }
}
