//! Finds the checkpoint to go on from: the newest that verifies.

use heapless::Vec as FixedVec;
use slackwater_core::durable::{Disk, DiskError};
use slackwater_core::ids::CheckpointId;
use slackwater_core::retained::{Recovery, RecoveryAction, RecoveryEvent, Verdict};
use slackwater_core::time::Now;
use slackwater_mem::segment::{RestoreCause, RestoreError, SegmentRef, verify_segment};

use crate::blocking::Blocking;
use crate::checkpoint::Manifest;
use crate::error::JobError;
use crate::files::BlockingFiles;
use crate::paths;

/// A manifest larger than this is not read.
const MANIFEST_LEN_MAX: u64 = 1 << 30;

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

/// The manifest of a checkpoint; none if it was never completed, a sentence if it cannot be read.
///
/// # Errors
/// What the disk said, other than that something is not there.
pub fn read_manifest<D: Disk>(
    disk: &mut D,
    folder: &str,
    id: CheckpointId,
) -> Result<Option<Result<Manifest, String>>, DiskError> {
    let path = paths::join(&paths::join(folder, &paths::checkpoint_name(id)), paths::MANIFEST);
    let bytes = match Blocking::new(disk).read(&path, MANIFEST_LEN_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.errno == DiskError::NOT_FOUND => return Ok(None),
        Err(error) if error.errno == DiskError::IO => return Ok(Some(Err(format!("its manifest: {error}")))),
        Err(error) => return Err(error),
    };
    Ok(Some(match Manifest::decode(&bytes) {
        Ok(manifest) if manifest.id == id => Ok(manifest),
        Ok(manifest) => Err(format!("its manifest is that of checkpoint {}", manifest.id)),
        Err(error) => Err(format!("its manifest is {error}")),
    }))
}

/// Reads every byte of every segment of a checkpoint. A sentence for each that is not as it was written.
pub fn verify_segments<D: Disk>(disk: &mut D, folder: &str, manifest: &Manifest) -> Vec<String> {
    let paths = segments(manifest).map(|segment| (segment, paths::join(folder, &segment.file_name)));
    paths
        .filter_map(|(segment, path)| verify_segment(disk, &path, segment).err())
        .map(|why| why.to_string())
        .collect()
}

/// The first thing that is wrong with a checkpoint's segments. That this process cannot look at them for now
/// is an error instead: to pass a sound checkpoint over would take back what sinks have committed.
fn first_damage<D: Disk>(
    disk: &mut D,
    folder: &str,
    manifest: &Manifest,
) -> Result<Option<String>, JobError> {
    for segment in segments(manifest) {
        let path = paths::join(folder, &segment.file_name);
        match verify_segment(disk, &path, segment) {
            Ok(_) => {}
            Err(RestoreError { cause: RestoreCause::Disk(error), .. }) if is_passing(error) => {
                return Err(JobError::disk(&path, error));
            }
            Err(RestoreError { cause: RestoreCause::Unsupported(unsupported), .. }) => {
                return Err(JobError::Unsupported { path, unsupported });
            }
            Err(why) => return Ok(Some(why.to_string())),
        }
    }
    Ok(None)
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

fn segments(manifest: &Manifest) -> impl Iterator<Item = &SegmentRef> {
    let subtasks = manifest.vertices.iter().flat_map(|vertex| &vertex.subtasks);
    subtasks.filter_map(|subtask| subtask.segment.as_ref())
}

/// Looks through a job's folder for the checkpoint to go on from.
///
/// # Errors
/// What the disk said; damaged checkpoints are no error.
pub fn find<D: Disk>(disk: &mut D, folder: &str) -> Result<Found, JobError> {
    let ids = checkpoint_ids(&mut Blocking::new(disk), folder).map_err(|e| JobError::disk(folder, e))?;
    let mut found = Found { last_id: ids.last().copied(), ..Found::default() };
    let mut machine = Recovery::new();
    for id in ids.into_iter().rev() {
        let ordered = tell(&mut machine, RecoveryEvent::FolderFound(id))?;
        let examined = examine(disk, folder, id, ordered.contains(&RecoveryAction::Verify(id)))?;
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

fn examine<D: Disk>(
    disk: &mut D,
    folder: &str,
    id: CheckpointId,
    is_verified: bool,
) -> Result<Examined, JobError> {
    let read = read_manifest(disk, folder, id).map_err(|error| JobError::disk(folder, error))?;
    let manifest = match read {
        None => {
            return Ok(Examined { verdict: Verdict::Incomplete, manifest: None, reason: String::new() });
        }
        Some(Err(reason)) => {
            return Ok(Examined { verdict: Verdict::Unreadable, manifest: None, reason });
        }
        Some(Ok(manifest)) => manifest,
    };
    let damage = if is_verified { first_damage(disk, folder, &manifest)? } else { None };
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
