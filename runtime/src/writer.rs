//! The writer as an actor: the one owner of the disk. It carries out what subtasks, their sinks and the
//! coordinator ask for, many things at a time, and tells them how it ended.

use std::collections::BTreeMap;
use std::task::Waker;

use heapless::Vec as FixedVec;
use slackwater_core::durable::{
    Completion, Disk, DiskError, Failure, Names, OperationKind, Tokens, Wait, Work, WriteFile,
};
use slackwater_core::ids::{CheckpointId, TaskIndex};
use slackwater_core::time::Now;
use slackwater_mem::FrozenRun;
use slackwater_mem::in_flight::InFlightWriter;
use slackwater_mem::segment::{KeyGroupReader, SegmentWriter};

use crate::actor::{Actor, Mailbox, ParkedOn, Signal, Step};
use crate::blocking::Blocking;
use crate::chain::HeldSinks;
use crate::error::JobError;
use crate::files::{FileEvent, FileRequest, FileTicket};
use crate::mail::{CoordinatorMail, TaskMail, WriterMail};
use crate::panics::call_operator;
use crate::paths;
use crate::shared::Shared;
use crate::telemetry;

mod in_flight;
mod part;
mod segment;
mod sequence;

use part::PartFile;
pub(crate) use segment::SegmentIdentity;
use sequence::{Order, Sequence};

/// Messages, and completions, that one step takes.
const PER_STEP: usize = 64;

/// What the writer is made of.
pub(crate) struct WriterParts<D> {
    pub(crate) disk: D,
    /// The job's folder.
    pub(crate) folder: String,
    pub(crate) tasks: Vec<Mailbox<TaskMail>>,
    pub(crate) coordinator: Mailbox<CoordinatorMail>,
    pub(crate) signal: Signal,
    pub(crate) mail: Mailbox<WriterMail>,
    pub(crate) shared: Shared,
    pub(crate) segments: SegmentIdentity,
    /// The checkpoint that the job goes on from.
    pub(crate) restored: Option<CheckpointId>,
    /// Sinks that recover when its state has been verified.
    pub(crate) held_sinks: HeldSinks,
}

/// The writer of a process.
pub(crate) struct Writer<D: Disk<Frozen = FrozenRun>> {
    disk: D,
    folder: String,
    tasks: Vec<Mailbox<TaskMail>>,
    coordinator: Mailbox<CoordinatorMail>,
    signal: Signal,
    mail: Mailbox<WriterMail>,
    shared: Shared,
    segments: SegmentIdentity,
    /// The folders in which savepoints under way, or failed, have theirs, where checkpoints have the job's.
    savepoints: BTreeMap<CheckpointId, String>,
    restored: Option<CheckpointId>,
    held_sinks: HeldSinks,
    /// The sinks are to recover as soon as the disk is at rest.
    recovers_sinks: bool,
    /// What is under way, by the number of its job.
    running: BTreeMap<u32, (Tokens, Running<D>)>,
    next_job: u32,
    /// The spans of segments that are being written.
    persisting: BTreeMap<u32, telemetry::Span>,
    /// The job of each file that a sink is writing.
    parts: BTreeMap<(TaskIndex, FileTicket), u32>,
    ended: FixedVec<Completion<D::Block>, PER_STEP>,
}

/// Something that the writer is doing, and for whom.
enum Running<D: Disk<Frozen = FrozenRun>> {
    Location(CheckpointId, Sequence),
    Segment(CheckpointId, TaskIndex, Box<SegmentWriter<D>>),
    InFlight(CheckpointId, TaskIndex, Box<InFlightWriter<D>>),
    Manifest(CheckpointId, Box<WriteFile<D, String, Vec<u8>>>),
    Deletion(CheckpointId, Sequence),
    Part(TaskIndex, FileTicket, Box<PartFile<D>>),
    /// The sink waits for this event.
    Request(TaskIndex, FileEvent, Sequence),
    Reading(TaskIndex, Box<KeyGroupReader>),
    /// The job ends with this damage.
    Damage(CheckpointId, String, Box<WriteFile<D, String, Vec<u8>>>),
}

