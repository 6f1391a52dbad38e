//! What a program finds after the power went.

use core::fmt;
use std::borrow::ToOwned;
use std::format;
use std::string::String;
use std::vec::Vec;

use slackwater_core::durable::{
    Completion, Disk, DiskError, Failure, Frozen, Names, Operation, OperationKind, Outcome, RunError, Token,
    Wait, WriteFile, run_to_end,
};

use super::disk::{SimDisk, SimOptions, Submitted};
use super::file_system::{FileSystem, Lost};

/// On which side of an operation the power went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// Just before it took effect.
    Before,
    /// In the middle: some of what it writes, or makes durable, is there.
    During,
    /// Just after it took effect, before anybody knew.
    After,
    /// After everything, with nothing left to do.
    AtTheEnd,
}

/// What is on the disk when a program starts again.
#[derive(Clone, Debug)]
pub struct Image {
    pub(super) number: u64,
    pub(super) when: When,
    pub(super) operation: u64,
    pub(super) submitted: Submitted,
    pub(super) promised: Option<u64>,
    pub(super) lost: Lost,
    pub(super) files: FileSystem,
}

/// Why an image could not be put on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// The disk said no.
    Disk(DiskError),
    /// The disk is in use, or does not go on.
    Run(RunError),
}

impl Image {
    /// Which image it is: the same program, options and number give the same image.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// On which side of the operation the power went.
    #[must_use]
    pub const fn when(&self) -> When {
        self.when
    }

    /// The operation at which the power went.
    #[must_use]
    pub const fn submitted(&self) -> &Submitted {
        &self.submitted
    }

    /// The number of that operation, from 1 in the order of submission.
    #[must_use]
    pub const fn operation(&self) -> u64 {
        self.operation
    }

    /// The highest number that had been [promised](super::Log::promise).
    #[must_use]
    pub const fn promised(&self) -> Option<u64> {
        self.promised
    }

    /// What the power cut took.
    #[must_use]
    pub const fn lost(&self) -> Lost {
        self.lost
    }

    pub(super) const fn files(&self) -> &FileSystem {
        &self.files
    }

    /// A simulated disk with this image.
    #[must_use]
    pub fn disk<F: Frozen>(&self, options: SimOptions) -> SimDisk<F> {
        SimDisk::with_files(options, self.files.clone())
    }

    /// The whole of a file.
    #[must_use]
    pub fn read_file(&self, path: &str) -> Option<Vec<u8>> {
        let (node, _) = self.files.open(path).ok()?;
        Some(self.files.bytes(node).to_vec())
    }

    /// The path of every file, in order.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.walk("", &mut |path, is_folder| {
            if !is_folder {
                paths.push(path.to_owned());
            }
        });
        paths
    }

    /// Puts the image on a disk, which must be empty and idle, and makes it durable there.
    ///
    /// # Errors
    /// What the disk said.
    pub fn load<D: Disk>(&self, disk: &mut D) -> Result<(), LoadError> {
        let mut entries = Vec::new();
        self.walk("", &mut |path, is_folder| entries.push((path.to_owned(), is_folder)));
        for (path, is_folder) in entries {
            if is_folder {
                let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
                carry_out(disk, Operation::CreateFolder { path: &path })?;
                carry_out(disk, Operation::SyncFolder { path: parent })?;
            } else {
                let bytes = self.read_file(&path).unwrap_or_default();
                let mut file = WriteFile::new(Names::Final { path: path.as_str() }, bytes);
                run_to_end(disk, &mut file).map_err(LoadError::Run)?;
                if let Some(Err(Failure::Disk { error, .. })) = file.result() {
                    return Err(LoadError::Disk(error));
                }
            }
        }
        Ok(())
    }

    /// Calls `each` for every folder and file, folders first.
    fn walk(&self, folder: &str, each: &mut dyn FnMut(&str, bool)) {
        for (name, is_folder, _) in self.files.list(folder).unwrap_or_default() {
            let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            each(&path, is_folder);
            if is_folder {
                self.walk(&path, each);
            }
        }
    }
}

fn carry_out<D: Disk>(disk: &mut D, operation: Operation<'_, D::Block, D::Frozen>) -> Result<(), LoadError> {
    let kind = operation.kind();
    let refused = |_| LoadError::Run(RunError::Busy { in_flight: 1 });
    disk.submit(Token(u64::MAX), operation).map_err(refused)?;
    let mut ended = heapless::Vec::<Completion<D::Block>, 1>::new();
    while disk.reap(Wait::ForOne, &mut ended) == 0 {
        if disk.in_flight() == 0 {
            return Err(LoadError::Run(RunError::Stalled));
        }
    }
    match ended.pop().map(|completion| completion.outcome) {
        Some(Outcome::Failed(error)) => Err(LoadError::Disk(error)),
        Some(_) => Ok(()),
        None => Err(LoadError::Disk(DiskError { operation: kind, errno: DiskError::INVALID })),
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "before",
            Self::During => "during",
            Self::After => "after",
            Self::AtTheEnd => "at the end, after",
        })
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, when, operation, submitted, .. } = self;
        let Submitted { kind, path } = submitted;
        write!(f, "image {number}, power off {when} operation {operation}, {kind:?} of \"{path}\"")
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(error) => write!(f, "the image cannot be put on the disk: {error}"),
            Self::Run(error) => write!(f, "the image cannot be put on the disk: {error}"),
        }
    }
}

impl core::error::Error for LoadError {}

/// Whether power that goes during an operation of this kind can leave something else than before it.
pub(super) const fn changes_files(kind: OperationKind) -> bool {
    match kind {
        OperationKind::CreateFolder
        | OperationKind::CreateFile
        | OperationKind::Write
        | OperationKind::SetLength
        | OperationKind::SyncFile
        | OperationKind::SyncFolder
        | OperationKind::Rename
        | OperationKind::Remove => true,
        OperationKind::OpenFile | OperationKind::Read | OperationKind::CloseFile | OperationKind::List => {
            false
        }
    }
}
