//! Files for sinks: requests to the writer that never wait, and blocking access before the job starts.

use std::collections::VecDeque;

use slackwater_core::durable::DiskError;

/// A sink's way to the writer: every call is a request that is carried out later, in order for each ticket.
///
/// Paths are the disk's: relative to its root, or absolute. A request that fails ends the job.
#[derive(Debug, Default)]
pub struct Files {
    requests: VecDeque<(FileTicket, FileRequest)>,
    next: u64,
    unwritten: usize,
}

/// Names a request, or a file that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileTicket(pub u64);

/// What a sink asks of the writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileRequest {
    /// Make a new file with room for `len_max` bytes; the ticket names it from now on.
    Create {
        /// Where.
        path: String,
        /// The most bytes it will have.
        len_max: u64,
    },
    /// Append to the ticket's file.
    Append {
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The ticket's file is complete: cut to its length, synced, closed, its folder synced.
    Seal,
    /// Give a file a new name that must not exist yet, then sync the folder of the new name.
    Publish {
        /// The old name.
        from: String,
        /// The new name, in the same folder.
        to: String,
    },
    /// Remove a file, then sync its folder.
    Remove {
        /// Where.
        path: String,
    },
}

/// What the writer answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileEvent {
    /// The file is complete and durable under its name.
    Sealed(FileTicket),
    /// The file has its new name, durably.
    Published(FileTicket),
    /// The file is gone.
    Removed(FileTicket),
}

impl Files {
    /// Bytes that may be appended and not yet written before a sink has to wait.
    pub const UNWRITTEN_MAX: usize = 4 << 20;

    /// Makes a new file with room for `len_max` bytes; more must not be appended.
    pub fn create(&mut self, path: impl Into<String>, len_max: u64) -> FileTicket {
        let ticket = self.ticket();
        self.requests.push_back((ticket, FileRequest::Create { path: path.into(), len_max }));
        ticket
    }

    /// Appends to a file. Best in pieces of 64 KiB or more: each is one message.
    pub fn append(&mut self, file: FileTicket, bytes: Vec<u8>) {
        self.unwritten += bytes.len();
        self.requests.push_back((file, FileRequest::Append { bytes }));
    }

    /// Ends a file: answered by [`FileEvent::Sealed`] when it is durable, name included.
    pub fn seal(&mut self, file: FileTicket) {
        self.requests.push_back((file, FileRequest::Seal));
    }

    /// Renames within a folder, durably; the new name must be free. Answered by [`FileEvent::Published`].
    pub fn publish(&mut self, from: impl Into<String>, to: impl Into<String>) -> FileTicket {
        let ticket = self.ticket();
        self.requests.push_back((ticket, FileRequest::Publish { from: from.into(), to: to.into() }));
        ticket
    }

    /// Removes a file, durably. Answered by [`FileEvent::Removed`].
    pub fn remove(&mut self, path: impl Into<String>) -> FileTicket {
        let ticket = self.ticket();
        self.requests.push_back((ticket, FileRequest::Remove { path: path.into() }));
        ticket
    }

    /// Bytes appended and not yet handed to the disk.
    #[must_use]
    pub const fn unwritten(&self) -> usize {
        self.unwritten
    }

    /// The oldest request that was not taken yet; for whoever carries them out, tests included.
    pub fn take_request(&mut self) -> Option<(FileTicket, FileRequest)> {
        self.requests.pop_front()
    }

    /// Notes that so many appended bytes have been handed to the disk.
    pub const fn written(&mut self, bytes: usize) {
        self.unwritten = self.unwritten.saturating_sub(bytes);
    }

    const fn ticket(&mut self) -> FileTicket {
        self.next += 1;
        FileTicket(self.next)
    }
}

/// Blocking access to the disk before the job takes records. Every call is done, not durable, when it
/// returns; [`BlockingFiles::sync_folder`] makes names durable.
pub trait BlockingFiles {
    /// The entries of a folder by name; empty if there is no such folder.
    ///
    /// # Errors
    /// What the disk said.
    fn list(&mut self, folder: &str) -> Result<Vec<FileEntry>, DiskError>;

    /// Whether two files hold the same bytes.
    ///
    /// # Errors
    /// What the disk said.
    fn is_same(&mut self, one: &str, other: &str) -> Result<bool, DiskError>;

    /// Makes a folder; its parent must exist. Already there is fine.
    ///
    /// # Errors
    /// What the disk said.
    fn create_folder(&mut self, folder: &str) -> Result<(), DiskError>;

    /// Gives a file another name that must not exist yet.
    ///
    /// # Errors
    /// What the disk said.
    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError>;

    /// Removes a file or an empty folder.
    ///
    /// # Errors
    /// What the disk said.
    fn remove(&mut self, path: &str) -> Result<(), DiskError>;

    /// Makes the names in a folder durable.
    ///
    /// # Errors
    /// What the disk said.
    fn sync_folder(&mut self, folder: &str) -> Result<(), DiskError>;
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileEntry {
    /// Its name, without the folder.
    pub name: String,
    /// Whether it is a folder.
    pub is_folder: bool,
    /// Bytes of a file.
    pub len: u64,
}
