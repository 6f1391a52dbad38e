//! What is shown: at any time what complete checkpoints cover, in the end what a run without failures shows.

use std::collections::BTreeSet;

use slackwater::Report;
use slackwater::blocking::Blocking;
use slackwater::checkpoint::{Manifest, SubtaskPart};
use slackwater::recovery::{checkpoint_ids, read_manifest, verify_files};
use slackwater_core::ids::CheckpointId;
use slackwater_mem::in_flight::StoredInFlight;
use slackwater_tests::crash::Sim;
use slackwater_tests::rng::Rng;
use slackwater_tests::sim_job::CHECKPOINTS;

use crate::folder;
use crate::graph::{output_folder, source_name};
use crate::plan::{Mode, Pipeline, Plan, SinkKind, SourceKind};
use crate::record::expected;
use crate::sink::folder_of_sink;
use crate::source::position;
use crate::world::{Verdict, World};

/// What has been shown so far.
pub(crate) struct Shown {
    /// Pipelines that end in files.
    files: Vec<u16>,
    /// Parts that were visible, with their folders.
    parts: BTreeSet<String>,
    /// The next start may take back: it is from a checkpoint older than what was shown.
    may_take_back: bool,
    /// The checkpoint that the run goes on from while state is still being restored. Until a newer one is complete the sinks
    /// may not have recovered.
    loading_from: Option<CheckpointId>,
    /// The newest checkpoint that was ever complete.
    newest: Option<CheckpointId>,
    /// Checkpoints completed in the run that has ended well; none if its report was lost in a crash.
    completed: u64,
    /// Something could not be deleted.
    has_leftovers: bool,
}

impl Shown {
    pub(crate) fn new(plan: &Plan) -> Self {
        let pipelines = (0u16..).zip(&plan.pipelines);
        let files = pipelines.filter(|(_, pipeline)| matches!(pipeline.sink, SinkKind::Files { .. }));
        Self {
            files: files.map(|(index, _)| index).collect(),
            parts: BTreeSet::new(),
            may_take_back: false,
            loading_from: None,
            newest: None,
            completed: 0,
            has_leftovers: false,
        }
    }

    /// A start from an older checkpoint takes back what later ones had shown.
    pub(crate) const fn on_older_start(&mut self) {
        self.may_take_back = true;
    }

    /// A run begins; it may go on from a checkpoint that it has not restored all of.
    pub(crate) const fn on_start(&mut self, loading_from: Option<CheckpointId>) {
        self.loading_from = loading_from;
    }

    /// The power goes. Names that a process gave right before it died are durable when the sinks have recovered, not before.
    pub(crate) fn on_power_cut(&mut self, announced: Option<CheckpointId>) {
        if self.loading_from.is_some() && announced <= self.loading_from {
            self.parts.clear();
        }
    }

    /// The next run is another one's continuation.
    pub(crate) const fn on_other_start(&mut self) {
        self.completed = 0;
    }

    /// What the report of the last run says.
    pub(crate) fn note_end(&mut self, report: &Report) {
        self.completed = report.checkpoints_completed;
        self.has_leftovers |= report.notes.iter().any(|note| note.contains("could not be deleted"));
    }

    /// The visible parts of all outputs.
    fn parts_on(&self, disk: &Sim) -> BTreeSet<String> {
        let parts = |index: &u16| {
            let folder = output_folder(*index);
            let names = disk.names(&folder).into_iter().filter(|name| !name.starts_with('.'));
            names.map(move |name| format!("{folder}/{name}")).collect::<Vec<_>>()
        };
        self.files.iter().flat_map(parts).collect()
    }
}

impl World {
    /// What tells whether a checkpoint, or a newer one, is complete.
    pub(crate) fn completeness(&self) -> Box<dyn Fn(CheckpointId) -> bool + Send + Sync> {
        let (disk, folder, stops) = (self.disk.clone(), self.checkpoints(), self.plan.stops());
        Box::new(move |id| {
            newest_complete(&disk, &folder) >= Some(id) || (stops && newest_savepoint(&disk) >= Some(id))
        })
    }

