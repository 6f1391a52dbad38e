//! A folder whose files are counted as they come, by a job that is killed, stopped and goes on.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};

use serde_json::Value;
use slackwater::word_count::plain::add_counts;

use crate::support::{Place, Running, assert_exact, parts, program, slackwater, text, told};

/// A folder that is watched, and what was put into it.
struct Watched {
    place: Place,
    texts: Vec<Vec<u8>>,
}

impl Watched {
    fn new() -> Self {
        let place = Place::new(b"");
        fs::create_dir(place.path("inbox")).unwrap();
        Self { place, texts: Vec::new() }
    }

    fn inbox(&self) -> PathBuf {
        self.place.path("inbox")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = program();
        command.arg("wordcount").arg("--watch").arg(self.inbox()).arg("--dir").arg(self.place.dir());
        command.args(["--interval", "20ms"]).args(args);
        command
    }

    /// Puts a file there: complete when it appears.
    fn add(&mut self, text: &[u8]) {
        let name = format!("file-{}", self.texts.len());
        let hidden = self.inbox().join(format!(".{name}"));
        fs::write(&hidden, text).unwrap();
        fs::rename(hidden, self.inbox().join(name)).unwrap();
        self.texts.push(text.to_vec());
    }

    /// Whether what is committed has as many lines as there are words in all files.
    fn is_counted(&self) -> bool {
        let mut counts = BTreeMap::new();
        self.texts.iter().for_each(|text| add_counts(&mut counts, text));
        // A part may be committed meanwhile, but none goes.
        let lines = parts(&self.place.output()).into_iter().map(|part| fs::read(part).unwrap());
        let lines: usize = lines.map(|part| part.iter().filter(|byte| **byte == b'\n').count()).sum();
        lines as u64 == counts.values().sum::<u64>()
    }

    #[track_caller]
    fn assert_exact(&self, emit: &str) {
        let texts: Vec<&[u8]> = self.texts.iter().map(Vec::as_slice).collect();
        assert_exact(&self.place.output(), &texts, emit);
    }
}

/// A job that watches, and the lines that it prints, by whose pace the test looks at its output.
struct Job {
    running: Running,
    events: Lines<BufReader<ChildStdout>>,
}

impl Job {
    fn start(watched: &Watched, args: &[&str]) -> Self {
        let mut command = watched.command(&[&["--events"], args].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let events = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { running: Running(child), events }
    }

    fn wait_until(&mut self, is_so: impl Fn() -> bool) {
        assert!(self.events.by_ref().map_while(Result::ok).any(|_| is_so()), "the job has ended");
    }

    /// Waits until so many bytes are read.
    fn wait_until_read(&mut self, bytes: u64) {
        let mut events = self.events.by_ref().map_while(Result::ok);
        let position =
            |line: String| serde_json::from_str::<Value>(&line).unwrap()["position_bytes"].as_u64();
        assert!(events.any(|line| position(line) >= Some(bytes)), "the job has ended");
    }

    /// Waits for its end, which must be a good one.
    fn end(mut self) {
        self.events.by_ref().for_each(drop);
        assert!(self.running.0.wait().unwrap().success());
    }
}

#[test]
fn files_of_a_folder_are_counted_as_they_come_whatever_happens_to_the_job() {
    let mut watched = Watched::new();
    watched.add(&text(20_000));
    let mut job = Job::start(&watched, &[]);
    job.wait_until(|| watched.is_counted());
    watched.add(&text(30_000));
    job.wait_until(|| watched.is_counted());
    // Killed while it reads the next file, it goes on in the middle of it or in front.
    watched.add(&text(2_000_000));
    job.wait_until(|| true);
    job.running.0.kill().unwrap();
    drop(job);
    watched.add(b"while nobody runs\n");
    let mut job = Job::start(&watched, &["--parallelism", "3"]);
    job.wait_until(|| watched.is_counted());
    let id = job.running.0.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success());
    job.end();
    watched.add(&text(40_000));
    let mut job = Job::start(&watched, &["--parallelism", "1"]);
    job.wait_until(|| watched.is_counted());
    slackwater(["stop".as_ref(), watched.place.dir().as_os_str(), "--drain".as_ref()]).fine();
    job.end();
    watched.assert_exact("updates");
    let report = told(watched.command(&[]).arg("--json")).fine().json();
    assert_eq!(report["already_finished"], true, "{report}");
}

#[test]
fn final_counts_of_a_watched_folder_are_written_when_the_job_is_drained() {
    let mut watched = Watched::new();
    let (dir, final_counts) = (watched.place.dir(), &["--emit", "final"]);
    for (text, how) in [(text(10_000), &[][..]), (b"one more file\n".to_vec(), &["--drain"][..])] {
        watched.add(&text);
        let mut job = Job::start(&watched, final_counts);
        job.wait_until_read(text.len() as u64);
        assert!(!watched.place.output().exists() || parts(&watched.place.output()).is_empty());
        slackwater([&["stop", dir.to_str().unwrap()], how].concat()).fine();
        job.end();
    }
    watched.assert_exact("final");
}

#[test]
fn a_folder_that_cannot_be_watched_is_named() {
    let watched = Watched::new();
    let with = |args: &[&str]| {
        let mut command = program();
        told(command.arg("wordcount").args(args).arg("--dir").arg(watched.place.dir()))
    };
    let (inbox, input) = (watched.inbox(), watched.place.input());
    let (inbox, input) = (inbox.to_str().unwrap(), input.to_str().unwrap());
    with(&["--watch", "/no/such/folder"]).refused(3, &["cannot watch /no/such/folder"]);
    with(&["--watch", input]).refused(3, &["cannot watch", "it is a file"]);
    with(&["--watch", inbox, input]).refused(2, &["--watch", "cannot be used with"]);
    with(&["--watch", inbox, "--output", inbox]).refused(2, &["must be two folders"]);
    with(&[]).refused(2, &["INPUTS"]);
}
