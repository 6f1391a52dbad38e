//! Stream jobs whose state survives a crash exactly once, inside your own program.
//!
//! A job is a graph of sources, functions, keyed processes and sinks ([`JobBuilder`]). While it runs it takes
//! checkpoints: consistent cuts through everything in motion, made durable. Started again after a crash, it
//! goes on from the newest checkpoint that verifies, and what its sinks show is what a run without a crash
//! would show. There is one process, no cluster and no network; a failure is met by starting the whole job again
//! ([`Supervisor`], in the same process), not by restarting parts of it while it runs.
//!
//! Everything that runs is an [`Actor`](actor::Actor) that never blocks: threads drive them in production
//! ([`AssembledJob::run`]), a loop of your own can ([`AssembledJob::actors`]).
//!
//! ```
//! use std::time::Duration;
//!
//! use slackwater::keyed::{Context, KeyedProcess, Setup};
//! use slackwater::mem::{Bytes, MemDisk, Plain, ValueState};
//! use slackwater::operator::{OperatorError, Source, SourceStatus};
//! use slackwater::output::Output;
//! use slackwater::time::{Millis, Now};
//! use slackwater::file_sink::{FileSink, FileSinkOptions};
//! use slackwater::{Job, JobBuilder, JobOptions};
//! # use slackwater::key_group::MaxParallelism;
//!
//! /// Emits the same words again and again; its position is how often it has.
//! struct Words(u64);
//!
//! impl Source for Words {
//!     type Out = [u8];
//!
//!     fn restore(&mut self, splits: Vec<Vec<u8>>) -> Result<(), OperatorError> {
//!         let split = splits.first().and_then(|split| split.as_slice().try_into().ok());
//!         self.0 = split.map(u64::from_le_bytes).ok_or_else(|| OperatorError::new("no position"))?;
//!         Ok(())
//!     }
//!
//!     fn read(&mut self, out: &mut Output<'_, [u8]>) -> Result<SourceStatus, OperatorError> {
//!         for word in ["ebb", "flood", "slack"] {
//!             out.emit(word.as_bytes());
//!         }
//!         self.0 += 1;
//!         Ok(if self.0 < 1000 { SourceStatus::More } else { SourceStatus::Ended })
//!     }
//!
//!     fn snapshot(&mut self) -> Vec<Vec<u8>> {
//!         vec![self.0.to_le_bytes().to_vec()]
//!     }
//! }
//!
//! /// Counts each word and emits every hundredth count.
//! #[derive(Default)]
//! struct Count(Option<ValueState<Bytes, Plain<u64>>>);
//!
//! impl KeyedProcess for Count {
//!     type Key = Bytes;
//!     type In = [u8];
//!     type Out = [u8];
//!
//!     fn open(&mut self, setup: &mut Setup<'_>) -> Result<(), OperatorError> {
//!         let max = MaxParallelism::new(setup.info.max_parallelism.into()).map_err(error)?;
//!         let count = ValueState::register(setup.heap, &setup.info.operator, "count", max);
//!         self.0 = Some(count.map_err(error)?);
//!         Ok(())
//!     }
//!
//!     fn process(
//!         &mut self,
//!         word: &[u8],
//!         _record: &[u8],
//!         context: &mut Context<'_, [u8]>,
//!     ) -> Result<(), OperatorError> {
//!         let mut count = 0;
//!         let state = self.0.expect("open comes first");
//!         let updated = state.update(context.heap_mut(), word, |before| {
//!             count = before.unwrap_or(0) + 1;
//!             count
//!         });
//!         updated.map_err(error)?;
//!         if count % 100 == 0 {
//!             context.emit(format!("{} {count}", String::from_utf8_lossy(word)).as_bytes());
//!         }
//!         Ok(())
//!     }
//! }
//!
//! fn error(error: impl std::fmt::Display) -> OperatorError {
//!     OperatorError::new(error.to_string())
//! }
//!
//! # fn main() -> Result<(), slackwater::JobError> {
//! let mut job = JobBuilder::new("tides", 128);
//! job.source("words", 1, |_| Words(0))
//!     .key_by::<Bytes, _>(|word: &[u8]| word)
//!     .process("count", 2, |_| Count::default())
//!     .sink("files", |info| FileSink::new("output", info, FileSinkOptions::default()));
//!
//! let mut options = JobOptions::new(1); // Never the same number twice: the clock's nanoseconds, say.
//! options.interval = Some(Millis(10));
//! options.memory_limit_bytes = 16 << 20;
//! let job = Job::assemble(job, MemDisk::new(), Now::default(), &options)?;
//! let report = job.run(Duration::from_millis(100), &mut || {})?;
//! assert_eq!(report.source_records, 3000);
//! assert!(report.checkpoints_completed >= 1);
//! # Ok(())
//! # }
//! ```

pub mod actor;
pub mod blocking;
mod chain;
mod channel;
pub mod channel_sink;
pub mod checkpoint;
mod coordinator;
pub mod driver;
pub mod error;
mod exchange;
pub mod file_sink;
pub mod files;
pub mod folder_source;
pub mod graph;
mod head;
pub mod hook;
pub mod inputs;
pub mod job;
pub mod keyed;
pub mod line_source;
pub mod list_state;
mod mail;
#[cfg(feature = "mutants")]
pub mod mutants;
pub mod operator;
pub mod operator_coordinator;
pub mod output;
mod panics;
mod participants;
mod paths;
pub mod pre_aggregate;
pub mod record;
pub mod recovery;
mod retention;
pub mod savepoint;
mod shared;
#[cfg(any(test, feature = "test-kit"))]
pub mod sink_kit;
pub mod statistics;
pub mod stop;
pub mod storage;
pub mod supervisor;
mod task;
pub mod telemetry;
pub mod transform;
pub mod word_count;
pub mod write_sink;
mod writer;

pub use error::JobError;
pub use graph::JobBuilder;
pub use job::{AssembledJob, Job, JobOptions, OnCancellation, Report};
pub use shared::{Observer, Progress};
pub use slackwater_core::ids::Guarantee as CheckpointingMode;
pub use slackwater_core::{ids, key_group, restart, time};
pub use slackwater_mem as mem;
pub use slackwater_mem::segment::Compression;
pub use supervisor::Supervisor;
