//! What a simulated disk holds: the volatile files that a powered program sees, what of them is durable, and
//! the changes in between, of which a power cut keeps some. Copies share what neither changes.

use std::borrow::ToOwned;
use std::collections::BTreeMap;
use std::string::String;
use std::sync::Arc;
use std::vec::Vec;

use slackwater_core::durable::{DiskError, is_valid_path};

mod effect;
mod power_cut;

pub(super) use effect::Effect;
pub use power_cut::Lost;
pub(super) use power_cut::{Chances, SECTOR};

const NOT_A_FOLDER: i32 = 20;
const IS_A_FOLDER: i32 = 21;
const NOT_EMPTY: i32 = 39;
const ROOT: NodeId = NodeId(0);

/// A file or a folder, whatever its names are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeId(usize);

/// Names in a folder.
type Names = BTreeMap<String, NodeId>;

#[derive(Clone, Debug)]
enum Node {
    File(Arc<File>),
    Folder(Arc<Folder>),
}

#[derive(Clone, Debug, Default)]
struct Folder {
    now: Names,
    durable: Names,
}

#[derive(Clone, Debug, Default)]
struct File {
    now: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Change>,
}

/// A change of a file that no sync has made durable yet.
#[derive(Clone, Debug)]
struct Change {
    operation: u64,
    what: What,
    /// A sync of it has failed: no later sync makes up for that.
    doomed: bool,
}

#[derive(Clone, Debug)]
enum What {
    Bytes { offset: usize, bytes: Arc<[u8]> },
    Length(usize),
}

/// A change of a name that no sync of its folder has made durable yet.
#[derive(Clone, Debug)]
struct Edit {
    operation: u64,
    folder: NodeId,
    name: String,
    node: Option<NodeId>,
    /// The old name of a rename: it goes only if the edit before, the new name, is durable.
    needs_previous: bool,
}

/// Files, folders and their unsynced changes.
#[derive(Clone, Debug)]
pub(super) struct FileSystem {
    nodes: Vec<Node>,
    edits: Arc<Vec<Edit>>,
}

impl FileSystem {
    /// An empty root folder.
    pub(super) fn new() -> Self {
        Self { nodes: [Node::Folder(Arc::default())].into(), edits: Arc::default() }
    }

    /// Makes a folder unless it is there.
    pub(super) fn create_folder(&mut self, operation: u64, path: &str) -> Result<(), i32> {
        let (folder, name) = self.parent(path)?;
        match self.names(folder)?.get(name) {
            Some(there) => self.names(*there).map(drop).map_err(|_| DiskError::EXISTS),
            None => {
                let node = self.add(Node::Folder(Arc::default()));
                self.edit(operation, folder, name, Some(node), false);
                Ok(())
            }
        }
    }

    /// Makes a file of `len` zero bytes.
    pub(super) fn create_file(&mut self, operation: u64, path: &str, len: usize) -> Result<NodeId, i32> {
        let (folder, name) = self.parent(path)?;
        if self.names(folder)?.contains_key(name) {
            return Err(DiskError::EXISTS);
        }
        let node = self.add(Node::File(Arc::default()));
        self.edit(operation, folder, name, Some(node), false);
        self.set_length(operation, node, len);
        Ok(node)
    }

    /// The file of that name and its length.
    pub(super) fn open(&self, path: &str) -> Result<(NodeId, usize), i32> {
        let node = self.find(path)?;
        match &self.nodes[node.0] {
            Node::File(file) => Ok((node, file.now.len())),
            Node::Folder(_) => Err(IS_A_FOLDER),
        }
    }

    pub(super) fn write(&mut self, operation: u64, node: NodeId, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.file(node).now.len() < end {
            self.set_length(operation, node, end);
        }
        let file = self.file_mut(node);
        file.now[offset..end].copy_from_slice(bytes);
        let what = What::Bytes { offset, bytes: bytes.into() };
        file.pending.push(Change { operation, what, doomed: false });
    }

