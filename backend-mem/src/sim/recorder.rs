//! Any disk, with a log of what a power cut could leave of it.

use core::fmt;
use std::borrow::ToOwned;
use std::collections::BTreeMap;
use std::string::String;
use std::sync::Arc;
use std::vec::Vec;

use heapless::VecView;
use slackwater_core::durable::{
    Completion, Data, Disk, DiskError, Entry, FileId, Frozen, Operation, OperationKind, Outcome, Token, Wait,
};

use super::disk::Submitted;
use super::file_system::{Effect, FileSystem, NodeId};
use super::image::Image;
use super::log::{InFlight, Log};

/// Passes everything on to a disk, which does the work, and keeps beside it what of that would survive if the
/// power went: names and bytes are durable as far as a sync covers them.
///
/// It believes the disk's word that a sync is done. To test a layer of your own, put it above the recorder; to test
/// a program on a disk of your own, put the disk below.
pub struct Recorder<D> {
    disk: D,
    files: FileSystem,
    open: BTreeMap<FileId, (NodeId, String)>,
    pending: Vec<Pending>,
    operations: u64,
    log: Log,
}

/// An operation that the disk has and that was not reaped.
struct Pending {
    token: Token,
    submitted: Submitted,
    kept: Arc<InFlight>,
    /// The file that it closes.
    closes: Option<FileId>,
}

impl<D: Disk> Recorder<D> {
    /// On an empty disk.
    pub fn new(disk: D) -> Self {
        Self::over(disk, FileSystem::new())
    }

    /// On a disk that [`Image::load`] has filled.
    pub fn after(disk: D, image: &Image) -> Self {
        Self::over(disk, image.files().clone())
    }

    fn over(disk: D, files: FileSystem) -> Self {
        let log = Log::starting_from(files.clone());
        Self { disk, files, open: BTreeMap::new(), pending: Vec::new(), operations: 0, log }
    }

    /// What has happened, and from now on happens.
    pub fn log(&self) -> Log {
        self.log.clone()
    }

    /// The disk again.
    pub fn into_inner(self) -> D {
        self.disk
    }

    fn in_flight_now(&self) -> Vec<Arc<InFlight>> {
        self.pending.iter().map(|pending| Arc::clone(&pending.kept)).collect()
    }

    /// What the operation is about and what it will change.
    fn describe(&self, operation: &Operation<'_, D::Block, D::Frozen>) -> (String, Option<Effect>) {
        let of_file = |file: &FileId| self.open.get(file).cloned();
        let path_of = |file: &FileId| of_file(file).map(|(_, path)| path).unwrap_or_default();
        match operation {
            Operation::CreateFolder { path } => named(path, Effect::CreateFolder),
            // How long it is only its completion tells.
            Operation::CreateFile { path, .. } | Operation::OpenFile { path } => ((*path).to_owned(), None),
            Operation::Write { file, offset, data } => {
                let offset = usize::try_from(*offset).unwrap_or(usize::MAX);
                let bytes = bytes_of(data).into();
                (path_of(file), of_file(file).map(|(node, _)| Effect::Write { node, offset, bytes }))
            }
            Operation::SetLength { file, len } => {
                let len = usize::try_from(*len).unwrap_or(usize::MAX);
                (path_of(file), of_file(file).map(|(node, _)| Effect::SetLength { node, len }))
            }
            Operation::SyncFile { file } => {
                (path_of(file), of_file(file).map(|(node, _)| Effect::SyncFile(node)))
            }
            Operation::Read { file, .. } | Operation::CloseFile { file } => (path_of(file), None),
            Operation::SyncFolder { path } => named(path, Effect::SyncFolder),
            Operation::Rename { from, to } => {
                named(from, |from| Effect::Rename { from, to: (*to).to_owned() })
            }
            Operation::Remove { path } => named(path, Effect::Remove),
        }
    }

