//! What the frames of a chunk are put through, and back.

use core::fmt;
#[cfg(feature = "lz4")]
use std::boxed::Box;
use std::vec;
use std::vec::Vec;

use slackwater_core::format::FormatError;
use slackwater_core::format::segment::{Chunk, Chunks, Compression, KeyGroupRow, SegmentHeader};

use super::error::RestoreCause;

/// A compression that this build does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported(pub Compression);

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "compression {0} is not built in: build with the feature `{0}`", self.0)
    }
}

impl core::error::Error for Unsupported {}

/// Whether segments of this compression can be written and read.
///
/// # Errors
/// The feature of its name is not enabled.
pub const fn check_compression(compression: Compression) -> Result<(), Unsupported> {
    let is_built_in = match compression {
        Compression::None => true,
        Compression::Lz4 => cfg!(feature = "lz4"),
        Compression::Zstd => cfg!(feature = "zstd"),
    };
    if is_built_in { Ok(()) } else { Err(Unsupported(compression)) }
}

/// Fast rather than small: a checkpoint that is late costs more than a larger one.
#[cfg(feature = "zstd")]
const ZSTD_LEVEL: i32 = 1;

/// Compresses chunk after chunk.
pub(super) enum Compressor {
    /// Stores frames as they are.
    Plain,
    #[cfg(feature = "lz4")]
    Lz4(Box<lz4_flex::block::CompressTable>),
    #[cfg(feature = "zstd")]
    Zstd(zstd::bulk::Compressor<'static>),
}

impl Compressor {
    /// For this compression; what is not built in stores frames as they are.
    pub(super) fn new(compression: Compression) -> Self {
        match compression {
            Compression::None => Self::Plain,
            Compression::Lz4 => Self::lz4(),
            Compression::Zstd => Self::zstd(),
        }
    }

    #[cfg(feature = "lz4")]
    fn lz4() -> Self {
        Self::Lz4(Box::new(lz4_flex::block::CompressTable::large()))
    }

    #[cfg(not(feature = "lz4"))]
    const fn lz4() -> Self {
        Self::Plain
    }

    #[cfg(feature = "zstd")]
    fn zstd() -> Self {
        zstd::bulk::Compressor::new(ZSTD_LEVEL).map_or(Self::Plain, Self::Zstd)
    }

    #[cfg(not(feature = "zstd"))]
    const fn zstd() -> Self {
        Self::Plain
    }

    /// The room that bytes take while they are compressed: never less than they have themselves.
    pub(super) fn len_max(&self, raw_len: usize) -> usize {
        let len = match self {
            Self::Plain => raw_len,
            #[cfg(feature = "lz4")]
            Self::Lz4(_) => lz4_flex::block::get_maximum_output_size(raw_len),
            #[cfg(feature = "zstd")]
            Self::Zstd(_) => zstd::zstd_safe::compress_bound(raw_len),
        };
        len.max(raw_len)
    }

    /// The bytes that stand for `raw` in a chunk: `raw` itself where nothing is gained. They lie at the start of `room`,
    /// which is as long as [`len_max`](Self::len_max) says.
    pub(super) fn compress<'r>(&mut self, raw: &[u8], room: &'r mut [u8]) -> &'r [u8] {
        let len = self.compress_to(raw, room).filter(|len| *len < raw.len());
        let len = len.unwrap_or_else(|| {
            room.iter_mut().zip(raw).for_each(|(to, from)| *to = *from);
            raw.len()
        });
        room.get(..len).unwrap_or_default()
    }

    #[cfg_attr(
        not(any(feature = "lz4", feature = "zstd")),
        expect(unused_variables, reason = "none is built in")
    )]
    fn compress_to(&mut self, raw: &[u8], room: &mut [u8]) -> Option<usize> {
        match self {
            Self::Plain => None,
            #[cfg(feature = "lz4")]
            Self::Lz4(table) => lz4_flex::block::compress_into_with_table(raw, room, table).ok(),
            #[cfg(feature = "zstd")]
            Self::Zstd(compressor) => compressor.compress_to_buffer(raw, room).ok(),
        }
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Compressor")
    }
}

