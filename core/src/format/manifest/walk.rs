//! One element after the other, and the check of them all.

use super::layouts::{
    TAG_END, TAG_IN_FLIGHT, TAG_IN_FLIGHT_FILE, TAG_PARTICIPANT, TAG_PARTITION, TAG_SEGMENT, TAG_STATE,
    TAG_SUBTASK, TAG_VERTEX, split_name,
};
use super::*;

/// An element, checked by itself.
#[derive(Clone, Copy, Debug)]
pub(super) enum Element<'a> {
    End,
    Participant(Participant<'a>),
    Vertex(Vertex<'a>),
    Subtask(Subtask),
    Segment(SegmentRef<'a>),
    InFlight(InFlight<'a>),
    State(InlineState<'a>),
    Partition(&'a [u8]),
}

impl Element<'_> {
    /// How deep it nests: an element belongs to the last one before it of a lower depth.
    pub(super) const fn depth(&self) -> u8 {
        match self {
            Self::End | Self::Participant(_) | Self::Vertex(_) => 0,
            Self::Subtask(_) => 1,
            Self::Segment(_) | Self::InFlight(_) | Self::State(_) => 2,
            Self::Partition(_) => 3,
        }
    }
}

/// Takes an element off the front of `bytes`, which lie at `at`.
pub(super) fn split(bytes: &[u8], at: usize) -> Result<(Element<'_>, &[u8]), FormatError> {
    let Ok((head, rest)) = ElementHead::ref_from_prefix(bytes) else {
        return Err(corrupt("length of an element", at, ElementHead::LEN as u64, bytes.len() as u64));
    };
    expect_zero("reserved bytes of an element", at, &head.reserved)?;
    let Some((body, behind)) = rest.split_at_checked(head.len.get() as usize) else {
        return Err(corrupt("length of an element", at, rest.len() as u64, head.len.get().into()));
    };
    let at = at.saturating_add(ElementHead::LEN);
    let element = match head.tag {
        TAG_END => expect_eq("length of the end", at, 0, body.len() as u64).map(|()| Element::End)?,
        TAG_PARTICIPANT => Element::Participant(participant(body, at)?),
        TAG_VERTEX => Element::Vertex(vertex(body, at)?),
        TAG_SUBTASK => Element::Subtask(subtask(body, at)?),
        TAG_SEGMENT => Element::Segment(segment(body, at)?),
        TAG_STATE => Element::State(state(body, at)?),
        TAG_PARTITION => Element::Partition(body),
        TAG_IN_FLIGHT => Element::InFlight(InFlight::Inline(body)),
        TAG_IN_FLIGHT_FILE => Element::InFlight(InFlight::File(in_flight_file(body, at)?)),
        other => return Err(FormatError::Unsupported { what: "manifest element", value: other.into() }),
    };
    Ok((element, behind))
}

fn participant(body: &[u8], at: usize) -> Result<Participant<'_>, FormatError> {
    let Ok((raw, rest)) = ParticipantElement::ref_from_prefix(body) else {
        let len_min = ParticipantElement::LEN as u64;
        return Err(corrupt("length of a participant", at, len_min, body.len() as u64));
    };
    let Some(kind) = ParticipantKind::from_number(raw.kind) else {
        return Err(FormatError::Unsupported { what: "kind of a participant", value: raw.kind.into() });
    };
    expect_eq("reserved byte of a participant", at, 0, raw.reserved.into())?;
    let (name, state) = split_name("name of a participant", rest, raw.name_len.get().into(), at)?;
    Ok(Participant { kind, name, state })
}

fn vertex(body: &[u8], at: usize) -> Result<Vertex<'_>, FormatError> {
    let Ok((raw, uid)) = VertexElement::ref_from_prefix(body) else {
        return Err(corrupt("length of a vertex", at, VertexElement::LEN as u64, body.len() as u64));
    };
    let parallelism = raw.parallelism.get();
    let (uid, _) = split_name("uid of a vertex", uid, uid.len(), at)?;
    Ok(Vertex { uid, parallelism })
}

fn subtask(body: &[u8], at: usize) -> Result<Subtask, FormatError> {
    let Ok(raw) = SubtaskElement::ref_from_bytes(body) else {
        return Err(corrupt("length of a subtask", at, SubtaskElement::LEN as u64, body.len() as u64));
    };
    expect_within("flags of a subtask", at, (0, SUBTASK_FLAG_FINISHED.into()), raw.flags.get().into())?;
    expect_eq("reserved field of a subtask", at, 0, raw.reserved.get().into())?;
    let is_finished = raw.flags.get() & SUBTASK_FLAG_FINISHED != 0;
    Ok(Subtask { index: raw.index.get(), is_finished })
}

fn segment(body: &[u8], at: usize) -> Result<SegmentRef<'_>, FormatError> {
    let Ok((raw, name)) = SegmentElement::ref_from_prefix(body) else {
        return Err(corrupt("length of a segment", at, SegmentElement::LEN as u64, body.len() as u64));
    };
    let (first, last) = (raw.first_key_group.get(), raw.last_key_group.get());
    expect_within("first key group", at, (0, last.into()), first.into())?;
    expect_within("bytes needed of a file", at, (0, raw.len.get()), raw.used_len.get())?;
    let (file_name, _) = split_name("file name", name, name.len(), at)?;
    check_file_name(file_name, at)?;
    Ok(SegmentRef {
        file_name,
        file_id: u128::from_le_bytes(raw.file_id),
        len: raw.len.get(),
        used_len: raw.used_len.get(),
        footer_checksum: raw.footer_checksum.get(),
        key_groups: KeyGroupRange { first: KeyGroup(first), last: KeyGroup(last) },
    })
}

fn in_flight_file(body: &[u8], at: usize) -> Result<InFlightRef<'_>, FormatError> {
    let Ok((raw, name)) = InFlightElement::ref_from_prefix(body) else {
        let (len_min, len) = (InFlightElement::LEN as u64, body.len() as u64);
        return Err(corrupt("length of a file of records in flight", at, len_min, len));
    };
    let (file_name, _) = split_name("file name", name, name.len(), at)?;
    check_file_name(file_name, at)?;
    Ok(InFlightRef {
        file_name,
        file_id: u128::from_le_bytes(raw.file_id),
        len: raw.len.get(),
        checksum: raw.checksum.get(),
    })
}

