//! Makes the actors of a job.

use std::collections::BTreeSet;

use slackwater_core::coordinator::CoordinatorOptions;
use slackwater_core::durable::{Disk, DiskError, folder_of};
use slackwater_core::ids::{CheckpointId, SavepointFormat, SnapshotKind, TaskIndex};
use slackwater_core::key_group::MaxParallelism;
use slackwater_core::time::Now;
use slackwater_mem::FrozenRun;
use slackwater_mem::segment::check_compression;

use super::participants::{self, JobParticipants};
use super::restore::{Heads, KeyedState, Loaded, hold_sinks, recover_sinks};
use super::{AssembledJob, JobOptions};
use crate::actor::{Actor, Guarded, Mailbox, Signal};
use crate::blocking::Blocking;
use crate::chain::{Cx, HeldSinks};
use crate::checkpoint::{Manifest, RestoredStates, SubtaskPart, VertexPart};
use crate::coordinator::{CoordinatorActor, CoordinatorParts};
use crate::error::{DamagedSavepoint, JobError};
use crate::files::BlockingFiles;
use crate::graph::{JobBuilder, Vertex};
use crate::head::Head;
use crate::mail::{CoordinatorMail, TaskMail, WriterMail};
use crate::operator::SubtaskInfo;
use crate::panics;
use crate::paths;
use crate::recovery::{self, Found, PassedOver};
use crate::retention::Retention;
use crate::savepoint::{RestoreFrom, RestoreMode};
use crate::shared::Shared;
use crate::statistics::{RestoreFigures, Tracker};
use crate::task::{Loading, Task, TaskParts};
use crate::telemetry;
use crate::writer::{SegmentIdentity, Writer, WriterParts};

/// The boxes through which the actors of a job talk.
struct Wiring {
    shared: Shared,
    tasks: Vec<(Signal, Mailbox<TaskMail>)>,
    coordinator: (Signal, Mailbox<CoordinatorMail>),
    writer: (Signal, Mailbox<WriterMail>),
    participants: JobParticipants,
}

/// A subtask that is ready, all but its boxes.
pub(super) struct Ready {
    name: String,
    head: Box<dyn Head>,
    cx: Cx,
    is_source: bool,
    is_drained: bool,
    loading: Option<Loading>,
}

pub(super) fn assemble<D>(
    mut builder: JobBuilder,
    mut disk: D,
    now: Now,
    options: &JobOptions,
) -> Result<AssembledJob, JobError>
where
    D: Disk<Frozen = FrozenRun> + Send + 'static,
{
    let _recovering = telemetry::in_recovery(&builder.name);
    let max_parallelism = builder.validate()?;
    options.check_modes()?;
    check_compression(options.compression)
        .map_err(|unsupported| JobError::InvalidJob { what: unsupported.to_string() })?;
    let folder = paths::join(&options.folder, &builder.name);
    prepare_folder(&mut disk, &folder)?;
    let keyed_state = KeyedState { folder: &folder, builder: &builder, max_parallelism, options };
    let (found, loaded) = recover(&mut disk, &keyed_state)?;
    let manifest = found.newest.as_ref();
    let of_participants = participants::check(&builder, manifest, options.allow_non_restored_state)?;
    let Loaded { heaps, captured } = loaded.map_or_else(|| keyed_state.empty(options.hash_seed), Ok)?;
    let template = template(&builder, manifest, max_parallelism, now, options);
    let mut wiring = Wiring::new(&builder);
    *wiring.shared.statistics() = tracker(&builder, &found, now);
    let previous = builder.previous.clone();
    let states = RestoredStates::new(manifest, &captured).with_previous(&previous);

    let mut heads = build_heads(&mut builder, max_parallelism, options)?;
    if let Some(manifest) = manifest {
        let dropped =
            super::matching::check(manifest, &builder, max_parallelism, options.allow_non_restored_state)?;
        dropped.into_iter().chain(of_participants).for_each(|sentence| wiring.shared.note(sentence));
    }
    recovery::note_passed_over(&mut disk, &folder, &found.passed_over)?;
    let is_loading = heaps.iter().flat_map(|(_, rest)| rest).any(|restore| !restore.is_done());
    let held_sinks = if is_loading {
        hold_sinks(&mut heads, &states)
    } else {
        let said = recover_sinks(&mut heads, &states, &mut Blocking::new(&mut disk))?;
        said.into_iter().for_each(|sentence| wiring.shared.note(sentence));
        HeldSinks::new()
    };
    if let Some(finished) = manifest.filter(|manifest| manifest.is_finished) {
        super::restore::check_sources(&mut heads, &states)?;
        return Err(JobError::AlreadyFinished { checkpoint: finished.id });
    }
    let ready = super::restore::subtasks(&builder, heads, heaps, &states)?;
    wiring.participants = participants::restore(&mut builder, manifest, &wiring.shared)?;
    let actors =
        wiring.actors(ready, held_sinks, disk, folder, &found, template, max_parallelism, options)?;
    Ok(AssembledJob {
        actors,
        resumed_from: found.newest.map(|manifest| manifest.id),
        passed_over: found.passed_over,
        sinks: builder.sinks,
        name: builder.name,
        shared: wiring.shared,
        coordinator: wiring.coordinator.1,
    })
}

