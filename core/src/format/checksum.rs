//! The checksum of every block: CRC-32 (IEEE 802.3), over what the block is and then over its bytes.

#[cfg(feature = "std")]
use crc32fast::Hasher;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use super::layout::layout;

#[cfg(any(test, not(feature = "std")))]
mod small_table;
#[cfg(not(feature = "std"))]
use small_table::Hasher;

layout! {
    /// What a block is. Hashed before the block's bytes, never stored: a block read from the wrong place has
    /// the wrong checksum even when its bytes are sound.
    pub struct Identity {
        /// One of the `PART_` constants.
        pub part: u8,
        /// 0.
        pub reserved: u8,
        /// The state, or the edge of a batch; 0 where the block is of neither.
        pub state_id: U16,
        /// The key group, or the sender of a batch; 0 where the block is of neither.
        pub key_group: U16,
        /// 0.
        pub reserved2: U16,
        /// The page, or the number of the chunk or batch; 0 where the block is none of them.
        pub lpn: U32,
        /// 0.
        pub reserved3: U32,
        /// The epoch of the segment; the checkpoint of a manifest or of records in flight.
        pub epoch: U64,
        /// The file id of the segment or of records in flight; the job id of a manifest.
        pub file_id: [u8; 16],
    }
}

/// The segment's header.
pub const PART_HEADER: u8 = 1;
/// A frame.
pub const PART_FRAME: u8 = 2;
/// The index of a key group.
pub const PART_INDEX: u8 = 3;
/// The segment's footer.
pub const PART_FOOTER: u8 = 4;
/// The segment's trailer.
pub const PART_TRAILER: u8 = 5;
/// A manifest.
pub const PART_MANIFEST: u8 = 6;
/// A chunk of compressed frames.
pub const PART_CHUNK: u8 = 7;
/// Captured records in flight.
pub const PART_IN_FLIGHT: u8 = 8;
/// A batch of them.
pub const PART_BATCH: u8 = 9;

impl Identity {
    /// A part of the file `file_id` as of `epoch`.
    #[must_use]
    pub const fn new(part: u8, file_id: u128, epoch: u64) -> Self {
        Self {
            part,
            reserved: 0,
            state_id: U16::new(0),
            key_group: U16::new(0),
            reserved2: U16::new(0),
            lpn: U32::new(0),
            reserved3: U32::new(0),
            epoch: U64::new(epoch),
            file_id: file_id.to_le_bytes(),
        }
    }

    /// The same for a part that belongs to a key group.
    #[must_use]
    pub const fn of_key_group(mut self, key_group: u16) -> Self {
        self.key_group = U16::new(key_group);
        self
    }

    /// The same for a page of a state.
    #[must_use]
    pub const fn of_page(mut self, state_id: u16, lpn: u32) -> Self {
        self.state_id = U16::new(state_id);
        self.lpn = U32::new(lpn);
        self
    }

    /// The checksum of `bytes`.
    #[must_use]
    pub fn checksum(&self, bytes: &[u8]) -> u32 {
        let mut checksum = Checksum::new(self);
        checksum.update(bytes);
        checksum.get()
    }
}

/// A checksum over bytes that come in pieces.
#[derive(Clone, Debug)]
pub struct Checksum(Hasher);

impl Checksum {
    /// Of a block that is `identity`, before its first byte.
    #[must_use]
    pub fn new(identity: &Identity) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(identity.as_bytes());
        Self(hasher)
    }

    /// Takes more bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum so far.
    #[must_use]
    pub fn get(&self) -> u32 {
        self.0.clone().finalize()
    }
}
