//! Finds the checkpoint to go on from: the newest that verifies.

use heapless::Vec as FixedVec;
use std::fmt;

use slackwater_core::durable::{Disk, DiskError, Names, WriteFile, run_to_end};
use slackwater_core::format::FormatError;
use slackwater_core::ids::CheckpointId;
use slackwater_core::retained::{Recovery, RecoveryAction, RecoveryEvent, Verdict};
use slackwater_core::time::Now;
use slackwater_mem::in_flight::{self, InFlight, InFlightRef, StoredInFlight};
use slackwater_mem::segment::{RestoreCause, RestoreError, SegmentRef, verify_segment};

use crate::blocking::Blocking;
use crate::checkpoint::{Captured, Manifest, SubtaskPart};
use crate::error::JobError;
use crate::files::BlockingFiles;
use crate::paths;
use crate::writer::disk_error;

/// A manifest larger than this is not read.
const MANIFEST_LEN_MAX: u64 = 1 << 30;

/// Nor more of a note than this.
const NOTE_LEN_MAX: u64 = 1 << 16;

/// What lies in a job's folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The newest checkpoint that verifies.
    pub newest: Option<Manifest>,
    /// Newer ones that do not, newest first; they are left in place.
    pub passed_over: Vec<PassedOver>,
    /// Older checkpoints whose manifest can be read, and the newest, oldest first.
    pub retained: Vec<CheckpointId>,
    /// Folders of checkpoints without a manifest: never completed.
    pub incomplete: Vec<CheckpointId>,
    /// A manifest cannot be read, so nobody knows what it refers to.
    pub has_unreadable: bool,
    /// The highest number that a checkpoint's folder has.
    pub last_id: Option<CheckpointId>,
}

/// A checkpoint that was not restored although it is the newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOver {
    /// The checkpoint.
    pub id: CheckpointId,
    /// Why.
    pub reason: String,
}

/// Why a file of a checkpoint is not taken for what it should be; a sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Defect {
    /// It is not as it was written.
    Damaged(String),
    /// It may well be: this program cannot read it, or not now.
    Unchecked(String),
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(what) => f.write_str(what),
            Self::Unchecked(why) => write!(f, "cannot be checked here: {why}"),
        }
    }
}

/// The numbers of all checkpoints that have a folder in the job's folder, ascending.
///
/// # Errors
/// What the disk said.
pub fn checkpoint_ids(files: &mut dyn BlockingFiles, folder: &str) -> Result<Vec<CheckpointId>, DiskError> {
    let entries = files.list(folder)?;
    let folders = entries.iter().filter(|entry| entry.is_folder);
    let mut ids: Vec<_> = folders.filter_map(|entry| paths::checkpoint_of(&entry.name)).collect();
    ids.sort_unstable();
    Ok(ids)
}

/// The manifest of a checkpoint; none if it was never completed, or why it cannot be read.
///
/// # Errors
/// What the disk said, other than that something is not there.
pub fn read_manifest<D: Disk>(
    disk: &mut D,
    folder: &str,
    id: CheckpointId,
) -> Result<Option<Result<Manifest, Defect>>, DiskError> {
    let damaged = |what: String| Ok(Some(Err(Defect::Damaged(what))));
    let bytes = match Blocking::new(disk).read(&manifest_path(folder, id), MANIFEST_LEN_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.errno == DiskError::NOT_FOUND => return Ok(None),
        Err(error) if error.errno == DiskError::IO => return damaged(format!("its manifest: {error}")),
        Err(error) => return Err(error),
    };
    match Manifest::decode(&bytes) {
        Ok(manifest) if manifest.id == id => Ok(Some(Ok(manifest))),
        Ok(manifest) => damaged(format!("its manifest is that of checkpoint {}", manifest.id)),
        Err(error @ FormatError::Corrupt { .. }) => damaged(format!("its manifest is {error}")),
        Err(error @ FormatError::Unsupported { .. }) => Ok(Some(Err(Defect::Unchecked(error.to_string())))),
    }
}

fn manifest_path(folder: &str, id: CheckpointId) -> String {
    paths::join(&paths::checkpoint_folder(folder, id), paths::MANIFEST)
}

