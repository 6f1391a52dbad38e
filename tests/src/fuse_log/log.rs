//! What happened to an image, in order, and the images that a loss of power can leave of it.

use std::fs;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use super::image::Image;
use crate::rng::Rng;

/// What a device writes as a whole or not at all.
const SECTOR_LEN: usize = 512;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Bytes were written.
    Write {
        /// Where.
        offset: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// A range was made zeros.
    Zeros {
        /// Where.
        offset: u64,
        /// How many bytes.
        len: u64,
    },
    /// All that was written before is durable.
    Flush,
    /// Whoever uses the image says something.
    Mark(u64),
}

impl Entry {
    /// Whether it changed the image.
    #[must_use]
    pub const fn is_write(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Zeros { .. })
    }
}

/// Writes a log as it happens.
pub(super) struct LogWriter<W>(W);

impl<W: Write> LogWriter<W> {
    pub(super) fn new(mut to: W, image_len: u64) -> io::Result<Self> {
        to.write_all(&image_len.to_le_bytes())?;
        Ok(Self(to))
    }

    pub(super) fn add(&mut self, entry: &Entry) -> io::Result<()> {
        let (kind, offset, len, bytes): (u8, u64, u64, &[u8]) = match entry {
            Entry::Write { offset, bytes } => (1, *offset, bytes.len() as u64, bytes),
            Entry::Zeros { offset, len } => (2, *offset, *len, &[]),
            Entry::Flush => (3, 0, 0, &[]),
            Entry::Mark(mark) => (4, *mark, 0, &[]),
        };
        let head = [&[kind][..], &offset.to_le_bytes(), &len.to_le_bytes()].concat();
        self.0.write_all(&[&head, bytes].concat())
    }
}

/// All that happened to an image. It begins with the image's first state and a flush.
#[derive(Clone, Debug)]
pub struct Log {
    image_len: u64,
    entries: Vec<Entry>,
    /// The places of flushes among the entries.
    flushes: Vec<usize>,
    /// Bytes that are never torn.
    whole: Range<u64>,
}

/// A loss of power: after which flush, and a number that says how much later and what of the unflushed
/// writes survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The last flush, from 0.
    pub flush: usize,
    /// 0: just before the next flush, all that was not flushed is lost. Others are seeds: any moment in between, and
    /// of the writes some, or some of their sectors. That nothing is lost shows after the next flush.
    pub sample: u64,
}

impl Log {
    /// A log of these entries.
    #[must_use]
    pub fn new(image_len: u64, entries: Vec<Entry>) -> Self {
        let places = entries.iter().enumerate().filter(|(_, entry)| **entry == Entry::Flush);
        let flushes = places.map(|(place, _)| place).collect();
        Self { image_len, entries, flushes, whole: 0..0 }
    }

    /// Takes writes that touch these bytes for atomic.
    #[must_use]
    pub fn never_torn(self, whole: Range<u64>) -> Self {
        Self { whole, ..self }
    }

