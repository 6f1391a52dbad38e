//! One run of the job in a process of its own.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use slackwater::driver::Clock;
use slackwater::time::Millis;

use super::Moment;
use crate::args::DemoArgs;
use crate::failure::Failure;
use crate::folder::MANIFEST;
use crate::wordcount::JOB_NAME;

/// How often the checkpoint folder is looked at.
const GLANCE: Duration = Duration::from_millis(1);

/// A child, and what it has told so far.
#[derive(Debug)]
pub(crate) struct Run {
    child: Child,
    lines: Receiver<String>,
    checkpoints: PathBuf,
    /// The highest checkpoint folder before the child began.
    older: Option<u64>,
    told: Told,
}

/// What a run did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub(crate) resumed_from: Option<u64>,
    pub(crate) resumed_at_bytes: u64,
    pub(crate) furthest_bytes: u64,
    pub(crate) checkpoints_completed: u64,
    started: bool,
}

/// A run that is over.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) resumed_from: Option<u64>,
    pub(crate) resumed_at_bytes: u64,
    pub(crate) furthest_bytes: u64,
    pub(crate) checkpoints_completed: u64,
    pub(crate) end: End,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) enum End {
    Finished,
    Killed { during_checkpoint: bool },
    Failed(String),
}

impl Run {
    /// Starts this very program as a word count.
    pub(crate) fn start(
        args: &DemoArgs,
        input: &Path,
        place: &Path,
        parallelism: u16,
    ) -> Result<Self, Failure> {
        let program = std::env::current_exe();
        let program =
            program.map_err(|error| Failure::environment(format!("this program has no path: {error}")))?;
        let checkpoints = place.join("checkpoints");
        let older = newest(&checkpoints.join(JOB_NAME), Which::Any);
        let interval = format!("{}ms", args.interval.as_millis());
        let mut child = Command::new(program)
            .arg("wordcount")
            .arg(input)
            .arg("--dir")
            .arg(&checkpoints)
            .arg("--output")
            .arg(place.join("output"))
            .args(["--events", "--interval", &interval, "--parallelism", &parallelism.to_string()])
            .args(["--emit", args.emit.name(), "--storage", args.storage.name()])
            .args(args.modes.arguments())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| Failure::environment(format!("the child could not be started: {error}")))?;
        let stdout = child.stdout.take().expect("standard output is piped");
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, lines, checkpoints: checkpoints.join(JOB_NAME), older, told: Told::default() })
    }

    /// Waits until the child ends, or kills it at the moment.
    pub(crate) fn watch(mut self, kill: Option<Moment>) -> Result<Watched, Failure> {
        let clock = Clock::start();
        let mut due: Option<Millis> = None;
        loop {
            match self.lines.recv_timeout(GLANCE) {
                Ok(line) => self.told.hear(&line),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.ended(),
            }
            let Some(moment) = kill else { continue };
            if due.is_none() && self.told.started && newest(&self.checkpoints, Which::Complete).is_some() {
                due = Some(clock.now().monotonic.after(Millis(millis(moment.after))));
            }
            let is_due = due.is_some_and(|due| clock.now().monotonic >= due);
            if is_due && (!moment.during_checkpoint || self.is_writing_checkpoint()) {
                return self.kill();
            }
        }
    }

    /// Whether this child has begun a checkpoint that is not complete.
    fn is_writing_checkpoint(&self) -> bool {
        let begun = newest(&self.checkpoints, Which::Any);
        begun > self.older && begun > newest(&self.checkpoints, Which::Complete)
    }

    fn kill(mut self) -> Result<Watched, Failure> {
        // On Unix this is SIGKILL: the child cannot catch it.
        self.child
            .kill()
            .map_err(|error| Failure::environment(format!("the child could not be killed: {error}")))?;
        let status = self.wait()?;
        while let Ok(line) = self.lines.recv() {
            self.told.hear(&line);
        }
        let during_checkpoint = self.is_writing_checkpoint();
        let end = if status.success() { End::Finished } else { End::Killed { during_checkpoint } };
        Ok(self.told.with(end))
    }

    fn ended(mut self) -> Result<Watched, Failure> {
        let mut stderr = String::new();
        if let Some(mut pipe) = self.child.stderr.take() {
            pipe.read_to_string(&mut stderr).map_err(|error| {
                Failure::environment(format!("the child's errors cannot be read: {error}"))
            })?;
        }
        let status = self.wait()?;
        let end = if status.success() {
            End::Finished
        } else {
            End::Failed(format!("{status}: {}", stderr.trim()))
        };
        Ok(self.told.with(end))
    }

    fn wait(&mut self) -> Result<ExitStatus, Failure> {
        self.child
            .wait()
            .map_err(|error| Failure::environment(format!("the child cannot be waited for: {error}")))
    }
}

impl Told {
    fn hear(&mut self, line: &str) {
        let Ok(event) = serde_json::from_str::<Value>(line) else { return };
        let number = |name: &str| event.get(name).and_then(Value::as_u64);
        match event.get("event").and_then(Value::as_str) {
            Some("started") => {
                self.started = true;
                self.resumed_from = number("resumed_from");
                self.resumed_at_bytes = number("position_bytes").unwrap_or(0);
                self.furthest_bytes = self.resumed_at_bytes;
            }
            Some("progress") => {
                self.furthest_bytes = self.furthest_bytes.max(number("position_bytes").unwrap_or(0));
                self.checkpoints_completed = number("checkpoints_completed").unwrap_or(0);
            }
            _ => {}
        }
    }

    fn with(self, end: End) -> Watched {
        Watched {
            resumed_from: self.resumed_from,
            resumed_at_bytes: self.resumed_at_bytes,
            furthest_bytes: self.furthest_bytes,
            checkpoints_completed: self.checkpoints_completed,
            end,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Any,
    Complete,
}

/// The highest checkpoint in a job's folder, by the names of the folders.
fn newest(folder: &Path, which: Which) -> Option<u64> {
    let entries = fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let ids = entries.filter_map(|entry| {
        let id = entry.file_name().to_str()?.strip_prefix("chk-")?.parse().ok()?;
        (which == Which::Any || entry.path().join(MANIFEST).exists()).then_some(id)
    });
    ids.max()
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
