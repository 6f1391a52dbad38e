//! Operations in flight: their numbers, when they take effect, what ends them.

use std::collections::{BTreeMap, VecDeque};

use heapless::VecView;
use slackwater_core::durable::{
    Completion, Data, DiskError, FileId, Frozen, Operation, OperationKind, Outcome, Token, Wait,
};

use super::file_system::{FileSystem, NodeId, SECTOR};
use super::{Cut, SimBlock, SimOptions};
use crate::rng::Rng;

const ALIGNMENT: usize = 4096;

/// Everything behind the lock.
#[derive(Debug)]
pub(super) struct State<F> {
    pub(super) options: SimOptions,
    pub(super) files: FileSystem,
    pub(super) history: Vec<OperationKind>,
    pub(super) cut: Option<Cut>,
    pub(super) failures: Vec<(u64, i32)>,
    pub(super) off: bool,
    rng: Rng,
    open: BTreeMap<FileId, Handle>,
    files_opened: u32,
    blocks_out: usize,
    waiting: Vec<Waiting<F>>,
    ended: VecDeque<Ended<F>>,
}

#[derive(Clone, Copy, Debug)]
struct Handle {
    node: NodeId,
    writable: bool,
}

#[derive(Debug)]
struct Waiting<F> {
    number: u64,
    token: Token,
    action: Action<F>,
    /// Earlier operations that nobody knew to have ended when this one was submitted.
    unknown: Vec<u64>,
}

/// An operation that owns its paths.
#[derive(Debug)]
enum Action<F> {
    CreateFolder(String),
    CreateFile { path: String, len_max: u64 },
    OpenFile(String),
    Write { node: NodeId, offset: usize, data: Data<SimBlock, F> },
    Read { node: NodeId, offset: usize, block: SimBlock, len: usize },
    SetLength { node: NodeId, len: u64 },
    SyncFile(NodeId),
    CloseFile(FileId),
    SyncFolder(String),
    Rename { from: String, to: String },
    Remove(String),
}

#[derive(Debug)]
struct Ended<F> {
    number: u64,
    completion: Completion<SimBlock>,
    /// The guard of a frozen run is the disk's until its completion is reaped.
    _guard: Option<F>,
}

impl<F: Frozen> State<F> {
    pub(super) fn new(options: SimOptions, files: FileSystem) -> Self {
        Self {
            options,
            files,
            history: Vec::new(),
            cut: None,
            failures: Vec::new(),
            off: false,
            rng: Rng::new(options.seed),
            open: BTreeMap::new(),
            files_opened: 0,
            blocks_out: 0,
            waiting: Vec::new(),
            ended: VecDeque::new(),
        }
    }

    pub(super) fn operations(&self) -> u64 {
        self.history.len() as u64
    }

    pub(super) fn in_flight(&self) -> usize {
        self.waiting.len() + self.ended.len()
    }

    pub(super) fn lend_block(&mut self) -> bool {
        let has_one = self.blocks_out < self.options.blocks;
        self.blocks_out += usize::from(has_one);
        has_one
    }

    pub(super) fn take_back_block(&mut self) {
        self.blocks_out = self.blocks_out.checked_sub(1).expect("a block that was lent out comes back once");
    }

