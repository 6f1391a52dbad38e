//! The demo: a word count in a child process, killed with SIGKILL at random moments, resumed each time,
//! and its committed output compared with a plain count.

mod check;
mod child;
mod text;

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use crate::args::{DemoArgs, EmitArg};
use crate::failure::Failure;
use crate::output;
use check::Found;
use child::{End, Run};
use text::Random;

/// Generated text per kill, so that the input outlasts them; a second round begins if it does not.
const TEXT_PER_KILL: u64 = 4 << 20;
const TEXT_MIN: u64 = 48 << 20;

/// What all runs together did.
#[derive(Debug, Default)]
struct Tally {
    kills: u32,
    resumes: u32,
    /// Resumes with another parallelism.
    rescales: u32,
    kills_during_checkpoint: u32,
    rounds: u32,
    checkpoints_completed: u64,
    bytes_replayed: u64,
    longest_replay_bytes: u64,
    resumed_without_checkpoint: u32,
}

/// Runs the demo. True if the output was exact every time.
pub(crate) fn run(args: &DemoArgs) -> Result<bool, Failure> {
    args.modes.check()?;
    let seed = args.seed.unwrap_or_else(|| slackwater::driver::Clock::start().now().wall.0);
    let folder = tempfile::Builder::new()
        .prefix("slackwater-demo-")
        .tempdir()
        .map_err(|error| Failure::environment(format!("no temporary folder: {error}")))?;
    let input = input(args, folder.path(), seed)?;
    let input_bytes =
        fs::metadata(&input).map(|meta| meta.len()).map_err(|error| Failure::reading(&input, &error))?;
    let expected = check::plain_count(&input)?;
    let mut random = Random::new(seed);
    let mut tally = Tally::default();
    let mut found = Found::default();
    while tally.rounds == 0 || (tally.kills < args.kills && found.is_as_promised(args)) {
        tally.rounds += 1;
        let place = folder.path().join(format!("round-{}", tally.rounds));
        round(args, &input, &place, &mut random, &mut tally)?;
        found = check::compare(&place.join("output"), &expected, args.emit)?;
    }
    report(args, seed, input_bytes, &expected, &tally, &found);
    Ok(found.is_as_promised(args))
}

fn input(args: &DemoArgs, folder: &Path, seed: u64) -> Result<PathBuf, Failure> {
    if let Some(input) = &args.input {
        return Ok(input.clone());
    }
    let path = folder.join("input.txt");
    let len = TEXT_MIN.max(TEXT_PER_KILL.saturating_mul(u64::from(args.kills)));
    let written = File::create(&path).and_then(|file| text::write(&mut BufWriter::new(file), seed, len));
    written
        .map(|()| path)
        .map_err(|error| Failure::environment(format!("the text could not be written: {error}")))
}

/// Runs the job in children until one of them ends by itself.
fn round(
    args: &DemoArgs,
    input: &Path,
    place: &Path,
    random: &mut Random,
    tally: &mut Tally,
) -> Result<(), Failure> {
    fs::create_dir_all(place)
        .map_err(|error| Failure::environment(format!("{}: {error}", place.display())))?;
    let mut furthest_bytes = 0;
    let mut parallelism = args.parallelism;
    loop {
        let kill = (tally.kills < args.kills).then(|| moment(args.interval, random, tally.kills));
        let run = Run::start(args, input, place, parallelism)?.watch(kill)?;
        tally.checkpoints_completed += run.checkpoints_completed;
        if furthest_bytes > 0 {
            tally.resumes += 1;
            tally.rescales += u32::from(args.rescale);
            tally.resumed_without_checkpoint += u32::from(run.resumed_from.is_none());
            let replayed = u64::saturating_sub(furthest_bytes, run.resumed_at_bytes);
            tally.bytes_replayed += replayed;
            tally.longest_replay_bytes = tally.longest_replay_bytes.max(replayed);
        }
        furthest_bytes = run.furthest_bytes.max(1);
        if args.rescale {
            parallelism = another(parallelism, random);
        }
        match run.end {
            End::Finished => return Ok(()),
            End::Killed { during_checkpoint } => {
                tally.kills += 1;
                tally.kills_during_checkpoint += u32::from(during_checkpoint);
            }
            End::Failed(message) => {
                return Err(Failure::environment(format!("the job ended by itself: {message}")));
            }
        }
    }
}

/// Another parallelism than `last`, 1 to 4.
fn another(last: u16, random: &mut Random) -> u16 {
    let others = (1..=4).filter(|other| *other != last);
    let index = random.below(others.clone().count() as u64);
    others.zip(0..).find(|(_, at)| *at == index).map_or(last, |(other, _)| other)
}

/// When a child is killed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// So long after there is a checkpoint to resume from.
    after: Duration,
    /// Then not before a checkpoint is being written.
    during_checkpoint: bool,
}

/// A random moment within a few intervals; every third kill waits for a checkpoint to begin.
fn moment(interval: Duration, random: &mut Random, kills: u32) -> Moment {
    let span_us = u64::try_from(interval.as_micros()).unwrap_or(u64::MAX).saturating_mul(4).max(1);
    Moment { after: Duration::from_micros(random.below(span_us)), during_checkpoint: kills % 3 == 2 }
}

fn report(
    args: &DemoArgs,
    seed: u64,
    input_bytes: u64,
    expected: &check::Counts,
    tally: &Tally,
    found: &Found,
) {
    let words: u64 = expected.values().sum();
    if args.json {
        output::json(&json!({
            "kills": tally.kills,
            "resumes": tally.resumes,
            "rescales": tally.rescales,
            "resumes_without_checkpoint": tally.resumed_without_checkpoint,
            "kills_during_checkpoint": tally.kills_during_checkpoint,
            "exact": found.difference().is_none(),
            "complete": found.lost.is_none(),
            "difference": found.difference(),
            "words": words,
            "distinct": expected.len(),
            "checkpoints_completed": tally.checkpoints_completed,
            "bytes_replayed": tally.bytes_replayed,
            "longest_replay_bytes": tally.longest_replay_bytes,
            "input_bytes": input_bytes,
            "rounds": tally.rounds,
            "emit": args.emit.name(),
            "mode": args.modes.name(),
            "seed": seed,
        }));
        return;
    }
    let verdict = match found.difference() {
        None => "equal to a plain count".to_owned(),
        Some(surplus) if found.is_as_promised(args) => format!("nothing missing; {surplus}"),
        Some(wrong) => format!("WRONG: {wrong}"),
    };
    let emitted = match args.emit {
        EmitArg::Final => "each word once",
        EmitArg::Updates => "every change once",
    };
    output::table(&[
        ("input", output::bytes(input_bytes)),
        ("words", format!("{words} ({} distinct)", expected.len())),
        ("kills (SIGKILL)", tally.kills.to_string()),
        ("  while a checkpoint was being written", tally.kills_during_checkpoint.to_string()),
        ("resumes from a checkpoint", (tally.resumes - tally.resumed_without_checkpoint).to_string()),
        ("resumes without one", tally.resumed_without_checkpoint.to_string()),
        ("  with another parallelism", tally.rescales.to_string()),
        ("checkpoints completed", format!("{} or more", tally.checkpoints_completed)),
        ("read again after resumes", output::bytes(tally.bytes_replayed)),
        ("  at most, after one resume", output::bytes(tally.longest_replay_bytes)),
        ("rounds", tally.rounds.to_string()),
        ("mode", args.modes.describe()),
        ("output", format!("{emitted}: {verdict}")),
        ("seed", seed.to_string()),
    ]);
}
