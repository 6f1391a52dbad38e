//! Reads the files that the coordinator hands out.

use std::collections::VecDeque;

use super::Folder;
use super::encoding::{Event, push_name, take_name};
use crate::line_source::{LineOptions, LineSource};
use crate::operator::{OperatorError, Source, SourceStatus};
use crate::output::Output;

/// Reads the lines of files of a folder; one instance per subtask.
#[derive(Debug)]
pub struct FolderSource<F> {
    folder: F,
    options: LineOptions,
    /// Files that it has, the one in work first; several only after a restore.
    files: VecDeque<File>,
    is_asking: bool,
    /// It has asked and waits for the answer.
    has_asked: bool,
    is_ended: bool,
    /// Bytes of files that are done.
    bytes_read: u64,
    bytes_restored: u64,
}

#[derive(Debug)]
struct File {
    name: String,
    lines: LineSource,
}

impl<F: Folder> FolderSource<F> {
    /// A reader without files.
    pub const fn new(folder: F, options: LineOptions) -> Self {
        Self {
            folder,
            options,
            files: VecDeque::new(),
            is_asking: false,
            has_asked: false,
            is_ended: false,
            bytes_read: 0,
            bytes_restored: 0,
        }
    }

    fn open(&self, name: &str) -> Result<File, OperatorError> {
        // A file is one split.
        let options = LineOptions { split_len_min: u64::MAX, ..self.options };
        Ok(File { name: name.to_owned(), lines: LineSource::new(self.folder.open(name)?, options, 0, 1) })
    }
}

impl<F: Folder> Source for FolderSource<F> {
    type Out = [u8];

    fn restore(&mut self, splits: Vec<Vec<u8>>) -> Result<(), OperatorError> {
        for split in &splits {
            let mut rest = split.as_slice();
            let name = take_name(&mut rest)?;
            let mut file = self.open(name)?;
            file.lines.restore(vec![rest.to_vec()])?;
            self.bytes_restored += file.lines.bytes_restored();
            self.files.push_back(file);
        }
        Ok(())
    }

    fn read(&mut self, out: &mut Output<'_, [u8]>) -> Result<SourceStatus, OperatorError> {
        let Some(file) = self.files.front_mut() else {
            if self.is_ended {
                return Ok(SourceStatus::Ended);
            }
            self.is_asking |= !std::mem::replace(&mut self.has_asked, true);
            return Ok(SourceStatus::Idle);
        };
        if file.lines.read(out)? == SourceStatus::Ended {
            self.bytes_read += file.lines.bytes_read();
            self.files.pop_front();
        }
        Ok(SourceStatus::More)
    }

    fn snapshot(&mut self) -> Vec<Vec<u8>> {
        let record = |file: &mut File| {
            let mut bytes = Vec::new();
            push_name(&mut bytes, &file.name);
            bytes.extend(file.lines.snapshot().concat());
            bytes
        };
        self.files.iter_mut().map(record).collect()
    }

    fn on_event(&mut self, event: &[u8]) -> Result<(), OperatorError> {
        self.has_asked = false;
        match Event::decode(event)? {
            Event::Read(name) => {
                let file = self.open(&name)?;
                self.files.push_back(file);
            }
            Event::NoMore => self.is_ended = true,
        }
        Ok(())
    }

    fn take_request(&mut self) -> Option<Vec<u8>> {
        std::mem::take(&mut self.is_asking).then(Vec::new)
    }

    fn bytes_read(&self) -> u64 {
        self.bytes_read + self.files.front().map_or(0, |file| file.lines.bytes_read())
    }

    fn bytes_restored(&self) -> u64 {
        self.bytes_restored
    }
}
