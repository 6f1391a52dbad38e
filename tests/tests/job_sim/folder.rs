//! A source whose splits are files, which the real coordinator of a folder source hands out.

use std::collections::BTreeMap;
use std::sync::Arc;

use slackwater::checkpoint::{Manifest, ParticipantKind};
use slackwater::folder_source::{Folder, FolderCoordinator, FolderSource};
use slackwater::inputs::{InputError, Inputs};
use slackwater::line_source::{LineOptions, RecordedSplit};
use slackwater::operator::{OperatorError, Source, SourceStatus};
use slackwater::operator_coordinator::{OperatorCoordinator, Subtasks};
use slackwater::output::Output;
use slackwater_core::ids::CheckpointId;
use slackwater_core::time::{Millis, Now};

use crate::cut::Cut;
use crate::hooks::{Hooks, Place};
use crate::plan::{Mutant, Pipeline};

/// The files of a pipeline, one for each split.
#[derive(Clone)]
pub(crate) struct Texts(Arc<BTreeMap<String, Arc<[u8]>>>);

impl Texts {
    pub(crate) fn new(pipeline: &Pipeline) -> Self {
        let texts = (0u16..).zip(&pipeline.lens).map(|(split, len)| {
            let lines =
                (0..*len).flat_map(|number| [pipeline.record(split, number), b"\n".to_vec()].concat());
            (name_of(split), lines.collect::<Arc<[u8]>>())
        });
        Self(Arc::new(texts.collect()))
    }

    fn len(&self, name: &str) -> u64 {
        self.0.get(name).map_or(0, |text| text.len() as u64)
    }

    /// How many lines lie in the first bytes of a file.
    fn lines(&self, name: &str, bytes: u64) -> u64 {
        let text = self.0.get(name).map_or(&[][..], |text| &text[..]);
        let read = &text[..usize::try_from(bytes).expect("a small file")];
        read.iter().filter(|byte| **byte == b'\n').count() as u64
    }
}

fn name_of(split: u16) -> String {
    format!("file-{split:03}")
}

impl Folder for Texts {
    fn list(&mut self) -> Result<Vec<String>, OperatorError> {
        Ok(self.0.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> Result<Inputs, InputError> {
        Inputs::in_memory([(name, Arc::clone(&self.0[name]))])
    }
}

/// The real coordinator, which fails when that is planned.
pub(crate) struct Coordinator {
    files: FolderCoordinator<Texts>,
    hooks: Hooks,
    /// What it gave for the checkpoint before.
    given: Option<Vec<u8>>,
}

impl Coordinator {
    pub(crate) const fn new(texts: Texts, hooks: Hooks) -> Self {
        Self { files: FolderCoordinator::new(texts, None), hooks, given: None }
    }
}

impl OperatorCoordinator for Coordinator {
    fn restore(&mut self, state: Option<&[u8]>) -> Result<(), OperatorError> {
        self.hooks.at(Place::RestoreCoordinator)?;
        self.hooks.note("restored coordinators");
        self.files.restore(state)
    }

    fn on_request(
        &mut self,
        subtask: u16,
        request: &[u8],
        subtasks: &mut Subtasks<'_>,
    ) -> Result<(), OperatorError> {
        self.hooks.at(Place::HandOut)?;
        self.hooks.note("requests to coordinators");
        self.files.on_request(subtask, request, subtasks)
    }

    fn snapshot(&mut self, checkpoint: CheckpointId) -> Result<Option<Vec<u8>>, OperatorError> {
        if let Err(error) = self.hooks.at(Place::Coordinate) {
            self.hooks.note_refused();
            return Err(error);
        }
        let state = self.files.snapshot(checkpoint)?;
        let before = std::mem::replace(&mut self.given, state.clone());
        Ok(if self.hooks.has(Mutant::CoordinatorBehind) { before } else { state })
    }

    fn next_deadline(&self) -> Option<Millis> {
        self.files.next_deadline()
    }

    fn on_deadline(&mut self, now: Now, subtasks: &mut Subtasks<'_>) -> Result<(), OperatorError> {
        self.files.on_deadline(now, subtasks)
    }
}

/// The real reader, which fails when that is planned.
pub(crate) struct Reader {
    files: FolderSource<Texts>,
    hooks: Hooks,
    cut: Cut,
}

impl Reader {
    pub(crate) const fn new(texts: Texts, chunk_len: usize, hooks: Hooks, cut: Cut) -> Self {
        let options = LineOptions {
            chunk_len,
            split_len_min: u64::MAX,
            cut_long_lines_at: None,
            line_len_max: u64::MAX,
        };
        Self { files: FolderSource::new(texts, options), hooks, cut }
    }
}

impl Source for Reader {
    type Out = [u8];

    fn restore(&mut self, splits: Vec<Vec<u8>>) -> Result<(), OperatorError> {
        self.hooks.at(Place::Restore)?;
        self.files.restore(splits)
    }

    fn read(&mut self, out: &mut Output<'_, [u8]>) -> Result<SourceStatus, OperatorError> {
        self.hooks.at(Place::Read)?;
        let before = self.files.bytes_read();
        let status = self.files.read(out);
        self.cut.note_read(self.files.bytes_read() - before);
        status
    }

    fn snapshot(&mut self) -> Vec<Vec<u8>> {
        self.files.snapshot()
    }

    fn on_event(&mut self, event: &[u8]) -> Result<(), OperatorError> {
        self.hooks.at(Place::Event)?;
        self.files.on_event(event)
    }

    fn take_request(&mut self) -> Option<Vec<u8>> {
        self.files.take_request()
    }
}

/// How far each split has been read at a checkpoint, in bytes and in records.
pub(crate) fn positions(manifest: &Manifest, source: &str, pipeline: &Pipeline) -> Vec<(u64, u64)> {
    let texts = Texts::new(pipeline);
    let mut bytes = BTreeMap::new();
    let coordinator = manifest
        .participants
        .iter()
        .find(|part| part.kind == ParticipantKind::OperatorCoordinator && part.name == source);
    let mut handed_out = coordinator.map_or(&[][..], |part| &part.state[..]);
    while !handed_out.is_empty() {
        let name = take_name(&mut handed_out);
        bytes.insert(name.clone(), texts.len(&name));
    }
    let subtasks = manifest.vertices.iter().flat_map(|vertex| &vertex.subtasks);
    let states = subtasks.flat_map(|subtask| &subtask.inline).filter(|state| state.operator == source);
    for mut rest in states
        .filter(|state| !state.name.starts_with('.'))
        .flat_map(|state| &state.partitions)
        .map(Vec::as_slice)
    {
        let name = take_name(&mut rest);
        let position = RecordedSplit::decode(rest).expect("a position in a file").split.position;
        bytes.insert(name, position);
    }
    let read = |split: u16| {
        let name = name_of(split);
        let bytes = bytes.get(&name).copied().unwrap_or(0);
        (bytes, texts.lines(&name, bytes))
    };
    (0u16..).zip(&pipeline.splits).map(|(split, _)| read(split)).collect()
}

/// Takes a name off the front, behind its length.
fn take_name(bytes: &mut &[u8]) -> String {
    let (len, rest) = bytes.split_first_chunk::<4>().expect("a name's length");
    let len = usize::try_from(u32::from_le_bytes(*len)).expect("a short name");
    let (name, rest) = rest.split_at(len);
    *bytes = rest;
    String::from_utf8(name.to_vec()).expect("our own name")
}
