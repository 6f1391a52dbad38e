//! Bytes to a durable file: [`FileOrder`] carried out on a [`Disk`].

use core::fmt;

use heapless::Vec;

use super::{
    Birth, Completion, Data, Disk, Failure, FileAction, FileEvent, FileId, FileOrder, Frozen, Operation,
    Outcome, Step, Token, Tokens, Work, folder_of,
};
use crate::time::Now;

#[cfg(test)]
mod tests;

/// The names of a file that is to become durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Names<P> {
    /// It is born under its final name.
    Final {
        /// That name.
        path: P,
    },
    /// It is born under a temporary name and renamed when its bytes are durable.
    Renamed {
        /// The temporary name, in the same folder.
        temporary: P,
        /// The final name.
        path: P,
    },
}

impl<P: AsRef<str>> Names<P> {
    /// The final name.
    pub fn path(&self) -> &str {
        match self {
            Self::Final { path } | Self::Renamed { path, .. } => path.as_ref(),
        }
    }

    /// The name under which the file is created.
    pub fn born_as(&self) -> &str {
        match self {
            Self::Final { path } | Self::Renamed { temporary: path, .. } => path.as_ref(),
        }
    }

    const fn birth(&self) -> Birth {
        match self {
            Self::Final { .. } => Birth::FinalName,
            Self::Renamed { .. } => Birth::TemporaryName,
        }
    }
}

/// A file that is written from front to back and then made durable.
///
/// As a [`Work`] it creates the file, then waits for its owner to [`append`](Self::append) and
/// [`seal`](Self::seal), then syncs. Bytes are copied into the disk's blocks; runs of frozen frames go out
/// where they lie.
pub struct FileWriter<D: Disk, P> {
    order: FileOrder,
    names: Names<P>,
    len_max: u64,
    file: Option<FileId>,
    /// Bytes the file has on the disk, before it is cut.
    file_len: u64,
    /// Where the next write goes; a multiple of [`Disk::ALIGNMENT`].
    offset: u64,
    /// Bytes taken from the owner.
    len: u64,
    block: Option<D::Block>,
    filled: usize,
    is_sealed: bool,
    /// Ordered, but the disk has not taken it yet.
    due: Option<Step>,
    /// Ordered and in flight.
    awaited: Option<(Step, Token)>,
    result: Option<Result<u64, Failure>>,
}

impl<D: Disk, P: AsRef<str>> FileWriter<D, P> {
    /// A file of at most `len_max` bytes, which are set aside when it is created.
    pub fn new(names: Names<P>, len_max: u64) -> Self {
        let mut writer = Self {
            order: FileOrder::new(names.birth()),
            names,
            len_max,
            file: None,
            file_len: 0,
            offset: 0,
            len: 0,
            block: None,
            filled: 0,
            is_sealed: false,
            due: None,
            awaited: None,
            result: None,
        };
        writer.feed(FileEvent::Started);
        writer
    }

    /// The file's names.
    pub const fn names(&self) -> &Names<P> {
        &self.names
    }

    /// Bytes taken so far: where the next byte goes.
    pub const fn position(&self) -> u64 {
        self.len
    }

    /// How it ended: the file's length in bytes, or the failure. None while it has not ended.
    pub const fn result(&self) -> Option<Result<u64, Failure>> {
        self.result
    }

    /// Whether bytes are of any use now; false before the file is open, after the seal and after a failure.
    pub fn takes_bytes(&self) -> bool {
        !self.is_sealed && self.order.takes_writes()
    }

