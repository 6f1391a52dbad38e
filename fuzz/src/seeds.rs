//! What the fuzzer starts from: the output of the real encoders and of real jobs, named by what it is.

use slackwater_core::format::manifest::{
    InFlight, InFlightRef, InlineState, ManifestEncoder, ManifestHeader, Participant, ParticipantKind,
    StateMode, Subtask, Vertex,
};
use slackwater_core::format::segment::SegmentHeaderLayout;

mod captured;
mod forged;
mod job;
mod parts;
mod payload;
mod segment;

use segment::{Content, Made};

/// A name and the bytes.
pub(crate) type Seed = (&'static str, Vec<u8>);

/// The seeds of a target.
pub(crate) fn named(target: &str) -> Vec<Seed> {
    match target {
        "chunk" => chunks(),
        "folder" => job::folders(),
        "footer" => footers(),
        "header" => {
            vec![("as-written", segment::of(Content::Empty).bytes[..SegmentHeaderLayout::LEN].to_vec())]
        }
        "heap" => operations(),
        "in_flight" => captured::in_flights(),
        "index" => indexes(),
        "manifest" => manifests(),
        "operator_state" => behind(&[
            (&[2, 0b101], "two-of-three-to-three", Content::EveryKind),
            (&[0, 0b1111], "four-to-one", Content::EveryKind),
            (&[1, 0b11], "lz4-two-to-two", Content::EveryKindLz4),
        ]),
        "page" => pages(),
        "payload" => payload::payloads(),
        "range" => behind(&[
            (&[1, 0], "one-key-group-and-the-others", Content::EveryKind),
            (&[0, 1], "zstd", Content::EveryKindZstd),
            (&[0, 255], "linked-pages", Content::Linked),
        ]),
        "segment" => segments(),
        _ => Vec::new(),
    }
}

fn segments() -> Vec<Seed> {
    let made = Content::ALL.map(|(name, content)| (name, segment::of(content).bytes));
    let forged = [("chain-in-a-circle", forged::circle()), ("tiny-records-linked", forged::tiny_records(20))];
    made.into_iter().chain(forged).collect()
}

/// Segments with bytes before them.
fn behind(seeds: &[(&[u8], &'static str, Content)]) -> Vec<Seed> {
    let seed = |(before, name, content): &(&[u8], &'static str, Content)| {
        (*name, [*before, &segment::of(*content).bytes].concat())
    };
    seeds.iter().map(seed).collect()
}

fn of_parts(names: &[(&'static str, Content)], part: fn(&Made) -> Vec<u8>) -> Vec<Seed> {
    names.iter().map(|(name, content)| (*name, part(&segment::of(*content)))).collect()
}

fn chunks() -> Vec<Seed> {
    of_parts(
        &[
            ("lz4", Content::EveryKindLz4),
            ("zstd", Content::EveryKindZstd),
            ("stored-as-it-is", Content::EveryKind),
            ("two-chunks", Content::Long),
        ],
        parts::chunks,
    )
}

fn footers() -> Vec<Seed> {
    of_parts(
        &[
            ("no-entries", Content::Empty),
            ("every-kind", Content::EveryKind),
            ("zstd", Content::EveryKindZstd),
        ],
        parts::footer,
    )
}

fn indexes() -> Vec<Seed> {
    of_parts(&[("every-kind", Content::EveryKind), ("linked-pages", Content::Linked)], parts::index)
}

fn pages() -> Vec<Seed> {
    let small = segment::of(Content::EveryKind);
    let large = segment::of(Content::Hints);
    parts::pages(&small).into_iter().chain(parts::pages_with_hints(&large)).collect()
}

/// Lists of operations for a heap, each of them often.
fn operations() -> Vec<Seed> {
    let mix = |step: u32| (0..900_u32).map(move |at| (at * step + at / 7 * 31).to_le_bytes()[0]);
    [("steps-of-5", 5), ("steps-of-11", 11), ("steps-of-29", 29)]
        .map(|(name, step)| (name, mix(step).collect()))
        .into()
}

fn manifests() -> Vec<Seed> {
    let mut seeds = vec![("finished-and-empty", manifest(&[], true, false))];
    let segments = [segment::of(Content::Empty), segment::of(Content::EveryKind)];
    seeds.push(("two-vertices-and-participants", manifest(&segments, false, false)));
    seeds.push(("records-in-flight", manifest(&[], false, true)));
    seeds
}

fn manifest(segments: &[Made], is_finished: bool, holds_records: bool) -> Vec<u8> {
    let header = ManifestHeader {
        is_finished,
        checkpoint: 4,
        job_id: 5,
        job_name: "words",
        wall_time_ms: 6,
        max_parallelism: 4,
        hash_seed: 1,
    };
    let mut bytes = Vec::new();
    let mut manifest = ManifestEncoder::new(&mut bytes, &header).expect("sound");
    for kind in [ParticipantKind::OperatorCoordinator, ParticipantKind::Hook].iter().filter(|_| !is_finished)
    {
        let participant = Participant { kind: *kind, name: "lines", state: b"handed out" };
        manifest.participant(&participant).expect("sound");
    }
    for (uid, parallelism) in [("lines", 1), ("count", 2)] {
        let mut vertex = manifest.vertex(&Vertex { uid, parallelism }).expect("sound");
        for index in 0..parallelism {
            let mut subtask = vertex.subtask(Subtask { index, is_finished }).expect("sound");
            for made in segments.iter().filter(|_| parallelism == 2) {
                subtask.segment(&made.listed.as_manifest()).expect("sound");
            }
            match index {
                0 if holds_records => {
                    subtask.in_flight(&InFlight::Inline(&captured::two_channels(8))).expect("sound");
                }
                1 if holds_records => {
                    let (file_name, file_id, len, checksum) = ("chk-4/1-1.inflight", 9, 300, 10);
                    let file = InFlightRef { file_name, file_id, len, checksum };
                    subtask.in_flight(&InFlight::File(file)).expect("sound");
                }
                _ => {}
            }
            for mode in [StateMode::Split, StateMode::Union, StateMode::Broadcast, StateMode::Plain] {
                let state = InlineState { operator: uid, name: "positions", mode };
                let mut state = subtask.state(&state).expect("sound");
                state.partition(b"a position").expect("sound");
                state.partition(&[]).expect("sound");
            }
        }
    }
    manifest.finish().expect("sound");
    bytes
}
