use slackwater_core::format::EncodeError;
use slackwater_core::format::manifest::{ManifestEncoder, ManifestView};

use crate::repair;

/// A manifest. Bytes that end early are filled up to a block.
pub fn manifest(data: &[u8]) {
    let mut data = data.to_vec();
    data.resize(data.len().next_multiple_of(4096), 0);
    repair::manifest(&mut data);
    if let Ok(view) = ManifestView::parse(&data) {
        assert_eq!(encode(&view).expect("as it was"), data);
    }
}

fn encode(view: &ManifestView<'_>) -> Result<Vec<u8>, EncodeError<core::convert::Infallible>> {
    let mut bytes = Vec::new();
    let mut manifest = ManifestEncoder::new(&mut bytes, view.header())?;
    for vertex in view.vertices() {
        let mut encoder = manifest.vertex(&vertex)?;
        for subtask in vertex.subtasks() {
            let mut encoder = encoder.subtask(*subtask)?;
            for segment in subtask.segments() {
                encoder.segment(&segment)?;
            }
            for state in subtask.states() {
                let mut encoder = encoder.state(&state)?;
                for partition in state.partitions() {
                    encoder.partition(partition)?;
                }
            }
        }
    }
    manifest.finish()?;
    Ok(bytes)
}
