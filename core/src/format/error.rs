use core::fmt;

/// Why bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// The bytes are damaged, cut short, or not of this kind.
    Corrupt {
        /// Which field or rule.
        what: &'static str,
        /// Where, in bytes from the start of what was decoded.
        offset: u64,
        /// What should be there (for a bound: the nearest value allowed).
        expected: u64,
        /// What is there.
        found: u64,
    },
    /// The bytes may be fine, but this build cannot read them.
    Unsupported {
        /// Which feature of the format.
        what: &'static str,
        /// Its number.
        value: u64,
    },
}

impl FormatError {
    /// The same error, for bytes that lie `base` bytes into something larger.
    #[must_use]
    pub const fn within(self, base: u64) -> Self {
        match self {
            Self::Corrupt { what, offset, expected, found } => {
                Self::Corrupt { what, offset: offset.saturating_add(base), expected, found }
            }
            Self::Unsupported { .. } => self,
        }
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt { what, offset, expected, found } => {
                write!(f, "damaged at byte {offset}: {what} is {found:#x}, expected {expected:#x}")
            }
            Self::Unsupported { what, value } => {
                write!(f, "{what} {value} is not supported: read it with a newer version")
            }
        }
    }
}

impl core::error::Error for FormatError {}

/// Fails with [`FormatError::Corrupt`] unless `found` is `expected`.
pub(crate) const fn expect_eq(
    what: &'static str,
    offset: usize,
    expected: u64,
    found: u64,
) -> Result<(), FormatError> {
    if expected == found { Ok(()) } else { Err(corrupt(what, offset, expected, found)) }
}

/// Fails with [`FormatError::Corrupt`] unless `found` lies in `min..=max`.
pub(crate) const fn expect_within(
    what: &'static str,
    offset: usize,
    (min, max): (u64, u64),
    found: u64,
) -> Result<(), FormatError> {
    if found < min {
        return Err(corrupt(what, offset, min, found));
    }
    if found > max {
        return Err(corrupt(what, offset, max, found));
    }
    Ok(())
}

/// Fails with [`FormatError::Corrupt`] unless every byte is zero; `offset` is that of the first.
pub(crate) fn expect_zero(what: &'static str, offset: usize, bytes: &[u8]) -> Result<(), FormatError> {
    match bytes.iter().zip(offset..).find(|(byte, _)| **byte != 0) {
        Some((byte, at)) => Err(corrupt(what, at, 0, u64::from(*byte))),
        None => Ok(()),
    }
}

pub(crate) const fn corrupt(what: &'static str, offset: usize, expected: u64, found: u64) -> FormatError {
    FormatError::Corrupt { what, offset: offset as u64, expected, found }
}

/// Fails with [`FormatError::Corrupt`] unless the eight bytes are these.
pub(crate) const fn expect_magic(
    what: &'static str,
    offset: usize,
    expected: [u8; 8],
    found: [u8; 8],
) -> Result<(), FormatError> {
    expect_eq(what, offset, u64::from_le_bytes(expected), u64::from_le_bytes(found))
}