impl<D: Disk<Frozen = FrozenRun>> Writer<D> {
    pub(crate) fn new(parts: WriterParts<D>) -> Self {
        Self {
            disk: parts.disk,
            folder: parts.folder,
            tasks: parts.tasks,
            coordinator: parts.coordinator,
            signal: parts.signal,
            mail: parts.mail,
            shared: parts.shared,
            segments: parts.segments,
            savepoints: BTreeMap::new(),
            restored: parts.restored,
            held_sinks: parts.held_sinks,
            recovers_sinks: false,
            running: BTreeMap::new(),
            next_job: 0,
            persisting: BTreeMap::new(),
            parts: BTreeMap::new(),
            ended: FixedVec::new(),
        }
    }

    fn take_mail(&mut self) -> bool {
        let mut taken = false;
        for _ in 0..PER_STEP {
            let Some(mail) = self.mail.receive() else { break };
            taken = true;
            self.on_mail(mail);
        }
        taken
    }

    fn on_mail(&mut self, mail: WriterMail) {
        match mail {
            WriterMail::PrepareLocation { id, savepoint } => self.prepare_location(id, savepoint),
            WriterMail::Persist { id, task, snapshot } => {
                let work = SegmentWriter::new(*snapshot, self.segments.spec(self.base(id), id, task));
                let job = self.start(Running::Segment(id, task, Box::new(work)));
                self.persisting.insert(job, telemetry::persisting(task, id));
            }
            WriterMail::PersistInFlight { id, task, captured } => self.persist_in_flight(id, task, captured),
            WriterMail::Abandon { id, task } => self.abandon(id, task),
            WriterMail::PersistManifest { id, bytes } => {
                let folder = self.checkpoint_folder(id);
                let names = Names::Renamed {
                    temporary: paths::join(&folder, paths::MANIFEST_UNFINISHED),
                    path: paths::join(&folder, paths::MANIFEST),
                };
                self.start(Running::Manifest(id, Box::new(WriteFile::new(names, bytes))));
            }
            WriterMail::Delete(id) => self.delete(id),
            WriterMail::ReadKeyGroup { task, reader } => {
                self.start(Running::Reading(task, reader));
            }
            WriterMail::NoteDamage { checkpoint, message } => {
                let path = paths::join(&self.checkpoint_folder(checkpoint), paths::DISTRUSTED);
                let file = WriteFile::new(Names::Final { path }, message.clone().into_bytes());
                self.start(Running::Damage(checkpoint, message, Box::new(file)));
            }
            WriterMail::RecoverSinks => self.recovers_sinks = true,
            WriterMail::File { task, ticket, request } => self.on_request(task, ticket, request),
        }
    }

    fn prepare_location(&mut self, id: CheckpointId, savepoint: Option<String>) {
        let mut made = Vec::new();
        if let Some(folder) = savepoint {
            // Looking into the folder waits for the disk, as deleting does.
            let mut is_empty = true;
            let listed = self.disk.list(&folder, &mut |_| is_empty = false);
            if let Err(error) = listed.or_else(absent_is_fine).and_then(|()| empty_or_exists(is_empty)) {
                return self.coordinator.send(CoordinatorMail::LocationPrepared(id, Err(error)));
            }
            let base = paths::join(&folder, paths::name_of(&self.folder));
            made.extend(paths::with_parents(&base).map(str::to_owned));
            self.savepoints.insert(id, base);
        }
        made.push(self.checkpoint_folder(id));
        let orders = made.into_iter().flat_map(|path| {
            let parent = slackwater_core::durable::folder_of(&path).to_owned();
            [Order::CreateFolder(path), Order::SyncFolder(parent)]
        });
        self.start(Running::Location(id, Sequence::new(orders)));
    }

