//! What tests across crates share: a disk that loses power, and its seeds.

pub mod driver;
pub mod rng;
pub mod sim_disk;