    /// Takes bytes from the front of `bytes`, and says how many: fewer than all when the disk has no block
    /// or no room for another operation, or the file is not open (any more).
    pub fn append(&mut self, bytes: &[u8], disk: &mut D, tokens: &mut Tokens) -> usize {
        let mut taken = 0;
        while self.takes_bytes() && self.make_room(disk, tokens) {
            let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) else { break };
            let count = self.fill(rest);
            taken = taken.saturating_add(count);
            self.len = self.len.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        }
        taken
    }

    /// The next `len` bytes of the file, with any content, to be filled in where they are written from; what was filled
    /// in is taken by [`commit`](Self::commit). None if they do not lie in one of the disk's blocks, the disk has none, or
    /// the file is not open (any more).
    pub fn spare(&mut self, len: usize, disk: &mut D, tokens: &mut Tokens) -> Option<&mut [u8]> {
        if !self.takes_bytes() || !self.make_room(disk, tokens) {
            return None;
        }
        self.block.as_mut()?.as_mut().get_mut(self.filled..)?.get_mut(..len)
    }

    /// Takes the first `len` of the bytes that [`spare`](Self::spare) has just given.
    pub fn commit(&mut self, len: usize) {
        let room = self.block.as_ref().map_or(0, |block| block.as_ref().len().saturating_sub(self.filled));
        let count = room.min(len);
        self.filled = self.filled.saturating_add(count);
        self.len = self.len.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// Writes a run of frozen frames at the current position. Both the position and the run's length must be
    /// multiples of [`Disk::ALIGNMENT`].
    ///
    /// # Errors
    /// Gives the run back when it is not aligned so, the disk has no room for another operation, or the file
    /// is not open (any more).
    pub fn append_frozen(
        &mut self,
        run: D::Frozen,
        disk: &mut D,
        tokens: &mut Tokens,
    ) -> Result<(), D::Frozen> {
        let len = run.bytes().len();
        let is_aligned = self.filled.is_multiple_of(D::ALIGNMENT) && len.is_multiple_of(D::ALIGNMENT);
        if !is_aligned || !self.takes_bytes() || !self.flush(disk, tokens) {
            return Err(run);
        }
        match self.write(Data::Frozen(run), len, disk, tokens) {
            Ok(()) => {
                self.len = self.offset;
                Ok(())
            }
            Err(Data::Frozen(run)) => Err(run),
            Err(Data::Block { block, .. }) => {
                debug_assert!(false, "a disk gives back what it was given");
                disk.recycle(block);
                Ok(())
            }
        }
    }

    /// No more bytes will come: what is left is written and the file made durable.
    pub const fn seal(&mut self) {
        self.is_sealed = true;
    }

    /// Nobody wants the file any more. It is closed and removed, unless its final name may exist already:
    /// then it goes on to its end.
    pub fn abandon(&mut self) {
        if self.result.is_none() {
            self.feed(FileEvent::Abandoned);
        }
    }

    /// Whether there is a block with room, after submitting a full one.
    fn make_room(&mut self, disk: &mut D, tokens: &mut Tokens) -> bool {
        let is_full = self.block.as_ref().is_some_and(|block| self.filled >= block.as_ref().len());
        if is_full && !self.flush(disk, tokens) {
            return false;
        }
        if self.block.is_none() {
            self.block = disk.block();
        }
        self.block.is_some()
    }

    fn fill(&mut self, bytes: &[u8]) -> usize {
        let Some(block) = &mut self.block else { return 0 };
        let room = block.as_mut().get_mut(self.filled..).unwrap_or_default();
        let count = room.len().min(bytes.len());
        // Not copy_from_slice: it can panic.
        room.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        self.filled = self.filled.saturating_add(count);
        count
    }

    /// Submits the block in work, filled with zeros up to the alignment. False when the disk took it not.
    fn flush(&mut self, disk: &mut D, tokens: &mut Tokens) -> bool {
        if self.filled == 0 {
            return true;
        }
        let Some(mut block) = self.block.take() else { return true };
        let len = self.filled.next_multiple_of(D::ALIGNMENT);
        block.as_mut().iter_mut().take(len).skip(self.filled).for_each(|byte| *byte = 0);
        match self.write(Data::Block { block, len }, len, disk, tokens) {
            Ok(()) => {
                self.filled = 0;
                true
            }
            Err(Data::Block { block, .. }) => {
                self.block = Some(block);
                false
            }
            Err(Data::Frozen(_)) => false,
        }
    }

    fn write(
        &mut self,
        data: Data<D::Block, D::Frozen>,
        len: usize,
        disk: &mut D,
        tokens: &mut Tokens,
    ) -> Result<(), Data<D::Block, D::Frozen>> {
        let Some(file) = self.file else { return Err(data) };
        match disk.submit(tokens.draw(), Operation::Write { file, offset: self.offset, data }) {
            Err(Operation::Write { data, .. }) => return Err(data),
            // A disk gives back what it was given; if not, the bytes are lost and the file with them.
            Err(_) => self.feed(FileEvent::Abandoned),
            Ok(()) => self.feed(FileEvent::WriteSubmitted),
        }
        self.offset = self.offset.saturating_add(u64::try_from(len).unwrap_or(u64::MAX));
        Ok(())
    }

    /// A file that has failed, or was abandoned, takes no more writes: not those of a block in work either.
    fn give_up_bytes(&mut self, disk: &mut D) {
        if self.order.failure().is_some() {
            self.filled = 0;
            self.block.take().into_iter().for_each(|block| disk.recycle(block));
        }
    }

    /// Submits the step that was ordered last, if the disk takes it.
    fn submit_due(&mut self, disk: &mut D, tokens: &mut Tokens) {
        let Some(step) = self.due else { return };
        let Some(operation) = self.operation(step) else { return };
        let token = tokens.draw();
        if disk.submit(token, operation).is_ok() {
            self.due = None;
            self.awaited = Some((step, token));
        }
    }

    fn operation(&self, step: Step) -> Option<Operation<'_, D::Block, D::Frozen>> {
        let (path, born_as) = (self.names.path(), self.names.born_as());
        Some(match step {
            Step::Create => Operation::CreateFile { path: born_as, len_max: self.len_max },
            Step::SetLength => Operation::SetLength { file: self.file?, len: self.len },
            Step::SyncFile => Operation::SyncFile { file: self.file? },
            Step::Close => Operation::CloseFile { file: self.file? },
            Step::Rename => Operation::Rename { from: born_as, to: path },
            Step::SyncFolder => Operation::SyncFolder { path: folder_of(path) },
            Step::Remove => Operation::Remove { path: born_as },
        })
    }

    fn feed(&mut self, event: FileEvent) {
        let mut out = Vec::<_, { FileOrder::ACTIONS_MAX }>::new();
        // The writer reports only what the machine can accept, except an abandonment that comes too late.
        let taken = self.order.on_event(Now::default(), event, &mut out);
        debug_assert!(taken.is_ok() || event == FileEvent::Abandoned, "{event:?}: {taken:?}");
        for action in out {
            match action {
                FileAction::Perform(step) => self.due = Some(step),
                FileAction::Durable => self.result = Some(Ok(self.len)),
                FileAction::Failed(failure) => self.result = Some(Err(failure)),
            }
        }
    }
}

