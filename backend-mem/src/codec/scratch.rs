//! Where encodings are put together.

use super::varint::Varint;

/// Bytes that lie on the stack.
const SHORT_LEN_MAX: usize = 256;

/// Bytes being put together: on the stack as long as they are few, then, with `std`, in memory of their own.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    short: heapless::Vec<u8, SHORT_LEN_MAX>,
    #[cfg(feature = "std")]
    long: std::vec::Vec<u8>,
}

/// There is no more room, or a length does not fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Full;

impl Full {
    /// What is said of the item.
    pub(crate) const WHAT: &'static str = "it is longer than the room there is for it";
}

impl Scratch {
    #[inline]
    pub(crate) fn new() -> Self {
        Self::default()
    }

    #[cfg(feature = "std")]
    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        if self.long.is_empty() { &self.short } else { &self.long }
    }

    #[cfg(not(feature = "std"))]
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.short
    }

    /// Adds bytes; none of them if they do not fit.
    #[cfg(feature = "std")]
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), Full> {
        if self.long.is_empty() {
            if self.short.extend_from_slice(bytes).is_ok() {
                return Ok(());
            }
            self.long.extend_from_slice(&self.short);
        }
        self.long.extend_from_slice(bytes);
        Ok(())
    }

    /// Adds bytes; none of them if they do not fit.
    #[cfg(not(feature = "std"))]
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), Full> {
        self.short.extend_from_slice(bytes).map_err(|_| Full)
    }

    /// Adds bytes behind their length.
    pub(crate) fn push_framed(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let len = Varint::new(u32::try_from(bytes.len()).map_err(|_| Full)?);
        self.push(len.as_bytes())?;
        self.push(bytes)
    }
}
