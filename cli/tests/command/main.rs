//! The command as a user meets it: the built program, its exit codes, its lines and what it leaves on disk.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "the helpers of tests fail like tests, and say what is skipped"
)]

mod damaged;
mod demo;
mod details;
mod file_systems;
mod full_disk;
mod kills;
mod log;
mod memory;
mod modes;
mod refused;
mod report;
mod stop;
mod support;
mod verify;
mod watch;
mod words;