    fn on_request(&mut self, task: TaskIndex, ticket: FileTicket, request: FileRequest) {
        match request {
            FileRequest::Create { path, len_max } => {
                let part = PartFile::new(path, len_max);
                let job = self.start(Running::Part(task, ticket, Box::new(part)));
                self.parts.insert((task, ticket), job);
            }
            FileRequest::Append { bytes } => {
                if let Some(part) = self.part(task, ticket) {
                    part.append(bytes);
                }
            }
            FileRequest::Seal => {
                if let Some(part) = self.part(task, ticket) {
                    part.seal();
                }
            }
            FileRequest::Publish { from, to } => {
                let folder = slackwater_core::durable::folder_of(&to).to_owned();
                let orders = [Order::Rename { from, to }, Order::SyncFolder(folder)];
                self.start(Running::Request(task, FileEvent::Published(ticket), Sequence::new(orders)));
            }
            FileRequest::Remove { path } => {
                let folder = slackwater_core::durable::folder_of(&path).to_owned();
                let orders = [Order::Remove(path), Order::SyncFolder(folder)];
                self.start(Running::Request(task, FileEvent::Removed(ticket), Sequence::new(orders)));
            }
        }
    }

    fn part(&mut self, task: TaskIndex, ticket: FileTicket) -> Option<&mut PartFile<D>> {
        let job = self.parts.get(&(task, ticket))?;
        match self.running.get_mut(job)? {
            (_, Running::Part(_, _, part)) => Some(part),
            _ => None,
        }
    }

    /// Nobody is left to seal these: no checkpoint covers what is in them.
    fn abandon_unsealed(&mut self) {
        for (_, running) in self.running.values_mut() {
            if let Running::Part(_, _, part) = running {
                part.abandon_unsealed();
            }
        }
    }

    /// Lets what a given up checkpoint has of a subtask go, and removes what is there of its files.
    fn abandon(&mut self, id: CheckpointId, task: TaskIndex) {
        for (_, running) in self.running.values_mut() {
            if let Running::Segment(checkpoint, owner, work) = running
                && (*checkpoint, *owner) == (id, task)
            {
                work.abandon();
            } else if let Running::InFlight(checkpoint, owner, work) = running
                && (*checkpoint, *owner) == (id, task)
            {
                work.abandon();
            }
        }
    }

    /// Deletes a checkpoint: its manifest first, so that what is left is no checkpoint whenever this stops.
    fn delete(&mut self, id: CheckpointId) {
        let folder = self.checkpoint_folder(id);
        // Deleting waits for one look into the folder: files of aborted attempts are on no list.
        let mut names = Vec::new();
        match self.disk.list(&folder, &mut |entry| names.push(entry.name.to_owned())) {
            Ok(()) => names.sort(),
            // A checkpoint that failed before it had a folder.
            Err(error) if error.errno == DiskError::NOT_FOUND => {
                return self.coordinator.send(CoordinatorMail::Deleted(id, Ok(())));
            }
            Err(error) => return self.coordinator.send(CoordinatorMail::Deleted(id, Err(error))),
        }
        let orders = deletion(self.base(id), &folder, names);
        self.start(Running::Deletion(id, Sequence::new(orders)));
    }

    fn start(&mut self, running: Running<D>) -> u32 {
        // The job of a blocking look-up is never one of ours.
        self.next_job = (self.next_job + 1) % (u32::MAX - 1);
        self.running.insert(self.next_job, (Tokens::new(self.next_job), running));
        self.next_job
    }

    fn reap(&mut self, wait: Wait) -> bool {
        self.disk.reap(wait, &mut self.ended);
        let any = !self.ended.is_empty();
        // Oldest first, so that a seeded run is the same each time.
        for completion in std::mem::take(&mut self.ended) {
            let job = u32::try_from(completion.token.0 >> 32).unwrap_or(u32::MAX);
            if let Some((_, running)) = self.running.get_mut(&job) {
                running.work().on_completion(completion, &mut self.disk);
            }
        }
        any
    }

