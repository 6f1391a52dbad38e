//! Manifests to bytes and back, over the views of `core::format`.

use std::convert::Infallible;

use slackwater_core::format::manifest::{self, ManifestEncoder, ManifestView, StateMode, SubtaskEncoder};
use slackwater_core::format::{EncodeError, FormatError};
use slackwater_core::ids::{CheckpointId, TaskIndex};
use slackwater_core::time::Millis;
use slackwater_mem::in_flight::StoredInFlight;
use slackwater_mem::segment::SegmentRef;

use super::figures::{self, FIGURES};
use super::{InlineState, Manifest, ParticipantPart, Redistribution, SubtaskPart, VertexPart};

type Encoded = Result<(), EncodeError<Infallible>>;

impl Manifest {
    /// The bytes of the file.
    ///
    /// # Errors
    /// A name is too long or a number out of range.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError<Infallible>> {
        let mut bytes = Vec::new();
        let header = manifest::ManifestHeader {
            is_finished: self.is_finished,
            checkpoint: self.id.0,
            job_id: self.job_id,
            job_name: &self.job_name,
            wall_time_ms: self.triggered_at.0,
            max_parallelism: self.max_parallelism.into(),
            hash_seed: self.hash_seed,
        };
        let mut encoder = ManifestEncoder::new(&mut bytes, &header)?;
        for part in &self.participants {
            let ParticipantPart { kind, ref name, ref state } = *part;
            encoder.participant(&manifest::Participant { kind, name, state })?;
        }
        for vertex in &self.vertices {
            encode_vertex(&mut encoder, vertex)?;
        }
        encoder.finish()?;
        Ok(bytes)
    }

    /// Checks and reads the bytes of the file. Takes at most [`MEMORY_PER_BYTE`] times their memory.
    ///
    /// # Errors
    /// They are damaged, cut short, or of a newer version.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let view = ManifestView::parse(bytes)?;
        let header = view.header();
        Ok(Self {
            id: CheckpointId(header.checkpoint),
            job_id: header.job_id,
            job_name: header.job_name.to_owned(),
            triggered_at: Millis(header.wall_time_ms),
            max_parallelism: u16::try_from(header.max_parallelism).unwrap_or(u16::MAX),
            hash_seed: header.hash_seed,
            is_finished: header.is_finished,
            participants: exactly(view.participants(), decode_participant),
            vertices: exactly(view.vertices(), decode_vertex),
        })
    }
}

/// Bytes of memory that [`Manifest::decode`] may take for each byte of a manifest: 80 for an inline state without names,
/// which has 12, are the worst, and names and partitions lie in memory of their own.
pub const MEMORY_PER_BYTE: usize = 16;

fn encode_vertex(encoder: &mut ManifestEncoder<&mut Vec<u8>>, vertex: &VertexPart) -> Encoded {
    let parallelism = u32::try_from(vertex.subtasks.len()).unwrap_or(u32::MAX);
    let mut subtasks = encoder.vertex(&manifest::Vertex { uid: &vertex.name, parallelism })?;
    (0..).zip(&vertex.subtasks).try_for_each(|(index, part)| {
        let subtask = manifest::Subtask { index, is_finished: part.is_drained };
        encode_subtask(&mut subtasks.subtask(subtask)?, &vertex.name, part)
    })
}

fn encode_subtask(
    encoder: &mut SubtaskEncoder<'_, &mut Vec<u8>>,
    vertex: &str,
    part: &SubtaskPart,
) -> Encoded {
    if let Some(segment) = &part.segment {
        encoder.segment(&segment.as_manifest())?;
    }
    if let Some(stored) = &part.in_flight {
        encoder.in_flight(&stored.as_manifest())?;
    }
    for state in &part.inline {
        let head = manifest::InlineState {
            operator: &state.operator,
            name: &state.name,
            mode: state.redistribution.mode(),
        };
        let mut partitions = encoder.state(&head)?;
        state.partitions.iter().try_for_each(|bytes| partitions.partition(bytes))?;
    }
    if let Some(figures) = &part.figures {
        let head = manifest::InlineState { operator: vertex, name: FIGURES, mode: StateMode::Plain };
        encoder.state(&head)?.partition(&figures::encode(figures))?;
    }
    Ok(())
}

fn decode_participant(part: manifest::Participant<'_>) -> ParticipantPart {
    ParticipantPart { kind: part.kind, name: part.name.to_owned(), state: part.state.to_vec() }
}

fn decode_vertex(vertex: manifest::VertexView<'_>) -> VertexPart {
    // A manifest lists every subtask of a vertex.
    VertexPart { name: vertex.uid.to_owned(), subtasks: exactly(vertex.subtasks(), decode_subtask) }
}

