//! What the benches and the program `figures` share: key streams, a stopwatch, the sizes of inputs.

pub mod scale;
pub mod stopwatch;
pub mod stream;
