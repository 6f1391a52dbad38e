use slackwater::checkpoint::{MEMORY_PER_BYTE, Manifest};
use slackwater_core::format::EncodeError;
use slackwater_core::format::manifest::{ManifestEncoder, ManifestView};

use crate::folders::encode_again;
use crate::{memory, repair};

/// A manifest, as a view and as the runtime has it. Bytes that end early are filled up to a block.
pub fn manifest(data: &[u8]) {
    let mut data = data.to_vec();
    data.resize(data.len().next_multiple_of(4096), 0);
    repair::manifest(&mut data);
    let view = memory::within("a view of a manifest", 0, || ManifestView::parse(&data));
    let memory_max = data.len() * MEMORY_PER_BYTE;
    let decoded = memory::within("a manifest", memory_max, || Manifest::decode(&data));
    match (view, decoded) {
        (Ok(view), Ok(decoded)) => {
            assert_eq!(encode(&view).expect("as it was"), data);
            encode_again(&decoded);
        }
        (view, decoded) => assert_eq!(view.err(), decoded.err()),
    }
}

fn encode(view: &ManifestView<'_>) -> Result<Vec<u8>, EncodeError<core::convert::Infallible>> {
    let mut bytes = Vec::new();
    let mut manifest = ManifestEncoder::new(&mut bytes, view.header())?;
    for participant in view.participants() {
        manifest.participant(&participant)?;
    }
    for vertex in view.vertices() {
        let mut encoder = manifest.vertex(&vertex)?;
        for subtask in vertex.subtasks() {
            let mut encoder = encoder.subtask(*subtask)?;
            for segment in subtask.segments() {
                encoder.segment(&segment)?;
            }
            if let Some(in_flight) = subtask.in_flight() {
                encoder.in_flight(&in_flight)?;
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
