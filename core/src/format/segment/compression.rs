/// Frames as they are.
pub const COMPRESSION_NONE: u8 = 0;
/// Chunks of frames, each an LZ4 block.
pub const COMPRESSION_LZ4: u8 = 1;
/// Chunks of frames, each a Zstandard frame.
pub const COMPRESSION_ZSTD: u8 = 2;

/// How the frames of a segment are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// As they are.
    #[default]
    None,
    /// In chunks, each an LZ4 block.
    Lz4,
    /// In chunks, each a Zstandard frame.
    Zstd,
}

impl Compression {
    /// All of them, by number.
    pub const ALL: [Self; 3] = [Self::None, Self::Lz4, Self::Zstd];

    /// The number in the header.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::None => COMPRESSION_NONE,
            Self::Lz4 => COMPRESSION_LZ4,
            Self::Zstd => COMPRESSION_ZSTD,
        }
    }

    /// The one with this number.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            COMPRESSION_NONE => Some(Self::None),
            COMPRESSION_LZ4 => Some(Self::Lz4),
            COMPRESSION_ZSTD => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Its name, which is also that of the crates' feature that brings it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

impl core::fmt::Display for Compression {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}
