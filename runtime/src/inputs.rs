//! What a job reads: files on disk, or byte strings in memory, with the identity a checkpoint remembers.
//!
//! Positions and lengths are bytes. The length of an input is taken once, when the inputs are opened: a run
//! reads up to it, and what is appended later is read by the next run that resumes.

mod error;
mod identity;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::error::InputError;
pub use self::identity::{Digest, Identity};

/// The inputs of one run, in the order they were given. Clones share everything.
#[derive(Clone, Debug)]
pub struct Inputs {
    inputs: Arc<[Input]>,
}

/// One input and what identified it when the run began.
#[derive(Debug)]
pub struct Input {
    name: String,
    bytes: Bytes,
    identity: Identity,
}

enum Bytes {
    File(PathBuf),
    Memory(Arc<[u8]>),
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "File({})", path.display()),
            Self::Memory(bytes) => write!(f, "Memory({} bytes)", bytes.len()),
        }
    }
}

impl Inputs {
    /// Files on disk. Reads at most 128 KiB of each, for its identity.
    ///
    /// # Errors
    /// [`InputError::Unreadable`] for the first one that is missing, not a regular file, or cannot be read.
    pub fn files(paths: impl IntoIterator<Item = PathBuf>) -> Result<Self, InputError> {
        let open = |path: PathBuf| Input::new(path.display().to_string(), Bytes::File(path));
        let inputs: Result<Arc<[Input]>, InputError> = paths.into_iter().map(open).collect();
        Ok(Self { inputs: inputs? })
    }

    /// Byte strings under a name each, for tests and simulation.
    ///
    /// # Errors
    /// None in practice: memory can always be read.
    pub fn in_memory<N, B>(inputs: impl IntoIterator<Item = (N, B)>) -> Result<Self, InputError>
    where
        N: Into<String>,
        B: Into<Arc<[u8]>>,
    {
        let open = |(name, bytes): (N, B)| Input::new(name.into(), Bytes::Memory(bytes.into()));
        let inputs: Result<Arc<[Input]>, InputError> = inputs.into_iter().map(open).collect();
        Ok(Self { inputs: inputs? })
    }

    /// How many inputs there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.inputs.len()
    }

    /// The input with this index.
    #[must_use]
    pub fn input(&self, index: usize) -> Option<&Input> {
        self.inputs.get(index)
    }

    /// All inputs in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Input> {
        self.inputs.iter()
    }

    /// Bytes of all inputs together.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.iter().map(Input::len).sum()
    }
}

impl Input {
    fn new(name: String, bytes: Bytes) -> Result<Self, InputError> {
        let mut input = Self { name, bytes, identity: Identity::default() };
        let reader = input.open()?;
        let len = reader.current_len()?;
        input.identity = Identity::of(&reader, len)?;
        Ok(input)
    }

    /// Its name for messages: the path as it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its length in bytes when the run began.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.identity.len
    }

    /// Whether it was empty when the run began.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What identified it when the run began.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Opens it for reading.
    ///
    /// # Errors
    /// [`InputError::Unreadable`] if it cannot be opened or is not a regular file.
    pub fn open(&self) -> Result<Reader, InputError> {
        let source = match &self.bytes {
            Bytes::Memory(bytes) => Source::Memory(Arc::clone(bytes)),
            Bytes::File(path) => {
                Source::File(open(path).map_err(|error| InputError::unreadable(&self.name, &error))?)
            }
        };
        Ok(Reader { name: self.name.clone(), source })
    }

    /// Refuses the input unless it is the one a checkpoint recorded, possibly grown since.
    ///
    /// # Errors
    /// [`InputError::Shrunk`], [`InputError::Changed`], or [`InputError::Unreadable`].
    pub fn check_against(&self, recorded: Identity) -> Result<(), InputError> {
        let len = self.len();
        if len < recorded.len {
            return Err(InputError::Shrunk { name: self.name.clone(), recorded: recorded.len, found: len });
        }
        // Equal lengths: the digests taken when the run began cover the same bytes.
        let then =
            if len == recorded.len { self.identity } else { Identity::of(&self.open()?, recorded.len)? };
        let changed = |from, to| Err(InputError::Changed { name: self.name.clone(), from, to });
        if then.head != recorded.head {
            return changed(0, recorded.len.min(Digest::WINDOW));
        }
        if then.tail != recorded.tail {
            return changed(recorded.len.saturating_sub(Digest::WINDOW), recorded.len);
        }
        Ok(())
    }
}

/// An open input.
#[derive(Debug)]
pub struct Reader {
    name: String,
    source: Source,
}

enum Source {
    File(File),
    Memory(Arc<[u8]>),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File(_) => "File",
            Self::Memory(_) => "Memory",
        })
    }
}

impl Reader {
    /// Its name for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Fills `buf` from `offset`; gives fewer bytes only at the end of the input.
    ///
    /// # Errors
    /// [`InputError::Unreadable`] with what the system said.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, InputError> {
        match &self.source {
            Source::File(file) => {
                fill(file, offset, buf).map_err(|error| InputError::unreadable(&self.name, &error))
            }
            Source::Memory(bytes) => {
                let rest = usize::try_from(offset).ok().and_then(|start| bytes.get(start..)).unwrap_or(&[]);
                let len = rest.len().min(buf.len());
                buf[..len].copy_from_slice(&rest[..len]);
                Ok(len)
            }
        }
    }

    /// The bytes from `from` to `to`, which lie close together.
    ///
    /// # Errors
    /// As [`Reader::read_at`], and [`InputError::Shrunk`] if the input ends before `to`.
    pub fn read_range(&self, from: u64, to: u64) -> Result<Vec<u8>, InputError> {
        let len = usize::try_from(to.saturating_sub(from)).expect("a window fits");
        let mut bytes = vec![0; len];
        let read = self.read_at(from, &mut bytes)?;
        if read < len {
            let name = self.name.clone();
            return Err(InputError::Shrunk { name, recorded: to, found: from + read as u64 });
        }
        Ok(bytes)
    }

    /// Its length in bytes at this moment.
    fn current_len(&self) -> Result<u64, InputError> {
        match &self.source {
            Source::Memory(bytes) => Ok(bytes.len() as u64),
            Source::File(file) => match file.metadata() {
                Ok(metadata) => Ok(metadata.len()),
                Err(error) => Err(InputError::unreadable(&self.name, &error)),
            },
        }
    }
}

/// Looks before it opens: opening a pipe would wait for its writer.
fn open(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    File::open(path)
}

fn fill(file: &File, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < buf.len() {
        match file.read_at(&mut buf[len..], offset + len as u64) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}