/// Reads every byte of every file that a checkpoint consists of, besides its manifest. Says what is wrong with each that
/// is not as it was written, or cannot be read.
pub fn verify_files<D: Disk>(disk: &mut D, folder: &str, manifest: &Manifest) -> Vec<Defect> {
    let defect = |error| match damage_of(manifest.id, error) {
        Ok(damage) => Defect::Damaged(damage),
        Err(error) => Defect::Unchecked(error.to_string()),
    };
    files(manifest).filter_map(|file| file.verify(disk, folder).err()).map(defect).collect()
}

/// The first thing that is wrong with a checkpoint's files.
///
/// # Errors
/// That they cannot be looked at: see [`damage_of`].
pub(crate) fn first_damage<D: Disk>(
    disk: &mut D,
    folder: &str,
    manifest: &Manifest,
) -> Result<Option<String>, JobError> {
    let damaged = files(manifest).find_map(|file| file.verify(disk, folder).err());
    damaged.map(|error| damage_of(manifest.id, error)).transpose()
}

/// What is wrong with a file of a checkpoint, for which the checkpoint is passed over.
///
/// # Errors
/// Nothing is known to be wrong with the file: this process cannot look at it for now, is not able to read it, or has
/// no room for what is in it. To pass a sound checkpoint over would take back what sinks have committed.
pub(crate) fn damage_of(checkpoint: CheckpointId, error: RestoreError) -> Result<String, JobError> {
    let message = error.to_string();
    match error.cause {
        RestoreCause::Disk(cause) if is_passing(cause) => Err(JobError::disk(&error.path, cause)),
        RestoreCause::Unsupported(what) => Err(JobError::unsupported(&error.path, what)),
        RestoreCause::Format(what @ FormatError::Unsupported { .. })
        | RestoreCause::Page { error: what @ FormatError::Unsupported { .. }, .. } => {
            Err(JobError::unsupported(&error.path, what))
        }
        RestoreCause::Disk(_)
        | RestoreCause::Format(_)
        | RestoreCause::Page { .. }
        | RestoreCause::Foreign { .. }
        | RestoreCause::TooLong { .. } => Ok(message),
        RestoreCause::DiskBusy
        | RestoreCause::Heap(_)
        | RestoreCause::StateInUse { .. }
        | RestoreCause::Assign(_) => Err(JobError::Restore { checkpoint, message }),
    }
}

/// Whether an earlier run noted that a checkpoint is damaged. That is not believed, but then all of it is verified before
/// any of it is used.
pub(crate) fn is_distrusted<D: Disk>(disk: &mut D, folder: &str, id: CheckpointId) -> Result<bool, JobError> {
    has_note(disk, &paths::checkpoint_folder(folder, id), paths::DISTRUSTED)
}

fn has_note<D: Disk>(disk: &mut D, folder: &str, note: &str) -> Result<bool, JobError> {
    let entries = Blocking::new(disk).list(folder).map_err(|error| JobError::disk(folder, error))?;
    Ok(entries.iter().any(|entry| entry.name == note))
}

/// Notes for good that the job goes on without these checkpoints, as far as they lie in its folder: before its sinks take back
/// what they cover. Otherwise a later start, to which they read well, would go on from what is no longer there.
pub(crate) fn note_passed_over<D: Disk>(
    disk: &mut D,
    folder: &str,
    passed_over: &[PassedOver],
) -> Result<(), JobError> {
    if passed_over.is_empty() {
        return Ok(());
    }
    let ids = checkpoint_ids(&mut Blocking::new(disk), folder).map_err(|e| JobError::disk(folder, e))?;
    for PassedOver { id, reason } in passed_over.iter().filter(|passed_over| ids.contains(&passed_over.id)) {
        let folder = paths::checkpoint_folder(folder, *id);
        if has_note(disk, &folder, paths::PASSED_OVER)? {
            // Whoever wrote it may have died before its name was durable.
            let synced = Blocking::new(disk).sync_folder(&folder);
            synced.map_err(|error| JobError::disk(&folder, error))?;
        } else {
            write_note(disk, *id, &folder, reason)?;
        }
    }
    Ok(())
}

