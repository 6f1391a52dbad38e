use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use slackwater_core::ids::CheckpointId;
use slackwater_core::time::{Millis, Now};
use slackwater_mem::{FrozenRun, MemDisk};

use super::encoding::Event;
use super::{DiskFolder, Folder, FolderCoordinator, FolderSource};
use crate::actor::{Actor, Step, lock};
use crate::blocking::Blocking;
use crate::error::JobError;
use crate::file_sink::{FileSink, FileSinkOptions};
use crate::files::BlockingFiles;
use crate::graph::JobBuilder;
use crate::inputs::{InputError, Inputs};
use crate::job::{AssembledJob, Job, JobOptions, Report};
use crate::line_source::LineOptions;
use crate::operator::{OperatorError, SubtaskInfo};
use crate::operator_coordinator::{OperatorCoordinator, Subtasks};
use crate::savepoint::{RestoreFrom, RestoreMode};
use crate::stop::StopMode;

/// A folder in memory; clones are the same one.
#[derive(Clone, Debug, Default)]
struct Virtual(Arc<Mutex<BTreeMap<String, Arc<[u8]>>>>);

impl Virtual {
    /// Adds a file of so many lines that name it.
    fn add(&self, file: u64, lines: u64) {
        let text: String = (0..lines).map(|line| format!("{file}.{line}\n")).collect();
        lock(&self.0).insert(format!("file-{file:03}"), text.into_bytes().into());
    }
}

impl Folder for Virtual {
    fn list(&mut self) -> Result<Vec<String>, OperatorError> {
        Ok(lock(&self.0).keys().cloned().rev().collect())
    }

    fn open(&self, name: &str) -> Result<Inputs, InputError> {
        let bytes = lock(&self.0).get(name).cloned().expect("a file that is listed");
        Inputs::in_memory([(name, bytes)])
    }
}

type Disk = MemDisk<FrozenRun>;

struct Run {
    disk: Disk,
    folder: Virtual,
    parallelism: u16,
    period: Option<Millis>,
    attempt: u64,
    restore_from: Option<RestoreFrom>,
    /// The name of the operator, which is `files` at first.
    name: &'static str,
    is_coordinated: bool,
    is_lenient: bool,
}

impl Run {
    fn new(files: u64, period: Option<Millis>) -> Self {
        let folder = Virtual::default();
        (0..files).for_each(|file| folder.add(file, 10 + file * 7));
        let (name, is_coordinated, is_lenient) = ("files", true, false);
        Self {
            disk: Disk::new(),
            folder,
            parallelism: 2,
            period,
            attempt: 0,
            restore_from: None,
            name,
            is_coordinated,
            is_lenient,
        }
    }

    fn assemble(&mut self) -> Result<AssembledJob, JobError> {
        self.attempt += 1;
        let mut job = JobBuilder::new("watch", 128);
        let (folder, lines) = (self.folder.clone(), LineOptions { chunk_len: 16, ..LineOptions::default() });
        let coordinator = FolderCoordinator::new(self.folder.clone(), self.period);
        let parts = FileSinkOptions { block_len: 64, ..FileSinkOptions::default() };
        if self.name != "files" {
            job.previously(self.name, "files");
        }
        let make = move |_: &SubtaskInfo| FolderSource::new(folder.clone(), lines);
        let stream = if self.is_coordinated {
            job.coordinated_source(self.name, self.parallelism, coordinator, make)
        } else {
            job.source(self.name, self.parallelism, make)
        };
        stream.rebalance("spread", 2).sink("output", move |info| FileSink::new("out", info, parts));
        let options = JobOptions {
            interval: Some(Millis(20)),
            restore_from: self.restore_from.clone(),
            allow_non_restored_state: self.is_lenient,
            ..JobOptions::new(self.attempt)
        };
        Job::assemble(job, self.disk.clone(), Now::default(), &options)
    }

    /// The committed lines, sorted.
    fn output(&mut self) -> Vec<String> {
        let mut files = Blocking::new(&mut self.disk);
        let parts = files.list("out").unwrap().into_iter().filter(|entry| entry.name.starts_with("part-"));
        let mut lines = Vec::new();
        for part in parts.collect::<Vec<_>>() {
            let text =
                String::from_utf8(files.read(&format!("out/{}", part.name), u64::MAX).unwrap()).unwrap();
            lines.extend(text.lines().map(str::to_owned));
        }
        lines.sort();
        lines
    }