/// A file name must stay within the job's folder: plain names with `/` between them.
pub(super) fn is_file_name(name: &str) -> bool {
    let is_plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(['\\', '\0']);
    name.split('/').all(is_plain)
}

fn check_file_name(name: &str, at: usize) -> Result<(), FormatError> {
    if is_file_name(name) { Ok(()) } else { Err(corrupt("file name", at, 1, 0)) }
}

fn state(body: &[u8], at: usize) -> Result<InlineState<'_>, FormatError> {
    let Ok((raw, names)) = StateElement::ref_from_prefix(body) else {
        return Err(corrupt("length of a state", at, StateElement::LEN as u64, body.len() as u64));
    };
    let Some(mode) = StateMode::from_number(raw.mode) else {
        return Err(FormatError::Unsupported { what: "mode of a state", value: raw.mode.into() });
    };
    expect_eq("reserved byte of a state", at, 0, raw.reserved.into())?;
    let (operator, name) = split_name("operator of a state", names, raw.operator_len.get().into(), at)?;
    let (name, _) = split_name("name of a state", name, name.len(), at)?;
    Ok(InlineState { operator, name, mode })
}

/// Zeros fill up the last block, and no more.
const PADDING_LEN_MAX: u64 = MANIFEST_BLOCK_SIZE as u64 - 1;

/// Checks the elements in `bytes`, which lie at `base` and end with the manifest.
pub(super) fn check(bytes: &[u8], base: usize, max_parallelism: u32) -> Result<(), FormatError> {
    let mut nesting = Nesting { max_parallelism, ..Nesting::default() };
    let mut rest = bytes;
    loop {
        let at = base.saturating_add(bytes.len().saturating_sub(rest.len()));
        let (element, behind) = split(rest, at)?;
        rest = behind;
        nesting.enter(&element, at)?;
        if matches!(element, Element::End) {
            break;
        }
    }
    let at = base.saturating_add(bytes.len().saturating_sub(rest.len()));
    let padding_len = rest.len().saturating_sub(ManifestTail::LEN);
    expect_within("end of the elements", at, (ManifestTail::LEN as u64, u64::MAX), rest.len() as u64)?;
    expect_within("padding of the manifest", at, (0, PADDING_LEN_MAX), padding_len as u64)?;
    expect_zero("padding of the manifest", at, rest.get(..padding_len).unwrap_or(&[]))
}

/// Where in the nesting the walk is.
#[derive(Debug, Default)]
struct Nesting {
    max_parallelism: u32,
    parallelism: u32,
    /// The index of the next subtask.
    next_subtask: u32,
    /// Depth of elements that may follow.
    depth_max: u8,
    /// What of the subtask came last.
    last: Part,
}

/// What comes of a subtask, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    #[default]
    Segments,
    InFlight,
    States,
}

impl Nesting {
    fn enter(&mut self, element: &Element<'_>, at: usize) -> Result<(), FormatError> {
        expect_within("nesting of elements", at, (0, self.depth_max.into()), element.depth().into())?;
        if element.depth() == 0 {
            let (expected, found) = (self.parallelism.into(), self.next_subtask.into());
            expect_eq("subtasks of a vertex", at, expected, found)?;
        }
        match element {
            Element::Participant(_) => {
                expect_eq("participants behind a vertex", at, 0, self.parallelism.into())?;
            }
            Element::Vertex(vertex) => {
                let parallelism = vertex.parallelism;
                expect_within("parallelism", at, (1, self.max_parallelism.into()), parallelism.into())?;
                let max_parallelism = self.max_parallelism;
                *self = Self { max_parallelism, parallelism, depth_max: 1, ..Self::default() };
            }
            Element::Subtask(subtask) => {
                expect_eq("index of a subtask", at, self.next_subtask.into(), subtask.index.into())?;
                let last = u64::from(self.parallelism).saturating_sub(1);
                expect_within("index of a subtask", at, (0, last), subtask.index.into())?;
                self.next_subtask = subtask.index.saturating_add(1);
                (self.depth_max, self.last) = (2, Part::Segments);
            }
            Element::Segment(segment) => {
                let last_max = u64::from(self.max_parallelism).saturating_sub(1);
                expect_within("last key group", at, (0, last_max), segment.key_groups.last.0.into())?;
                expect_eq("order of a subtask's elements", at, 0, self.last as u64)?;
            }
            Element::InFlight(in_flight) => {
                expect_eq("order of a subtask's elements", at, 0, self.last as u64)?;
                self.last = Part::InFlight;
                if let InFlight::Inline(bytes) = in_flight {
                    let body_at = at.saturating_add(ElementHead::LEN) as u64;
                    InFlightView::parse(bytes).map_err(|error| error.within(body_at))?;
                }
            }
            Element::State(_) => (self.depth_max, self.last) = (3, Part::States),
            Element::Partition(_) | Element::End => {}
        }
        Ok(())
    }
}