    /// The manifest of the newest checkpoint in the job's folder.
    pub(crate) fn newest_manifest(&self) -> Option<String> {
        let folder = self.checkpoints();
        newest_complete(&self.disk, &folder).map(|id| format!("{folder}/chk-{id}/_metadata"))
    }

    /// The savepoint in a folder, if it is complete.
    pub(crate) fn savepoint_in(&self, folder: &str) -> Option<CheckpointId> {
        newest_complete(&self.disk, &format!("{folder}/{CHECKPOINTS}"))
    }

    /// Whether its barriers had overtaken records.
    pub(crate) fn newest_has_in_flight(&self) -> bool {
        let bytes = self.newest_manifest().and_then(|path| self.disk.read_file(&path));
        let manifest = bytes.and_then(|bytes| Manifest::decode(&bytes).ok());
        let subtasks =
            manifest.iter().flat_map(|manifest| &manifest.vertices).flat_map(|vertex| &vertex.subtasks);
        subtasks.into_iter().any(|subtask| subtask.in_flight.is_some())
    }

    /// After a crash: no part is visible that no complete checkpoint covers, and none has gone that was, unless the
    /// next start is from an older checkpoint.
    pub(crate) fn expect_shown_is_covered(&mut self) -> Verdict {
        // A savepoint is committed only if a job stops with it.
        let stopped_with = if self.stops > 0 { newest_savepoint(&self.disk) } else { None };
        let newest = newest_complete(&self.disk, &self.checkpoints()).max(self.announced).max(stopped_with);
        self.shown.newest = self.shown.newest.max(newest);
        let parts = self.shown.parts_on(&self.disk);
        let uncovered = parts.iter().find(|part| checkpoint_of_part(part) > self.shown.newest);
        if let Some(part) = uncovered {
            return Err(format!("{part} is visible, the newest checkpoint is {:?}", self.shown.newest));
        }
        self.expect_kept(parts)
    }

    /// The job was drained: its input ends where the savepoint says.
    pub(crate) fn end_input(&mut self, folder: &str, id: CheckpointId) -> Verdict {
        let manifest = self.manifest_in(&format!("{folder}/{CHECKPOINTS}"), id);
        let manifest = manifest.ok_or_else(|| format!("there is no savepoint {id}"))?;
        for (index, pipeline) in (0u16..).zip(&mut self.plan.pipelines) {
            let read = positions(&manifest, index, pipeline);
            pipeline.splits = read.into_iter().map(|(_, records)| records).collect();
        }
        Ok(())
    }

    /// Hooks have been given back what fits the positions of the sources.
    pub(crate) fn expect_same_cut(&self, resumed_from: Option<CheckpointId>) -> Verdict {
        let manifest = resumed_from
            .map(|id| self.manifest(id).ok_or_else(|| format!("checkpoint {id} is gone")))
            .transpose()?;
        let read = |manifest: &Manifest| -> u64 {
            let pipelines = (0u16..).zip(&self.plan.pipelines);
            pipelines
                .flat_map(|(index, pipeline)| positions(manifest, index, pipeline))
                .map(|(read, _)| read)
                .sum()
        };
        let from = manifest.as_ref().map(|manifest| (manifest, read(manifest)));
        self.cut.expect_restored(&self.plan.meters(), from)
    }

    /// A checkpoint of the job's folder, or the savepoint that it starts from.
    fn manifest(&self, id: CheckpointId) -> Option<Manifest> {
        let savepoint = self.restore_from.as_ref().map(|from| format!("{}/{CHECKPOINTS}", from.folder));
        let mut folders = [Some(self.checkpoints()), savepoint].into_iter().flatten();
        folders.find_map(|folder| self.manifest_in(&folder, id))
    }

    /// Past the operations of the disk, one of which may be about to fail.
    fn manifest_in(&self, folder: &str, id: CheckpointId) -> Option<Manifest> {
        let bytes = self.disk.read_file(&format!("{folder}/chk-{id}/_metadata"))?;
        Manifest::decode(&bytes).ok()
    }

