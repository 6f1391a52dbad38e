use core::ops::Range;

use super::super::segment::{EncodeError, name_len};
use super::super::sink::{Sink, Summed};
use super::layouts::{
    TAG_END, TAG_IN_FLIGHT, TAG_IN_FLIGHT_FILE, TAG_PARTICIPANT, TAG_PARTITION, TAG_SEGMENT, TAG_STATE,
    TAG_SUBTASK, TAG_VERTEX,
};
use super::walk::{Part, is_file_name};
use super::*;

/// Writes a manifest.
///
/// Each element is written by the encoder of what it belongs to, and that one cannot be used while the
/// inner one lives: a wrong order does not compile. What remains is checked.
#[derive(Debug)]
pub struct ManifestEncoder<S> {
    sink: Summed<S>,
    max_parallelism: u32,
    /// Subtasks of the vertex in work that are still to come.
    subtasks_left: Range<u32>,
}

/// Writes the subtasks of a vertex.
#[derive(Debug)]
pub struct VertexEncoder<'e, S> {
    manifest: &'e mut ManifestEncoder<S>,
}

/// Writes the files and states of a subtask.
#[derive(Debug)]
pub struct SubtaskEncoder<'e, S> {
    manifest: &'e mut ManifestEncoder<S>,
    last: Part,
}

/// Writes the partitions of a state.
#[derive(Debug)]
pub struct StateEncoder<'e, S> {
    manifest: &'e mut ManifestEncoder<S>,
}

impl<S: Sink> ManifestEncoder<S> {
    /// Writes the header.
    ///
    /// # Errors
    /// A field is out of its range, or the sink fails.
    pub fn new(sink: S, header: &ManifestHeader<'_>) -> Result<Self, EncodeError<S::Error>> {
        check_parallelism("max parallelism", header.max_parallelism, PARALLELISM_MAX)?;
        let raw = ManifestHeaderLayout::new(header, name_len("job name", header.job_name)?);
        let sink = Summed::new(sink, &raw.identity());
        let mut encoder = Self { sink, max_parallelism: header.max_parallelism, subtasks_left: 0..0 };
        encoder.write(raw.as_bytes())?;
        encoder.write(header.job_name.as_bytes())?;
        Ok(encoder)
    }

    /// Writes what somebody beside the subtasks has given. Those come before the vertices.
    ///
    /// # Errors
    /// A vertex was written before, the name is longer than 65535 bytes, or the sink fails.
    pub fn participant(&mut self, participant: &Participant<'_>) -> Result<(), EncodeError<S::Error>> {
        if self.subtasks_left.end > 0 {
            return Err(EncodeError::WrongOrder { what: "participants come before vertices" });
        }
        let name_len = U16::new(name_len("name of a participant", participant.name)?);
        let raw = ParticipantElement { kind: participant.kind.number(), reserved: 0, name_len };
        self.element(TAG_PARTICIPANT, [raw.as_bytes(), participant.name.as_bytes(), participant.state])
    }

    /// Writes a vertex; its subtasks come next, all of them.
    ///
    /// # Errors
    /// A subtask of the one before is missing, the parallelism is 0 or above the maximum, or the sink fails.
    pub fn vertex(&mut self, vertex: &Vertex<'_>) -> Result<VertexEncoder<'_, S>, EncodeError<S::Error>> {
        self.end_vertex()?;
        check_parallelism("parallelism", vertex.parallelism, self.max_parallelism)?;
        self.subtasks_left = 0..vertex.parallelism;
        let raw = VertexElement { parallelism: U32::new(vertex.parallelism) };
        self.element(TAG_VERTEX, [raw.as_bytes(), vertex.uid.as_bytes(), &[]])?;
        Ok(VertexEncoder { manifest: self })
    }

    fn end_vertex(&self) -> Result<(), EncodeError<S::Error>> {
        if self.subtasks_left.is_empty() {
            return Ok(());
        }
        Err(EncodeError::WrongOrder { what: "every subtask of a vertex is written" })
    }

    /// Writes the end: without it the manifest is no manifest. Gives its length, a whole number of blocks.
    ///
    /// # Errors
    /// A subtask of the last vertex is missing, or the sink fails.
    pub fn finish(mut self) -> Result<u64, EncodeError<S::Error>> {
        self.end_vertex()?;
        self.element(TAG_END, [&[]; 3])?;
        let block = MANIFEST_BLOCK_SIZE as u64;
        let used = self.sink.len().saturating_add(ManifestTail::LEN as u64);
        let len = used.checked_next_multiple_of(block).unwrap_or(u64::MAX);
        let padding = usize::try_from(len.saturating_sub(used)).unwrap_or(0);
        self.sink.write_zeros(padding).map_err(EncodeError::Sink)?;
        self.write(U64::new(len).as_bytes())?;
        self.sink.finish(&MANIFEST_TAIL_MAGIC).map_err(EncodeError::Sink)?;
        Ok(len)
    }

    fn element(&mut self, tag: u8, parts: [&[u8]; 3]) -> Result<(), EncodeError<S::Error>> {
        let len = parts.iter().fold(0_usize, |len, part| len.saturating_add(part.len()));
        let len = u32::try_from(len)
            .map_err(|_| EncodeError::TooLong { what: "element", len_max: u32::MAX.into() })?;
        let head = ElementHead { tag, reserved: [0; 3], len: U32::new(len) };
        self.write(head.as_bytes())?;
        parts.into_iter().try_for_each(|part| self.write(part))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError<S::Error>> {
        self.sink.write(bytes).map_err(EncodeError::Sink)
    }
}

impl<S: Sink> VertexEncoder<'_, S> {
    /// Writes a subtask; its files and states come next.
    ///
    /// # Errors
    /// The index is not the one behind the last and below the parallelism, or the sink fails.
    pub fn subtask(&mut self, subtask: Subtask) -> Result<SubtaskEncoder<'_, S>, EncodeError<S::Error>> {
        if self.manifest.subtasks_left.next() != Some(subtask.index) {
            return Err(EncodeError::WrongOrder { what: "subtasks count from 0 to the parallelism" });
        }
        let raw = SubtaskElement {
            index: U32::new(subtask.index),
            flags: U16::new(if subtask.is_finished { SUBTASK_FLAG_FINISHED } else { 0 }),
            reserved: U16::new(0),
        };
        self.manifest.element(TAG_SUBTASK, [raw.as_bytes(), &[], &[]])?;
        Ok(SubtaskEncoder { manifest: self.manifest, last: Part::Segments })
    }
}