/// Finds what the job goes on from: its newest checkpoint, or the savepoint that it was told to start from if that is newer.
fn recover<D: Disk>(disk: &mut D, own: &KeyedState<'_>) -> Result<(Found, Option<Loaded>), JobError> {
    let Some(RestoreFrom { folder, mode }) = own.options.restore_from.as_ref() else {
        return load_newest(disk, own);
    };
    let base = paths::join(folder, &own.builder.name);
    let there = recovery::glance(disk, &base)?.newest;
    let mut found = recovery::glance(disk, own.folder)?;
    if !is_newer(there.as_ref(), found.newest.as_ref()) {
        let (verified, loaded) = load_newest(disk, own)?;
        if !is_newer(there.as_ref(), verified.newest.as_ref()) {
            return Ok((verified, loaded));
        }
        found = verified;
    }
    match mode {
        RestoreMode::Claim => {
            let newest = expect_sound(recovery::find(disk, &base)?, &base, (&found, own.folder))?;
            claim(disk, (&base, own.folder), newest.id).map_err(|error| JobError::disk(&base, error))?;
            load_newest(disk, own)
        }
        RestoreMode::NoClaim => {
            let (theirs, loaded) = load_newest(disk, &KeyedState { folder: &base, ..*own })?;
            // What is deleted and what is not follows from the job's own.
            let last_id = found.last_id.max(theirs.last_id);
            let passed_over = found.passed_over.iter().chain(&theirs.passed_over).cloned().collect();
            let newest = Some(expect_sound(theirs, &base, (&found, own.folder))?);
            Ok((Found { newest, last_id, passed_over, ..found }, loaded))
        }
    }
}

/// Whether a savepoint comes before the newest of a job's own checkpoints. Numbers ascend in one job only: another job's
/// tell nothing.
fn is_newer(savepoint: Option<&Manifest>, own: Option<&Manifest>) -> bool {
    let Some(own) = own else { return true };
    savepoint.is_some_and(|savepoint| savepoint.job_id == own.job_id && savepoint.id > own.id)
}

/// The savepoint in a folder. If there is none, it may be the job's own that is not sound: an earlier start may have claimed it.
fn expect_sound(there: Found, folder: &str, own: (&Found, &str)) -> Result<Manifest, JobError> {
    let Some(newest) = there.newest else {
        let in_folder = |(found, folder): (&Found, &str)| {
            let PassedOver { id: checkpoint, reason } = found.passed_over.first().cloned()?;
            Some(DamagedSavepoint { checkpoint, folder: folder.to_owned(), reason })
        };
        let damaged = [(&there, folder), own].into_iter().find_map(in_folder);
        return Err(JobError::NoSavepoint { folder: folder.to_owned(), damaged });
    };
    Ok(newest)
}

/// Moves a savepoint to the job's own checkpoints, for good before anything builds on it.
fn claim<D: Disk>(disk: &mut D, (from, to): (&str, &str), checkpoint: CheckpointId) -> Result<(), DiskError> {
    let (mut files, name) = (Blocking::new(disk), paths::checkpoint_name(checkpoint));
    files.rename(&paths::join(from, &name), &paths::join(to, &name))?;
    files.sync_folder(to)?;
    files.sync_folder(from)
}

/// Finds the newest checkpoint that is sound, and gives its keyed state if there is one to go on with. A checkpoint that
/// turns out to be damaged while it is loaded is dropped, with all that was loaded of it.
fn load_newest<D: Disk>(
    disk: &mut D,
    keyed_state: &KeyedState<'_>,
) -> Result<(Found, Option<Loaded>), JobError> {
    let mut loaded = None;
    let found = recovery::find_with(disk, keyed_state.folder, &mut |disk, manifest| {
        let allow = keyed_state.options.allow_non_restored_state;
        super::matching::check(manifest, keyed_state.builder, keyed_state.max_parallelism, allow)?;
        if manifest.is_finished {
            return recovery::first_damage(disk, keyed_state.folder, manifest);
        }
        let is_lazy = keyed_state.options.lazy_restore
            && !recovery::is_distrusted(disk, keyed_state.folder, manifest.id)?;
        match keyed_state.checkpoint(disk, manifest, is_lazy)? {
            Ok(all) => loaded = Some(all),
            Err(damage) => return Ok(Some(damage)),
        }
        Ok(None)
    })?;
    if let Some(newest) = &found.newest {
        keep(disk, keyed_state.folder, newest.id)?;
    }
    Ok((found, loaded))
}

