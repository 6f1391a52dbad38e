use std::collections::BTreeMap;
use std::time::Duration;

use slackwater_core::time::{Millis, Now};
use slackwater_mem::{FrozenRun, MemDisk};

use super::plain::plain_count;
use super::{Emit, Totals, WordCountOptions, for_each_word, is_space, word_count};
use crate::actor::{Actor, Parked, ParkedOn, Step};
use crate::blocking::Blocking;
use crate::error::JobError;
use crate::files::BlockingFiles;
use crate::inputs::Inputs;
use crate::job::{AssembledJob, Job, JobOptions};

type Disk = MemDisk<FrozenRun>;

fn words(text: &[u8]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    for_each_word(text, |word| words.push(word.to_vec()));
    words
}

#[test]
fn a_word_is_a_longest_run_of_anything_but_the_six_spaces() {
    let spaces: Vec<u8> = (0..=u8::MAX).filter(|&byte| is_space(byte)).collect();
    assert_eq!(spaces, b"\t\n\x0b\x0c\r ");
    assert_eq!(words(b" a\x0bb\x0c\r\nc\td  "), [b"a", b"b", b"c", b"d"]);
    assert_eq!(words(b"\0 \xff\xfe\xc2\xa0 \x85"), [&b"\0"[..], b"\xff\xfe\xc2\xa0", b"\x85"]);
    assert_eq!(words(b""), Vec::<Vec<u8>>::new());
    assert_eq!(words(b" \n "), Vec::<Vec<u8>>::new());
}

/// Words of many lengths, separated by all kinds of spaces, some many times, some once.
fn text(len: usize) -> Vec<u8> {
    let mut text = Vec::new();
    let mut state = 0x5eed_u64;
    while text.len() < len {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let draw = state >> 33;
        let rank = (draw % 40) * (draw % 53) * (draw % 7);
        text.extend_from_slice(format!("w{rank}").as_bytes());
        if draw.is_multiple_of(1000) {
            text.extend(std::iter::repeat_n(0xff, 5000));
        }
        text.push([b' ', b'\n', b' ', b'\t', b'\r', 0x0b][usize::try_from(draw % 6).unwrap()]);
    }
    text
}

struct Run {
    disk: Disk,
    inputs: Inputs,
    options: WordCountOptions,
    attempt: u64,
}

impl Run {
    fn new(text: &[u8], emit: Emit) -> Self {
        let inputs = Inputs::in_memory([("text", text)]).unwrap();
        let mut options = WordCountOptions { emit, ..WordCountOptions::new("out") };
        options.lines.chunk_len = 512;
        options.lines.split_len_min = 10_000;
        options.parts.block_len = 1000;
        options.parts.part_len_max = 20_000;
        Self { disk: Disk::new(), inputs, options, attempt: 0 }
    }

    fn assemble(&mut self) -> Result<(AssembledJob, Totals), JobError> {
        self.attempt += 1;
        let (job, totals) = word_count(self.inputs.clone(), &self.options);
        let options = JobOptions { interval: Some(Millis(20)), ..JobOptions::new(self.attempt) };
        Ok((Job::assemble(job, self.disk.clone(), Now::default(), &options)?, totals))
    }

    /// The committed lines of all parts, sorted.
    fn output(&mut self) -> Vec<(Vec<u8>, u64)> {
        let mut files = Blocking::new(&mut self.disk);
        let parts = files.list("out").unwrap().into_iter().filter(|entry| entry.name.starts_with("part-"));
        let mut lines = Vec::new();
        for part in parts.collect::<Vec<_>>() {
            let bytes = files.read(&format!("out/{}", part.name), u64::MAX).unwrap();
            let whole = bytes.strip_suffix(b"\n").expect("a part ends with a line");
            for line in whole.split(|&byte| byte == b'\n') {
                let tab = line.iter().position(|&byte| byte == b'\t').unwrap();
                let count = std::str::from_utf8(&line[tab + 1..]).unwrap().parse().unwrap();
                lines.push((line[..tab].to_vec(), count));
            }
        }
        lines.sort();
        lines
    }
}

/// Steps every actor in turn, a millisecond each round, for so many rounds or until all have finished.
fn drive(actors: &mut [Box<dyn Actor>], rounds: u64) -> bool {
    let mut finished = vec![false; actors.len()];
    for round in 1..=rounds {
        let time = Millis(round);
        let now = Now { monotonic: time, wall: time };
        for (actor, finished) in actors.iter_mut().zip(&mut finished).filter(|(_, finished)| !**finished) {
            match actor.step(now) {
                Step::Finished => *finished = true,
                Step::Parked(Parked { on: ParkedOn::Disk, .. }) => actor.wait_for_disk(),
                Step::Parked(_) | Step::Progress => {}
            }
        }
        if finished.iter().all(|finished| *finished) {
            return true;
        }
    }
    false
}

fn expected(counts: &BTreeMap<Vec<u8>, u64>, emit: Emit) -> Vec<(Vec<u8>, u64)> {
    let first = |count| if emit == Emit::Final { count } else { 1 };
    let lines = counts.iter().map(|(word, &count)| (first(count)..=count).map(|n| (word.clone(), n)));
    lines.flatten().collect()
}

