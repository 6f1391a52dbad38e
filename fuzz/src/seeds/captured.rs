//! Records in flight, as the runtime's writer encodes them.

use slackwater::checkpoint::Manifest;
use slackwater_core::format::in_flight::InFlightView;
use slackwater_mem::in_flight::{CapturedChannel, InFlight, InFlightHeader, StoredInFlight};

use super::Seed;
use crate::archive::File;
use crate::captured::listed;

pub(super) fn in_flights() -> Vec<Seed> {
    vec![
        ("one-batch-of-nothing", encode(1, vec![channel(0, 0, &[b""])])),
        ("two-channels", two_channels(1)),
        ("three-edges", encode(2, (0..3).map(|edge| channel(edge, 7, &[b"a", b"bb"])).collect())),
    ]
}

pub(super) fn two_channels(file_id: u128) -> Vec<u8> {
    let channels = vec![channel(0, 1, &[b"first batch", b"", b"third"]), channel(0, 2, &[&[7; 200]])];
    encode(file_id, channels)
}

fn channel(edge: u16, sender: u16, batches: &[&[u8]]) -> CapturedChannel {
    CapturedChannel { edge, sender, batches: batches.iter().map(|batch| batch.to_vec()).collect() }
}

fn encode(file_id: u128, channels: Vec<CapturedChannel>) -> Vec<u8> {
    let header = InFlightHeader { subtask: 3, file_id, job_id: 5, checkpoint: 4, attempt: 1 };
    InFlight { channels }.encode(&header).expect("small")
}

/// The same files, with records in flight to the first subtask of the last vertex in each checkpoint: in a file where
/// `is_file`, else in the manifest.
pub(super) fn with_records(mut files: Vec<File>, is_file: bool) -> Vec<File> {
    let mut more = Vec::new();
    for (path, bytes) in files.iter_mut().filter(|(path, _)| path.ends_with("/_metadata")) {
        let mut manifest = Manifest::decode(bytes).expect("just written");
        let records = two_channels(9);
        let (job, _) = path.split_once('/').expect("it lies in a folder");
        let file_name = format!("chk-{}/9-1.inflight", manifest.id);
        let view = InFlightView::parse(&records).expect("just written");
        let file = StoredInFlight::File(listed(&file_name, &view, records.len()));
        let stored = if is_file { file } else { StoredInFlight::Inline(records.clone()) };
        let vertex = manifest.vertices.last_mut().expect("it has vertices");
        vertex.subtasks[0].in_flight = Some(stored);
        *bytes = manifest.encode().expect("as it was");
        if is_file {
            more.push((format!("{job}/{file_name}"), records));
        }
    }
    files.extend(more);
    files
}