    /// Lets everything submit what it can, and tells who waits for what has ended.
    fn advance(&mut self) -> bool {
        let mut ended = Vec::new();
        for (job, (tokens, running)) in &mut self.running {
            let was_done = running.work().is_done();
            if !was_done {
                running.work().advance(&mut self.disk, tokens);
            }
            if let Running::Segment(_, task, work) = running
                && work.take_relief()
                && let Some(mail) = self.tasks.get(usize::from(task.0))
            {
                mail.wake();
            }
            if let Running::Part(task, _, part) = running
                && let Some(bytes) = part.take_written()
                && let Some(mail) = self.tasks.get(usize::from(task.0))
            {
                mail.send(TaskMail::Written(bytes));
            }
            if running.work().is_done() {
                ended.push(*job);
            }
        }
        for job in &ended {
            if let Some((_, running)) = self.running.remove(job) {
                self.finish(running);
                self.persisting.remove(job);
            }
        }
        !ended.is_empty()
    }

    fn finish(&mut self, running: Running<D>) {
        match running {
            Running::Location(id, sequence) => {
                let result = sequence.result().map_err(|(_, error)| error);
                self.coordinator.send(CoordinatorMail::LocationPrepared(id, result));
            }
            Running::Segment(id, task, work) => {
                self.tell(task, TaskMail::Persisted(id, segment::result(work.result())));
            }
            Running::InFlight(id, task, work) => {
                self.tell(task, TaskMail::InFlightPersisted(id, in_flight::result(work.result())));
            }
            Running::Manifest(id, file) => {
                let result = file.result().map_or(Ok(()), |result| result.map(|_| ()).map_err(disk_error));
                if result.is_ok() {
                    self.savepoints.remove(&id);
                }
                self.coordinator.send(CoordinatorMail::ManifestPersisted(id, result));
            }
            Running::Deletion(id, sequence) => {
                let result = sequence.result().map_err(|(_, error)| error);
                if result.is_ok() {
                    self.savepoints.remove(&id);
                }
                self.coordinator.send(CoordinatorMail::Deleted(id, result));
            }
            Running::Part(task, ticket, part) => {
                self.parts.remove(&(task, ticket));
                let mail = match part.result() {
                    Ok(()) => TaskMail::File(FileEvent::Sealed(ticket)),
                    Err(failure) => TaskMail::FileFailed(part.path().to_owned(), disk_error(failure)),
                };
                self.tell(task, mail);
            }
            Running::Reading(task, reader) => self.tell(task, TaskMail::KeyGroup(reader.into_result())),
            Running::Damage(checkpoint, message, file) => {
                let failure = file.result().and_then(Result::err).map(disk_error);
                // It may have been noted before.
                let unnoted = failure.filter(|error| error.errno != DiskError::EXISTS);
                self.shared.fail(JobError::LateDamage { checkpoint, message, unnoted });
            }
            Running::Request(task, event, sequence) => {
                let mail = match sequence.result() {
                    Ok(()) => TaskMail::File(event),
                    Err((path, error)) => TaskMail::FileFailed(path, error),
                };
                self.tell(task, mail);
            }
        }
    }

    /// Lets the sinks recover, and all others begin.
    fn recover_sinks(&mut self) {
        self.recovers_sinks = false;
        let mut recovered = BTreeMap::new();
        for (task, mut held) in std::mem::take(&mut self.held_sinks) {
            let operator = held.operator.clone();
            let mut files = Blocking::new(&mut self.disk);
            match call_operator(&operator, &operator, || held.recover(self.restored, &mut files)) {
                Ok(said) => said.into_iter().for_each(|sentence| self.shared.note(sentence)),
                Err(error) => return self.shared.fail(error),
            }
            recovered.insert(task, held);
        }
        for (index, mail) in (0u16..).map(TaskIndex).zip(&self.tasks) {
            mail.send(TaskMail::SinkRecovered(recovered.remove(&index)));
        }
        self.coordinator.send(CoordinatorMail::SinksRecovered);
    }

    fn tell(&self, task: TaskIndex, mail: TaskMail) {
        if let Some(mailbox) = self.tasks.get(usize::from(task.0)) {
            mailbox.send(mail);
        }
    }

    /// The folder that the folder of a checkpoint lies in.
    fn base(&self, id: CheckpointId) -> &str {
        self.savepoints.get(&id).unwrap_or(&self.folder)
    }

    fn checkpoint_folder(&self, id: CheckpointId) -> String {
        paths::checkpoint_folder(self.base(id), id)
    }
}