/// Why an earlier start has passed a checkpoint over.
fn noted_reason<D: Disk>(disk: &mut D, folder: &str) -> Result<Option<String>, JobError> {
    if !has_note(disk, folder, paths::PASSED_OVER)? {
        return Ok(None);
    }
    let bytes = Blocking::new(disk).read(&paths::join(folder, paths::PASSED_OVER), NOTE_LEN_MAX);
    let reason = bytes.map_or_else(|error| error.to_string(), |it| String::from_utf8_lossy(&it).into_owned());
    Ok(Some(format!(
        "an earlier start went on without it, as `{folder}/{}` says: {reason}",
        paths::PASSED_OVER
    )))
}

fn write_note<D: Disk>(
    disk: &mut D,
    checkpoint: CheckpointId,
    folder: &str,
    reason: &str,
) -> Result<(), JobError> {
    let path = paths::join(folder, paths::PASSED_OVER);
    let mut note = WriteFile::new(Names::Final { path: path.clone() }, reason.as_bytes().to_vec());
    run_to_end(disk, &mut note)
        .map_err(|error| JobError::Restore { checkpoint, message: error.to_string() })?;
    match note.result() {
        Some(Err(failure)) => Err(JobError::disk(&path, disk_error(failure))),
        Some(Ok(_)) | None => Ok(()),
    }
}

/// Whether an error says something of this process or moment, not of the file: no permission, no memory, too
/// many open files.
const fn is_passing(error: DiskError) -> bool {
    const EPERM: i32 = 1;
    const ENOMEM: i32 = 12;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.errno, EPERM | ENOMEM | DiskError::ACCESS | ENFILE | EMFILE)
}

pub(crate) fn segments(manifest: &Manifest) -> impl Iterator<Item = &SegmentRef> {
    subtasks(manifest).filter_map(|subtask| subtask.segment.as_ref())
}

fn subtasks(manifest: &Manifest) -> impl Iterator<Item = &SubtaskPart> {
    manifest.vertices.iter().flat_map(|vertex| &vertex.subtasks)
}

/// A file that a manifest lists.
enum Listed<'m> {
    Segment(&'m SegmentRef),
    InFlight(&'m InFlightRef),
}

fn files(manifest: &Manifest) -> impl Iterator<Item = Listed<'_>> {
    subtasks(manifest).flat_map(|subtask| {
        let in_flight = match &subtask.in_flight {
            Some(StoredInFlight::File(file)) => Some(Listed::InFlight(file)),
            // It was checked with the manifest.
            Some(StoredInFlight::Inline(_)) | None => None,
        };
        subtask.segment.as_ref().map(Listed::Segment).into_iter().chain(in_flight)
    })
}

impl Listed<'_> {
    /// Reads and checks every byte of it.
    fn verify<D: Disk>(&self, disk: &mut D, folder: &str) -> Result<(), RestoreError> {
        match self {
            Self::Segment(file) => {
                verify_segment(disk, &paths::join(folder, &file.file_name), file).map(drop)
            }
            Self::InFlight(file) => in_flight::verify(disk, &paths::join(folder, &file.file_name), file),
        }
    }
}

/// What was in flight to each subtask of a checkpoint, all of it read and checked.
///
/// # Errors
/// The first thing that is wrong.
pub(crate) fn read_in_flight<D: Disk>(
    disk: &mut D,
    folder: &str,
    manifest: &Manifest,
) -> Result<Captured, RestoreError> {
    let mut read = |subtask: &SubtaskPart| {
        let Some(stored) = &subtask.in_flight else { return Ok(InFlight::default()) };
        let path = match stored {
            StoredInFlight::File(file) => paths::join(folder, &file.file_name),
            StoredInFlight::Inline(_) => manifest_path(folder, manifest.id),
        };
        in_flight::read(disk, &path, stored)
    };
    let vertices = manifest.vertices.iter();
    vertices.map(|vertex| vertex.subtasks.iter().map(&mut read).collect()).collect()
}

/// Looks through a job's folder for the checkpoint to go on from, and reads every byte of it.
///
/// # Errors
/// What the disk said, or that a checkpoint cannot be read by this program; damaged checkpoints are no error.
pub fn find<D: Disk>(disk: &mut D, folder: &str) -> Result<Found, JobError> {
    find_with(disk, folder, &mut |disk, manifest| first_damage(disk, folder, manifest))
}