/// Makes the job's folder if it is not there yet, durably.
fn prepare_folder<D: Disk>(disk: &mut D, folder: &str) -> Result<(), JobError> {
    let mut files = Blocking::new(disk);
    let parent = folder_of(folder);
    let mut make = |path: &str| {
        if !path.is_empty() {
            files.create_folder(path)?;
            files.sync_folder(folder_of(path))?;
        }
        Ok(())
    };
    make(parent).map_err(|error| JobError::disk(parent, error))?;
    make(folder).map_err(|error| JobError::disk(folder, error))
}

/// Makes the name of a manifest durable that a killed process may have given it a moment ago: what the sinks are about to
/// commit must not outlive it.
fn keep<D: Disk>(disk: &mut D, folder: &str, checkpoint: CheckpointId) -> Result<(), JobError> {
    let folder = paths::checkpoint_folder(folder, checkpoint);
    Blocking::new(disk).sync_folder(&folder).map_err(|error| JobError::disk(&folder, error))
}

/// What every manifest of this run says; subtasks in place, their parts yet to come.
fn template(
    builder: &JobBuilder,
    restored: Option<&Manifest>,
    max_parallelism: MaxParallelism,
    now: Now,
    options: &JobOptions,
) -> Manifest {
    let vertices = builder.vertices.iter().map(|vertex| VertexPart {
        name: vertex.name.clone(),
        subtasks: vec![SubtaskPart::default(); vertex.signals.len()],
    });
    Manifest {
        id: CheckpointId(0),
        job_id: restored.map_or_else(|| u128::from(options.attempt), |manifest| manifest.job_id),
        job_name: builder.name.clone(),
        triggered_at: now.wall,
        max_parallelism: max_parallelism.get(),
        hash_seed: restored.map_or(options.hash_seed, |manifest| manifest.hash_seed),
        is_finished: false,
        participants: Vec::new(),
        vertices: vertices.collect(),
    }
}

/// Figures of nothing but what the job goes on from.
fn tracker(builder: &JobBuilder, found: &Found, now: Now) -> Tracker {
    let tasks = builder.vertices.iter().flat_map(|vertex| {
        let parallelism = u16::try_from(vertex.signals.len()).unwrap_or(u16::MAX);
        (0..parallelism).map(|index| (vertex.name.clone(), index))
    });
    found.passed_over.iter().for_each(|over| telemetry::passed_over(over.id, &over.reason));
    let mut tracker = Tracker::new(&builder.name, tasks.collect());
    if let Some(manifest) = &found.newest {
        let is_own = found.retained.contains(&manifest.id);
        let subtasks = manifest.vertices.iter().flat_map(|vertex| &vertex.subtasks);
        tracker.restored(RestoreFigures {
            id: manifest.id,
            kind: if is_own {
                SnapshotKind::Checkpoint
            } else {
                SnapshotKind::Savepoint(SavepointFormat::Native)
            },
            at: now.wall,
            state_size: subtasks.map(SubtaskPart::state_bytes).sum(),
        });
    }
    tracker
}

/// The heads of each vertex, not yet restored.
fn build_heads(
    builder: &mut JobBuilder,
    max_parallelism: MaxParallelism,
    options: &JobOptions,
) -> Result<Heads, JobError> {
    let heads = |vertex: &mut Vertex| {
        let parallelism = u16::try_from(vertex.signals.len()).expect("the job has been validated");
        let head = |index| {
            let info = SubtaskInfo {
                operator: vertex.name.clone(),
                index,
                parallelism,
                max_parallelism: max_parallelism.get(),
                attempt: options.attempt,
            };
            let head = panics::catch(|| (vertex.build)(&info));
            let head = head.map_err(|message| JobError::Panicked { task: info.task_name(), message })?;
            Ok((info, head))
        };
        (0..parallelism).map(head).collect()
    };
    builder.vertices.iter_mut().map(heads).collect()
}

