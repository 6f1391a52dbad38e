//! A source of the lines of files in a folder, files that appear while the job runs included.
//!
//! A coordinator lists the folder and hands files out, one at a time, to the subtask that asks. Which files it has handed
//! out is its state in a checkpoint, and how far a file has been read is the state of the subtask that has it: so every
//! file is read by one subtask, once, whatever dies and at whatever parallelism the job goes on.
//!
//! A file must be complete when it appears: write it elsewhere on the file system, or under a name that begins with `.` or
//! `_`, and rename it. The names of all files that were ever handed out are kept.

mod coordinator;
mod encoding;
mod folder;
mod reader;
#[cfg(test)]
mod tests;

pub use self::coordinator::FolderCoordinator;
pub use self::folder::{DiskFolder, Folder};
pub use self::reader::FolderSource;