/// What lies in a job's folder by its manifests alone; no segment is read.
pub(crate) fn glance<D: Disk>(disk: &mut D, folder: &str) -> Result<Found, JobError> {
    find_with(disk, folder, &mut |_, _| Ok(None))
}

/// Says what is wrong with a checkpoint, if anything is.
pub(crate) type Verify<'v, D> = dyn FnMut(&mut D, &Manifest) -> Result<Option<String>, JobError> + 'v;

/// The same for the newest checkpoint that `verify` finds nothing wrong with.
///
/// # Errors
/// The same, and what `verify` says.
pub(crate) fn find_with<D: Disk>(
    disk: &mut D,
    folder: &str,
    verify: &mut Verify<'_, D>,
) -> Result<Found, JobError> {
    let ids = checkpoint_ids(&mut Blocking::new(disk), folder).map_err(|e| JobError::disk(folder, e))?;
    let mut found = Found { last_id: ids.last().copied(), ..Found::default() };
    let mut machine = Recovery::new();
    for id in ids.into_iter().rev() {
        let ordered = tell(&mut machine, RecoveryEvent::FolderFound(id))?;
        let verify = ordered.contains(&RecoveryAction::Verify(id)).then_some(&mut *verify);
        let examined = examine(disk, folder, id, verify)?;
        let actions = tell(&mut machine, RecoveryEvent::Examined(examined.verdict))?;
        found.note(&actions, examined);
    }
    found.retained.reverse();
    found.incomplete.reverse();
    Ok(found)
}

type Actions = FixedVec<RecoveryAction, { Recovery::ACTIONS_MAX }>;

fn tell(machine: &mut Recovery, event: RecoveryEvent) -> Result<Actions, JobError> {
    let mut actions = Actions::new();
    let told = machine.on_event(Now::default(), event, &mut actions);
    told.map_err(|rejected| JobError::machine("recovery", rejected)).map(|()| actions)
}

/// What a look at a checkpoint has shown.
struct Examined {
    verdict: Verdict,
    manifest: Option<Manifest>,
    reason: String,
}

/// Looks at a checkpoint: at all of it if there is a way to verify it.
fn examine<D: Disk>(
    disk: &mut D,
    folder: &str,
    id: CheckpointId,
    verify: Option<&mut Verify<'_, D>>,
) -> Result<Examined, JobError> {
    let read = read_manifest(disk, folder, id).map_err(|error| JobError::disk(folder, error))?;
    let without = |verdict, reason| Ok(Examined { verdict, manifest: None, reason });
    let manifest = match (read, &verify) {
        (None, _) => return without(Verdict::Incomplete, String::new()),
        (Some(Err(Defect::Unchecked(why))), Some(_)) => {
            return Err(JobError::unsupported(&manifest_path(folder, id), why));
        }
        (Some(Err(Defect::Damaged(reason) | Defect::Unchecked(reason))), _) => {
            return without(Verdict::Unreadable, reason);
        }
        (Some(Ok(manifest)), _) => manifest,
    };
    let damage = match verify {
        None => None,
        Some(verify) => match noted_reason(disk, &paths::checkpoint_folder(folder, id))? {
            None => verify(disk, &manifest)?,
            noted => noted,
        },
    };
    let verdict = if damage.is_some() { Verdict::Damaged } else { Verdict::Sound };
    Ok(Examined { verdict, manifest: Some(manifest), reason: damage.unwrap_or_default() })
}

impl Found {
    fn note(&mut self, actions: &[RecoveryAction], mut examined: Examined) {
        for action in actions {
            match *action {
                RecoveryAction::Restore(id) => {
                    self.retained.push(id);
                    self.newest = examined.manifest.take();
                }
                RecoveryAction::Retain(id) => self.retained.push(id),
                RecoveryAction::PassOver(id, _) => {
                    let reason = std::mem::take(&mut examined.reason);
                    self.passed_over.push(PassedOver { id, reason });
                }
                RecoveryAction::NoteRemains(id) => self.incomplete.push(id),
                RecoveryAction::StopDeleting => self.has_unreadable = true,
                RecoveryAction::Verify(_) | RecoveryAction::ReadManifest(_) => {}
            }
        }
    }
}
