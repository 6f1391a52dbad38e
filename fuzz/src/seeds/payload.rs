//! Positions and pending parts, as the runtime's source and sink write them.

use slackwater::file_sink::PendingPart;
use slackwater::ids::CheckpointId;
use slackwater::inputs::Inputs;
use slackwater::line_source::{LineOptions, LineSource, Phase, RecordedSplit};
use slackwater::operator::Source;

use super::Seed;
use crate::payloads::TEXT;

pub(super) fn payloads() -> Vec<Seed> {
    let (part, other) = (part(0, 3), part(1, 200));
    vec![
        ("position", position(Phase::AtLine, 0)),
        ("part", part.clone()),
        ("source-at-its-start", list(0, &[position(Phase::AtLine, 0)], b"")),
        ("source-in-a-line", list(0, &[position(Phase::InLine, 12), position(Phase::Skipping, 9)], b"")),
        ("source-in-an-unended-last-line", list(0, &[position(Phase::InLine, TEXT.len() as u64)], b"")),
        ("sink-with-two-parts", list(1, &[part, other], b"\n")),
        ("sink-without-parts", list(1, &[], b"\n")),
    ]
}

fn list(kind: u8, items: &[Vec<u8>], between: &[u8]) -> Vec<u8> {
    [&[kind], items.join(between).as_slice()].concat()
}

fn position(phase: Phase, position: u64) -> Vec<u8> {
    let inputs = Inputs::in_memory([("text", TEXT)]).expect("it is in memory");
    let mut source = LineSource::new(inputs.clone(), LineOptions::default(), 0, 1);
    let taken = source.snapshot();
    let mut recorded = RecordedSplit::decode(&taken[0]).expect("just taken");
    (recorded.split.phase, recorded.split.position) = (phase, position);
    let (from, to) = recorded.split.window();
    let reader = inputs.input(0).expect("the only one").open().expect("it is in memory");
    recorded.window = slackwater::inputs::Digest::of_range(&reader, from, to).expect("it is in memory");
    recorded.encode()
}

fn part(number: u64, len: u64) -> Vec<u8> {
    PendingPart {
        checkpoint: CheckpointId(7),
        len,
        hidden_name: format!(".part-0-1-{number}.tmp"),
        final_name: format!("part-0-{number}-chk-7"),
    }
    .encode()
}