    pub(super) fn read(&self, node: NodeId, offset: usize, buf: &mut [u8]) -> usize {
        let rest = self.file(node).now.get(offset..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        len
    }

    /// The bytes of a file as a running program sees them.
    pub(super) fn bytes(&self, node: NodeId) -> &[u8] {
        &self.file(node).now
    }

    /// Turns a bit of a file over where it lies: whatever happens, it is the other one from now on.
    pub(super) fn flip_bit(&mut self, node: NodeId, bit: usize) {
        let file = self.file_mut(node);
        for bytes in [&mut file.now, &mut file.durable] {
            if let Some(byte) = bytes.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
        }
    }

    /// Gives a file other bytes, durably.
    pub(super) fn overwrite(&mut self, node: NodeId, bytes: &[u8]) {
        *self.file_mut(node) = File { now: bytes.to_vec(), durable: bytes.to_vec(), pending: Vec::new() };
    }

    pub(super) fn set_length(&mut self, operation: u64, node: NodeId, len: usize) {
        let file = self.file_mut(node);
        file.now.resize(len, 0);
        file.pending.push(Change { operation, what: What::Length(len), doomed: false });
    }

    /// Makes durable what `covers` says of a file.
    pub(super) fn sync_file(&mut self, node: NodeId, covers: impl Fn(u64) -> bool) {
        let file = self.file_mut(node);
        for change in core::mem::take(&mut file.pending) {
            if change.doomed || !covers(change.operation) {
                file.pending.push(change);
                continue;
            }
            match change.what {
                What::Bytes { offset, bytes } => put(&mut file.durable, offset, &bytes),
                What::Length(len) => file.durable.resize(len, 0),
            }
        }
    }

    /// A sync that failed: the system forgets that these changes were to be written.
    pub(super) fn fail_sync(&mut self, node: NodeId) {
        self.file_mut(node).pending.iter_mut().for_each(|change| change.doomed = true);
    }

    /// Makes durable what `covers` says of the names in a folder.
    pub(super) fn sync_folder(&mut self, path: &str, covers: impl Fn(u64) -> bool) -> Result<(), i32> {
        let folder = self.find(path)?;
        self.names(folder)?;
        // From the end, so that an old name's removal takes the new name, which is the edit before it, along.
        let mut take_previous = false;
        let mut durable = Vec::new();
        let edits = Arc::make_mut(&mut self.edits);
        for index in (0..edits.len()).rev() {
            let edit = &edits[index];
            if take_previous || (edit.folder == folder && covers(edit.operation)) {
                take_previous = edit.needs_previous;
                if let Some(next) = edits.get_mut(index + 1) {
                    next.needs_previous = false;
                }
                durable.push(edits.remove(index));
            }
        }
        for edit in durable.into_iter().rev() {
            apply(&mut self.folder_mut(edit.folder).durable, &edit.name, edit.node);
        }
        Ok(())
    }

    /// Gives a file or folder another name that must not be there.
    pub(super) fn rename(&mut self, operation: u64, from: &str, to: &str) -> Result<(), i32> {
        let node = self.find(from)?;
        let (old_folder, old_name) = self.parent(from)?;
        let (new_folder, new_name) = self.parent(to)?;
        if self.names(new_folder)?.contains_key(new_name) {
            return Err(DiskError::EXISTS);
        }
        self.edit(operation, new_folder, new_name, Some(node), false);
        self.edit(operation, old_folder, old_name, None, true);
        Ok(())
    }

    /// Takes away a file or an empty folder.
    pub(super) fn remove(&mut self, operation: u64, path: &str) -> Result<(), i32> {
        let node = self.find(path)?;
        if self.names(node).is_ok_and(|names| !names.is_empty()) {
            return Err(NOT_EMPTY);
        }
        let (folder, name) = self.parent(path)?;
        self.edit(operation, folder, name, None, false);
        Ok(())
    }

    /// Name, whether it is a folder, and length of each entry of a folder.
    pub(super) fn list(&self, path: &str) -> Result<Vec<(&str, bool, u64)>, i32> {
        let names = self.names(self.find(path)?)?;
        let entry = |(name, node): (_, &NodeId)| match &self.nodes[node.0] {
            Node::File(file) => (name, false, file.now.len() as u64),
            Node::Folder(_) => (name, true, 0),
        };
        Ok(names.iter().map(|(name, node)| entry((name.as_str(), node))).collect())
    }

    /// Bytes of all files that have a name.
    pub(super) fn bytes_used(&self) -> u64 {
        self.files_below(ROOT).iter().map(|node| self.file(*node).now.len() as u64).sum()
    }

    /// Every file in a folder and those below it; none if there is no such folder.
    pub(super) fn files_in(&self, path: &str) -> Vec<NodeId> {
        self.find(path).map(|node| self.files_below(node)).unwrap_or_default()
    }

    fn files_below(&self, node: NodeId) -> Vec<NodeId> {
        match self.names(node) {
            Ok(names) => names.values().flat_map(|inner| self.files_below(*inner)).collect(),
            Err(_) => [node].into(),
        }
    }

    fn edit(
        &mut self,
        operation: u64,
        folder: NodeId,
        name: &str,
        node: Option<NodeId>,
        needs_previous: bool,
    ) {
        apply(&mut self.folder_mut(folder).now, name, node);
        let edit = Edit { operation, folder, name: name.to_owned(), node, needs_previous };
        Arc::make_mut(&mut self.edits).push(edit);
    }

    fn add(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId(self.nodes.len() - 1)
    }

    fn find(&self, path: &str) -> Result<NodeId, i32> {
        let mut parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
        parts
            .try_fold(ROOT, |folder, name| self.names(folder)?.get(name).copied().ok_or(DiskError::NOT_FOUND))
    }

    fn parent<'p>(&self, path: &'p str) -> Result<(NodeId, &'p str), i32> {
        if path.is_empty() || !is_valid_path(path) {
            return Err(DiskError::INVALID);
        }
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        Ok((self.find(folder)?, name))
    }

    fn names(&self, node: NodeId) -> Result<&Names, i32> {
        match &self.nodes[node.0] {
            Node::Folder(folder) => Ok(&folder.now),
            Node::File(_) => Err(NOT_A_FOLDER),
        }
    }

    fn folder_mut(&mut self, node: NodeId) -> &mut Folder {
        match &mut self.nodes[node.0] {
            Node::Folder(folder) => Arc::make_mut(folder),
            Node::File(_) => panic!("a file was taken for a folder"),
        }
    }

    fn file(&self, node: NodeId) -> &File {
        match &self.nodes[node.0] {
            Node::File(file) => file,
            Node::Folder(_) => panic!("a folder was taken for a file"),
        }
    }

    fn file_mut(&mut self, node: NodeId) -> &mut File {
        match &mut self.nodes[node.0] {
            Node::File(file) => Arc::make_mut(file),
            Node::Folder(_) => panic!("a folder was taken for a file"),
        }
    }
}

fn apply(names: &mut Names, name: &str, node: Option<NodeId>) {
    match node {
        Some(node) => names.insert(name.to_owned(), node),
        None => names.remove(name),
    };
}

fn put(bytes: &mut Vec<u8>, offset: usize, new: &[u8]) {
    let end = offset + new.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(new);
}
