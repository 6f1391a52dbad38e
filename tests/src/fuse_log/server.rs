//! Answers the kernel's requests.

use std::fs::File;
use std::io::{self, Read, Write};

use rustix::io::Errno;
use zerocopy::{FromBytes, IntoBytes};

use super::log::{Entry, LogWriter};
use super::protocol::{
    Allocation, Attributes, AttributesReply, FileSystemReply, Found, INIT_BIG_WRITES, INIT_MAX_PAGES,
    Initialised, MINOR_VERSION, Opcode, Opened, REQUEST_LEN_MAX, RequestHeader, Transfer, VERSION,
    WRITE_LEN_MAX, Written, reply,
};

const ROOT: u64 = 1;
const IMAGE: u64 = 2;
const MARKS: u64 = 3;

const FOLDER_MODE: u32 = 0o040_700;
const FILE_MODE: u32 = 0o100_600;

/// Ways of `fallocate` after which the range reads as zeros.
const ALLOCATE_PUNCH_HOLE: u32 = 2;
const ALLOCATE_ZERO_RANGE: u32 = 16;

/// The image in memory, and the log of what happened to it.
pub(super) struct Server<W: Write> {
    image: Vec<u8>,
    log: LogWriter<W>,
}

type Answer = Result<Vec<u8>, Errno>;

impl<W: Write> Server<W> {
    /// Serves an image whose bytes, if any, are logged first, and flushed.
    pub(super) fn new(image: Vec<u8>, log: W) -> io::Result<Self> {
        let mut log = LogWriter::new(log, image.len() as u64)?;
        for (offset, bytes) in (0..).step_by(BASE_STEP).zip(image.chunks(BASE_STEP)) {
            if bytes != &ZEROS[..bytes.len()] {
                log.add(&Entry::Write { offset, bytes: bytes.to_vec() })?;
            }
        }
        log.add(&Entry::Flush)?;
        Ok(Self { image, log })
    }

    /// Answers until the file system is unmounted.
    pub(super) fn serve(mut self, mut device: File) -> io::Result<()> {
        let mut request = vec![0; REQUEST_LEN_MAX];
        loop {
            let len = match device.read(&mut request) {
                Ok(len) => len,
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::NODEV) => return Ok(()),
                    Some(Errno::NOENT | Errno::INTR | Errno::AGAIN) => continue,
                    _ => return Err(error),
                },
            };
            let Some(reply) = self.answer(&request[..len]) else { continue };
            match device.write_all(&reply) {
                // Whoever asked has been killed.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => {}
                written => written?,
            }
        }
    }

    fn answer(&mut self, request: &[u8]) -> Option<Vec<u8>> {
        let (header, body) = RequestHeader::read_from_prefix(request).ok()?;
        let answer = match Opcode::from(header.opcode) {
            Opcode::Init => Ok(initialise()),
            Opcode::Lookup => self.look_up(body),
            Opcode::GetAttributes => {
                self.attributes(header.node).map(|about| bytes(AttributesReply::new(about)))
            }
            Opcode::Open => Ok(bytes(Opened::DIRECT)),
            Opcode::Read => self.read(header.node, body),
            Opcode::Write => self.write(header.node, body),
            Opcode::Sync => self.log(&Entry::Flush).map(|()| Vec::new()),
            Opcode::Allocate => self.allocate(header.node, body),
            Opcode::StatFileSystem => Ok(bytes(FileSystemReply::new(self.image.len() as u64))),
            Opcode::Close => Ok(Vec::new()),
            Opcode::Forget => return None,
            Opcode::Other => Err(Errno::NOSYS),
        };
        let answer = answer.as_ref().map(Vec::as_slice);
        Some(reply(header.unique, answer.map_err(|errno| errno.raw_os_error())))
    }

    fn look_up(&self, name: &[u8]) -> Answer {
        let node = match name.split_last() {
            Some((0, b"image")) => IMAGE,
            Some((0, b"marks")) => MARKS,
            _ => return Err(Errno::NOENT),
        };
        self.attributes(node).map(|about| bytes(Found::new(about)))
    }

    fn attributes(&self, node: u64) -> Result<Attributes, Errno> {
        let len = if node == IMAGE { self.image.len() as u64 } else { 0 };
        let mode = match node {
            ROOT => FOLDER_MODE,
            IMAGE | MARKS => FILE_MODE,
            _ => return Err(Errno::NOENT),
        };
        Ok(Attributes::new(node, mode, len))
    }

    fn read(&self, node: u64, body: &[u8]) -> Answer {
        let (transfer, _) = Transfer::read_from_prefix(body).map_err(|_| Errno::INVAL)?;
        let image: &[u8] = if node == IMAGE { &self.image } else { &[] };
        let start = usize::try_from(transfer.offset).map_or(image.len(), |start| start.min(image.len()));
        let len = (transfer.len as usize).min(image.len() - start);
        Ok(image[start..start + len].to_vec())
    }

    fn write(&mut self, node: u64, body: &[u8]) -> Answer {
        let (transfer, written) = Transfer::read_from_prefix(body).map_err(|_| Errno::INVAL)?;
        let written = written.get(..transfer.len as usize).ok_or(Errno::INVAL)?;
        if node == MARKS {
            let mark = written.first_chunk().ok_or(Errno::INVAL)?;
            self.log(&Entry::Mark(u64::from_le_bytes(*mark)))?;
        } else {
            self.range(transfer.offset, u64::from(transfer.len))?.copy_from_slice(written);
            self.log(&Entry::Write { offset: transfer.offset, bytes: written.to_vec() })?;
        }
        Ok(bytes(Written { len: transfer.len, padding: 0 }))
    }

    fn allocate(&mut self, node: u64, body: &[u8]) -> Answer {
        let (Allocation { offset, len, mode, .. }, _) =
            Allocation::read_from_prefix(body).map_err(|_| Errno::INVAL)?;
        let makes_zeros = mode & (ALLOCATE_PUNCH_HOLE | ALLOCATE_ZERO_RANGE) != 0;
        if node != IMAGE || !makes_zeros {
            return Err(Errno::OPNOTSUPP);
        }
        self.range(offset, len)?.fill(0);
        self.log(&Entry::Zeros { offset, len }).map(|()| Vec::new())
    }

    fn range(&mut self, offset: u64, len: u64) -> Result<&mut [u8], Errno> {
        let start = usize::try_from(offset).map_err(|_| Errno::FBIG)?;
        let end = usize::try_from(offset.saturating_add(len)).map_err(|_| Errno::FBIG)?;
        self.image.get_mut(start..end).ok_or(Errno::FBIG)
    }

    fn log(&mut self, entry: &Entry) -> Result<(), Errno> {
        self.log.add(entry).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

/// Bytes that one entry of the image's first state has.
const BASE_STEP: usize = 4096;
static ZEROS: [u8; BASE_STEP] = [0; BASE_STEP];

fn initialise() -> Vec<u8> {
    bytes(Initialised {
        version: VERSION,
        minor_version: MINOR_VERSION,
        flags: INIT_BIG_WRITES | INIT_MAX_PAGES,
        background_max: 16,
        congestion_threshold: 12,
        write_len_max: WRITE_LEN_MAX,
        time_granularity_ns: 1,
        pages_max: u16::try_from(WRITE_LEN_MAX / 4096).unwrap_or(u16::MAX),
        ..Initialised::default()
    })
}

fn bytes<T: IntoBytes + zerocopy::Immutable>(value: T) -> Vec<u8> {
    value.as_bytes().to_vec()
}