    /// Brings the files up to a completion, and the log.
    fn note(&mut self, completion: &Completion<D::Block>) {
        let ours = self.pending.iter().position(|pending| pending.token == completion.token);
        let Some(index) = ours else { return };
        let Pending { submitted, kept, closes, .. } = self.pending.remove(index);
        match (&completion.outcome, &kept.effect) {
            (Outcome::Opened { file, len }, _) => self.opened(*file, *len, kept.number, &submitted),
            (Outcome::Failed(_), Some(Effect::SyncFile(node))) => self.files.fail_sync(*node),
            (Outcome::Failed(error), _) if error.errno == DiskError::INVALID => {}
            // Nobody knows how much of a failed write there is: all of it may come or go.
            (Outcome::Done, Some(effect)) | (Outcome::Failed(_), Some(effect @ Effect::Write { .. })) => {
                // What the disk did and the copy refuses would be a mistake of the disk, which the oracle finds.
                self.files.carry_out(kept.number, effect, &kept.unknown).unwrap_or_default();
            }
            (Outcome::Done | Outcome::Read { .. } | Outcome::Failed(_), _) => {}
        }
        if let Some(file) = closes {
            self.open.remove(&file);
        }
        self.log.add(kept.number, &submitted, &self.files, self.in_flight_now());
    }

    fn opened(&mut self, file: FileId, len: u64, number: u64, submitted: &Submitted) {
        let path = submitted.path.as_str();
        let node = if submitted.kind == OperationKind::CreateFile {
            self.files.create_file(number, path, usize::try_from(len).unwrap_or(usize::MAX))
        } else {
            self.files.open(path).map(|(node, _)| node)
        };
        if let Ok(node) = node {
            self.open.insert(file, (node, path.to_owned()));
        }
    }
}

impl<D: Disk> Disk for Recorder<D> {
    type Block = D::Block;
    type Frozen = D::Frozen;

    const ALIGNMENT: usize = D::ALIGNMENT;

    fn block(&mut self) -> Option<D::Block> {
        self.disk.block()
    }

    fn recycle(&mut self, block: D::Block) {
        self.disk.recycle(block);
    }

    fn submit<'p>(
        &mut self,
        token: Token,
        operation: Operation<'p, D::Block, D::Frozen>,
    ) -> Result<(), Operation<'p, D::Block, D::Frozen>> {
        let kind = operation.kind();
        let (path, effect) = self.describe(&operation);
        let closes = if let Operation::CloseFile { file } = operation { Some(file) } else { None };
        self.disk.submit(token, operation)?;
        self.operations += 1;
        let unknown = self.pending.iter().map(|pending| pending.kept.number).collect();
        let kept = Arc::new(InFlight { number: self.operations, effect, unknown });
        self.pending.push(Pending { token, submitted: Submitted { kind, path }, kept, closes });
        self.log.set_in_flight(self.in_flight_now());
        Ok(())
    }

    fn reap(&mut self, wait: Wait, out: &mut VecView<Completion<D::Block>>) -> usize {
        let count = self.disk.reap(wait, out);
        let first = out.len().saturating_sub(count);
        out.iter().skip(first).for_each(|completion| self.note(completion));
        count
    }

    fn in_flight(&self) -> usize {
        self.disk.in_flight()
    }

    fn list(&mut self, folder: &str, each: &mut dyn FnMut(Entry<'_>)) -> Result<(), DiskError> {
        self.disk.list(folder, each)
    }
}

impl<D> fmt::Debug for Recorder<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("operations", &self.operations).finish_non_exhaustive()
    }
}

fn named(path: &str, effect: impl FnOnce(String) -> Effect) -> (String, Option<Effect>) {
    (path.to_owned(), Some(effect(path.to_owned())))
}

fn bytes_of<B: AsRef<[u8]>, F: Frozen>(data: &Data<B, F>) -> &[u8] {
    match data {
        Data::Block { block, len } => block.as_ref().get(..*len).unwrap_or_default(),
        Data::Frozen(guard) => guard.bytes(),
    }
}
