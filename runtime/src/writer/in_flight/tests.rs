use slackwater_core::durable::DiskError;
use slackwater_core::key_group::MaxParallelism;
use slackwater_core::time::Now;
use slackwater_mem::MemDisk;
use slackwater_mem::in_flight::{CapturedChannel, read};
use slackwater_mem::segment::Compression;

use super::*;
use crate::actor::{Actor, Mailbox, ParkedOn, Signal, Step};
use crate::blocking::Blocking;
use crate::chain::HeldSinks;
use crate::files::BlockingFiles;
use crate::mail::WriterMail;
use crate::shared::Shared;
use crate::writer::WriterParts;

const CHECKPOINT: CheckpointId = CheckpointId(3);
const TASK: TaskIndex = TaskIndex(1);

type TestDisk = MemDisk<FrozenRun>;

/// A writer, and the boxes to it and to the second of two tasks.
struct Bench {
    disk: TestDisk,
    writer: Writer<TestDisk>,
    mail: Mailbox<WriterMail>,
    task: Mailbox<TaskMail>,
}

impl Bench {
    fn new() -> Self {
        let disk = TestDisk::new();
        let mut files = disk.clone();
        Blocking::new(&mut files).create_folder("job").unwrap();
        let task = Mailbox::new(Signal::default());
        let mail = Mailbox::new(Signal::default());
        let writer = Writer::new(WriterParts {
            disk: disk.clone(),
            folder: "job".into(),
            tasks: vec![Mailbox::new(Signal::default()), task.clone()],
            coordinator: Mailbox::new(Signal::default()),
            signal: Signal::default(),
            mail: mail.clone(),
            shared: Shared::default(),
            segments: SegmentIdentity {
                job_id: 5,
                attempt: 9,
                max_parallelism: MaxParallelism::MAX,
                compression: Compression::None,
            },
            restored: None,
            held_sinks: HeldSinks::new(),
        });
        let mut bench = Self { disk, writer, mail, task };
        bench.send(WriterMail::PrepareLocation { id: CHECKPOINT, savepoint: None });
        bench
    }

    fn send(&mut self, mail: WriterMail) {
        self.mail.send(mail);
        while self.writer.step(Now::default()) != Step::parked(ParkedOn::Mail) {}
    }

    fn persist(&mut self, captured: InFlight) -> Result<Option<StoredInFlight>, DiskError> {
        self.send(WriterMail::PersistInFlight { id: CHECKPOINT, task: TASK, captured });
        match self.task.receive() {
            Some(TaskMail::InFlightPersisted(CHECKPOINT, result)) => result,
            other => panic!("{other:?}"),
        }
    }

    fn files(&mut self) -> Vec<String> {
        let entries = Blocking::new(&mut self.disk).list("job/chk-3").unwrap();
        entries.into_iter().map(|entry| entry.name).collect()
    }
}

fn captured(len: usize) -> InFlight {
    InFlight { channels: vec![CapturedChannel { edge: 0, sender: 4, batches: vec![vec![7; len]] }] }
}

#[test]
fn s25_few_records_in_flight_become_part_of_the_manifest() {
    let mut bench = Bench::new();
    let around = captured(0).encoded_len();
    let len_max = usize::try_from(INLINE_LEN_MAX - around).unwrap();
    for len in [1, len_max] {
        let stored = bench.persist(captured(len)).unwrap().unwrap();
        assert!(matches!(stored, StoredInFlight::Inline(_)), "{len}");
        assert_eq!(read(&mut bench.disk, "_metadata", &stored), Ok(captured(len)));
    }
    assert_eq!(bench.files(), Vec::<String>::new());
    let stored = bench.persist(captured(len_max + 1)).unwrap().unwrap();
    assert!(matches!(stored, StoredInFlight::File(_)));
}

#[test]
fn more_records_in_flight_are_a_file_of_the_checkpoint() {
    let mut bench = Bench::new();
    let stored = bench.persist(captured(100_000)).unwrap().unwrap();
    let StoredInFlight::File(file) = &stored else { panic!("{stored:?}") };
    assert_eq!(file.file_name, "chk-3/1-9.inflight");
    assert_eq!(read(&mut bench.disk, "job/chk-3/1-9.inflight", &stored), Ok(captured(100_000)));
}

#[test]
fn nothing_in_flight_is_nothing_to_write() {
    let mut bench = Bench::new();
    assert_eq!(bench.persist(InFlight::default()), Ok(None));
    assert_eq!(bench.files(), Vec::<String>::new());
}

#[test]
fn records_in_flight_of_a_checkpoint_that_is_given_up_leave_no_file() {
    let mut bench = Bench::new();
    bench.mail.send(WriterMail::PersistInFlight { id: CHECKPOINT, task: TASK, captured: captured(100_000) });
    bench.send(WriterMail::Abandon { id: CHECKPOINT, task: TASK });
    let answer = bench.task.receive();
    assert!(matches!(answer, Some(TaskMail::InFlightPersisted(CHECKPOINT, Err(_)))), "{answer:?}");
    assert_eq!(bench.files(), Vec::<String>::new());
}

#[test]
fn a_disk_that_refuses_the_file_is_said_so() {
    let mut bench = Bench::new();
    bench.persist(captured(100_000)).unwrap();
    let refused = bench.persist(captured(100_000)).unwrap_err();
    assert_eq!(refused.errno, DiskError::EXISTS, "a name is never used twice");
}
