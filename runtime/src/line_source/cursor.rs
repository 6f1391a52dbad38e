//! Reads the lines of one split through one buffer.

use std::ops::Range;

use super::LineOptions;
use super::split::{Phase, Split};
use crate::inputs::{Digest, Input, InputError, Reader};

/// An open split. Each byte is read once into the buffer; what has to stay at a read, the window before the
/// position and a line that is not yet complete, is moved to the front.
#[derive(Debug)]
pub(super) struct Cursor {
    reader: Reader,
    input_len: u64,
    split: Split,
    options: LineOptions,
    /// The split's window, then what is pending, then room.
    buffer: Vec<u8>,
    /// What has been read and not yet passed; its start is the split's position.
    pending: Range<usize>,
    /// No line ends, and nothing can be cut, in `pending` before this index.
    searched: usize,
}

impl Cursor {
    /// Opens the input of a split.
    pub(super) fn open(input: &Input, split: Split, options: LineOptions) -> Result<Self, InputError> {
        let reader = input.open()?;
        let (from, to) = split.window();
        let buffer = reader.read_range(from, to)?;
        let (searched, pending) = (buffer.len(), buffer.len()..buffer.len());
        Ok(Self { reader, input_len: input.len(), split, options, buffer, pending, searched })
    }

    /// The split with its position after the last line given out.
    pub(super) fn split(&self) -> Split {
        self.split
    }

    /// The digest of the split's window, of the bytes as they were read.
    pub(super) fn window(&self) -> Digest {
        let (from, to) = self.split.window();
        let passed = &self.buffer[..self.pending.start];
        let len = usize::try_from(to - from).expect("a window fits");
        Digest::of(&passed[passed.len() - len..])
    }

    pub(super) fn is_done(&self) -> bool {
        self.split.is_done(self.input_len)
    }

    /// The next line that lies complete in the buffer; if none does, the split is done or needs a read.
    pub(super) fn next_line(&mut self) -> Result<Option<&[u8]>, InputError> {
        if self.split.phase == Phase::Skipping {
            self.skip();
        }
        while !self.is_done() {
            let continues = self.split.phase == Phase::InLine;
            match self.next_range()? {
                None => return Ok(None),
                // The rest of a line, or nothing but a cut: no line of its own.
                Some(line) if line.is_empty() && continues => {}
                Some(line) => return Ok(Some(&self.buffer[line])),
            }
        }
        Ok(None)
    }

    fn skip(&mut self) {
        match find(b'\n', &self.buffer[self.pending.clone()]) {
            Some(at) => self.pass(self.pending.start + at + 1, Phase::AtLine),
            None => self.pass(self.pending.end, Phase::Skipping),
        }
    }

    fn next_range(&mut self) -> Result<Option<Range<usize>>, InputError> {
        let unsearched = self.searched..self.pending.end;
        if let Some(at) = find(b'\n', &self.buffer[unsearched.clone()]) {
            let end = unsearched.start + at;
            return self.take(end, end + 1, Phase::AtLine);
        }
        if self.split.position + self.pending.len() as u64 >= self.input_len {
            let end = self.pending.end;
            return self.take(end, end, Phase::InLine);
        }
        if self.pending.len() < self.options.chunk_len {
            return Ok(None);
        }
        if let Some(at) = self.last_break(unsearched) {
            let taken = self.take(at, at + 1, Phase::InLine);
            self.searched = self.pending.end;
            return taken;
        }
        self.searched = self.pending.end;
        self.check_len(self.pending.clone())?;
        Ok(None)
    }

    /// Where a long line may be cut.
    fn last_break(&self, range: Range<usize>) -> Option<usize> {
        let is_break = self.options.cut_long_lines_at?;
        let at = self.buffer[range.clone()].iter().rposition(|&byte| is_break(byte))?;
        Some(range.start + at)
    }

    /// Gives out what is pending before `end` and goes on at `next`.
    fn take(&mut self, end: usize, next: usize, phase: Phase) -> Result<Option<Range<usize>>, InputError> {
        let line = self.pending.start..end;
        self.check_len(line.clone())?;
        self.pass(next, phase);
        Ok(Some(line))
    }

    /// Refuses a line, or a run of bytes between two breaks of one that may be cut, that is too long.
    fn check_len(&self, line: Range<usize>) -> Result<(), InputError> {
        let len_max = self.options.line_len_max;
        if line.len() as u64 <= len_max {
            return Ok(());
        }
        let is_break = self.options.cut_long_lines_at;
        let mut offset = self.split.position;
        for run in self.buffer[line].split(|&byte| is_break.is_some_and(|is_break| is_break(byte))) {
            if run.len() as u64 > len_max {
                return Err(InputError::TooLong { name: self.reader.name().to_owned(), offset, len_max });
            }
            offset += run.len() as u64 + 1;
        }
        Ok(())
    }

    fn pass(&mut self, to: usize, phase: Phase) {
        self.split.position += (to - self.pending.start) as u64;
        self.split.phase = phase;
        self.pending.start = to;
        self.searched = to;
    }

    /// Reads on by at most one chunk.
    pub(super) fn read(&mut self) -> Result<(), InputError> {
        self.make_room();
        let offset = self.split.position + self.pending.len() as u64;
        let unread = self.input_len.saturating_sub(offset);
        let len = usize::try_from(unread).unwrap_or(usize::MAX).min(self.options.chunk_len);
        let target = self.pending.end..self.pending.end + len;
        let read = self.reader.read_at(offset, &mut self.buffer[target])?;
        if read < len {
            return Err(InputError::Shrunk {
                name: self.reader.name().to_owned(),
                recorded: self.input_len,
                found: offset + read as u64,
            });
        }
        self.pending.end += read;
        Ok(())
    }

    /// Makes room for a chunk behind what is pending, and gives back the room that a long line took.
    fn make_room(&mut self) {
        let chunk_len = self.options.chunk_len;
        let (from, to) = self.split.window();
        let kept = usize::try_from(to - from).expect("a window fits");
        let shift = self.pending.start - kept;
        self.buffer.copy_within(shift..self.pending.end, 0);
        self.searched -= shift;
        self.pending = kept..self.pending.end - shift;
        let needed = self.pending.end + chunk_len;
        if self.buffer.len() < needed {
            self.buffer.resize(needed.max(2 * self.pending.end), 0);
        } else if self.buffer.len() > 4 * needed {
            self.buffer.truncate(needed);
            self.buffer.shrink_to_fit();
        }
    }
}

/// The first place of a byte. Whole blocks are compared at once, which compiles to vector instructions.
fn find(needle: u8, bytes: &[u8]) -> Option<usize> {
    const BLOCK: usize = 64;
    let holds = |block: &[u8; BLOCK]| block.iter().fold(false, |found, &byte| found | (byte == needle));
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    let whole = BLOCK * blocks.iter().position(holds).unwrap_or(blocks.len());
    let at = bytes[whole..].iter().position(|&byte| byte == needle)?;
    Some(whole + at)
}
