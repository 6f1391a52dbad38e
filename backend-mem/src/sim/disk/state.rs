//! Operations in flight: their numbers, when they take effect, what ends them.

use std::borrow::ToOwned;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::string::String;
use std::vec::Vec;

use heapless::VecView;
use slackwater_core::durable::{
    Completion, Data, DiskError, FileId, Frozen, Operation, OperationKind, Outcome, Token, Wait,
};

use super::{Fault, SimBlock, SimOptions, Submitted};
use crate::sim::file_system::{Effect, FileSystem, NodeId, SECTOR};
use crate::sim::log::Log;
use crate::sim::rng::Rng;

const ALIGNMENT: usize = 4096;

/// Everything behind the lock.
#[derive(Debug)]
pub(super) struct State<F> {
    pub(super) options: SimOptions,
    pub(super) files: FileSystem,
    pub(super) history: Vec<Submitted>,
    pub(super) faults: Vec<(u64, Fault)>,
    pub(super) injected: Vec<(Submitted, Fault)>,
    pub(super) log: Option<Log>,
    rng: Rng,
    open: BTreeMap<FileId, Handle>,
    files_opened: u32,
    /// Files whose sync has failed.
    dead: BTreeSet<NodeId>,
    blocks_out: usize,
    waiting: Vec<Waiting<F>>,
    ended: VecDeque<Ended<F>>,
}

#[derive(Clone, Debug)]
struct Handle {
    node: NodeId,
    path: String,
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
    Create { path: String, len_max: u64 },
    Open(String),
    Close(FileId),
    Write { node: NodeId, offset: usize, data: Data<SimBlock, F> },
    Read { node: NodeId, offset: usize, block: SimBlock, len: usize },
    Change(Effect),
}

#[derive(Debug)]
struct Ended<F> {
    number: u64,
    completion: Completion<SimBlock>,
    /// The guard of a frozen run is the disk's until its completion is reaped.
    _guard: Option<F>,
}

/// How an operation ended, and the guard that it still holds.
type End<F> = (Result<Outcome<SimBlock>, i32>, Option<F>);