    /// Reads what a server wrote.
    ///
    /// # Errors
    /// The file cannot be read or ends within an entry.
    pub fn read(path: &Path) -> io::Result<Self> {
        let bytes = fs::read(path)?;
        decode(&bytes).ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "the log is cut off"))
    }

    /// How many flushes there were.
    #[must_use]
    pub const fn flushes(&self) -> usize {
        self.flushes.len()
    }

    /// What happened after this flush and before the next.
    #[must_use]
    pub fn after(&self, flush: usize) -> &[Entry] {
        let start = self.flushes.get(flush).map_or(self.entries.len(), |place| place + 1);
        let end = self.flushes.get(flush + 1).copied().unwrap_or(self.entries.len());
        &self.entries[start..end]
    }

    /// What a loss of power leaves, and the marks that were made before it.
    #[must_use]
    pub fn cut(&self, cut: Cut) -> (Image, Vec<u64>) {
        let mut rng = Rng::new(((cut.flush as u64) << 32) | cut.sample);
        let after = self.after(cut.flush);
        let seen = if cut.sample == 0 { after.len() } else { rng.index(after.len() + 1) };
        let flushed = &self.entries[..self.flushes.get(cut.flush).map_or(0, |place| place + 1)];
        let mut image = Image::new(self.image_len);
        flushed.iter().for_each(|entry| image.apply(entry));
        if cut.sample > 0 {
            self.lose(&mut image, &after[..seen], &mut rng);
        }
        let before = flushed.iter().chain(&after[..seen]);
        let marks = before.filter_map(|entry| if let Entry::Mark(mark) = entry { Some(*mark) } else { None });
        (image, marks.collect())
    }

    /// Applies what survives of unflushed writes.
    fn lose(&self, image: &mut Image, unflushed: &[Entry], rng: &mut Rng) {
        let way = rng.below(3);
        for (place, entry) in unflushed.iter().enumerate() {
            let is_last = place + 1 == unflushed.len();
            match way {
                // All in order, the last one torn.
                0 if !is_last => image.apply(entry),
                // Some writes, whole.
                1 if rng.chance(50) => image.apply(entry),
                1 => {}
                // Some sectors.
                _ => self.tear(image, entry, rng),
            }
        }
    }

    fn tear(&self, image: &mut Image, entry: &Entry, rng: &mut Rng) {
        let Entry::Write { offset, bytes } = entry else { return image.apply(entry) };
        let mut survives = rng.chance(50);
        for (offset, bytes) in (*offset..).step_by(SECTOR_LEN).zip(bytes.chunks(SECTOR_LEN)) {
            // A write of bytes that are never torn shares the fate of what precedes it.
            if !self.whole.contains(&offset) {
                survives = rng.chance(50);
            }
            if survives {
                image.write(offset, bytes);
            }
        }
    }
}

fn decode(mut bytes: &[u8]) -> Option<Log> {
    let image_len = number(&mut bytes)?;
    let mut entries = Vec::new();
    while let Some((kind, rest)) = bytes.split_first() {
        bytes = rest;
        let (offset, len) = (number(&mut bytes)?, number(&mut bytes)?);
        entries.push(match kind {
            1 => {
                let (written, rest) = bytes.split_at_checked(usize::try_from(len).ok()?)?;
                bytes = rest;
                Entry::Write { offset, bytes: written.to_vec() }
            }
            2 => Entry::Zeros { offset, len },
            3 => Entry::Flush,
            4 => Entry::Mark(offset),
            _ => return None,
        });
    }
    Some(Log::new(image_len, entries))
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::{Cut, Entry, Log, LogWriter, decode};

    fn write(offset: u64, byte: u8) -> Entry {
        Entry::Write { offset, bytes: vec![byte; 1024] }
    }

    fn log() -> Log {
        let entries =
            vec![write(0, 1), Entry::Flush, write(0, 2), Entry::Mark(7), write(4096, 3), Entry::Flush];
        Log::new(8192, entries)
    }

    fn bytes(cut: Cut) -> (Vec<u8>, Vec<u64>) {
        let (image, marks) = log().cut(cut);
        (image.to_bytes(), marks)
    }

    #[test]
    fn what_was_flushed_survives_and_the_rest_may() {
        let (lost, marks) = bytes(Cut { flush: 0, sample: 0 });
        assert_eq!((&lost[..1024], lost[4096], marks), (&[1; 1024][..], 0, vec![7]));
        let (kept, _) = bytes(Cut { flush: 1, sample: 0 });
        assert_eq!((&kept[..1024], &kept[4096..5120]), (&[2; 1024][..], &[3; 1024][..]));
    }

    #[test]
    fn samples_are_repeatable_and_tear_at_sectors() {
        let samples = || (1..200).map(|sample| bytes(Cut { flush: 0, sample }));
        assert!(samples().eq(samples()));
        assert!(samples().any(|(image, _)| image[0] != image[512]), "a write is torn");
        assert!(samples().any(|(image, _)| image[0] == 1 && image[4096] == 3), "writes are reordered");
        assert!(samples().any(|(_, marks)| marks.is_empty()), "earlier moments are tried");
        assert!(samples().all(|(image, _)| image[..512].iter().all(|byte| *byte == image[0])));
    }

    #[test]
    fn a_log_is_read_as_it_was_written() {
        let mut file = Vec::new();
        let mut writer = LogWriter::new(&mut file, 8192).unwrap();
        let entries = [log().entries, vec![Entry::Zeros { offset: 512, len: 99 }]].concat();
        entries.iter().for_each(|entry| writer.add(entry).unwrap());
        assert_eq!(decode(&file).unwrap().entries, entries);
        assert!(decode(&file[..file.len() - 1]).is_none());
    }
}
