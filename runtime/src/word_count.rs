//! The word count: lines of files, split into words, counted by word, written as `word<TAB>count`.
//!
//! A word is a longest run of bytes other than the six of [`is_space`]; any file has words, whatever it holds.

mod count;
mod counted;
pub mod plain;
#[cfg(test)]
mod tests;
mod totals;

use slackwater_core::format::page::KEY_LEN_MAX;
use slackwater_core::time::Millis;
use slackwater_mem::Bytes;

use self::count::Count;
use self::counted::CountEarly;
pub use self::totals::Totals;
use crate::file_sink::{FileSink, FileSinkOptions};
use crate::folder_source::{Folder, FolderCoordinator, FolderSource};
use crate::graph::{JobBuilder, Stream};
use crate::inputs::Inputs;
use crate::line_source::{LineOptions, LineSource};
use crate::output::Output;
use crate::pre_aggregate::PreAggregateOptions;

/// When a word's count is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Emit {
    /// Once, when the input ends.
    #[default]
    Final,
    /// At each change: a word that occurs n times has the lines 1 to n, each once.
    Updates,
}

/// How words are counted.
#[derive(Clone, Debug)]
pub struct WordCountOptions {
    /// Subtasks of the source, and of the counting.
    pub parallelism: u16,
    /// Key groups of the job: the most subtasks it can ever have.
    pub max_parallelism: u32,
    /// The folder of the output, a path of the job's disk.
    pub output: String,
    /// When counts are written.
    pub emit: Emit,
    /// Words that are counted before they travel, in each subtask that reads; 0 for none. Not where every change of a count
    /// is written.
    pub pre_aggregate: usize,
    /// How lines are read. What it says on long lines is overruled: they are cut between words.
    pub lines: LineOptions,
    /// How parts are written.
    pub parts: FileSinkOptions,
}

/// Words that are counted before they travel, unless somebody says otherwise.
pub const PRE_AGGREGATE: usize = 32_768;

impl WordCountOptions {
    /// Two subtasks, 128 key groups, final counts into `output`.
    #[must_use]
    pub fn new(output: impl Into<String>) -> Self {
        Self {
            parallelism: 2,
            max_parallelism: 128,
            output: output.into(),
            emit: Emit::Final,
            pre_aggregate: PRE_AGGREGATE,
            lines: LineOptions::default(),
            parts: FileSinkOptions::default(),
        }
    }
}

/// Whether a byte separates words: space, `\t`, `\n`, `\v`, `\f`, `\r`.
#[inline]
#[must_use]
pub const fn is_space(byte: u8) -> bool {
    // The five controls lie next to each other.
    byte == b' ' || byte.wrapping_sub(b'\t') < 5
}

/// Calls `each` for every word of a text, in order.
#[inline]
pub fn for_each_word(text: &[u8], each: impl FnMut(&[u8])) {
    text.split(|&byte| is_space(byte)).filter(|word| !word.is_empty()).for_each(each);
}

/// The word count as a job, and where its totals can be read while it runs and afterwards.
#[must_use]
pub fn word_count(inputs: Inputs, options: &WordCountOptions) -> (JobBuilder, Totals) {
    let mut job = JobBuilder::new(JOB_NAME, options.max_parallelism);
    let lines = line_options(options);
    let source = job.source("lines", options.parallelism, move |info| {
        LineSource::new(inputs.clone(), lines, info.index, info.parallelism)
    });
    let totals = count_words(source, options);
    (job, totals)
}

/// The same of all files of a folder, which is listed again every `period`: those that come later are counted as they come,
/// and the job ends when somebody stops it. See [`folder_source`](crate::folder_source) for when a file may appear.
#[must_use]
pub fn word_count_of_folder<F: Folder>(
    folder: F,
    period: Millis,
    options: &WordCountOptions,
) -> (JobBuilder, Totals) {
    let mut job = JobBuilder::new(JOB_NAME, options.max_parallelism);
    let lines = line_options(options);
    let coordinator = FolderCoordinator::new(folder.clone(), Some(period));
    let source = job.coordinated_source("folder", options.parallelism, coordinator, move |_| {
        FolderSource::new(folder.clone(), lines)
    });
    let totals = count_words(source, options);
    (job, totals)
}

/// Every word count has this name, and with it a folder for its checkpoints.
const JOB_NAME: &str = "wordcount";

/// A word is a key; longer ones than a key may be are refused where they are read, with their place.
fn line_options(options: &WordCountOptions) -> LineOptions {
    LineOptions { cut_long_lines_at: Some(is_space), line_len_max: KEY_LEN_MAX as u64, ..options.lines }
}

/// Counts the words of lines.
fn count_words(lines: Stream<'_, [u8]>, options: &WordCountOptions) -> Totals {
    let WordCountOptions { parallelism, emit, parts, .. } = *options;
    let output = options.output.clone();
    // The state of one sink is not the other's: a job cannot be taken up with the other kind of output.
    let sink = match emit {
        Emit::Final => "output",
        Emit::Updates => "updates",
    };
    let totals = Totals::new(parallelism);
    let slots = totals.clone();
    let words = lines.flat_map("words", |line: &[u8], out: &mut Output<'_, [u8]>| {
        for_each_word(line, |word| out.emit(word));
    });
    pre_aggregate(words, options)
        .key_by::<Bytes, _>(counted::word)
        .process("counts", parallelism, move |info| Count::new(emit, slots.slot(info.index)))
        .sink(sink, move |info| FileSink::new(output.clone(), info, parts));
    totals
}

/// Counts words before they travel, if that is wanted and nobody wants to see each of them.
fn pre_aggregate<'j>(words: Stream<'j, [u8]>, options: &WordCountOptions) -> Stream<'j, [u8]> {
    match (options.emit, options.pre_aggregate) {
        (Emit::Updates, _) | (Emit::Final, 0) => words,
        (Emit::Final, keys) => {
            let options = PreAggregateOptions { keys, ..PreAggregateOptions::default() };
            words.pre_aggregate("early counts", CountEarly::default(), options)
        }
    }
}
