//! What the command line may say.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::ArgPredicate;
use clap::{Args, Parser, Subcommand, ValueEnum};
use slackwater::restart::RestartStrategy;
use slackwater::word_count::PRE_AGGREGATE;

use crate::modes::ModeArgs;

mod restart;

/// Stream jobs whose state survives a crash exactly once.
#[derive(Debug, Parser)]
#[command(name = "slackwater", version, about, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Count words in a child process, kill it at random moments, resume it, compare with a plain count.
    Demo(DemoArgs),
    /// Count the words of files, or of a folder's files as they come; resumes from --dir if there is a checkpoint in it.
    Wordcount(WordcountArgs),
    /// Take a savepoint of the job that runs on a folder.
    Savepoint(SavepointArgs),
    /// Stop the job that runs on a folder with a savepoint, from which it can go on.
    Stop(StopArgs),
    /// List the checkpoints of a folder.
    Checkpoints(CheckpointsArgs),
    /// Read and check every byte of a folder's checkpoints, or of one checkpoint.
    Verify(FolderArgs),
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// How often the child is killed.
    #[arg(long, default_value_t = 5)]
    pub(crate) kills: u32,
    /// File to count instead of a generated text.
    #[arg(long)]
    pub(crate) input: Option<PathBuf>,
    /// Chooses the moments of the kills and the generated text; random by default.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// What is written: each word once at the end, or every change.
    #[arg(long, value_enum, default_value_t = EmitArg::Final)]
    pub(crate) emit: EmitArg,
    /// How checkpoints reach the disk.
    #[arg(long, value_enum, default_value_t = StorageArg::Auto)]
    pub(crate) storage: StorageArg,
    /// Subtasks of each operator.
    #[arg(long, default_value_t = 2)]
    pub(crate) parallelism: u16,
    /// Go on with another parallelism, 1 to 4, each time the job is resumed.
    #[arg(long)]
    pub(crate) rescale: bool,
    /// Time between two checkpoints, at least 10ms, such as 200ms, 1s or 2min.
    #[arg(long, default_value = "20ms", value_parser = duration)]
    pub(crate) interval: Duration,
    #[command(flatten)]
    pub(crate) modes: ModeArgs,
    /// Print one JSON object at the end instead of the table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WordcountArgs {
    /// The files to count.
    #[arg(required_unless_present = "watch")]
    pub(crate) inputs: Vec<PathBuf>,
    /// Count the files of this folder instead, those that come while the job runs included, until it is stopped. A file must be
    /// complete when it appears: write it under a name that begins with a dot, then rename it.
    #[arg(long, value_name = "FOLDER", conflicts_with = "inputs")]
    pub(crate) watch: Option<PathBuf>,
    /// Folder of the checkpoints.
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// Folder of the committed part files; output in --dir by default.
    #[arg(long)]
    pub(crate) output: Option<PathBuf>,
    /// Time between two checkpoints, at least 10ms, such as 200ms, 1s or 2min.
    #[arg(long, default_value = "1s", value_parser = duration)]
    pub(crate) interval: Duration,
    #[command(flatten)]
    pub(crate) modes: ModeArgs,
    /// Subtasks of each operator.
    #[arg(long, default_value_t = 2)]
    pub(crate) parallelism: u16,
    /// Key groups: the most subtasks the job can ever have.
    #[arg(long, default_value_t = 128)]
    pub(crate) max_parallelism: u16,
    /// How checkpoints reach the disk.
    #[arg(long, value_enum, default_value_t = StorageArg::Auto)]
    pub(crate) storage: StorageArg,
    /// How state is stored in checkpoints.
    #[arg(long, value_enum, default_value_t = CompressionArg::None)]
    pub(crate) compression: CompressionArg,
    /// What is written: each word once at the end, or every change. With --watch every change by default; the end comes with
    /// stop --drain there.
    #[arg(long, value_enum, default_value_t = EmitArg::Final,
        default_value_if("watch", ArgPredicate::IsPresent, "updates"))]
    pub(crate) emit: EmitArg,
    /// Words that are counted before they travel, in each subtask; 0 for none. Only where counts are written at the end.
    #[arg(long, value_name = "WORDS", default_value_t = PRE_AGGREGATE)]
    pub(crate) bundle: usize,
    /// Completed checkpoints that are kept, 2 to 512.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=512))]
    pub(crate) retain: u16,
    /// What becomes of the completed checkpoints when the job is stopped with a savepoint.
    #[arg(long, value_enum, default_value_t = OnCancelArg::Keep)]
    pub(crate) on_cancel: OnCancelArg,
    /// What to go on from: latest (the newest checkpoint, or savepoint in the job's own folder), none (start anew, and move
    /// earlier checkpoints aside), or the folder of a savepoint, unless there is a newer checkpoint.
    #[arg(long, default_value = "latest", value_name = "latest|none|FOLDER")]
    pub(crate) restore: PathBuf,
    /// Make a savepoint that the job starts from one of its own checkpoints, to be deleted as they are.
    #[arg(long, conflicts_with = "no_claim")]
    pub(crate) claim: bool,
    /// Leave a savepoint that the job starts from to its owner; the default.
    #[arg(long)]
    pub(crate) no_claim: bool,
    /// Drop state of operators that the job does not have, instead of refusing the checkpoint.
    #[arg(long)]
    pub(crate) allow_non_restored_state: bool,
    /// When the job starts again after a failure: none, fixed:3,1s (so often, after this delay), exponential:1s,1min (the
    /// first delay and the longest; without limit), rate:3,5min,10s (while failures within a span are few).
    #[arg(long, default_value = "exponential", value_parser = restart::restart)]
    pub(crate) restart: RestartStrategy,
    /// How many checkpoints in a row may fail before the job does.
    #[arg(long, default_value_t = 0)]
    pub(crate) tolerable_failed_checkpoints: u32,
    /// The most memory for keyed state, in MiB.
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    pub(crate) memory_limit_mib: u64,
    /// Print this many of the most frequent words at the end.
    #[arg(long, default_value_t = 0)]
    pub(crate) top: usize,
    /// Tell on standard error what happens to checkpoints: trace is the most.
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = LogArg::Off)]
    pub(crate) log: LogArg,
    /// Print one JSON object at the end instead of the table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print one JSON object for each event; for the demo.
    #[arg(long, hide = true)]
    pub(crate) events: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CheckpointsArgs {
    #[command(flatten)]
    pub(crate) folder: FolderArgs,
    /// Also list what each subtask's part took: delay, alignment, sync and async time, sizes.
    #[arg(long)]
    pub(crate) details: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SavepointArgs {
    /// The folder of the job's checkpoints.
    pub(crate) dir: PathBuf,
    /// Folder of the savepoint, which must be empty or missing; one in the job's folder by default.
    #[arg(long)]
    pub(crate) to: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// The folder of the job's checkpoints.
    pub(crate) dir: PathBuf,
    /// Let operators emit what they have, as at the end of the input: the job has finished for good then.
    #[arg(long)]
    pub(crate) drain: bool,
    /// Folder of the savepoint, which must be empty or missing; one in the job's folder by default.
    #[arg(long)]
    pub(crate) to: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FolderArgs {
    /// The folder.
    pub(crate) dir: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EmitArg {
    /// Each word once, when the input ends.
    Final,
    /// Every change of a count.
    Updates,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StorageArg {
    /// io_uring where it is available, mapped files elsewhere.
    Auto,
    /// io_uring.
    Uring,
    /// Mapped files.
    Mmap,
    /// Memory: nothing survives a kill, and the output is written when the job has ended.
    Mem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogArg {
    /// Nothing.
    Off,
    /// What went wrong.
    Error,
    /// What may go wrong: failed checkpoints, those passed over.
    Warn,
    /// Each checkpoint, and recoveries.
    Info,
    /// What each subtask does for a checkpoint.
    Debug,
    /// Everything.
    Trace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompressionArg {
    /// As it lies in memory.
    None,
    /// LZ4: a little smaller for little processor time.
    Lz4,
    /// Zstandard: smaller for more.
    Zstd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnCancelArg {
    /// They stay.
    Keep,
    /// They are deleted; the savepoint stays.
    Delete,
}

impl StorageArg {
    /// The word a user types for it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Uring => "uring",
            Self::Mmap => "mmap",
            Self::Mem => "mem",
        }
    }
}

impl EmitArg {
    /// The word a user types for it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Final => "final",
            Self::Updates => "updates",
        }
    }
}

/// Reads a span of time: a whole number with a unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let wrong = || format!("\"{text}\" is not a span of time: write it like 200ms, 1s or 2min");
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let millis = match unit {
        "ms" => Some(number),
        "s" => number.checked_mul(1000),
        "min" => number.checked_mul(60_000),
        _ => None,
    };
    millis.map(Duration::from_millis).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::{Cli, duration};
    use clap::CommandFactory;
    use std::collections::BTreeMap;
    use std::time::Duration;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_option_says_what_it_does_and_the_same_for_both_jobs() {
        let mut said = BTreeMap::new();
        for verb in Cli::command().get_subcommands() {
            for option in verb.get_arguments().filter(|option| !option.is_hide_set()) {
                let text = option.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(!text.is_empty(), "{} of {}", option.get_id(), verb.get_name());
                if ["demo", "wordcount"].contains(&verb.get_name()) && option.get_id() != "emit" {
                    let before = said.entry(option.get_id().clone()).or_insert_with(|| text.clone());
                    assert_eq!(*before, text, "{} of {}", option.get_id(), verb.get_name());
                }
            }
        }
    }

    #[test]
    fn spans_need_a_number_and_a_unit() {
        assert_eq!(duration("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(duration("3s"), Ok(Duration::from_secs(3)));
        assert_eq!(duration("2min"), Ok(Duration::from_secs(120)));
        for wrong in ["", "5", "s", "-1s", "1h", "99999999999999999999s", "18446744073709551615s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
