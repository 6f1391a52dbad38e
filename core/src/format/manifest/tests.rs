use std::vec::Vec;

use super::*;
use crate::format::EncodeError;
use crate::format::in_flight::{ChannelRow, InFlightEncoder, InFlightHeader};

const HEADER: ManifestHeader<'_> = ManifestHeader {
    is_finished: false,
    checkpoint: 7,
    job_id: 0x1234_5678_9abc_def0,
    job_name: "word count",
    wall_time_ms: 1_700_000_000_000,
    max_parallelism: 128,
    hash_seed: 99,
};

fn segment(name: &str) -> SegmentRef<'_> {
    SegmentRef {
        file_name: name,
        file_id: 5,
        len: 8192,
        used_len: 8192,
        footer_checksum: 17,
        key_groups: KeyGroupRange { first: KeyGroup(0), last: KeyGroup(63) },
    }
}

const fn in_flight_file(name: &str) -> InFlightRef<'_> {
    InFlightRef { file_name: name, file_id: 6, len: 1 << 20, checksum: 18 }
}

fn captured() -> Vec<u8> {
    let header = InFlightHeader { subtask: 2, file_id: 7, job_id: HEADER.job_id, checkpoint: 7, attempt: 0 };
    let rows = [ChannelRow::new(0, 1, [5])];
    let mut encoder = InFlightEncoder::new(Vec::new(), &header, rows).unwrap();
    encoder.batch(b"batch").unwrap();
    encoder.finish().unwrap().0
}

const PARTICIPANTS: [Participant<'_>; 3] = [
    Participant { kind: ParticipantKind::OperatorCoordinator, name: "source", state: b"handed out" },
    Participant { kind: ParticipantKind::Hook, name: "source", state: b"" },
    Participant { kind: ParticipantKind::Hook, name: "elsewhere", state: &[0; 9] },
];

fn sample() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut manifest = ManifestEncoder::new(&mut bytes, &HEADER).unwrap();
    PARTICIPANTS.iter().for_each(|participant| manifest.participant(participant).unwrap());
    let mut source = manifest.vertex(&Vertex { uid: "source", parallelism: 2 }).unwrap();
    for index in 0..2 {
        let mut subtask = source.subtask(Subtask { index, is_finished: index == 1 }).unwrap();
        let state = InlineState { operator: "lines", name: "positions", mode: StateMode::Split };
        let mut state = subtask.state(&state).unwrap();
        state.partition(b"first").unwrap();
        state.partition(b"").unwrap();
        let empty = InlineState { operator: "lines", name: "nothing", mode: StateMode::Plain };
        subtask.state(&empty).unwrap();
    }
    let mut count = manifest.vertex(&Vertex { uid: "count", parallelism: 2 }).unwrap();
    let mut subtask = count.subtask(Subtask { index: 0, is_finished: false }).unwrap();
    subtask.in_flight(&InFlight::Inline(&captured())).unwrap();
    subtask.state(&InlineState { operator: "count", name: "rest", mode: StateMode::Plain }).unwrap();
    let mut subtask = count.subtask(Subtask { index: 1, is_finished: false }).unwrap();
    subtask.segment(&segment("chk-7/3-0.seg")).unwrap();
    subtask.segment(&segment("shared/3-5-0.seg")).unwrap();
    subtask.in_flight(&InFlight::File(in_flight_file("chk-7/3-0.inflight"))).unwrap();
    assert_eq!(manifest.finish().unwrap(), 4096);
    bytes
}