    pub(super) fn submit<'p>(
        &mut self,
        token: Token,
        operation: Operation<'p, SimBlock, F>,
    ) -> Result<(), Operation<'p, SimBlock, F>> {
        if self.in_flight() >= self.options.in_flight_max {
            return Err(operation);
        }
        let (kind, action) = self.own(operation);
        self.history.push(kind);
        let waiting = self.waiting.iter().map(|other| other.number);
        let unknown = waiting.chain(self.ended.iter().map(|other| other.number)).collect();
        self.waiting.push(Waiting { number: self.operations(), token, action, unknown });
        Ok(())
    }

    pub(super) fn reap(&mut self, wait: Wait, out: &mut VecView<Completion<SimBlock>>) -> usize {
        let due = self.rng.index(self.waiting.len() + 1);
        for _ in 0..due {
            self.end_one();
        }
        if wait == Wait::ForOne && self.ended.is_empty() && !self.waiting.is_empty() {
            self.end_one();
        }
        let least = usize::from(wait == Wait::ForOne);
        let told = self.rng.index(self.ended.len() + 1).max(least).min(out.capacity() - out.len());
        let told = told.min(self.ended.len());
        for ended in self.ended.drain(..told) {
            out.push(ended.completion).expect("there is room");
        }
        told
    }

    /// Lets one operation of those in flight take effect.
    fn end_one(&mut self) {
        let waiting = self.waiting.swap_remove(self.rng.index(self.waiting.len()));
        self.off |= self.cut == Some(Cut::Before(waiting.number));
        let ordered = self.failures.iter().find(|(number, _)| *number == waiting.number);
        let failure = if self.off { Some(DiskError::IO) } else { ordered.map(|(_, errno)| *errno) };
        let ended = match failure {
            Some(errno) => self.fail(waiting, errno),
            None => self.carry_out(waiting),
        };
        self.off |= self.cut == Some(Cut::After(ended.number));
        self.ended.push_back(ended);
    }

    fn carry_out(&mut self, waiting: Waiting<F>) -> Ended<F> {
        let Waiting { number, token, action, unknown } = waiting;
        let kind = action.kind();
        let (result, guard) = self.effect(number, action, &unknown);
        let outcome = result.unwrap_or_else(|errno| Outcome::Failed(DiskError { operation: kind, errno }));
        Ended { number, completion: Completion { token, outcome }, _guard: guard }
    }

    fn effect(
        &mut self,
        number: u64,
        action: Action<F>,
        unknown: &[u64],
    ) -> (Result<Outcome<SimBlock>, i32>, Option<F>) {
        let covers = |operation: u64| operation < number && !unknown.contains(&operation);
        let result = match action {
            Action::CreateFolder(path) => self.files.create_folder(number, &path),
            Action::CreateFile { path, len_max } => return (self.create(number, &path, len_max), None),
            Action::OpenFile(path) => {
                let opened = self.files.open(&path).map(|(node, len)| self.opened(node, len, false));
                return (opened, None);
            }
            Action::Write { node, offset, data } => return self.write(number, node, offset, data),
            Action::Read { node, offset, mut block, len } => {
                let len = self.files.read(node, offset, &mut block.as_mut()[..len]);
                return (Ok(Outcome::Read { block, len }), None);
            }
            Action::SetLength { node, len } => {
                self.files.set_length(number, node, small(len));
                Ok(())
            }
            Action::SyncFile(_) if self.options.lies.sync_file => Ok(()),
            Action::SyncFolder(_) if self.options.lies.sync_folder => Ok(()),
            Action::SyncFile(node) => {
                self.files.sync_file(node, covers);
                Ok(())
            }
            Action::SyncFolder(path) => self.files.sync_folder(&path, covers),
            Action::CloseFile(file) => {
                self.open.remove(&file);
                Ok(())
            }
            Action::Rename { from, to } => self.files.rename(number, &from, &to),
            Action::Remove(path) => self.files.remove(number, &path),
        };
        (result.map(|()| Outcome::Done), None)
    }

    fn create(&mut self, number: u64, path: &str, len_max: u64) -> Result<Outcome<SimBlock>, i32> {
        let len = len_max.next_multiple_of(ALIGNMENT as u64);
        if self.files.bytes_used().saturating_add(len) > self.options.capacity {
            return Err(DiskError::NO_SPACE);
        }
        let node = self.files.create_file(number, path, small(len))?;
        Ok(self.opened(node, small(len), true))
    }

    fn opened(&mut self, node: NodeId, len: usize, writable: bool) -> Outcome<SimBlock> {
        self.files_opened += 1;
        let file = FileId(self.files_opened);
        self.open.insert(file, Handle { node, writable });
        Outcome::Opened { file, len: len as u64 }
    }

    fn write(
        &mut self,
        number: u64,
        node: NodeId,
        offset: usize,
        data: Data<SimBlock, F>,
    ) -> (Result<Outcome<SimBlock>, i32>, Option<F>) {
        self.files.write(number, node, offset, bytes_of(&data));
        (Ok(Outcome::Done), self.release(data))
    }

    /// Takes a block back; a guard is kept for as long as the caller keeps what this returns.
    fn release(&mut self, data: Data<SimBlock, F>) -> Option<F> {
        match data {
            Data::Block { .. } => {
                self.take_back_block();
                None
            }
            Data::Frozen(guard) => Some(guard),
        }
    }

    /// Ends an operation with an error. Without power it had no effect; else it may have had some of it.
    fn fail(&mut self, waiting: Waiting<F>, errno: i32) -> Ended<F> {
        let Waiting { number, token, action, .. } = waiting;
        let operation = action.kind();
        let guard = match action {
            Action::Write { node, offset, data } => {
                if !self.off {
                    let bytes = bytes_of(&data);
                    let sectors = self.rng.index(bytes.len() / SECTOR + 1);
                    self.files.write(number, node, offset, &bytes[..sectors * SECTOR]);
                }
                self.release(data)
            }
            Action::SyncFile(node) if !self.off => {
                self.files.fail_sync(node);
                None
            }
            Action::Read { .. } => {
                self.take_back_block();
                None
            }
            Action::CreateFolder(_)
            | Action::CreateFile { .. }
            | Action::OpenFile(_)
            | Action::SetLength { .. }
            | Action::SyncFile(_)
            | Action::CloseFile(_)
            | Action::SyncFolder(_)
            | Action::Rename { .. }
            | Action::Remove(_) => None,
        };
        let outcome = Outcome::Failed(DiskError { operation, errno });
        Ended { number, completion: Completion { token, outcome }, _guard: guard }
    }

    fn own(&self, operation: Operation<'_, SimBlock, F>) -> (OperationKind, Action<F>) {
        let action = match operation {
            Operation::CreateFolder { path } => Action::CreateFolder(path.to_owned()),
            Operation::CreateFile { path, len_max } => Action::CreateFile { path: path.to_owned(), len_max },
            Operation::OpenFile { path } => Action::OpenFile(path.to_owned()),
            Operation::Write { file, offset, data } => {
                aligned("write", offset, bytes_of(&data).len());
                Action::Write { node: self.writable(file), offset: small(offset), data }
            }
            Operation::Read { file, offset, block, len } => {
                aligned("read", offset, len);
                Action::Read { node: self.handle(file).node, offset: small(offset), block, len }
            }
            Operation::SetLength { file, len } => Action::SetLength { node: self.writable(file), len },
            Operation::SyncFile { file } => Action::SyncFile(self.writable(file)),
            Operation::CloseFile { file } => Action::CloseFile(file),
            Operation::SyncFolder { path } => Action::SyncFolder(path.to_owned()),
            Operation::Rename { from, to } => Action::Rename { from: from.to_owned(), to: to.to_owned() },
            Operation::Remove { path } => Action::Remove(path.to_owned()),
        };
        (action.kind(), action)
    }

    fn handle(&self, file: FileId) -> Handle {
        *self.open.get(&file).unwrap_or_else(|| panic!("{file:?} is not open"))
    }

    fn writable(&self, file: FileId) -> NodeId {
        let handle = self.handle(file);
        assert!(handle.writable, "{file:?} is open for reading only");
        handle.node
    }
}