impl Wiring {
    fn new(builder: &JobBuilder) -> Self {
        let shared = Shared::default();
        let (coordinator, writer) = (Signal::default(), Signal::default());
        let signals = builder.vertices.iter().flat_map(|vertex| &vertex.signals);
        signals.chain([&coordinator, &writer]).for_each(|signal| shared.watch(signal.clone()));
        let signals = builder.vertices.iter().flat_map(|vertex| &vertex.signals);
        Self {
            shared,
            tasks: signals.map(|signal| (signal.clone(), Mailbox::new(signal.clone()))).collect(),
            coordinator: (coordinator.clone(), Mailbox::new(coordinator)),
            writer: (writer.clone(), Mailbox::new(writer)),
            participants: JobParticipants::default(),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "each is taken apart right here")]
    fn actors<D>(
        &mut self,
        ready: Vec<Ready>,
        held_sinks: HeldSinks,
        disk: D,
        folder: String,
        found: &Found,
        template: Manifest,
        max_parallelism: MaxParallelism,
        options: &JobOptions,
    ) -> Result<Vec<Box<dyn Actor>>, JobError>
    where
        D: Disk<Frozen = FrozenRun> + Send + 'static,
    {
        let segments = SegmentIdentity {
            job_id: template.job_id,
            attempt: options.attempt,
            max_parallelism,
            compression: options.compression,
        };
        let sources = (0u16..).zip(&ready).filter(|(_, subtask)| subtask.is_source);
        let sources = sources.map(|(index, _)| TaskIndex(index)).collect();
        let loading = (0u16..).zip(&ready).filter(|(_, subtask)| subtask.loading.is_some());
        let loading = loading.map(|(index, _)| TaskIndex(index)).collect();
        let coordinator = self.coordinator(found, template, sources, loading, options)?;
        let mut actors: Vec<Box<dyn Actor>> = Vec::new();
        for ((index, subtask), (signal, mail)) in (0u16..).zip(ready).zip(&self.tasks) {
            self.shared.add_restored(subtask.head.bytes_restored());
            let task = Task::new(TaskParts {
                name: subtask.name,
                index: TaskIndex(index),
                head: subtask.head,
                cx: subtask.cx,
                signal: signal.clone(),
                mail: mail.clone(),
                coordinator: self.coordinator.1.clone(),
                writer: self.writer.1.clone(),
                shared: self.shared.clone(),
                is_drained: subtask.is_drained,
                loading: subtask.loading,
                gate: options.gate(),
                buffer_timeout: options.buffer_timeout,
                operator_coordinator: self.participants.of_task(index),
            })?;
            actors.push(Box::new(Guarded::new(task, self.shared.clone())));
        }
        let participants = std::mem::take(&mut self.participants);
        actors.extend(participants.actors(&self.tasks, &self.coordinator.1, &self.shared)?);
        actors.push(Box::new(Guarded::new(coordinator, self.shared.clone())));
        let writer = Writer::new(WriterParts {
            disk,
            folder,
            tasks: self.tasks.iter().map(|(_, mail)| mail.clone()).collect(),
            coordinator: self.coordinator.1.clone(),
            signal: self.writer.0.clone(),
            mail: self.writer.1.clone(),
            shared: self.shared.clone(),
            segments,
            restored: found.newest.as_ref().map(|manifest| manifest.id),
            held_sinks,
        });
        actors.push(Box::new(Guarded::new(writer, self.shared.clone())));
        Ok(actors)
    }

    fn coordinator(
        &mut self,
        found: &Found,
        template: Manifest,
        sources: Vec<TaskIndex>,
        loading: BTreeSet<TaskIndex>,
        options: &JobOptions,
    ) -> Result<CoordinatorActor, JobError> {
        let mut retention = Retention::new(options.num_retained, options.on_cancellation.into())?;
        retention.recovered(&found.retained)?;
        found.incomplete.iter().for_each(|id| retention.aborted(*id));
        if found.has_unreadable {
            retention.found_unreadable()?;
        }
        let participants = self.participants.for_coordinator();
        let (operator_coordinators, hooks) = participants.counts();
        CoordinatorActor::new(CoordinatorParts {
            options: CoordinatorOptions {
                operator_coordinators,
                hooks,
                interval: options.interval,
                timeout: options.timeout,
                min_pause: options.min_pause,
                max_concurrent_checkpoints: options.max_concurrent_checkpoints,
                alignment: options.alignment(),
                tolerable_failed_checkpoints: options.tolerable_failed_checkpoints,
                seed: options.attempt,
                ..CoordinatorOptions::default()
            },
            next_id: found.last_id.map_or(CheckpointId::FIRST, CheckpointId::next),
            tasks: self.tasks.iter().map(|(_, mail)| mail.clone()).collect(),
            sources,
            writer: self.writer.1.clone(),
            signal: self.coordinator.0.clone(),
            mail: self.coordinator.1.clone(),
            shared: self.shared.clone(),
            template,
            retention,
            newest_folder: found.last_id,
            loading,
            participants,
        })
    }
}

impl Ready {
    pub(super) fn new(
        info: &SubtaskInfo,
        head: Box<dyn Head>,
        cx: Cx,
        is_drained: bool,
        loading: Option<Loading>,
    ) -> Self {
        Self { name: info.task_name(), is_source: head.channels() == 0, head, cx, is_drained, loading }
    }
}
