//! What a job tells of itself, on standard error.

use std::io;

use tracing::level_filters::LevelFilter;

use crate::args::LogArg;
use crate::failure::Failure;

/// From now on everything up to this level is told.
pub(crate) fn start(level: LogArg) -> Result<(), Failure> {
    let filter = match level {
        LogArg::Off => return Ok(()),
        LogArg::Error => LevelFilter::ERROR,
        LogArg::Warn => LevelFilter::WARN,
        LogArg::Info => LevelFilter::INFO,
        LogArg::Debug => LevelFilter::DEBUG,
        LogArg::Trace => LevelFilter::TRACE,
    };
    let lines = tracing_subscriber::fmt().with_max_level(filter).with_writer(io::stderr).with_ansi(false);
    lines.try_init().map_err(|error| Failure::environment(format!("--log: {error}")))
}