/// Decompresses chunk after chunk.
pub(super) enum Decompressor {
    /// For segments whose chunks are all stored as they are.
    Plain,
    #[cfg(feature = "lz4")]
    Lz4,
    #[cfg(feature = "zstd")]
    Zstd(zstd::bulk::Decompressor<'static>),
}

impl Decompressor {
    pub(super) fn new(compression: Compression) -> Result<Self, Unsupported> {
        check_compression(compression)?;
        match compression {
            Compression::None => Ok(Self::Plain),
            Compression::Lz4 => Ok(Self::lz4()),
            Compression::Zstd => Self::zstd().ok_or(Unsupported(compression)),
        }
    }

    #[cfg(feature = "lz4")]
    const fn lz4() -> Self {
        Self::Lz4
    }

    #[cfg(not(feature = "lz4"))]
    const fn lz4() -> Self {
        Self::Plain
    }

    #[cfg(feature = "zstd")]
    fn zstd() -> Option<Self> {
        zstd::bulk::Decompressor::new().map(Self::Zstd).ok()
    }

    #[cfg(not(feature = "zstd"))]
    const fn zstd() -> Option<Self> {
        None
    }

    /// Puts the frames of a chunk into `frames`, which are as long as it says.
    fn decompress(&mut self, chunk: &Chunk<'_>, frames: &mut [u8]) -> Result<(), FormatError> {
        if chunk.is_plain() {
            // As long as the frames: that is what plain means.
            frames.iter_mut().zip(chunk.stored).for_each(|(to, from)| *to = *from);
            return Ok(());
        }
        let len = match self {
            Self::Plain => None,
            #[cfg(feature = "lz4")]
            Self::Lz4 => lz4_flex::block::decompress_into(chunk.stored, frames).ok(),
            #[cfg(feature = "zstd")]
            Self::Zstd(decompressor) => {
                let is_one_frame =
                    zstd::zstd_safe::find_frame_compressed_size(chunk.stored) == Ok(chunk.stored.len());
                is_one_frame.then(|| decompressor.decompress_to_buffer(chunk.stored, frames).ok()).flatten()
            }
        };
        if len == Some(frames.len()) {
            return Ok(());
        }
        Err(FormatError::Corrupt {
            what: "bytes that a chunk decompresses to",
            offset: chunk.offset,
            expected: frames.len() as u64,
            found: len.unwrap_or(0) as u64,
        })
    }

    /// Gives the frames of each chunk of a key group, of which `data` is what is stored, with the number of the
    /// first of them.
    pub(super) fn each_chunk(
        &mut self,
        data: &[u8],
        header: &SegmentHeader,
        row: &KeyGroupRow,
        buf: &mut Vec<u8>,
        each: &mut TakeFrames<'_>,
    ) -> Result<(), RestoreCause> {
        let mut first = u64::from(row.first_frame.get());
        for chunk in Chunks::new(data, header, row) {
            let chunk = chunk?;
            buf.resize(chunk.raw_len, 0);
            self.decompress(&chunk, buf)?;
            each(first, buf)?;
            first += chunk.raw_len as u64 / header.frame_size();
        }
        Ok(())
    }

    /// Puts all frames of a key group into `frames`, chunk after chunk: none has room made for it before the one
    /// before it was sound.
    pub(super) fn append_frames(
        &mut self,
        data: &[u8],
        header: &SegmentHeader,
        row: &KeyGroupRow,
        frames: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        for chunk in Chunks::new(data, header, row) {
            let chunk = chunk?;
            let from = frames.len();
            frames.resize(from + chunk.raw_len, 0);
            self.decompress(&chunk, frames.get_mut(from..).unwrap_or_default())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Decompressor")
    }
}

/// Takes whole frames, of which the first has this number.
pub(super) type TakeFrames<'t> = dyn FnMut(u64, &[u8]) -> Result<(), RestoreCause> + 't;

/// The frames of a key group of the compressed segment `header`, of which `data` is what is stored: for tools that
/// read segments by themselves. Memory: 64 KiB at a time for each chunk, which has 13 bytes at least, and is given
/// back as soon as one of them is not sound.
///
/// # Errors
/// The data is damaged, or the compression is not built in.
pub fn decompress_key_group(
    header: &SegmentHeader,
    row: &KeyGroupRow,
    data: &[u8],
) -> Result<Vec<u8>, RestoreCause> {
    let mut frames = vec![];
    Decompressor::new(header.compression)?.append_frames(data, header, row, &mut frames)?;
    Ok(frames)
}
