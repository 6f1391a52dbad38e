//! Where encoders write to.

use super::checksum::{Checksum, Identity};

/// Takes encoded bytes in order.
pub trait Sink {
    /// Why it takes no more.
    type Error;

    /// Appends all of `bytes`.
    ///
    /// # Errors
    /// The sink is full or broken; what it holds then is of no use.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;
}

impl<S: Sink + ?Sized> Sink for &mut S {
    type Error = S::Error;

    fn write(&mut self, bytes: &[u8]) -> Result<(), S::Error> {
        (**self).write(bytes)
    }
}

/// The error of a fixed buffer that is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl core::fmt::Display for Full {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the buffer is full: give it more room")
    }
}

impl core::error::Error for Full {}

impl Sink for heapless::VecView<u8> {
    type Error = Full;

    fn write(&mut self, bytes: &[u8]) -> Result<(), Full> {
        self.extend_from_slice(bytes).map_err(|_| Full)
    }
}

#[cfg(any(test, feature = "alloc"))]
impl Sink for alloc::vec::Vec<u8> {
    type Error = core::convert::Infallible;

    fn write(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}

/// Counts and sums up what passes through.
#[derive(Debug)]
pub(crate) struct Summed<S> {
    sink: S,
    checksum: Checksum,
    len: u64,
}

impl<S: Sink> Summed<S> {
    pub(crate) fn new(sink: S, identity: &Identity) -> Self {
        Self { sink, checksum: Checksum::new(identity), len: 0 }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), S::Error> {
        self.checksum.update(bytes);
        self.len = self.len.saturating_add(bytes.len() as u64);
        self.sink.write(bytes)
    }

    /// Writes `count` zero bytes.
    pub(crate) fn write_zeros(&mut self, count: usize) -> Result<(), S::Error> {
        const ZEROS: &[u8] = &[0; 64];
        let mut left = count;
        while left > 0 {
            let piece = ZEROS.get(..left).unwrap_or(ZEROS);
            self.write(piece)?;
            left = left.saturating_sub(piece.len());
        }
        Ok(())
    }

    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    pub(crate) const fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Writes the checksum of all that came before, then `end`, which it does not cover. Gives the sink back, and the
    /// checksum.
    pub(crate) fn finish(mut self, end: &[u8]) -> Result<(S, u32), S::Error> {
        let checksum = self.checksum.get();
        self.sink.write(&checksum.to_le_bytes())?;
        self.sink.write(end)?;
        Ok((self.sink, checksum))
    }
}