impl<D: Disk, P: AsRef<str>> Work<D> for FileWriter<D, P> {
    fn advance(&mut self, disk: &mut D, tokens: &mut Tokens) {
        self.give_up_bytes(disk);
        self.submit_due(disk, tokens);
        // A full block goes out at once: held back, it would be missing elsewhere.
        if self.block.as_ref().is_some_and(|block| self.filled >= block.as_ref().len()) {
            self.flush(disk, tokens);
        }
        if self.is_sealed && self.order.takes_writes() && self.flush(disk, tokens) {
            self.feed(FileEvent::Sealed { set_length: self.len != self.file_len });
            self.submit_due(disk, tokens);
        }
    }

    fn on_completion(&mut self, completion: Completion<D::Block>, disk: &mut D) {
        let step =
            self.awaited.filter(|(_step, token)| *token == completion.token).map(|(step, _token)| step);
        if step.is_some() {
            self.awaited = None;
        }
        let ended = match completion.outcome {
            Outcome::Done => Ok(()),
            Outcome::Opened { file, len } => {
                (self.file, self.file_len) = (Some(file), len);
                Ok(())
            }
            Outcome::Read { block, .. } => {
                disk.recycle(block);
                Ok(())
            }
            Outcome::Failed(error) => Err(error),
        };
        self.feed(match (step, ended) {
            (Some(step), Ok(())) => FileEvent::StepDone(step),
            (Some(step), Err(error)) => FileEvent::StepFailed(step, error),
            (None, Ok(())) => FileEvent::WriteDone,
            (None, Err(error)) => FileEvent::WriteFailed(error),
        });
        self.give_up_bytes(disk);
    }

    fn is_done(&self) -> bool {
        self.result.is_some()
    }
}

impl<D: Disk, P: fmt::Debug> fmt::Debug for FileWriter<D, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileWriter")
            .field("names", &self.names)
            .field("order", &self.order)
            .field("len", &self.len)
            .field("result", &self.result)
            .finish_non_exhaustive()
    }
}

/// Bytes that are all there already, to a durable file: a manifest, a part of a sink's output.
#[derive(Debug)]
pub struct WriteFile<D: Disk, P, B> {
    file: FileWriter<D, P>,
    bytes: B,
    sent: usize,
}

impl<D: Disk, P: AsRef<str>, B: AsRef<[u8]>> WriteFile<D, P, B> {
    /// These bytes under these names.
    pub fn new(names: Names<P>, bytes: B) -> Self {
        let len = u64::try_from(bytes.as_ref().len()).unwrap_or(u64::MAX);
        Self { file: FileWriter::new(names, len), bytes, sent: 0 }
    }

    /// The file's names.
    pub const fn names(&self) -> &Names<P> {
        self.file.names()
    }

    /// How it ended: the file's length in bytes, or the failure. None while it has not ended.
    pub const fn result(&self) -> Option<Result<u64, Failure>> {
        self.file.result()
    }

    /// See [`FileWriter::abandon`].
    pub fn abandon(&mut self) {
        self.file.abandon();
    }
}

impl<D: Disk, P: AsRef<str>, B: AsRef<[u8]>> Work<D> for WriteFile<D, P, B> {
    fn advance(&mut self, disk: &mut D, tokens: &mut Tokens) {
        let rest = self.bytes.as_ref().get(self.sent..).unwrap_or_default();
        let taken = self.file.append(rest, disk, tokens);
        if taken == rest.len() {
            self.file.seal();
        }
        self.sent = self.sent.saturating_add(taken);
        self.file.advance(disk, tokens);
    }

    fn on_completion(&mut self, completion: Completion<D::Block>, disk: &mut D) {
        self.file.on_completion(completion, disk);
    }

    fn is_done(&self) -> bool {
        self.file.is_done()
    }
}
