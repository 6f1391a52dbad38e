//! Jobs whose output goes to the program, or to lines.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel as gate};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::{Disk, END, Numbers, drive, options};
use crate::actor::lock;
use crate::channel_sink::{ChannelOutput, channel};
use crate::error::{JobError, Remedy};
use crate::graph::{JobBuilder, Stream};
use crate::job::{AssembledJob, Job, JobOptions};
use crate::operator::{Guarantee, OperatorError, Sink, Source, SourceStatus, SubtaskInfo};
use crate::output::Output;
use crate::write_sink::LineOutput;
use slackwater_core::time::{Millis, Now};

/// Numbers as text, spread over two sinks.
fn job<S: Sink<In = [u8]>>(make: impl FnMut(&SubtaskInfo) -> S + Send + 'static) -> JobBuilder {
    let mut job = JobBuilder::new("text", 128);
    let source = job.source("source", 2, |info| Numbers {
        next: info.index.into(),
        end: END,
        step: info.parallelism.into(),
    });
    spread(source).sink("out", make);
    job
}

fn spread(numbers: Stream<'_, u64>) -> Stream<'_, [u8]> {
    numbers
        .flat_map("text", |number: &u64, out: &mut Output<'_, [u8]>| out.emit(number.to_string().as_bytes()))
        .rebalance("spread", 2)
}

fn assemble(disk: &Disk, builder: JobBuilder, attempt: u64) -> Result<AssembledJob, JobError> {
    Job::assemble(builder, disk.clone(), Now::default(), &options(attempt))
}

fn to_channel(output: &ChannelOutput) -> JobBuilder {
    let output = output.clone();
    job(move |info| output.sink(info))
}

fn number(text: &[u8]) -> u64 {
    std::str::from_utf8(text).unwrap().parse().unwrap()
}

fn assert_exact(mut numbers: Vec<u64>) {
    numbers.sort_unstable();
    assert_eq!(numbers.len() as u64, END);
    assert!(numbers.into_iter().eq(0..END));
}

#[test]
fn a_consumer_that_outlives_the_job_gets_every_record_once_however_often_that_is_dropped() {
    for cut in [7, 23, 41, 44, 100] {
        let disk = Disk::new();
        let (output, records) = channel(2);
        let mut taken = Vec::new();
        for attempt in 1.. {
            let mut job = match assemble(&disk, to_channel(&output), attempt) {
                Err(JobError::AlreadyFinished { .. }) => break,
                job => job.unwrap(),
            };
            let mut left = cut + attempt * 5;
            drive(&mut job.take_actors(), || {
                // One in each round: it is behind now and then.
                let transaction = records.try_next();
                taken.extend(transaction.iter().flat_map(|some| some.records().map(number)));
                left -= 1;
                left == 0
            });
        }
        drop(output);
        taken.extend(
            std::iter::from_fn(|| records.next())
                .flat_map(|some| some.records().map(number).collect::<Vec<_>>()),
        );
        assert_exact(taken);
    }
}

#[test]
fn a_consumer_in_a_thread_of_its_own_gets_all_and_then_the_end() {
    let (output, records) = channel(1);
    let builder = to_channel(&output);
    drop(output);
    let consumer = thread::spawn(move || {
        let transactions = std::iter::from_fn(|| records.next());
        transactions.flat_map(|some| some.records().map(number).collect::<Vec<_>>()).collect::<Vec<_>>()
    });
    let report = assemble(&Disk::new(), builder, 1).unwrap().run(Duration::from_secs(5), &mut || {}).unwrap();
    assert_eq!(report.sinks, [("out".to_owned(), Guarantee::ExactlyOnce)]);
    assert_exact(consumer.join().unwrap());
}

/// Counts until it is told to end.
struct UntilTold {
    next: u64,
    told: Arc<AtomicBool>,
}

impl Source for UntilTold {
    type Out = u64;

    fn restore(&mut self, _splits: Vec<Vec<u8>>) -> Result<(), OperatorError> {
        Err(OperatorError::new("it starts once"))
    }

    fn read(&mut self, out: &mut Output<'_, u64>) -> Result<SourceStatus, OperatorError> {
        if self.told.load(Ordering::Relaxed) {
            return Ok(SourceStatus::Ended);
        }
        out.emit(&self.next);
        self.next += 1;
        Ok(SourceStatus::More)
    }

    fn snapshot(&mut self) -> Vec<Vec<u8>> {
        Vec::new()
    }
}

#[test]
fn a_consumer_that_is_far_behind_costs_checkpoints_and_neither_records_nor_the_job() {
    let ((output, records), told) = (channel(1), Arc::new(AtomicBool::new(false)));
    let mut builder = JobBuilder::new("text", 128);
    let source_is_told = Arc::clone(&told);
    spread(builder.source("source", 1, move |_| UntilTold { next: 0, told: Arc::clone(&source_is_told) }))
        .sink("out", move |info| output.sink(info));
    // Barriers overtake what waits for the sink, so checkpoints go on without it.
    let tolerant = JobOptions { unaligned: true, tolerable_failed_checkpoints: 1_000, ..options(1) };
    let mut job = Job::assemble(builder, Disk::new(), Now::default(), &tolerant).unwrap();
    let (mut actors, observer) = (job.take_actors(), job.observer());
    let mut taken = Vec::new();
    drive(&mut actors, || {
        if observer.progress().checkpoints_failed >= 3 {
            told.store(true, Ordering::Relaxed);
            let transactions = std::iter::from_fn(|| records.try_next());
            taken.extend(transactions.flat_map(|some| some.records().map(number).collect::<Vec<_>>()));
        }
        false
    });
    let report = job.report().unwrap();
    assert!(report.notes.iter().any(|note| note.contains("the consumer of out is behind")), "{report:?}");
    taken.extend(records.try_next().iter().flat_map(|some| some.records().map(number)));
    assert_eq!(taken.len() as u64, report.source_records);
    taken.sort_unstable();
    assert!(taken.into_iter().eq(0..report.source_records));
}

#[test]
fn a_job_without_a_consumer_ends_and_says_so_and_no_restart_is_tried() {
    let (output, records) = channel(1);
    drop(records);
    let job = assemble(&Disk::new(), to_channel(&output), 1).unwrap();
    let failure = job.run(Duration::from_secs(5), &mut || {}).unwrap_err();
    assert!(failure.to_string().contains("the consumer of out is gone"), "{failure}");
    assert_eq!(failure.remedy(), Remedy::Person);
}

/// An output that stands still until the gate opens.
struct Blocked {
    gate: Option<Receiver<()>>,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Write for Blocked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.gate.take().into_iter().for_each(|gate| gate.recv().unwrap());
        lock(&self.shown).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_output_that_stands_still_blocks_no_step_and_no_line_is_lost() {
    let (opener, gate) = gate();
    let shown = Arc::default();
    let blocked = Blocked { gate: Some(gate), shown: Arc::clone(&shown) };
    let output = LineOutput::new("the output", blocked).unwrap();
    let patient = JobOptions { timeout: Millis(u64::MAX), ..options(1) };
    let builder = job(move |_| output.sink());
    let mut job = Job::assemble(builder, Disk::new(), Now::default(), &patient).unwrap();
    let (mut actors, observer) = (job.take_actors(), job.observer());
    let mut rounds = 0;
    drive(&mut actors, || {
        rounds += 1;
        if rounds == 500 {
            assert_eq!(lock(&shown).len(), 0, "steps went on although nothing was written");
            assert_eq!(observer.progress().checkpoints_completed, 0, "what is not written is not complete");
            opener.send(()).unwrap();
        }
        thread::yield_now();
        false
    });
    let report = job.report().unwrap();
    assert_eq!(report.sinks, [("out".to_owned(), Guarantee::AtLeastOnce)]);
    assert_exact(
        lock(&shown).split_inclusive(|byte| *byte == b'\n').map(|line| number(line.trim_ascii())).collect(),
    );
}

/// An output that was closed.
struct Closed;

impl Write for Closed {
    fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_output_that_fails_ends_the_job_and_is_named() {
    let output = LineOutput::new("the output", Closed).unwrap();
    let job = assemble(&Disk::new(), job(move |_| output.sink()), 1).unwrap();
    let failure = job.run(Duration::from_secs(5), &mut || {}).unwrap_err().to_string();
    assert!(failure.contains("the output cannot be written to: broken pipe"), "{failure}");
}
