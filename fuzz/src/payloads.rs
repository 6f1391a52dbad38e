//! What the runtime's own sources and sinks keep in a manifest.

use slackwater::blocking::Blocking;
use slackwater::file_sink::{FileSink, FileSinkOptions, PendingPart};
use slackwater::ids::CheckpointId;
use slackwater::inputs::Inputs;
use slackwater::line_source::{LineOptions, LineSource, RecordedSplit};
use slackwater::operator::{Sink, Source, SubtaskInfo};

use crate::archive::{disk_with, files_of};

/// A position or a pending part, then a list of them, restored by what wrote them.
pub fn payload(data: &[u8]) {
    if let Ok(split) = RecordedSplit::decode(data) {
        assert_eq!(split.encode(), data);
    }
    match PendingPart::decode(data) {
        Ok(part) => assert_eq!(part.encode(), data),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let Some((kind, data)) = data.split_first() else { return };
    if kind % 2 == 0 { source(data) } else { sink(data) }
}

/// Text that the positions of the corpus are in.
pub(crate) const TEXT: &[u8] = b"one line\nanother\n\nand a last one without an end";
/// Length of a position.
const POSITION_LEN: usize = 66;

fn source(data: &[u8]) {
    let splits: Vec<Vec<u8>> = data.chunks(POSITION_LEN).map(<[u8]>::to_vec).collect();
    let inputs = Inputs::in_memory([("text", TEXT)]).expect("it is in memory");
    let mut source = LineSource::new(inputs.clone(), LineOptions::default(), 0, 1);
    match source.restore(splits.clone()) {
        Ok(()) => {
            let kept = source.snapshot();
            assert_eq!(kept.len(), splits.len());
            LineSource::new(inputs, LineOptions::default(), 0, 1).restore(kept).expect("it was just taken");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Parts, each behind a line's end, in a folder that has every second one under either name.
fn sink(data: &[u8]) {
    let pending: Vec<Vec<u8>> = data.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let parts = pending.iter().filter_map(|bytes| PendingPart::decode(bytes).ok());
    let file = |(at, part): (usize, PendingPart)| {
        let name = if at % 2 == 0 { part.hidden_name } else { part.final_name };
        (format!("out/{name}"), vec![7; usize::try_from(part.len.min(100)).expect("a few")])
    };
    let mut disk = disk_with(&parts.enumerate().map(file).collect::<Vec<_>>());
    let info = SubtaskInfo {
        operator: String::from("sink"),
        index: 0,
        parallelism: 1,
        max_parallelism: 1,
        attempt: 1,
    };
    let mut recover = || {
        let mut sink = FileSink::new("out", &info, FileSinkOptions::default());
        sink.recover(Some(CheckpointId(7)), &pending, &mut Blocking::new(&mut disk))
    };
    match recover() {
        Ok(_) => drop(recover().expect("it may be repeated")),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    assert!(files_of(&mut disk, "").len() <= pending.len(), "no file comes from nowhere");
}
