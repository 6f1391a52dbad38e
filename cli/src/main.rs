//! The command `slackwater`: run a word count that survives being killed, look at checkpoints, verify them.

mod args;
mod checkpoints;
mod control;
mod demo;
mod failure;
mod folder;
mod log;
mod modes;
mod output;
mod parts;
mod verify;
mod wordcount;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use args::{Cli, Verb};
use failure::Failure;

fn main() -> ExitCode {
    let told = Cli::try_parse().map_err(wrong_use).and_then(|cli| run(&cli.verb));
    match told {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(failure) => {
            output::note(&failure.to_string());
            failure.exit_code()
        }
    }
}

/// A command line that makes no sense, in one line. Help and version are printed here, and that is the end.
fn wrong_use(error: clap::Error) -> Failure {
    let is_help = !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if is_help {
        error.exit();
    }
    let text = error.to_string();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<&str> = lines.take_while(|line| !line.starts_with("Usage:")).collect();
    let line = lines.join(" ").replace("For more information, try '--help'.", "");
    let line = line.trim_start_matches("error:").trim();
    Failure::usage(format!("{line}; --help tells more"))
}

/// False if the answer is no.
fn run(verb: &Verb) -> Result<bool, Failure> {
    match verb {
        Verb::Demo(args) => demo::run(args),
        Verb::Wordcount(args) => wordcount::run(args),
        Verb::Savepoint(args) => control::savepoint(args),
        Verb::Stop(args) => control::stop(args),
        Verb::Checkpoints(args) => checkpoints::run(args),
        Verb::Verify(args) => verify::run(args),
    }
}