fn decode_subtask(subtask: manifest::SubtaskView<'_>) -> SubtaskPart {
    let states = subtask.states().filter(|state| state.name != FIGURES);
    let mut figures = subtask.states().filter(|state| state.name == FIGURES);
    let task = TaskIndex(u16::try_from(subtask.index).unwrap_or(u16::MAX));
    let figures = figures.next().and_then(|state| figures::decode(state.partitions().next()?, task));
    SubtaskPart {
        is_drained: subtask.is_finished,
        segment: subtask.segments().next().map(SegmentRef::from),
        in_flight: subtask.in_flight().map(StoredInFlight::from),
        inline: exactly(states, decode_state),
        figures,
    }
}

fn decode_state(state: manifest::StateView<'_>) -> InlineState {
    InlineState {
        operator: state.operator.to_owned(),
        name: state.name.to_owned(),
        redistribution: Redistribution::of(state.mode),
        partitions: exactly(state.partitions(), <[u8]>::to_vec),
    }
}

/// All of them, in memory for just as many: what grows would take up to three times as much.
fn exactly<I: Iterator + Clone, T>(items: I, decode: impl Fn(I::Item) -> T) -> Vec<T> {
    let mut all = Vec::with_capacity(items.clone().count());
    all.extend(items.map(decode));
    all
}

impl Redistribution {
    pub(super) const fn mode(self) -> StateMode {
        match self {
            Self::Split => StateMode::Split,
            Self::Union => StateMode::Union,
            Self::Broadcast => StateMode::Broadcast,
            Self::Plain => StateMode::Plain,
        }
    }

    const fn of(mode: StateMode) -> Self {
        match mode {
            StateMode::Split => Self::Split,
            StateMode::Union => Self::Union,
            StateMode::Broadcast => Self::Broadcast,
            StateMode::Plain => Self::Plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_core::coordinator::statistics::SubtaskFigures;
    use slackwater_core::key_group::{KeyGroup, KeyGroupRange};
    use slackwater_mem::in_flight::{CapturedChannel, InFlight, InFlightHeader, InFlightRef};

    #[test]
    fn a_manifest_comes_back_as_it_was() {
        let segment = SegmentRef {
            file_name: "chk-7/2-9.seg".into(),
            len: 8192,
            used_len: 8192,
            footer_checksum: 5,
            file_id: 1 << 100,
            key_groups: KeyGroupRange { first: KeyGroup(0), last: KeyGroup(63) },
        };
        let state = InlineState {
            operator: "files".into(),
            name: "pending".into(),
            redistribution: Redistribution::Split,
            partitions: vec![b"one".to_vec(), Vec::new()],
        };
        let file =
            InFlightRef { file_name: "chk-7/2-9.inflight".into(), len: 1 << 20, checksum: 6, file_id: 7 };
        let in_flight = Some(StoredInFlight::File(file));
        let channel = CapturedChannel { edge: 0, sender: 1, batches: vec![b"batch".to_vec()] };
        let header = InFlightHeader { subtask: 3, file_id: 8, job_id: 99, checkpoint: 7, attempt: 9 };
        let captured = InFlight { channels: vec![channel] }.encode(&header).unwrap();
        let other =
            SubtaskPart { in_flight: Some(StoredInFlight::Inline(captured)), ..SubtaskPart::default() };
        let figures = SubtaskFigures {
            checkpointed_size: 1,
            state_size: 2,
            synchronous: Millis(3),
            asynchronous: Millis(4),
            processed: 5,
            persisted: 6,
            alignment: Millis(7),
            start_delay: Millis(u64::MAX),
            is_unaligned: true,
            ..SubtaskFigures::finished(TaskIndex(0), Millis(1240))
        };
        let part = SubtaskPart {
            is_drained: true,
            segment: Some(segment),
            in_flight,
            inline: vec![state],
            figures: Some(figures),
        };
        let manifest = Manifest {
            id: CheckpointId(7),
            job_id: 99,
            job_name: "words".into(),
            triggered_at: Millis(1234),
            max_parallelism: 32768,
            hash_seed: 17,
            is_finished: false,
            participants: vec![
                ParticipantPart {
                    kind: manifest::ParticipantKind::OperatorCoordinator,
                    name: "files".into(),
                    state: vec![1, 2],
                },
                ParticipantPart {
                    kind: manifest::ParticipantKind::Hook,
                    name: "log".into(),
                    state: Vec::new(),
                },
            ],
            vertices: vec![VertexPart {
                name: "count".into(),
                subtasks: vec![part, other, SubtaskPart::default()],
            }],
        };
        let bytes = manifest.encode().unwrap();
        assert_eq!(Manifest::decode(&bytes), Ok(manifest));
        assert!(Manifest::decode(&bytes[..bytes.len() - 1]).is_err());
    }
}