    fn expected(&self) -> Vec<String> {
        let files = lock(&self.folder.0);
        let texts = files.values().map(|bytes| String::from_utf8(bytes.to_vec()).unwrap());
        let mut lines: Vec<String> =
            texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        lines.sort();
        lines
    }
}

/// Steps every actor in turn, a millisecond each round, for so many rounds or until all have finished.
fn drive(actors: &mut [Box<dyn Actor>], rounds: u64, mut each: impl FnMut(u64)) -> bool {
    let mut finished = vec![false; actors.len()];
    for round in 1..=rounds {
        let now = Now { monotonic: Millis(round), wall: Millis(round) };
        for (actor, finished) in actors.iter_mut().zip(&mut finished).filter(|(_, finished)| !**finished) {
            *finished = actor.step(now) == Step::Finished;
        }
        each(round);
        if finished.iter().all(|finished| *finished) {
            return true;
        }
    }
    false
}

#[test]
fn every_line_is_read_once_however_often_the_job_dies_and_at_any_parallelism() {
    for rounds in [37, 60, 110] {
        let mut run = Run::new(12, None);
        let mut resumed = 0;
        loop {
            run.parallelism = u16::try_from(1 + run.attempt % 3).unwrap();
            let mut job = match run.assemble() {
                Err(JobError::AlreadyFinished { .. }) => break,
                job => job.unwrap(),
            };
            resumed += u32::from(job.resumed_from.is_some());
            drive(&mut job.take_actors(), rounds + run.attempt * 5, |_| ());
            assert!(job.report().is_ok() && run.attempt < 100);
        }
        assert!(resumed > 0, "{rounds} rounds at a time");
        assert_eq!(run.output(), run.expected(), "{rounds} rounds at a time");
    }
}

#[test]
fn files_that_appear_while_the_job_runs_are_read_and_survive_its_death() {
    let mut run = Run::new(3, Some(Millis(30)));
    for (rounds, parallelism) in [(150, 2), (170, 3), (190, 1), (600, 2)] {
        run.parallelism = parallelism;
        let mut job = run.assemble().unwrap();
        let (folder, next) = (run.folder.clone(), 3 + run.attempt * 10);
        let ended = drive(&mut job.take_actors(), rounds, |round| {
            if round % 40 == 0 && round < 200 {
                folder.add(next + round / 40, 25);
            }
        });
        assert!(!ended && job.report().is_ok(), "it goes on for ever");
    }
    assert_eq!(run.output(), run.expected());
}

/// Starts the job and stops it after some rounds with a savepoint.
fn stop(run: &mut Run, rounds: u64, mode: StopMode) -> (CheckpointId, Report) {
    let mut job = run.assemble().unwrap();
    let (controller, mut stop) = (job.controller(), None);
    let ended = drive(&mut job.take_actors(), 1000, |round| {
        if round == rounds {
            stop = Some(controller.stop("saved", mode));
        }
    });
    assert!(ended, "it stops");
    let report = job.report().unwrap();
    assert_eq!(report.stopped_with, stop.unwrap().result().unwrap().ok());
    (report.stopped_with.unwrap(), report)
}

#[test]
fn x27_a_suspended_job_goes_on_in_every_file_where_it_was() {
    let (claim, no_claim) = (RestoreMode::Claim, RestoreMode::NoClaim);
    for (rounds, parallelism, mode) in [(1, 2, no_claim), (12, 1, claim), (25, 3, no_claim), (60, 2, claim)] {
        // It watches for ever, and is told to stop.
        let mut run = Run::new(12, Some(Millis(5)));
        let (id, report) = stop(&mut run, rounds, StopMode::Suspend);
        assert_eq!(run.output().len() as u64, report.source_records, "all that was read, after {rounds}");
        run.folder.add(20, 40);
        (run.period, run.parallelism) = (None, parallelism);
        run.restore_from = Some(RestoreFrom { folder: "saved".to_owned(), mode });
        let mut job = run.assemble().unwrap();
        assert_eq!(job.resumed_from, Some(id));
        assert!(drive(&mut job.take_actors(), 1000, |_| ()));
        let read = report.source_records + job.report().unwrap().source_records;
        assert_eq!(run.output(), run.expected(), "after {rounds}");
        assert_eq!(read, run.expected().len() as u64);
    }
}

