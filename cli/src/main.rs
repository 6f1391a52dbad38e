//! The command `slackwater`: run a word count that survives being killed, look at checkpoints, verify them.

mod args;
mod checkpoints;
mod demo;
mod failure;
mod folder;
mod output;
mod parts;
mod verify;
mod wordcount;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Verb};
use failure::Failure;

fn main() -> ExitCode {
    match run(&Cli::parse().verb) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(failure) => {
            output::note(&failure.to_string());
            failure.exit_code()
        }
    }
}

/// False if the answer is no.
fn run(verb: &Verb) -> Result<bool, Failure> {
    match verb {
        Verb::Demo(args) => demo::run(args),
        Verb::Wordcount(args) => wordcount::run(args),
        Verb::Checkpoints(args) => checkpoints::run(args),
        Verb::Verify(args) => verify::run(args),
    }
}
