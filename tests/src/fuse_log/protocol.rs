//! The part of the kernel's FUSE protocol (version 7) that a file system of two files needs.

use std::mem::size_of;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The version that is spoken; the kernel keeps to the older of the two.
pub(super) const VERSION: u32 = 7;
pub(super) const MINOR_VERSION: u32 = 31;

/// Most bytes of one write.
pub(super) const WRITE_LEN_MAX: u32 = 1 << 20;
/// The buffer that the kernel wants for a request.
pub(super) const REQUEST_LEN_MAX: usize = WRITE_LEN_MAX as usize + 8192;

/// Writes of more than a page.
pub(super) const INIT_BIG_WRITES: u32 = 1 << 5;
/// `max_pages` is set.
pub(super) const INIT_MAX_PAGES: u32 = 1 << 22;
/// No page cache: each write is a request before it returns.
const OPEN_DIRECT_IO: u32 = 1;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opcode {
    Lookup,
    GetAttributes,
    Open,
    Read,
    Write,
    StatFileSystem,
    Sync,
    Init,
    Allocate,
    /// Answered with success and nothing else.
    Close,
    /// Never answered.
    Forget,
    Other,
}

impl From<u32> for Opcode {
    fn from(code: u32) -> Self {
        match code {
            1 => Self::Lookup,
            3 => Self::GetAttributes,
            14 => Self::Open,
            15 => Self::Read,
            16 => Self::Write,
            17 => Self::StatFileSystem,
            // Release, flush of a descriptor, destroy.
            18 | 25 | 38 => Self::Close,
            20 => Self::Sync,
            26 => Self::Init,
            43 => Self::Allocate,
            // Forget, interrupt, forget many.
            2 | 36 | 42 => Self::Forget,
            _ => Self::Other,
        }
    }
}

#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct RequestHeader {
    pub(super) len: u32,
    pub(super) opcode: u32,
    pub(super) unique: u64,
    pub(super) node: u64,
    uid: u32,
    gid: u32,
    pid: u32,
    extensions_len: u16,
    padding: u16,
}

/// The beginning of what a read or a write says.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Transfer {
    handle: u64,
    pub(super) offset: u64,
    pub(super) len: u32,
    transfer_flags: u32,
    lock_owner: u64,
    flags: u32,
    padding: u32,
}

#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Allocation {
    handle: u64,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) mode: u32,
    padding: u32,
}

#[derive(Clone, Copy, Debug, Immutable, IntoBytes)]
#[repr(C)]
struct ReplyHeader {
    len: u32,
    error: i32,
    unique: u64,
}

#[derive(Clone, Copy, Debug, Default, Immutable, IntoBytes)]
#[repr(C)]
pub(super) struct Initialised {
    pub(super) version: u32,
    pub(super) minor_version: u32,
    pub(super) readahead_max: u32,
    pub(super) flags: u32,
    pub(super) background_max: u16,
    pub(super) congestion_threshold: u16,
    pub(super) write_len_max: u32,
    pub(super) time_granularity_ns: u32,
    pub(super) pages_max: u16,
    pub(super) map_alignment: u16,
    pub(super) unused: [u32; 8],
}

#[derive(Clone, Copy, Debug, Default, Immutable, IntoBytes)]
#[repr(C)]
pub(super) struct Attributes {
    node: u64,
    len: u64,
    blocks: u64,
    times: [u64; 3],
    nanoseconds: [u32; 3],
    mode: u32,
    links: u32,
    uid: u32,
    gid: u32,
    device: u32,
    block_len: u32,
    flags: u32,
}

impl Attributes {
    pub(super) fn new(node: u64, mode: u32, len: u64) -> Self {
        Self { node, len, blocks: len / 512, mode, links: 1, ..Self::default() }
    }
}

/// How long the kernel may keep what it was told, in seconds: nothing changes behind its back.
const VALID_S: u64 = 3600;

#[derive(Clone, Copy, Debug, Immutable, IntoBytes)]
#[repr(C)]
pub(super) struct Found {
    node: u64,
    generation: u64,
    name_valid_s: u64,
    attributes_valid_s: u64,
    nanoseconds: [u32; 2],
    attributes: Attributes,
}

impl Found {
    pub(super) const fn new(attributes: Attributes) -> Self {
        Self {
            node: attributes.node,
            generation: 0,
            name_valid_s: VALID_S,
            attributes_valid_s: VALID_S,
            nanoseconds: [0; 2],
            attributes,
        }
    }
}

#[derive(Clone, Copy, Debug, Immutable, IntoBytes)]
#[repr(C)]
pub(super) struct AttributesReply {
    valid_s: u64,
    nanoseconds: u32,
    padding: u32,
    attributes: Attributes,
}

impl AttributesReply {
    pub(super) const fn new(attributes: Attributes) -> Self {
        Self { valid_s: VALID_S, nanoseconds: 0, padding: 0, attributes }
    }
}

#[derive(Clone, Copy, Debug, Default, Immutable, IntoBytes)]
#[repr(C)]
pub(super) struct Opened {
    handle: u64,
    flags: u32,
    padding: u32,
}

impl Opened {
    pub(super) const DIRECT: Self = Self { handle: 0, flags: OPEN_DIRECT_IO, padding: 0 };
}

#[derive(Clone, Copy, Debug, Immutable, IntoBytes)]
#[repr(C)]
pub(super) struct Written {
    pub(super) len: u32,
    pub(super) padding: u32,
}

#[derive(Clone, Copy, Debug, Default, Immutable, IntoBytes)]
#[repr(C)]
pub(super) struct FileSystemReply {
    blocks: u64,
    free: [u64; 2],
    files: [u64; 2],
    block_len: u32,
    name_len_max: u32,
    fragment_len: u32,
    unused: [u32; 7],
}

impl FileSystemReply {
    /// A full file system of so many bytes.
    pub(super) fn new(len: u64) -> Self {
        Self { blocks: len / 512, block_len: 512, fragment_len: 512, name_len_max: 8, ..Self::default() }
    }
}

/// The reply to a request, as it goes to the kernel in one write.
pub(super) fn reply(unique: u64, result: Result<&[u8], i32>) -> Vec<u8> {
    let body = result.unwrap_or_default();
    let len = u32::try_from(size_of::<ReplyHeader>() + body.len()).expect("no read is that long");
    let header = ReplyHeader { len, error: -result.err().unwrap_or(0), unique };
    [header.as_bytes(), body].concat()
}
