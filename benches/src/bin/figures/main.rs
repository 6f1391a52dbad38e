//! Prints figures of Slackwater, with the names of the harness for Flink's heap and job.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use slackwater_benches::Failed;
use tempfile::TempDir;

use slackwater_benches::storage::Storage;

mod beside;
mod busy;
mod heap;
mod job;
mod lines;
mod ratios;
mod snapshot;
mod table;

use lines::Lines;

/// Figures of Slackwater
#[derive(Debug, Parser)]
#[command(version)]
struct Command {
    #[command(subcommand)]
    figures: Figures,
}

#[derive(Debug, Subcommand)]
enum Figures {
    /// The state heap on its own, one JSON object a figure: one thread updates, another writes snapshots
    Heap(heap::Arguments),
    /// Every goal of the heap in one run, beside hashbrown and the copy of frames; a table for people
    Ratios(ratios::Arguments),
    /// Every goal of writing and reading snapshots in one run, beside what the disk and the processor can do
    Snapshot(snapshot::Arguments),
    /// Every goal of whole jobs in one run: a word count with checkpoints, how late records are at half load beside channels of
    /// the standard library, and a thousand subtasks in less than 1 GiB
    Job(job::Arguments),
    /// The job of a thousand subtasks, for `job`
    #[command(hide = true)]
    Wide(job::wide::Arguments),
}

/// Where snapshots go.
#[derive(Clone, Debug, Args)]
struct Target {
    /// What files are written through
    #[arg(long, value_enum, default_value_t = Storage::Auto)]
    storage: Storage,
    /// Folder on the disk to be measured; what is written there is removed at the end [default: the folder for temporary files]
    #[arg(long)]
    dir: Option<PathBuf>,
}

impl Target {
    /// A new folder, removed when the value is dropped.
    fn folder(&self) -> Result<TempDir, Failed> {
        let parent = self.dir.clone().unwrap_or_else(std::env::temp_dir);
        Ok(tempfile::tempdir_in(parent).map_err(|error| format!("cannot make a folder: {error}"))?)
    }

    /// What it comes down to; says so on standard error.
    fn storage(&self, folder: &Path) -> io::Result<Storage> {
        let (storage, reason) = self.storage.resolved(folder);
        let why = reason.map(|reason| format!(", because {reason}")).unwrap_or_default();
        writeln!(io::stderr(), "storage: {storage}{why}")?;
        Ok(storage)
    }
}

fn main() -> ExitCode {
    let Command { figures } = Command::parse();
    let mut lines = Lines::new(io::stdout());
    let printed = match figures {
        Figures::Heap(arguments) => heap::print(&arguments, &mut lines),
        Figures::Ratios(arguments) => ratios::print(&arguments, io::stdout().lock()),
        Figures::Snapshot(arguments) => snapshot::print(&arguments, io::stdout().lock()),
        Figures::Job(arguments) => job::print(&arguments, io::stdout().lock()),
        Figures::Wide(arguments) => job::wide::run(&arguments, &mut lines),
    };
    if let Err(error) = printed {
        // Nobody is left to be told if this fails too.
        drop(writeln!(io::stderr(), "figures: {error}"));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
