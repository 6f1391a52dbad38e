//! What the benches and the program `figures` share: key streams, a stopwatch, the state and the storage that are
//! measured.

pub mod scale;
pub mod segments;
pub mod stopwatch;
pub mod storage;
pub mod stream;
pub mod subject;

/// Why a measurement could not be taken; ends the program with its one line.
pub type Failed = Box<dyn std::error::Error + Send + Sync>;