#[test]
fn the_output_is_that_of_a_plain_count_however_often_the_job_dies() {
    let text = text(80_000);
    let counts = plain_count(&text);
    let sum: u64 = counts.values().sum();
    for (emit, pre_aggregate) in [(Emit::Final, 0), (Emit::Final, 8), (Emit::Final, 8192), (Emit::Updates, 8)]
    {
        for lifetime in [45, 120, u64::MAX] {
            let mut run = Run::new(&text, emit);
            run.options.pre_aggregate = pre_aggregate;
            let mut resumes = 0;
            loop {
                assert!(run.attempt < 500, "the job gets on");
                let (mut job, totals) = match run.assemble() {
                    Ok(assembled) => assembled,
                    // It died between its last checkpoint and the commit, which this start has made up for.
                    Err(JobError::AlreadyFinished { .. }) => break,
                    Err(error) => panic!("{error}"),
                };
                resumes += u32::from(job.resumed_from.is_some());
                if drive(&mut job.take_actors(), lifetime.saturating_add(run.attempt)) {
                    job.report().unwrap();
                    assert_eq!((totals.words(), totals.distinct()), (sum, counts.len() as u64));
                    break;
                }
            }
            assert_eq!(run.output(), expected(&counts, emit), "{emit:?}, {lifetime} rounds at a time");
            assert!(resumes > 0 || lifetime > 45, "{emit:?}, {lifetime} rounds at a time");
            let again = run.assemble().map(|_| ()).unwrap_err();
            assert!(matches!(again, JobError::AlreadyFinished { .. }), "{again}");
        }
    }
}

#[test]
fn another_parallelism_goes_on_where_the_first_one_stood() {
    let text = text(150_000);
    let mut run = Run::new(&text, Emit::Updates);
    for (parallelism, rounds) in [(2, 40), (3, 40), (1, 40), (4, u64::MAX)] {
        run.options.parallelism = parallelism;
        let (mut job, _) = run.assemble().unwrap();
        drive(&mut job.take_actors(), rounds);
    }
    assert_eq!(run.output(), expected(&plain_count(&text), Emit::Updates));
}

#[test]
fn a_job_goes_on_with_another_bundle_than_it_began_with() {
    let text = text(80_000);
    let mut run = Run::new(&text, Emit::Final);
    for (pre_aggregate, rounds) in [(8, 40), (0, 40), (8192, 40), (0, u64::MAX)] {
        run.options.pre_aggregate = pre_aggregate;
        let (mut job, _) = run.assemble().unwrap();
        drive(&mut job.take_actors(), rounds);
    }
    assert_eq!(run.output(), expected(&plain_count(&text), Emit::Final));
}

#[test]
fn words_that_are_counted_early_are_fewer_records() {
    let text = text(80_000);
    let records = [0, 8192].map(|pre_aggregate| {
        let mut run = Run::new(&text, Emit::Final);
        run.options.pre_aggregate = pre_aggregate;
        let (mut job, _) = run.assemble().unwrap();
        assert!(drive(&mut job.take_actors(), u64::MAX));
        job.report().unwrap().records
    });
    assert_eq!(records[0], plain_count(&text).values().sum::<u64>());
    assert!(records[1] < records[0] * 2 / 3, "{records:?}");
}

#[test]
fn threads_count_the_same() {
    let text = text(400_000);
    let counts = plain_count(&text);
    for emit in [Emit::Final, Emit::Updates] {
        let mut run = Run::new(&text, emit);
        let (job, totals) = run.assemble().unwrap();
        let report = job.run(Duration::from_millis(5), &mut || ()).unwrap();
        assert_eq!(report.bytes_read, text.len() as u64);
        assert_eq!(run.output(), expected(&counts, emit));
        assert_eq!(totals.words(), counts.values().sum::<u64>());
    }
}

#[test]
fn an_empty_input_gives_an_empty_output() {
    let mut run = Run::new(b"", Emit::Final);
    let (mut job, totals) = run.assemble().unwrap();
    assert!(drive(&mut job.take_actors(), 10_000));
    job.report().unwrap();
    assert_eq!((run.output(), totals.words(), totals.distinct()), (vec![], 0, 0));
}

#[test]
fn an_input_that_changed_since_the_checkpoint_is_refused() {
    let text = text(80_000);
    let mut run = Run::new(&text, Emit::Final);
    let (mut job, _) = run.assemble().unwrap();
    assert!(!drive(&mut job.take_actors(), 60));
    run.inputs = Inputs::in_memory([("text", &text[..1000])]).unwrap();
    let error = run.assemble().map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("input `text` has shrunk from"), "{error}");
}

#[test]
fn a_finished_job_does_not_pass_for_one_over_other_inputs() {
    let text = text(10_000);
    let mut run = Run::new(&text, Emit::Final);
    let (mut job, _) = run.assemble().unwrap();
    assert!(drive(&mut job.take_actors(), 10_000));
    run.inputs = Inputs::in_memory([("other", &text[1..])]).unwrap();
    let error = run.assemble().map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("input `other` has shrunk from"), "{error}");
}

#[test]
fn a_job_is_not_taken_up_with_another_kind_of_output() {
    let mut run = Run::new(&text(80_000), Emit::Updates);
    let (mut job, _) = run.assemble().unwrap();
    assert!(!drive(&mut job.take_actors(), 60));
    run.options.emit = Emit::Final;
    let error = run.assemble().map(|_| ()).unwrap_err();
    assert!(matches!(error, JobError::NonRestoredState { .. }), "{error}");
}
