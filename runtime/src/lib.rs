//! Stream jobs whose state survives a crash exactly once, inside your own program.

pub mod actor;
pub mod blocking;
mod chain;
mod channel;
pub mod checkpoint;
mod coordinator;
pub mod driver;
pub mod error;
mod exchange;
pub mod file_sink;
pub mod files;
pub mod graph;
mod head;
pub mod inputs;
pub mod job;
pub mod keyed;
pub mod line_source;
mod mail;
pub mod operator;
pub mod output;
mod paths;
pub mod record;
pub mod recovery;
mod retention;
mod shared;
pub mod storage;
mod task;
pub mod word_count;
mod writer;

pub use error::JobError;
pub use graph::JobBuilder;
pub use job::{AssembledJob, Job, JobOptions, Report};
pub use shared::{Observer, Progress};
pub use slackwater_core::{ids, time};
pub use slackwater_mem as mem;
