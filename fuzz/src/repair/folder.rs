use slackwater_core::format::in_flight::InFlightView;
use slackwater_core::format::manifest::{InFlightElement, MANIFEST_BLOCK_SIZE, SegmentElement};
use zerocopy::FromBytes;

use crate::archive::File;
use crate::segments::listed;

/// Bits of the byte that says what is repaired in a folder.
pub(crate) const MANIFESTS: u8 = 1;
pub(crate) const SEGMENTS: u8 = 2;
pub(crate) const LINKS: u8 = 4;

/// Puts right, as `order` says, the checksums of the segments, what the manifests say of them, and the checksums of the
/// manifests.
pub(crate) fn folder(files: &mut [File], order: u8) {
    let is_manifest = |path: &str| path.ends_with("/_metadata");
    if order & SEGMENTS != 0 {
        for (_, bytes) in files.iter_mut().filter(|(path, _)| path.ends_with(".seg")) {
            // What has not the shape of a segment stays as it is.
            let _is_repaired = super::segment(bytes).is_some();
        }
        for (_, bytes) in files.iter_mut().filter(|(path, _)| path.ends_with(".inflight")) {
            let _is_repaired = super::in_flight(bytes).is_some();
        }
    }
    for at in 0..files.len() {
        let Some((path, bytes)) = files.get_mut(at).filter(|(path, _)| is_manifest(path)) else { continue };
        let (path, mut manifest) = (path.clone(), std::mem::take(bytes));
        if order & LINKS != 0 {
            link(&mut manifest, files, path.split('/').next().unwrap_or_default());
        }
        if order & MANIFESTS != 0 {
            manifest.resize(manifest.len().next_multiple_of(MANIFEST_BLOCK_SIZE), 0);
            super::manifest(&mut manifest);
        }
        if let Some((_, bytes)) = files.get_mut(at) {
            *bytes = manifest;
        }
    }
}

/// Lists each file that is there as it is.
fn link(manifest: &mut [u8], files: &[File], job: &str) {
    let find = |name: &[u8]| {
        let path = format!("{job}/{}", String::from_utf8_lossy(name));
        files.iter().find(|(known, _)| *known == path).map(|(_, bytes)| bytes.as_slice())
    };
    // Ends at the first element that has not the shape of one.
    let _all = super::elements(manifest, |tag, body| match tag {
        3 => {
            if let Ok((element, name)) = SegmentElement::mut_from_prefix(body)
                && let Some(bytes) = find(name)
            {
                let segment = listed("", bytes);
                element.file_id = segment.file_id.to_le_bytes();
                element.len = segment.len.into();
                element.used_len = segment.used_len.into();
                element.footer_checksum = segment.footer_checksum.into();
                element.first_key_group = segment.key_groups.first.0.into();
                element.last_key_group = segment.key_groups.last.0.into();
            }
        }
        7 => {
            if let Ok((element, name)) = InFlightElement::mut_from_prefix(body)
                && let Some(bytes) = find(name)
                && let Ok(view) = InFlightView::parse(bytes)
            {
                element.file_id = view.header().file_id.to_le_bytes();
                element.len = (bytes.len() as u64).into();
                element.checksum = view.checksum().into();
            }
        }
        _ => {}
    });
}