#[test]
fn x27_a_drained_job_has_read_the_first_lines_of_its_files_and_has_finished() {
    for rounds in [1, 12, 25, 60] {
        let mut run = Run::new(12, Some(Millis(5)));
        let (id, report) = stop(&mut run, rounds, StopMode::Drain);
        let shown = run.output();
        assert_eq!(shown.len() as u64, report.source_records);
        for file in 0..12 {
            let of_file = shown.iter().filter(|line| line.starts_with(&format!("{file}.")));
            let first = (0..of_file.clone().count()).map(|line| format!("{file}.{line}"));
            let (of_file, first): (BTreeSet<_>, BTreeSet<_>) = (of_file.cloned().collect(), first.collect());
            assert_eq!(of_file, first, "after {rounds}");
        }
        run.restore_from = Some(RestoreFrom { folder: "saved".to_owned(), mode: RestoreMode::NoClaim });
        assert_eq!(run.assemble().unwrap_err(), JobError::AlreadyFinished { checkpoint: id });
        assert_eq!(run.output(), shown);
    }
}

#[test]
fn r1_what_was_handed_out_is_known_when_the_operator_has_another_name() {
    let mut run = Run::new(3, Some(Millis(30)));
    for (name, rounds) in [("files", 150), ("inbox", 300)] {
        run.name = name;
        let mut job = run.assemble().unwrap();
        assert!(!drive(&mut job.take_actors(), rounds, |_| ()));
    }
    assert_eq!(run.output(), run.expected());
}

#[test]
fn r3_the_state_of_a_coordinator_that_is_gone_is_refused_or_dropped_and_named() {
    let mut run = Run::new(3, Some(Millis(30)));
    drive(&mut run.assemble().unwrap().take_actors(), 150, |_| ());
    run.is_coordinated = false;
    let refused = run.assemble().unwrap_err();
    let owner = "the coordinator of operator files";
    assert!(matches!(&refused, JobError::NonRestoredState { owner: it, .. } if it == owner), "{refused}");
    run.is_lenient = true;
    let notes = run.assemble().unwrap().report().unwrap().notes;
    assert!(notes.iter().any(|note| note.contains(owner) && note.starts_with("dropped")), "{notes:?}");
}

#[test]
fn p27_files_that_were_handed_out_before_the_snapshot_are_in_it_and_no_others() {
    let folder = Virtual::default();
    (0..3).for_each(|file| folder.add(file, 1));
    let mut coordinator = FolderCoordinator::new(folder.clone(), Some(Millis(10)));
    let mut sent = Vec::new();
    let now = Now::default();
    coordinator.on_request(1, &[], &mut Subtasks::new(2, &mut sent)).unwrap();
    assert!(sent.is_empty(), "nothing is listed yet");
    coordinator.on_deadline(now, &mut Subtasks::new(2, &mut sent)).unwrap();
    let state = coordinator.snapshot(CheckpointId(1)).unwrap();
    coordinator.on_request(0, &[], &mut Subtasks::new(2, &mut sent)).unwrap();
    let read = |file: &str| Event::Read(file.to_owned()).encode();
    assert_eq!(sent, [(1, read("file-000")), (0, read("file-001"))]);

    let mut again = FolderCoordinator::new(folder, Some(Millis(10)));
    again.restore(state.as_deref()).unwrap();
    sent.clear();
    for subtask in [0, 0, 1, 1] {
        again.on_request(subtask, &[], &mut Subtasks::new(2, &mut sent)).unwrap();
    }
    again.on_deadline(now, &mut Subtasks::new(2, &mut sent)).unwrap();
    assert_eq!(sent, [(0, read("file-001")), (1, read("file-002"))], "each has one question");
}

#[test]
fn a_state_of_another_program_is_refused() {
    let mut coordinator = FolderCoordinator::new(Virtual::default(), None);
    for state in [&b"\x05\0\0\0abc"[..], b"\x01\0", b"\x01\0\0\0\xff"] {
        assert!(coordinator.restore(Some(state)).unwrap_err().to_string().contains("of another program"));
    }
    for event in [&b""[..], b"\x03", b"\x02a", b"\x01\xff"] {
        assert!(Event::decode(event).is_err());
    }
}

#[test]
fn a_folder_on_disk_lists_whole_files_alone() {
    let path = tempfile::tempdir().unwrap();
    for name in ["b", "a", ".hidden", "_being-written"] {
        std::fs::write(path.path().join(name), name).unwrap();
    }
    std::fs::create_dir(path.path().join("below")).unwrap();
    let mut folder = DiskFolder::new(path.path());
    let mut names = folder.list().unwrap();
    names.sort();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(folder.open("b").unwrap().total_bytes(), 1);
    let missing = DiskFolder::new(path.path().join("missing")).list().unwrap_err();
    assert!(missing.to_string().contains("cannot list"), "{missing}");
}
