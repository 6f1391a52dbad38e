//! A running job is asked for savepoints, stopped over its socket and by signals, and goes on.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use serde_json::Value;

use crate::support::{Place, Told, slackwater, text, told};

/// A text that mostly outlasts what is asked of its job.
const TEXT_LEN: usize = 3 << 20;

/// A job in a process of its own, which is killed if the test fails.
struct Job {
    child: Option<Child>,
}

impl Job {
    /// Starts a job and waits until it has completed a checkpoint.
    fn start(place: &Place, args: &[&str]) -> Self {
        let mut command = place.command(&[&["--emit", "updates", "--interval", "50ms"], args].concat());
        command.arg("--events").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let has_checkpoint = |line: &str| {
            let event: Value = serde_json::from_str(line).unwrap();
            event["checkpoints_completed"].as_u64() > Some(0)
        };
        assert!(
            lines.by_ref().map_while(Result::ok).any(|line| has_checkpoint(&line)),
            "it has a checkpoint"
        );
        // Nobody reads the rest, but the pipe must not fill up.
        thread::spawn(move || lines.for_each(drop));
        Self { child: Some(child) }
    }

    fn signal(&self, name: &str) {
        let id = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    fn kill(mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Waits for its end: its code and what it said on standard error.
    fn end(mut self) -> (Option<i32>, String) {
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            child.kill().unwrap();
        }
    }
}

fn ask(place: &Place, verb: &str, args: &[&str]) -> Told {
    let dir = place.dir();
    slackwater([&[verb, dir.to_str().unwrap()], args].concat())
}

fn go_on(place: &Place, args: &[&str]) -> Value {
    let told = place.wordcount(&[&["--emit", "updates"], args].concat());
    told.fine().json()
}

/// Starts jobs over longer and longer texts until one of them outlasts what `talk` does with it.
fn while_it_runs<T>(args: &[&str], talk: impl Fn(&Place, Job) -> Option<T>) -> (Place, T) {
    let tries = (0..6).map(|doublings| Place::new(&text(TEXT_LEN << doublings)));
    let talked = tries.map(|place| {
        let told = talk(&place, Job::start(&place, args));
        (place, told)
    });
    let (place, told) = talked.into_iter().find(|(_, told)| told.is_some()).expect("a job outlasts its test");
    (place, told.unwrap())
}

/// What a command said that asks a running job; none if the job had ended by then.
fn heard(told: Told) -> Option<Told> {
    let is_late = ["no job runs", "has ended", "ended before", "ending already"];
    let is_late = is_late.iter().any(|words| told.stderr.contains(words));
    (!is_late).then_some(told)
}

#[test]
fn a_job_is_stopped_and_the_same_command_goes_on_from_the_savepoint() {
    let (place, (answer, report)) = while_it_runs(&[], |place, job| {
        let answer = heard(ask(place, "stop", &["--json"]))?.fine().json();
        // The folder is free at once.
        let report = go_on(place, &["--parallelism", "3"]);
        let (code, stderr) = job.end();
        assert_eq!(code, Some(0), "{stderr}");
        assert!(stderr.contains("stopped with savepoint"), "{stderr}");
        Some((answer, report))
    });
    let folder = answer["folder"].as_str().unwrap();
    assert!(folder.starts_with(place.dir().canonicalize().unwrap().join("wordcount").to_str().unwrap()));
    slackwater(["verify", folder]).fine();
    assert_eq!(report["resumed_from"], answer["savepoint"]);
    assert!(report["stopped_with"].is_null());
    place.assert_exact("updates");
    ask(&place, "stop", &[]).refused(1, &["no job runs on"]);
}

#[test]
fn sigterm_and_sigint_stop_a_job_with_a_savepoint() {
    for name in ["TERM", "INT"] {
        let (place, stderr) = while_it_runs(&["--on-cancel", "delete"], |_, job| {
            job.signal(name);
            let (code, stderr) = job.end();
            assert_eq!(code, Some(0), "{stderr}");
            stderr.contains("stopped with savepoint").then_some(stderr)
        });
        assert_eq!(place.checkpoints().len(), 0, "they were deleted");
        let report = go_on(&place, &["--claim"]);
        let savepoint = report["resumed_from"].as_u64().unwrap();
        assert!(stderr.contains(&format!("savepoint {savepoint} ")), "{stderr}");
        place.assert_exact("updates");
    }
}

#[test]
fn savepoints_are_taken_while_the_job_goes_on() {
    let (place, to) = while_it_runs(&[], |place, job| {
        let to = place.path("saved/here");
        let answer = heard(ask(place, "savepoint", &["--json", "--to", to.to_str().unwrap()]))?.fine().json();
        assert_eq!(answer["folder"], to.canonicalize().unwrap().to_str().unwrap());
        heard(ask(place, "savepoint", &["--to", to.to_str().unwrap()]))?.refused(1, &["not empty"]);
        let told = heard(ask(place, "savepoint", &[]))?;
        assert!(told.fine().stdout.starts_with("savepoint "), "{told:?}");
        job.kill();
        Some(to)
    });
    slackwater(["verify", to.to_str().unwrap()]).fine();
    ask(&place, "savepoint", &[]).refused(1, &["no job runs on"]);
    go_on(&place, &[]);
    place.assert_exact("updates");
}

#[test]
fn a_drained_job_has_finished() {
    let (place, ()) = while_it_runs(&[], |place, job| {
        heard(ask(place, "stop", &["--drain"]))?.fine();
        assert_eq!(job.end().0, Some(0));
        Some(())
    });
    let report = go_on(&place, &[]);
    assert_eq!(report["already_finished"], true, "{report}");
}

#[test]
fn the_socket_is_the_owners_and_lies_at_the_end_of_any_path() {
    let (place, ()) = while_it_runs(&[], |place, job| {
        let mode = |path: &Path| fs::metadata(path).map(|meta| meta.permissions().mode() & 0o777).ok();
        let (folder, socket) = (place.dir().join(".control"), place.dir().join(".control/socket"));
        let modes = (mode(&folder), mode(&socket)?);
        assert_eq!(modes, (Some(0o700), 0o600));
        // The same folder under a path that no socket could have.
        let long = place.path(&"long".repeat(40));
        std::os::unix::fs::symlink(place.dir(), &long).unwrap();
        heard(slackwater(["stop".as_ref(), long.as_os_str()]))?.fine();
        assert_eq!(job.end().0, Some(0));
        Some(())
    });
    assert!(!place.dir().join(".control/socket").exists());
}

#[test]
fn whoever_says_nothing_sensible_does_not_disturb_the_job() {
    let (place, ()) = while_it_runs(&[], |place, job| {
        let socket = place.dir().join(".control/socket");
        let silent: Result<Vec<_>, _> = (0..4).map(|_| UnixStream::connect(&socket)).collect();
        for noise in [&b"\n"[..], b"{}\n", &[0xff; 100_000]] {
            // It may hang up before all of it is said.
            drop(UnixStream::connect(&socket).ok()?.write_all(noise));
        }
        drop(silent.ok()?[0].write_all(b"{\"ask\":"));
        heard(ask(place, "savepoint", &[]))?.fine();
        heard(ask(place, "stop", &[]))?.fine();
        assert_eq!(job.end().0, Some(0));
        Some(())
    });
    go_on(&place, &[]);
    place.assert_exact("updates");
}

#[test]
fn a_second_job_on_the_same_folder_is_refused_and_leaves_the_first_reachable() {
    while_it_runs(&[], |place, job| {
        let mut second = place.command(&["--emit", "updates", "--json"]);
        let second = told(second.arg("--output").arg(place.path("other")));
        if second.code == Some(3) {
            second.refused(3, &["another process works on"]);
        }
        heard(ask(place, "stop", &[]))?.fine();
        assert_eq!((second.code, job.end().0), (Some(3), Some(0)), "{second:?}");
        Some(())
    });
}

#[test]
fn a_job_starts_anew_and_leaves_what_was_there() {
    let place = Place::new(&text(TEXT_LEN / 16));
    let first = go_on(&place, &[]);
    let again = place.wordcount(&["--emit", "updates", "--restore", "none"]);
    let report = again.fine().json();
    assert!(again.stderr.contains("before-1-wordcount"), "{again:?}");
    assert!(report["resumed_from"].is_null(), "{report}");
    assert_eq!(report["words"], first["words"]);
    assert!(place.path("dir/before-1-wordcount").is_dir());
    place.assert_exact("updates");
    place.wordcount(&["--emit", "updates", "--restore", "/no/such/folder"]).refused(3, &["/no/such/folder"]);
    place
        .wordcount(&["--emit", "updates", "--claim", "--no-claim"])
        .refused(2, &["--claim", "cannot be used with"]);
}

#[test]
fn a_folder_without_a_job_is_said_to_be_one() {
    let place = Place::new(b"a");
    slackwater(["savepoint", "/no/such/folder"]).refused(3, &["/no/such/folder", "no folder"]);
    fs::create_dir(place.dir()).unwrap();
    ask(&place, "savepoint", &[]).refused(1, &["no job runs on"]);
    ask(&place, "stop", &["--to", "here/../there"]).refused(2, &[".."]);
}
