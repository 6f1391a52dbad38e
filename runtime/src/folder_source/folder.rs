//! A folder of files that may grow in number.

use std::fs;
use std::path::PathBuf;

use crate::inputs::{InputError, Inputs};
use crate::operator::OperatorError;

/// A folder whose files are read. Clones are the same folder.
pub trait Folder: Clone + Send + 'static {
    /// The names of all files that are complete, in any order.
    ///
    /// # Errors
    /// Ends the job.
    fn list(&mut self) -> Result<Vec<String>, OperatorError>;

    /// The file of this name as the one input there is.
    ///
    /// # Errors
    /// It cannot be read.
    fn open(&self, name: &str) -> Result<Inputs, InputError>;
}

/// A folder of the file system. Its files are those in it, not in folders below, whose names are UTF-8 and do not begin with
/// `.` or `_`.
#[derive(Clone, Debug)]
pub struct DiskFolder {
    path: PathBuf,
}

impl DiskFolder {
    /// The folder of this path.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }
}

impl Folder for DiskFolder {
    fn list(&mut self) -> Result<Vec<String>, OperatorError> {
        let unreadable = |error| OperatorError::new(format!("cannot list {}: {error}", self.path.display()));
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            // What is gone by now was no complete file.
            let is_file = fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_file());
            if let Some(name) = entry.file_name().to_str().filter(|name| is_file && !is_hidden(name)) {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> Result<Inputs, InputError> {
        Inputs::files([self.path.join(name)])
    }
}

fn is_hidden(name: &str) -> bool {
    name.starts_with(['.', '_'])
}
