//! What a bug in the runtime would have left on the disk.

use slackwater::checkpoint::Manifest;
use slackwater_mem::in_flight::{InFlight, InFlightHeader, StoredInFlight};
use slackwater_tests::crash::Sim;

/// The newest checkpoint is as if the last record of a captured batch had not been captured.
pub(crate) fn capture_one_short(disk: &Sim, manifest_path: &str) -> Option<()> {
    let mut manifest = Manifest::decode(&disk.read_file(manifest_path)?).ok()?;
    let subtasks = manifest.vertices.iter_mut().flat_map(|vertex| &mut vertex.subtasks);
    let mut stored = subtasks.filter_map(|subtask| subtask.in_flight.as_mut());
    let captured = stored.find_map(|stored| match stored {
        StoredInFlight::Inline(bytes) => Some(bytes),
        StoredInFlight::File(_) => None,
    })?;
    let mut in_flight = InFlight::decode(captured).ok()?;
    let batch = in_flight.channels.iter_mut().flat_map(|channel| &mut channel.batches).next()?;
    batch.truncate(last_record(batch)?);
    let header = InFlightHeader {
        subtask: 0,
        file_id: 0,
        job_id: manifest.job_id,
        checkpoint: manifest.id.0,
        attempt: 0,
    };
    *captured = in_flight.encode(&header).ok()?;
    disk.overwrite(manifest_path, &manifest.encode().ok()?).ok()
}

/// Where the last record of a batch begins: the name of a codec and records, each behind its length.
fn last_record(batch: &[u8]) -> Option<usize> {
    let (mut last, mut at) = (None, 0);
    while at < batch.len() {
        let len = u32::from_le_bytes(batch.get(at..at + 4)?.try_into().ok()?);
        last = (at > 0).then_some(at);
        at += 4 + usize::try_from(len).ok()?;
    }
    last
}
