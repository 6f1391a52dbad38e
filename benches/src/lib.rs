//! What the benches and the program `figures` share: the state and the storage that are measured, what they are
//! compared with, key streams and statistics.

pub mod copies;
pub mod delays;
pub mod freezing;
pub mod hash_map;
pub mod histogram;
pub mod lz4;
pub mod mappings;
pub mod maps;
pub mod paired;
pub mod raw_disk;
pub mod resident;
pub mod scale;
pub mod segments;
pub mod stopwatch;
pub mod storage;
pub mod stream;
pub mod subject;
pub mod timers;

/// Why a measurement could not be taken; ends the program with its one line.
pub type Failed = Box<dyn std::error::Error + Send + Sync>;
