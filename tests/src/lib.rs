//! What tests across crates share: a disk that loses power, a driver on virtual time, and a job on both.

pub mod apart;
pub mod driver;
pub mod file_system;
pub mod fuse_log;
pub mod rng;
pub mod sim_disk;
pub mod sim_job;
