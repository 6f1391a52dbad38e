//! Files in memory: nothing survives the process.

use core::fmt;
use std::collections::BTreeMap;
use std::format;
use std::string::{String, ToString};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

use slackwater_core::durable::{DiskError, Entry, FileId, Frozen, folder_of};

use super::{Errno, Files, ImmediateDisk};

/// Checkpoint storage in memory. Clones share the files, each has its own operations in flight and its own
/// open files: a job that is started again on a clone finds what the first one wrote.
pub type MemDisk<F> = ImmediateDisk<MemFiles, F>;

impl<F: Frozen> MemDisk<F> {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::over(MemFiles::default())
    }
}

impl<F: Frozen> Default for MemDisk<F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F: Frozen> Clone for MemDisk<F> {
    fn clone(&self) -> Self {
        let tree = Arc::clone(&self.files.tree);
        Self::over(MemFiles { tree, ..MemFiles::default() })
    }
}

type Bytes = Arc<Mutex<Vec<u8>>>;

#[derive(Clone)]
enum Node {
    Folder,
    File(Bytes),
}

/// The files of a [`MemDisk`].
#[derive(Default)]
pub struct MemFiles {
    /// By path; the root is always there and not listed.
    tree: Arc<Mutex<BTreeMap<String, Node>>>,
    open: BTreeMap<FileId, Bytes>,
    opened: u32,
}

impl MemFiles {
    fn tree(&self) -> MutexGuard<'_, BTreeMap<String, Node>> {
        lock(&self.tree)
    }

    fn open(&mut self, bytes: Bytes) -> FileId {
        let file = FileId(self.opened);
        self.opened = self.opened.wrapping_add(1);
        self.open.insert(file, bytes);
        file
    }

    fn bytes(&self, file: FileId) -> Result<MutexGuard<'_, Vec<u8>>, Errno> {
        self.open.get(&file).map(|bytes| lock(bytes)).ok_or(DiskError::INVALID)
    }

    /// Puts a node where there is none, in a folder that exists.
    fn insert(&self, path: &str, node: Node) -> Result<(), Errno> {
        let mut tree = self.tree();
        is_folder(&tree, folder_of(path))?;
        if path.is_empty() || tree.contains_key(path) {
            return Err(DiskError::EXISTS);
        }
        tree.insert(path.to_string(), node);
        Ok(())
    }
}

impl Files for MemFiles {
    fn create_folder(&mut self, path: &str) -> Result<(), Errno> {
        match self.insert(path, Node::Folder) {
            Err(DiskError::EXISTS) if is_folder(&self.tree(), path).is_ok() => Ok(()),
            inserted => inserted,
        }
    }

    fn create_file(&mut self, path: &str, len: u64) -> Result<FileId, Errno> {
        let mut content = Vec::new();
        set_len(&mut content, len)?;
        let bytes = Bytes::new(Mutex::new(content));
        self.insert(path, Node::File(Arc::clone(&bytes)))?;
        Ok(self.open(bytes))
    }

    fn open_file(&mut self, path: &str) -> Result<(FileId, u64), Errno> {
        let Some(Node::File(bytes)) = self.tree().get(path).cloned() else {
            return Err(DiskError::NOT_FOUND);
        };
        let len = as_u64(lock(&bytes).len());
        Ok((self.open(bytes), len))
    }

    fn write(&mut self, file: FileId, offset: u64, from: &[u8]) -> Result<(), Errno> {
        let mut bytes = self.bytes(file)?;
        let to = usize::try_from(offset)
            .ok()
            .and_then(|start| bytes.get_mut(start..start.checked_add(from.len())?))
            .ok_or(DiskError::INVALID)?;
        to.copy_from_slice(from);
        Ok(())
    }

    fn read(&mut self, file: FileId, offset: u64, to: &mut [u8]) -> Result<usize, Errno> {
        let bytes = self.bytes(file)?;
        let from = usize::try_from(offset).ok().and_then(|start| bytes.get(start..)).unwrap_or_default();
        let len = from.len().min(to.len());
        to[..len].copy_from_slice(&from[..len]);
        Ok(len)
    }

    fn set_length(&mut self, file: FileId, len: u64) -> Result<(), Errno> {
        let mut bytes = self.bytes(file)?;
        set_len(&mut bytes, len)
    }

    fn sync_file(&mut self, file: FileId) -> Result<(), Errno> {
        self.bytes(file).map(drop)
    }

    fn close_file(&mut self, file: FileId) -> Result<(), Errno> {
        self.open.remove(&file).map(drop).ok_or(DiskError::INVALID)
    }

    fn sync_folder(&mut self, path: &str) -> Result<(), Errno> {
        is_folder(&self.tree(), path)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), Errno> {
        let Some(node) = self.tree().get(from).cloned() else { return Err(DiskError::NOT_FOUND) };
        let inside = format!("{from}/");
        if to.starts_with(&inside) {
            return Err(DiskError::INVALID);
        }
        self.insert(to, node)?;
        let mut tree = self.tree();
        tree.remove(from);
        let moved: Vec<_> =
            tree.extract_if(inside.clone().., |path, _node| path.starts_with(&inside)).collect();
        let to = |path: &str| path.strip_prefix(from).map(|rest| format!("{to}{rest}"));
        tree.extend(moved.into_iter().filter_map(|(path, node)| Some((to(&path)?, node))));
        Ok(())
    }

    fn remove(&mut self, path: &str) -> Result<(), Errno> {
        let mut tree = self.tree();
        let is_empty = !tree.keys().any(|other| parent_is(other, path));
        match tree.get(path) {
            Some(Node::Folder) if !is_empty => Err(NOT_EMPTY),
            Some(_) => tree.remove(path).map(drop).ok_or(DiskError::NOT_FOUND),
            None => Err(DiskError::NOT_FOUND),
        }
    }

    fn list(&mut self, folder: &str, each: &mut dyn FnMut(Entry<'_>)) -> Result<(), Errno> {
        // A copy, so that `each` may use a clone of this disk.
        let tree = self.tree().clone();
        is_folder(&tree, folder)?;
        for (path, node) in tree.iter().filter(|(path, _node)| parent_is(path, folder)) {
            let name = path.rsplit('/').next().unwrap_or(path);
            each(match node {
                Node::Folder => Entry { name, is_folder: true, len: 0 },
                Node::File(bytes) => Entry { name, is_folder: false, len: as_u64(lock(bytes).len()) },
            });
        }
        Ok(())
    }
}

impl fmt::Debug for MemFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tree = self.tree();
        f.debug_struct("MemFiles").field("names", &tree.keys()).field("open", &self.open.keys()).finish()
    }
}

/// ENOTEMPTY of Linux.
const NOT_EMPTY: Errno = 39;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_folder(tree: &BTreeMap<String, Node>, path: &str) -> Result<(), Errno> {
    let found = path.is_empty() || matches!(tree.get(path), Some(Node::Folder));
    if found { Ok(()) } else { Err(DiskError::NOT_FOUND) }
}

fn parent_is(path: &str, folder: &str) -> bool {
    folder_of(path) == folder
}

fn set_len(bytes: &mut Vec<u8>, len: u64) -> Result<(), Errno> {
    let len = usize::try_from(len).map_err(|_too_large| DiskError::NO_SPACE)?;
    let more = len.saturating_sub(bytes.len());
    bytes.try_reserve_exact(more).map_err(|_no_memory| DiskError::NO_SPACE)?;
    bytes.resize(len, 0);
    Ok(())
}

fn as_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