#[test]
fn a_manifest_is_read_back() {
    let bytes = sample();
    assert_eq!(bytes.len(), 4096);
    let view = ManifestView::parse(&bytes).unwrap();
    assert_eq!(*view.header(), HEADER);
    assert_eq!(view.participants().collect::<Vec<_>>(), PARTICIPANTS);
    let vertices: Vec<_> = view.vertices().collect();
    assert_eq!(vertices.iter().map(|vertex| vertex.uid).collect::<Vec<_>>(), ["source", "count"]);

    let subtasks: Vec<_> = vertices[0].subtasks().collect();
    assert_eq!(
        subtasks.iter().map(|subtask| (subtask.index, subtask.is_finished)).collect::<Vec<_>>(),
        [(0, false), (1, true)]
    );
    for subtask in &subtasks {
        let states: Vec<_> = subtask.states().collect();
        assert_eq!((states[0].name, states[0].mode), ("positions", StateMode::Split));
        assert_eq!(states[0].partitions().collect::<Vec<_>>(), [b"first".as_slice(), b""]);
        assert_eq!((states[1].name, states[1].partitions().count()), ("nothing", 0));
        assert_eq!((states.len(), subtask.segments().count()), (2, 0));
    }
    let subtasks: Vec<_> = vertices[1].subtasks().collect();
    let segments: Vec<_> = subtasks[1].segments().collect();
    assert_eq!(segments, [segment("chk-7/3-0.seg"), segment("shared/3-5-0.seg")]);
    assert_eq!((subtasks.len(), subtasks[1].states().count(), subtasks[0].segments().count()), (2, 0, 0));
    assert_eq!(subtasks[0].in_flight(), Some(InFlight::Inline(&captured())));
    assert_eq!(subtasks[1].in_flight(), Some(InFlight::File(in_flight_file("chk-7/3-0.inflight"))));
    assert_eq!(vertices[0].subtasks().find_map(|subtask| subtask.in_flight()), None);
}

#[test]
fn s25_what_is_not_kept_by_key_lies_in_the_manifest() {
    let mut bytes = Vec::new();
    let mut manifest = ManifestEncoder::new(&mut bytes, &HEADER).unwrap();
    let mut vertex = manifest.vertex(&Vertex { uid: "source", parallelism: 2 }).unwrap();
    let mut subtask = vertex.subtask(Subtask { index: 0, is_finished: false }).unwrap();
    let state = InlineState { operator: "lines", name: "positions", mode: StateMode::Split };
    subtask.state(&state).unwrap().partition(&[7; 20 << 10]).unwrap();
    vertex.subtask(Subtask { index: 1, is_finished: false }).unwrap();
    manifest.finish().unwrap();
    let view = ManifestView::parse(&bytes).unwrap();
    let subtasks: Vec<_> = view.vertices().next().unwrap().subtasks().collect();
    assert_eq!(subtasks[0].states().next().unwrap().partitions().next().unwrap(), [7; 20 << 10]);
    assert!(subtasks.iter().all(|subtask| subtask.segments().next().is_none()), "no file of its own");
    assert_eq!(subtasks[1].states().count(), 0, "nothing at all");
}

#[test]
fn v11_a_subtasks_first_segment_is_new_and_all_of_them_are_its_state() {
    let bytes = sample();
    let view = ManifestView::parse(&bytes).unwrap();
    let subtask = view.vertices().nth(1).unwrap().subtasks().nth(1).unwrap();
    let lens: Vec<_> = subtask.segments().map(|segment| (segment.file_name, segment.used_len)).collect();
    assert_eq!(lens, [("chk-7/3-0.seg", 8192), ("shared/3-5-0.seg", 8192)]);
}

#[test]
fn every_change_of_a_byte_is_found() {
    let bytes = sample();
    for at in 0..bytes.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= change;
            assert!(ManifestView::parse(&damaged).is_err(), "byte {at} ^ {change:#x}");
        }
    }
}

