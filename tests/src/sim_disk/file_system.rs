//! What a simulated disk holds: the volatile files that a powered program sees, what of them is durable, and
//! the changes in between, of which a power cut keeps some.

use std::collections::{BTreeMap, BTreeSet};

use slackwater_core::durable::{DiskError, is_valid_path};

use crate::rng::Rng;

/// Writes are torn at multiples of this many bytes.
pub(super) const SECTOR: usize = 512;
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
    File(File),
    Folder { now: Names, durable: Names },
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
    Bytes { offset: usize, bytes: Vec<u8> },
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
    edits: Vec<Edit>,
}

impl FileSystem {
    /// An empty root folder.
    pub(super) fn new() -> Self {
        Self { nodes: vec![Node::Folder { now: Names::new(), durable: Names::new() }], edits: Vec::new() }
    }

    /// The same for a program that starts now: its syncs cover all that took effect before it.
    pub(super) fn inherited(&self) -> Self {
        let mut files = self.clone();
        files.edits.iter_mut().for_each(|edit| edit.operation = 0);
        for node in &mut files.nodes {
            if let Node::File(file) = node {
                file.pending.iter_mut().for_each(|change| change.operation = 0);
            }
        }
        files
    }

    /// Makes a folder unless it is there.
    pub(super) fn create_folder(&mut self, operation: u64, path: &str) -> Result<(), i32> {
        let (folder, name) = self.parent(path)?;
        match self.names(folder)?.get(name) {
            Some(there) => self.names(*there).map(drop).map_err(|_| DiskError::EXISTS),
            None => {
                let node = self.add(Node::Folder { now: Names::new(), durable: Names::new() });
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
        let node = self.add(Node::File(File::default()));
        self.edit(operation, folder, name, Some(node), false);
        self.set_length(operation, node, len);
        Ok(node)
    }

    /// The file of that name and its length.
    pub(super) fn open(&self, path: &str) -> Result<(NodeId, usize), i32> {
        let node = self.find(path)?;
        match &self.nodes[node.0] {
            Node::File(file) => Ok((node, file.now.len())),
            Node::Folder { .. } => Err(IS_A_FOLDER),
        }
    }

    pub(super) fn write(&mut self, operation: u64, node: NodeId, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.file(node).now.len() < end {
            self.set_length(operation, node, end);
        }
        let file = self.file_mut(node);
        file.now[offset..end].copy_from_slice(bytes);
        let what = What::Bytes { offset, bytes: bytes.to_vec() };
        file.pending.push(Change { operation, what, doomed: false });
    }

    pub(super) fn read(&self, node: NodeId, offset: usize, buf: &mut [u8]) -> usize {
        let rest = self.file(node).now.get(offset..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        len
    }

    pub(super) fn set_length(&mut self, operation: u64, node: NodeId, len: usize) {
        let file = self.file_mut(node);
        file.now.resize(len, 0);
        file.pending.push(Change { operation, what: What::Length(len), doomed: false });
    }

    /// Makes durable what `covers` says of a file.
    pub(super) fn sync_file(&mut self, node: NodeId, covers: impl Fn(u64) -> bool) {
        let file = self.file_mut(node);
        let pending = std::mem::take(&mut file.pending);
        for change in pending {
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
        for index in (0..self.edits.len()).rev() {
            let edit = &self.edits[index];
            if take_previous || (edit.folder == folder && covers(edit.operation)) {
                take_previous = edit.needs_previous;
                if let Some(next) = self.edits.get_mut(index + 1) {
                    next.needs_previous = false;
                }
                durable.push(self.edits.remove(index));
            }
        }
        for edit in durable.into_iter().rev() {
            apply(self.durable_names(edit.folder), &edit.name, edit.node);
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
            Node::Folder { .. } => (name, true, 0),
        };
        Ok(names.iter().map(|(name, node)| entry((name.as_str(), node))).collect())
    }

    /// Bytes of all files that have a name.
    pub(super) fn bytes_used(&self) -> u64 {
        self.walk(ROOT).iter().map(|node| self.file(*node).now.len() as u64).sum()
    }

    /// What is left when the power goes now: durable things, and of the others what the seed says.
    pub(super) fn after_power_cut(&self, rng: &mut Rng) -> Self {
        // All lost and all kept are likely in practice and too unlikely by fair coins alone.
        let keep = [0, 100, 50, 50, 10, 90][rng.index(6)];
        let mut left: Vec<Names> = self.nodes.iter().map(durable_names_of).collect();
        let mut lost: Vec<(NodeId, &str)> = Vec::new();
        let mut previous_kept = true;
        for edit in &self.edits {
            let name = (edit.folder, edit.name.as_str());
            let allowed = !lost.contains(&name) && (previous_kept || !edit.needs_previous);
            previous_kept = allowed && rng.chance(keep);
            if previous_kept {
                apply(&mut left[edit.folder.0], &edit.name, edit.node);
            } else {
                lost.push(name);
            }
        }
        let mut image = Self::new();
        self.copy_folder(ROOT, &left, &mut image, ROOT, rng);
        image
    }

    fn copy_folder(&self, from: NodeId, left: &[Names], image: &mut Self, to: NodeId, rng: &mut Rng) {
        for (name, node) in &left[from.0] {
            let copy = match &self.nodes[node.0] {
                Node::File(file) => {
                    let bytes = file.after_power_cut(rng);
                    image.add(Node::File(File { now: bytes.clone(), durable: bytes, pending: Vec::new() }))
                }
                Node::Folder { .. } => {
                    let folder = image.add(Node::Folder { now: Names::new(), durable: Names::new() });
                    self.copy_folder(*node, left, image, folder, rng);
                    folder
                }
            };
            apply(image.names_mut(to), name, Some(copy));
            apply(image.durable_names(to), name, Some(copy));
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
        apply(self.names_mut(folder), name, node);
        self.edits.push(Edit { operation, folder, name: name.to_owned(), node, needs_previous });
    }

    fn add(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId(self.nodes.len() - 1)
    }

    fn find(&self, path: &str) -> Result<NodeId, i32> {
        let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
        parts
            .into_iter()
            .try_fold(ROOT, |folder, name| self.names(folder)?.get(name).copied().ok_or(DiskError::NOT_FOUND))
    }

    fn parent<'p>(&self, path: &'p str) -> Result<(NodeId, &'p str), i32> {
        if path.is_empty() || !is_valid_path(path) {
            return Err(DiskError::INVALID);
        }
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        Ok((self.find(folder)?, name))
    }

    /// Every file reachable from a folder.
    fn walk(&self, node: NodeId) -> Vec<NodeId> {
        match self.names(node) {
            Ok(names) => names.values().flat_map(|inner| self.walk(*inner)).collect(),
            Err(_) => vec![node],
        }
    }

    fn names(&self, node: NodeId) -> Result<&Names, i32> {
        match &self.nodes[node.0] {
            Node::Folder { now, .. } => Ok(now),
            Node::File(_) => Err(NOT_A_FOLDER),
        }
    }

    fn names_mut(&mut self, node: NodeId) -> &mut Names {
        match &mut self.nodes[node.0] {
            Node::Folder { now, .. } => now,
            Node::File(_) => panic!("a file was taken for a folder"),
        }
    }

    fn durable_names(&mut self, node: NodeId) -> &mut Names {
        match &mut self.nodes[node.0] {
            Node::Folder { durable, .. } => durable,
            Node::File(_) => panic!("a file was taken for a folder"),
        }
    }

    fn file(&self, node: NodeId) -> &File {
        match &self.nodes[node.0] {
            Node::File(file) => file,
            Node::Folder { .. } => panic!("a folder was taken for a file"),
        }
    }

    fn file_mut(&mut self, node: NodeId) -> &mut File {
        match &mut self.nodes[node.0] {
            Node::File(file) => file,
            Node::Folder { .. } => panic!("a folder was taken for a file"),
        }
    }
}

impl File {
    /// Each sector is as it was after one of the writes that touched it, the length as after one of the changes.
    fn after_power_cut(&self, rng: &mut Rng) -> Vec<u8> {
        let keep = [0, 100, 50, 50, 10, 90][rng.index(6)];
        let mut bytes = self.durable.clone();
        let mut len = bytes.len();
        let mut length_lost = false;
        let mut lost_sectors = BTreeSet::new();
        for change in &self.pending {
            match &change.what {
                What::Length(new) if !length_lost && rng.chance(keep) => len = *new,
                What::Length(_) => length_lost = true,
                What::Bytes { offset, bytes: new } => {
                    for (part, at) in new.chunks(SECTOR).zip((*offset..).step_by(SECTOR)) {
                        if !lost_sectors.contains(&at) && rng.chance(keep) {
                            put(&mut bytes, at, part);
                        } else {
                            lost_sectors.insert(at);
                        }
                    }
                }
            }
        }
        bytes.resize(len, 0);
        bytes
    }
}

fn durable_names_of(node: &Node) -> Names {
    match node {
        Node::Folder { durable, .. } => durable.clone(),
        Node::File(_) => Names::new(),
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