impl<F: Frozen> State<F> {
    pub(super) fn new(options: SimOptions, files: FileSystem) -> Self {
        Self {
            options,
            files,
            history: Vec::new(),
            faults: Vec::new(),
            injected: Vec::new(),
            log: None,
            rng: Rng::new(options.seed),
            open: BTreeMap::new(),
            files_opened: 0,
            dead: BTreeSet::new(),
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
        let waiting = self.waiting.iter().map(|other| other.number);
        let unknown = waiting.chain(self.ended.iter().map(|other| other.number)).collect();
        let kind = operation.kind();
        let (path, action) = self.own(operation);
        self.history.push(Submitted { kind, path });
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
        let Waiting { number, token, action, unknown } =
            self.waiting.swap_remove(self.rng.index(self.waiting.len()));
        let submitted = self.submitted(number);
        let fault = self.fault(number, &submitted);
        let (result, guard) = match fault {
            Some(Fault::Error(errno)) => self.fail(number, action, errno),
            fault => self.effect(number, action, &unknown, fault),
        };
        let failed = |errno| Outcome::Failed(DiskError { operation: submitted.kind, errno });
        let outcome = result.unwrap_or_else(failed);
        if let Some(log) = &self.log {
            log.add(number, &submitted, &self.files, Vec::new());
        }
        self.ended.push_back(Ended { number, completion: Completion { token, outcome }, _guard: guard });
    }

    fn submitted(&self, number: u64) -> Submitted {
        let index = usize::try_from(number - 1).expect("as many operations fit in memory");
        self.history[index].clone()
    }

    /// What is to go wrong with an operation, if it can.
    fn fault(&mut self, number: u64, submitted: &Submitted) -> Option<Fault> {
        let fault = self.faults.iter().find(|(ordered, _)| *ordered == number)?.1;
        let is_possible = matches!(fault, Fault::Error(_)) || submitted.kind == OperationKind::Write;
        if is_possible {
            self.injected.push((submitted.clone(), fault));
        }
        is_possible.then_some(fault)
    }

    fn effect(&mut self, number: u64, action: Action<F>, unknown: &[u64], fault: Option<Fault>) -> End<F> {
        let result = match action {
            Action::Create { path, len_max } => self.create(number, path, len_max),
            Action::Open(path) => {
                let opened = self.files.open(&path);
                opened.map(|(node, len)| self.opened(Handle { node, path, writable: false }, len))
            }
            Action::Close(file) => {
                self.open.remove(&file);
                Ok(Outcome::Done)
            }
            Action::Write { node, data, .. } if self.is_dead(node) => {
                return (Err(DiskError::IO), self.release(data));
            }
            Action::Write { node, offset, data } => {
                self.write(number, node, offset, bytes_of(&data), fault);
                return (Ok(Outcome::Done), self.release(data));
            }
            Action::Read { node, offset, mut block, len } => {
                let len = self.files.read(node, offset, &mut block.as_mut()[..len]);
                Ok(Outcome::Read { block, len })
            }
            Action::Change(effect) => self.change(number, &effect, unknown),
        };
        (result, None)
    }

    /// Whether a file takes no more writes and syncs, as a sync of it has failed.
    fn is_dead(&self, node: NodeId) -> bool {
        self.dead.contains(&node) && !self.options.lies.sync_again
    }

    fn change(&mut self, number: u64, effect: &Effect, unknown: &[u64]) -> Result<Outcome<SimBlock>, i32> {
        let lies = self.options.lies;
        let is_dead = matches!(effect, Effect::SyncFile(node) if self.is_dead(*node));
        let is_lie = match effect {
            Effect::SyncFile(_) => lies.sync_file,
            Effect::SyncFolder(_) => lies.sync_folder,
            Effect::CreateFolder(_)
            | Effect::Write { .. }
            | Effect::SetLength { .. }
            | Effect::Rename { .. }
            | Effect::Remove(_) => false,
        };
        match (is_lie, is_dead) {
            (true, _) => Ok(Outcome::Done),
            (false, true) => Err(DiskError::IO),
            (false, false) => self.files.carry_out(number, effect, unknown).map(|()| Outcome::Done),
        }
    }

    fn create(&mut self, number: u64, path: String, len_max: u64) -> Result<Outcome<SimBlock>, i32> {
        let len = len_max.next_multiple_of(ALIGNMENT as u64);
        if self.files.bytes_used().saturating_add(len) > self.options.capacity {
            return Err(DiskError::NO_SPACE);
        }
        let node = self.files.create_file(number, &path, small(len))?;
        Ok(self.opened(Handle { node, path, writable: true }, small(len)))
    }

    fn opened(&mut self, handle: Handle, len: usize) -> Outcome<SimBlock> {
        self.files_opened += 1;
        let file = FileId(self.files_opened);
        self.open.insert(file, handle);
        Outcome::Opened { file, len: len as u64 }
    }

    fn write(&mut self, number: u64, node: NodeId, offset: usize, bytes: &[u8], fault: Option<Fault>) {
        match fault {
            Some(Fault::ShortWrite) => self.write_part(number, node, offset, bytes),
            Some(Fault::MisdirectedInFile) => self.misdirect(number, &[node], offset, bytes),
            Some(Fault::MisdirectedToFile) => {
                let others = self.other_files(node, number);
                self.misdirect(number, &others, offset, bytes);
            }
            Some(Fault::Error(_)) | None => self.files.write(number, node, offset, bytes),
        }
    }

    /// Writes fewer sectors than there are.
    fn write_part(&mut self, number: u64, node: NodeId, offset: usize, bytes: &[u8]) {
        let sectors = self.rng.index(bytes.len() / SECTOR);
        self.files.write(number, node, offset, &bytes[..sectors * SECTOR]);
    }

    fn other_files(&self, node: NodeId, number: u64) -> Vec<NodeId> {
        let path = self.submitted(number).path;
        let top = path.split('/').next().unwrap_or_default();
        self.files.files_in(top).into_iter().filter(|other| *other != node).collect()
    }

    /// Lets a write land in one of these files, at another place if it is the right one, and within its length.
    fn misdirect(&mut self, number: u64, targets: &[NodeId], offset: usize, bytes: &[u8]) {
        let Some(&target) = targets.get(self.rng.index(targets.len())) else { return };
        let len = self.files.bytes(target).len();
        let is_elsewhere = |at: &usize| targets.len() > 1 || *at != offset;
        let places: Vec<usize> = (0..len).step_by(ALIGNMENT).filter(is_elsewhere).collect();
        let Some(&place) = places.get(self.rng.index(places.len())) else { return };
        let fitting = bytes.len().min(len - place);
        self.files.write(number, target, place, &bytes[..fitting]);
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

    /// Ends an operation with an error. It may have had some of its effect.
    fn fail(&mut self, number: u64, action: Action<F>, errno: i32) -> End<F> {
        let guard = match action {
            Action::Write { node, offset, data } => {
                let bytes = bytes_of(&data);
                let sectors = self.rng.index(bytes.len() / SECTOR + 1);
                self.files.write(number, node, offset, &bytes[..sectors * SECTOR]);
                self.release(data)
            }
            Action::Change(Effect::SyncFile(node)) => {
                self.files.fail_sync(node);
                self.dead.insert(node);
                None
            }
            Action::Read { .. } => {
                self.take_back_block();
                None
            }
            Action::Create { .. } | Action::Open(_) | Action::Close(_) | Action::Change(_) => None,
        };
        (Err(errno), guard)
    }

    /// What the operation is about, and the operation without what it borrows.
    fn own(&self, operation: Operation<'_, SimBlock, F>) -> (String, Action<F>) {
        match operation {
            Operation::CreateFolder { path } => changes(path, Effect::CreateFolder),
            Operation::CreateFile { path, len_max } => {
                (path.to_owned(), Action::Create { path: path.to_owned(), len_max })
            }
            Operation::OpenFile { path } => (path.to_owned(), Action::Open(path.to_owned())),
            Operation::Write { file, offset, data } => {
                aligned("write", offset, bytes_of(&data).len());
                let Handle { node, path, .. } = self.writable(file);
                (path, Action::Write { node, offset: small(offset), data })
            }
            Operation::Read { file, offset, block, len } => {
                aligned("read", offset, len);
                let Handle { node, path, .. } = self.handle(file);
                (path, Action::Read { node, offset: small(offset), block, len })
            }
            Operation::SetLength { file, len } => {
                let Handle { node, path, .. } = self.writable(file);
                (path, Action::Change(Effect::SetLength { node, len: small(len) }))
            }
            Operation::SyncFile { file } => {
                let Handle { node, path, .. } = self.writable(file);
                (path, Action::Change(Effect::SyncFile(node)))
            }
            Operation::CloseFile { file } => {
                let path = self.open.get(&file).map(|handle| handle.path.clone());
                (path.unwrap_or_default(), Action::Close(file))
            }
            Operation::SyncFolder { path } => changes(path, Effect::SyncFolder),
            Operation::Rename { from, to } => {
                changes(from, |from| Effect::Rename { from, to: to.to_owned() })
            }
            Operation::Remove { path } => changes(path, Effect::Remove),
        }
    }

    fn handle(&self, file: FileId) -> Handle {
        self.open.get(&file).unwrap_or_else(|| panic!("{file:?} is not open")).clone()
    }

    fn writable(&self, file: FileId) -> Handle {
        let handle = self.handle(file);
        assert!(handle.writable, "{file:?} is open for reading only");
        handle
    }
}

fn changes<F>(path: &str, effect: impl FnOnce(String) -> Effect) -> (String, Action<F>) {
    (path.to_owned(), Action::Change(effect(path.to_owned())))
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