impl<F> Action<F> {
    const fn kind(&self) -> OperationKind {
        match self {
            Self::CreateFolder(_) => OperationKind::CreateFolder,
            Self::CreateFile { .. } => OperationKind::CreateFile,
            Self::OpenFile(_) => OperationKind::OpenFile,
            Self::Write { .. } => OperationKind::Write,
            Self::Read { .. } => OperationKind::Read,
            Self::SetLength { .. } => OperationKind::SetLength,
            Self::SyncFile(_) => OperationKind::SyncFile,
            Self::CloseFile(_) => OperationKind::CloseFile,
            Self::SyncFolder(_) => OperationKind::SyncFolder,
            Self::Rename { .. } => OperationKind::Rename,
            Self::Remove(_) => OperationKind::Remove,
        }
    }
}

fn bytes_of<F: Frozen>(data: &Data<SimBlock, F>) -> &[u8] {
    match data {
        Data::Block { block, len } => &block.as_ref()[..*len],
        Data::Frozen(guard) => guard.bytes(),
    }
}

fn aligned(what: &str, offset: u64, len: usize) {
    assert!(offset.is_multiple_of(ALIGNMENT as u64), "{what} at {offset} is not aligned");
    assert!(len.is_multiple_of(ALIGNMENT), "{what} of {len} bytes is not aligned");
}

/// Simulated files fit in memory.
fn small(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a simulated file fits in memory")
}
