//! What tests across crates share: a driver on virtual time, a job on it, disks that lose power, and what must hold
//! after a crash.

pub mod aftermath;
pub mod apart;
pub mod buggy_disk;
pub mod crash;
pub mod driver;
pub mod file_system;
pub mod fuse_log;
pub mod hanging_disk;
pub mod leaving_out;
pub mod numbers;
pub mod sim_job;
pub mod supervised;

pub use slackwater_mem::sim::rng;