    fn expect_kept(&mut self, parts: BTreeSet<String>) -> Verdict {
        let taken_back = self.ledger.take_taken_back();
        let gone = self.shown.parts.difference(&parts).next().cloned();
        self.shown.parts = parts;
        self.coverage.add("transactions that were taken back", taken_back);
        self.coverage.add("runs that took parts back", u64::from(gone.is_some()));
        // Damage is passed over at some later start.
        let may_take_back = self.shown.may_take_back || self.had_damage || self.had_disk_trouble;
        match gone {
            Some(part) if !may_take_back => Err(format!("{part} was visible and is gone")),
            _ if taken_back > 0 && !may_take_back => Err("what was committed was taken back".to_owned()),
            _ => Ok(()),
        }
    }

    /// The job has finished: what is committed is right, and survives the power; nothing else is left.
    pub(crate) fn end(&mut self) -> Verdict {
        self.hooks.verdict()?;
        self.expect_shown_is_covered()?;
        self.expect_output(&self.disk.clone())?;
        self.expect_tidy()?;
        let left = self.disk.image_after_power_cut(Rng::new(self.plan.seed).any());
        self.expect_output(&left).map_err(|error| format!("after the power went: {error}"))
    }

    fn expect_output(&self, disk: &Sim) -> Verdict {
        for (index, pipeline) in (0u16..).zip(&self.plan.pipelines) {
            let committed = match pipeline.sink {
                SinkKind::Files { .. } => lines(disk, &output_folder(index)),
                SinkKind::Ledger { .. } => self.ledger.committed(index),
            };
            let is_exact = self.plan.mode != Mode::AtLeastOnce;
            compare(&expected(pipeline), &committed, is_exact)
                .map_err(|error| format!("pipeline {index}: {error}"))?;
        }
        Ok(())
    }

    /// What a job leaves behind at its end: the checkpoints that it retains, and what their manifests list.
    fn expect_tidy(&mut self) -> Verdict {
        for (index, pipeline) in (0u16..).zip(&self.plan.pipelines) {
            let (folder, is_ours): (_, fn(&String) -> bool) = match pipeline.sink {
                SinkKind::Files { .. } => (output_folder(index), |name| name.starts_with(".part-")),
                SinkKind::Ledger { .. } => (folder_of_sink(index), |_| true),
            };
            if let Some(left) = self.disk.names(&folder).into_iter().find(is_ours) {
                return Err(format!("{folder}/{left} is left"));
            }
        }
        let is_inexact = self.had_damage || self.had_disk_trouble || self.shown.has_leftovers;
        if is_inexact {
            return Ok(());
        }
        self.expect_tidy_checkpoints()
    }

    fn expect_tidy_checkpoints(&self) -> Verdict {
        let (mut disk, folder) = (self.disk.clone(), self.checkpoints());
        let mut complete = Vec::new();
        let ids =
            checkpoint_ids(&mut Blocking::new(&mut disk), &folder).map_err(|error| error.to_string())?;
        for id in &ids {
            let manifest = read_manifest(&mut disk, &folder, *id).map_err(|error| error.to_string())?;
            let Some(manifest) = manifest else { continue };
            let manifest = manifest.map_err(|defect| format!("checkpoint {id}: {defect}"))?;
            if let Some(defect) = verify_files(&mut disk, &folder, &manifest).first() {
                return Err(format!("checkpoint {id}: {defect}"));
            }
            let subtasks = manifest.vertices.iter().flat_map(|vertex| &vertex.subtasks);
            let listed: BTreeSet<_> = subtasks.flat_map(files_of).collect();
            let checkpoint = format!("chk-{id}");
            // A power cut can leave a manifest both its names; the other one goes with its checkpoint.
            let is_unlisted = |name: &String| {
                name != "_metadata"
                    && name != "_metadata.inprogress"
                    && name != "_distrusted"
                    && !listed.contains(&format!("{checkpoint}/{name}"))
            };
            if let Some(left) = disk.names(&format!("{folder}/{checkpoint}")).into_iter().find(is_unlisted) {
                return Err(format!("{folder}/{checkpoint}/{left} is in no manifest"));
            }
            complete.push(*id);
        }
        // One that a newer one has overtaken at the last moment may have its manifest, and so may those under way when
        // the job came to its end.
        if complete.len() > self.plan.num_retained + 4 {
            return Err(format!("{complete:?} are there, {} are retained", self.plan.num_retained));
        }
        // They go with the first that is retained no longer.
        let is_full = self.shown.completed > self.plan.num_retained as u64;
        match ids.iter().find(|id| Some(*id) < complete.first()).filter(|_| is_full) {
            Some(left) => {
                Err(format!("checkpoint {left} was never complete and is left, beside {complete:?}"))
            }
            None => Ok(()),
        }
    }
}

