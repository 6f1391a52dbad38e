//! Stream jobs whose state survives a crash exactly once, inside your own program.

pub mod actor;
pub mod driver;
pub mod file_sink;
pub mod files;
pub mod inputs;
pub mod line_source;
pub mod operator;
pub mod output;
pub mod record;