impl<S: Sink> SubtaskEncoder<'_, S> {
    /// Writes a file of the subtask, its own segment first. Files come before all else.
    ///
    /// # Errors
    /// Something else was written before, the name leads out of the job's folder, a range is wrong, or the sink fails.
    pub fn segment(&mut self, segment: &SegmentRef<'_>) -> Result<(), EncodeError<S::Error>> {
        if self.last != Part::Segments {
            return Err(EncodeError::WrongOrder {
                what: "segments come before records in flight and states",
            });
        }
        let groups = segment.key_groups;
        if !is_file_name(segment.file_name) || groups.is_empty() || segment.used_len > segment.len {
            return Err(EncodeError::WrongOrder { what: "a segment has a relative name and sound ranges" });
        }
        check_parallelism(
            "last key group",
            u32::from(groups.last.0).saturating_add(1),
            self.manifest.max_parallelism,
        )?;
        let raw = SegmentElement {
            file_id: segment.file_id.to_le_bytes(),
            len: U64::new(segment.len),
            used_len: U64::new(segment.used_len),
            footer_checksum: U32::new(segment.footer_checksum),
            first_key_group: U16::new(groups.first.0),
            last_key_group: U16::new(groups.last.0),
        };
        self.manifest.element(TAG_SEGMENT, [raw.as_bytes(), segment.file_name.as_bytes(), &[]])
    }

    /// Writes where the records lie that were in flight to the subtask, or what these are. They come before states.
    ///
    /// # Errors
    /// A state or others were written before, the name leads out of the job's folder, or the sink fails.
    pub fn in_flight(&mut self, in_flight: &InFlight<'_>) -> Result<(), EncodeError<S::Error>> {
        if self.last != Part::Segments {
            return Err(EncodeError::WrongOrder { what: "records in flight come once, before states" });
        }
        self.last = Part::InFlight;
        match in_flight {
            InFlight::Inline(bytes) => self.manifest.element(TAG_IN_FLIGHT, [bytes, &[], &[]]),
            InFlight::File(file) if !is_file_name(file.file_name) => {
                Err(EncodeError::WrongOrder { what: "a file has a relative name" })
            }
            InFlight::File(file) => {
                let raw = InFlightElement {
                    file_id: file.file_id.to_le_bytes(),
                    len: U64::new(file.len),
                    checksum: U32::new(file.checksum),
                };
                let parts = [raw.as_bytes(), file.file_name.as_bytes(), &[]];
                self.manifest.element(TAG_IN_FLIGHT_FILE, parts)
            }
        }
    }

    /// Writes a state that lies in the manifest; its partitions come next.
    ///
    /// # Errors
    /// The operator's name is longer than 65535 bytes, or the sink fails.
    pub fn state(&mut self, state: &InlineState<'_>) -> Result<StateEncoder<'_, S>, EncodeError<S::Error>> {
        self.last = Part::States;
        let raw = StateElement {
            mode: state.mode.number(),
            reserved: 0,
            operator_len: U16::new(name_len("operator name", state.operator)?),
        };
        let parts = [raw.as_bytes(), state.operator.as_bytes(), state.name.as_bytes()];
        self.manifest.element(TAG_STATE, parts)?;
        Ok(StateEncoder { manifest: self.manifest })
    }
}

impl<S: Sink> StateEncoder<'_, S> {
    /// Writes a partition.
    ///
    /// # Errors
    /// It is longer than 4 GiB, or the sink fails.
    pub fn partition(&mut self, bytes: &[u8]) -> Result<(), EncodeError<S::Error>> {
        self.manifest.element(TAG_PARTITION, [bytes, &[], &[]])
    }
}

fn check_parallelism<E>(what: &'static str, value: u32, max: u32) -> Result<(), EncodeError<E>> {
    if value == 0 || value > max {
        return Err(EncodeError::TooLong { what, len_max: max.into() });
    }
    Ok(())
}