/// How far each split of a pipeline's source had been read: by its own measure, and in records.
fn positions(manifest: &Manifest, index: u16, pipeline: &Pipeline) -> Vec<(u64, u64)> {
    let source = source_name(index);
    if let SourceKind::Files { .. } = pipeline.source {
        return folder::positions(manifest, &source, pipeline);
    }
    let mut positions = vec![(0, 0); pipeline.splits.len()];
    let subtasks = manifest.vertices.iter().flat_map(|vertex| &vertex.subtasks);
    let states = subtasks.flat_map(|subtask| &subtask.inline).filter(|state| state.operator == source);
    for (split, read) in states.flat_map(|state| &state.partitions).map(|split| position(split)) {
        positions[usize::from(split)] = (read, read);
    }
    positions
}

/// The files that a subtask's part lists.
fn files_of(part: &SubtaskPart) -> Vec<String> {
    let segment = part.segment.iter().map(|segment| segment.file_name.clone());
    let in_flight = part.in_flight.iter().filter_map(|stored| match stored {
        StoredInFlight::File(file) => Some(file.file_name.clone()),
        StoredInFlight::Inline(_) => None,
    });
    segment.chain(in_flight).collect()
}

fn newest_complete(disk: &Sim, folder: &str) -> Option<CheckpointId> {
    let id = |name: &String| name.strip_prefix("chk-")?.parse().ok().map(CheckpointId);
    let is_complete = |id: &CheckpointId| disk.is_there(&format!("{folder}/chk-{id}/_metadata"));
    disk.names(folder).iter().filter_map(id).filter(is_complete).max()
}

/// The newest savepoint, of all folders.
fn newest_savepoint(disk: &Sim) -> Option<CheckpointId> {
    let folders = disk.names("").into_iter().filter(|name| name.starts_with("savepoint-"));
    folders.filter_map(|folder| newest_complete(disk, &format!("{folder}/{CHECKPOINTS}"))).max()
}

/// The checkpoint that a visible part of an output belongs to.
fn checkpoint_of_part(path: &str) -> Option<CheckpointId> {
    let (_, id) = path.rsplit_once("-chk-")?;
    id.parse().ok().map(CheckpointId)
}

/// The lines of all visible parts, in order.
fn lines(disk: &Sim, folder: &str) -> Vec<Vec<u8>> {
    let names = disk.names(folder).into_iter().filter(|name| !name.starts_with('.'));
    let bytes = names.filter_map(|name| disk.read_file(&format!("{folder}/{name}")));
    let mut lines: Vec<_> = bytes
        .flat_map(|bytes| {
            let lines = bytes.split_inclusive(|byte| *byte == b'\n');
            lines.map(|line| line.strip_suffix(b"\n").unwrap_or(b"half a line").to_vec()).collect::<Vec<_>>()
        })
        .collect();
    lines.sort();
    lines
}

/// Whether what is expected is committed, and nothing else, if that is to be exact.
fn compare(expected: &[Vec<u8>], committed: &[Vec<u8>], is_exact: bool) -> Verdict {
    let text = |record: &Vec<u8>| String::from_utf8_lossy(&record[..record.len().min(60)]).into_owned();
    let shown = |what: &str, record: &Vec<u8>| {
        let counts = (expected.len(), committed.len());
        Err(format!("{} is {what}; {} expected, {} committed", text(record), counts.0, counts.1))
    };
    let (mut wanted, mut found) = (expected.iter().peekable(), committed.iter().peekable());
    loop {
        match (wanted.peek(), found.peek()) {
            (None, None) => return Ok(()),
            (Some(want), Some(got)) if want == got => {
                wanted.next();
                found.next();
            }
            (Some(want), Some(got)) if want < got => return shown("missing", want),
            (Some(want), None) => return shown("missing", want),
            (_, Some(_)) if !is_exact => {
                found.next();
            }
            (_, Some(got)) => return shown("there once too often", got),
        }
    }
}