#[test]
fn every_truncation_and_extension_is_found() {
    let bytes = sample();
    for len in 0..bytes.len() {
        assert!(ManifestView::parse(&bytes[..len]).is_err(), "cut to {len}");
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert!(ManifestView::parse(&longer).is_err());
    let twice = [bytes.as_slice(), bytes.as_slice()].concat();
    assert!(ManifestView::parse(&twice).is_err());
}

#[test]
fn s28_what_is_no_manifest_or_a_newer_one_is_named_so() {
    let mut bytes = sample();
    bytes[0] = b'X';
    let error = ManifestView::parse(&bytes).unwrap_err();
    assert!(matches!(error, FormatError::Corrupt { offset: 0, .. }), "{error}");
    let mut bytes = sample();
    bytes[8] = 2;
    let rotten = ManifestView::parse(&bytes).unwrap_err();
    assert!(matches!(rotten, FormatError::Corrupt { what: "version of a manifest", .. }), "{rotten}");
    let (raw, _) = ManifestHeaderLayout::ref_from_prefix(&bytes).unwrap();
    let end = bytes.len() - 8;
    let checksum = raw.identity().checksum(&bytes[..end]);
    bytes[end..end + 4].copy_from_slice(&checksum.to_le_bytes());
    let error = ManifestView::parse(&bytes).unwrap_err();
    assert_eq!(error, FormatError::Unsupported { what: "version of a manifest", value: 2 });
}

#[test]
fn a_file_name_cannot_lead_out_of_the_folder() {
    for name in ["", "/etc/passwd", "../x", "a/../b", "a//b", "a/", ".", "a\\b"] {
        let mut bytes = Vec::new();
        let mut manifest = ManifestEncoder::new(&mut bytes, &HEADER).unwrap();
        let mut vertex = manifest.vertex(&Vertex { uid: "v", parallelism: 1 }).unwrap();
        let mut subtask = vertex.subtask(Subtask { index: 0, is_finished: false }).unwrap();
        let refused = subtask.segment(&segment(name)).unwrap_err();
        assert!(matches!(refused, EncodeError::WrongOrder { .. }), "{name:?}");
        let refused = subtask.in_flight(&InFlight::File(in_flight_file(name))).unwrap_err();
        assert!(matches!(refused, EncodeError::WrongOrder { .. }), "{name:?}");
    }
}

#[test]
fn the_encoder_refuses_what_the_view_would() {
    let mut bytes = Vec::new();
    let mut manifest = ManifestEncoder::new(&mut bytes, &HEADER).unwrap();
    assert!(manifest.vertex(&Vertex { uid: "v", parallelism: 129 }).is_err());
    let mut vertex = manifest.vertex(&Vertex { uid: "v", parallelism: 2 }).unwrap();
    assert!(vertex.subtask(Subtask { index: 1, is_finished: false }).is_err(), "not the first");
    let mut manifest = ManifestEncoder::new(&mut bytes, &HEADER).unwrap();
    let mut vertex = manifest.vertex(&Vertex { uid: "v", parallelism: 1 }).unwrap();
    vertex.subtask(Subtask { index: 0, is_finished: false }).unwrap();
    assert!(vertex.subtask(Subtask { index: 0, is_finished: false }).is_err(), "twice");
    assert!(vertex.subtask(Subtask { index: 1, is_finished: false }).is_err(), "one too many");
    let mut vertex = manifest.vertex(&Vertex { uid: "w", parallelism: 2 }).unwrap();
    let mut subtask = vertex.subtask(Subtask { index: 0, is_finished: false }).unwrap();
    subtask.state(&InlineState { operator: "o", name: "n", mode: StateMode::Union }).unwrap();
    assert!(subtask.segment(&segment("late.seg")).is_err());
    assert!(subtask.in_flight(&InFlight::Inline(&captured())).is_err(), "behind a state");
    let mut manifest = ManifestEncoder::new(&mut bytes, &HEADER).unwrap();
    let mut vertex = manifest.vertex(&Vertex { uid: "v", parallelism: 1 }).unwrap();
    let mut subtask = vertex.subtask(Subtask { index: 0, is_finished: false }).unwrap();
    subtask.in_flight(&InFlight::Inline(&captured())).unwrap();
    assert!(subtask.in_flight(&InFlight::Inline(&captured())).is_err(), "twice");
    assert!(subtask.segment(&segment("late.seg")).is_err(), "behind records in flight");
    let mut manifest = ManifestEncoder::new(&mut bytes, &HEADER).unwrap();
    manifest.vertex(&Vertex { uid: "w", parallelism: 2 }).unwrap();
    assert!(manifest.vertex(&Vertex { uid: "x", parallelism: 1 }).is_err(), "a subtask of `w` is missing");
    assert!(manifest.finish().is_err(), "a subtask of `w` is missing");
}

/// A reader makes room for all of them, so a few bytes must not stand for many.
#[test]
fn a_vertex_without_all_of_its_subtasks_is_damaged() {
    for (parallelism, listed) in [(1_u32, 0), (2, 1), (32768, 2), (2, 3)] {
        let mut bytes = Vec::new();
        let header = ManifestHeader { max_parallelism: 32768, ..HEADER };
        let mut manifest = ManifestEncoder::new(&mut bytes, &header).unwrap();
        let mut vertex = manifest.vertex(&Vertex { uid: "v", parallelism: listed.max(1) }).unwrap();
        for index in 0..listed.max(1) {
            vertex.subtask(Subtask { index, is_finished: false }).unwrap();
        }
        manifest.finish().unwrap();
        let at = ManifestHeaderLayout::LEN + HEADER.job_name.len() + ElementHead::LEN;
        bytes[at..at + 4].copy_from_slice(&parallelism.to_le_bytes());
        if listed == 0 {
            // The end stands where the subtask did.
            bytes[at + 5..at + 21].fill(0);
        }
        sign(&mut bytes);
        let error = ManifestView::parse(&bytes).unwrap_err();
        let FormatError::Corrupt { what, .. } = error else { panic!("{error}") };
        assert!(what.ends_with("subtask") || what.starts_with("subtasks"), "{what}");
    }
}

/// Whatever follows it in the manifest: the bytes within have to be sound themselves.
#[test]
fn records_in_flight_within_a_manifest_are_checked() {
    let captured = captured();
    let sound = sample();
    let at = sound.windows(captured.len()).position(|window| window == captured).unwrap();
    for byte in at..at + captured.len() {
        let mut damaged = sound.clone();
        damaged[byte] ^= 0x10;
        sign(&mut damaged);
        let error = ManifestView::parse(&damaged).unwrap_err();
        let FormatError::Corrupt { offset, .. } = error else { panic!("byte {byte}: {error}") };
        assert!((at as u64..(at + captured.len()) as u64).contains(&offset), "byte {byte}: {error}");
    }
}

/// Puts the checksum right.
fn sign(bytes: &mut [u8]) {
    let (raw, _) = ManifestHeaderLayout::ref_from_prefix(bytes).unwrap();
    let at = bytes.len() - 8;
    let sum = raw.identity().checksum(&bytes[..at]);
    bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn a_manifest_of_several_blocks_is_read_back() {
    for len in (4000..4200).chain([70_000]) {
        let mut bytes = Vec::new();
        let mut manifest = ManifestEncoder::new(&mut bytes, &HEADER).unwrap();
        let mut vertex = manifest.vertex(&Vertex { uid: "v", parallelism: 1 }).unwrap();
        let mut subtask = vertex.subtask(Subtask { index: 0, is_finished: false }).unwrap();
        let state = InlineState { operator: "o", name: "n", mode: StateMode::Broadcast };
        subtask.state(&state).unwrap().partition(&std::vec![7; len]).unwrap();
        assert_eq!(manifest.finish().unwrap(), bytes.len() as u64);
        let view = ManifestView::parse(&bytes).unwrap();
        let subtask = view.vertices().next().unwrap().subtasks().next().unwrap();
        let state = subtask.states().next().unwrap();
        assert_eq!(state.partitions().map(<[u8]>::len).collect::<Vec<_>>(), [len]);
    }
}

#[test]
fn a_full_buffer_is_said_so() {
    let mut buffer = heapless::Vec::<u8, 64>::new();
    let refused = ManifestEncoder::new(buffer.as_mut_view(), &HEADER).unwrap_err();
    assert_eq!(refused, EncodeError::Sink(crate::format::Full));
}

#[test]
fn participants_stand_before_the_vertices() {
    let mut bytes = Vec::new();
    let mut manifest = ManifestEncoder::new(&mut bytes, &HEADER).unwrap();
    let mut vertex = manifest.vertex(&Vertex { uid: "source", parallelism: 1 }).unwrap();
    vertex.subtask(Subtask { index: 0, is_finished: false }).unwrap();
    let late = manifest.participant(&PARTICIPANTS[0]);
    assert_eq!(late, Err(EncodeError::WrongOrder { what: "participants come before vertices" }));
    manifest.finish().unwrap();
    assert_eq!(ManifestView::parse(&bytes).unwrap().participants().count(), 0);
}
