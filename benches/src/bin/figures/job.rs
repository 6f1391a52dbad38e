//! What a whole job does: the word count of the harness for Flink's local cluster, how late records are, a thousand subtasks.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use slackwater::word_count::PRE_AGGREGATE;
use slackwater_benches::Failed;
use slackwater_benches::storage::Storage;
use tempfile::TempDir;

use crate::Target;
use crate::table::Shown;

mod delay;
#[cfg(test)]
mod tests;
pub(crate) mod wide;
mod words;

/// What is measured, and how.
#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// The text whose words are counted; without one they are not
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Milliseconds from one checkpoint to the next; 0: only the last one is taken
    #[arg(long, default_value_t = 1000)]
    interval_ms: u64,
    /// Subtasks that read words, and subtasks that count them
    #[arg(long, default_value_t = 2)]
    parallelism: u16,
    /// Words that each reading subtask counts before they travel; 0: none
    #[arg(long, value_name = "WORDS", default_value_t = PRE_AGGREGATE)]
    bundle: usize,
    /// Fewer and shorter runs: where things stand, not a result
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    shown: Shown,
    #[command(flatten)]
    target: Target,
}

/// Prints the rows that were asked for.
pub(crate) fn print<W: Write>(arguments: &Arguments, out: W) -> Result<(), Failed> {
    let mut table = arguments.shown.table(out)?;
    let folder = arguments.target.folder()?;
    let storage = arguments.target.storage(folder.path())?;
    table.heading("records of 16 bytes through a source, a count by key and a sink; words from a text")?;
    let place = Place { folder: folder.path(), storage };
    if let Some(input) = &arguments.input {
        words::print(arguments, input, place, &mut table)?;
    }
    delay::print(arguments.quick, place, &mut table)?;
    wide::print(arguments.quick, place, &mut table)
}

/// Where jobs put their checkpoints.
#[derive(Clone, Copy, Debug)]
struct Place<'a> {
    folder: &'a Path,
    storage: Storage,
}

impl Place<'_> {
    /// A new folder for one run.
    fn folder(&self) -> Result<TempDir, Failed> {
        Ok(tempfile::tempdir_in(self.folder).map_err(|error| format!("cannot make a folder: {error}"))?)
    }
}