impl<D: Disk<Frozen = FrozenRun>> Running<D> {
    fn work(&mut self) -> &mut dyn Work<D> {
        match self {
            Self::Location(_, sequence) | Self::Deletion(_, sequence) | Self::Request(_, _, sequence) => {
                sequence
            }
            Self::Segment(_, _, work) => &mut **work,
            Self::InFlight(_, _, work) => &mut **work,
            Self::Manifest(_, file) | Self::Damage(_, _, file) => &mut **file,
            Self::Reading(_, reader) => &mut **reader,
            Self::Part(_, _, part) => &mut **part,
        }
    }
}

/// A folder that is not there has nothing in it.
fn absent_is_fine(error: DiskError) -> Result<(), DiskError> {
    if error.errno == DiskError::NOT_FOUND { Ok(()) } else { Err(error) }
}

/// A savepoint has its folder to itself.
const fn empty_or_exists(is_empty: bool) -> Result<(), DiskError> {
    let error = DiskError { operation: OperationKind::CreateFolder, errno: DiskError::EXISTS };
    if is_empty { Ok(()) } else { Err(error) }
}

/// The order in which a checkpoint's folder in a job's folder is deleted (rule S3).
fn deletion(job: &str, folder: &str, names: Vec<String>) -> Vec<Order> {
    let (manifests, others): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| name == paths::MANIFEST);
    let remove = |name: &String| Order::Remove(paths::join(folder, name));
    let mut orders: Vec<Order> = manifests.iter().map(remove).collect();
    orders.push(Order::SyncFolder(folder.to_owned()));
    orders.extend(others.iter().map(remove));
    orders.push(Order::Remove(folder.to_owned()));
    orders.push(Order::SyncFolder(job.to_owned()));
    orders
}

/// The disk's word for it.
pub(crate) const fn disk_error(failure: Failure) -> DiskError {
    match failure {
        Failure::Disk { error, .. } => error,
        Failure::Abandoned => DiskError { operation: OperationKind::Write, errno: DiskError::INVALID },
    }
}

impl<D: Disk<Frozen = FrozenRun> + Send> Actor for Writer<D>
where
    D::Block: Send,
{
    fn step(&mut self, _now: Now) -> Step {
        let is_over = self.shared.is_over();
        let gives_up = is_over && self.shared.failure().is_some();
        let mut did_something = self.reap(Wait::No);
        if !gives_up {
            did_something |= self.take_mail();
            if is_over {
                self.abandon_unsealed();
            }
            did_something |= self.advance();
        }
        if self.recovers_sinks && self.running.is_empty() && !is_over {
            did_something = true;
            self.recover_sinks();
        }
        // At a good end what was asked for, deletions that is, is carried out first.
        if is_over && self.disk.in_flight() == 0 && (gives_up || (self.running.is_empty() && !did_something))
        {
            return Step::Finished;
        }
        match (did_something, self.disk.in_flight()) {
            (true, _) => Step::Progress,
            (false, 0) => Step::parked(ParkedOn::Mail),
            (false, _) => Step::parked(ParkedOn::Disk),
        }
    }

    fn set_waker(&mut self, waker: Waker) {
        self.signal.set(waker);
    }

    fn name(&self) -> &str {
        "writer"
    }

    fn wait_for_disk(&mut self) {
        self.reap(Wait::ForOne);
    }
}

#[cfg(test)]
mod tests {
    use super::{Order, deletion};

    #[test]
    fn s3_s29_the_manifest_goes_first_and_durably() {
        let names = ["0-1.seg", "_metadata", "1-1.seg"].map(str::to_owned).to_vec();
        let remove = |path: &str| Order::Remove(path.to_owned());
        let sync = |path: &str| Order::SyncFolder(path.to_owned());
        assert_eq!(
            deletion("job", "job/chk-7", names),
            [
                remove("job/chk-7/_metadata"),
                sync("job/chk-7"),
                remove("job/chk-7/0-1.seg"),
                remove("job/chk-7/1-1.seg"),
                remove("job/chk-7"),
                sync("job"),
            ]
        );
    }
}
