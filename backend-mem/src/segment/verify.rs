use std::string::String;

use slackwater_core::durable::Disk;
use slackwater_core::key_group::KeyGroup;

use super::SegmentRef;
use super::error::{RestoreCause, RestoreError};
use super::page::{PageChecker, Shapes};
use super::source::{SegmentMeta, SegmentSource};
use super::tally::Tally;
use crate::heap::Hasher;

/// What a verification read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyStats {
    /// Key groups that have entries.
    pub key_groups: u32,
    /// States in the registry.
    pub states: u32,
    /// Entries of all states.
    pub entries: u64,
    /// Bytes read: the whole file.
    pub len: u64,
}

/// Reads a segment from the first byte to the last and checks all of it: every checksum, every page, every
/// entry's place, every count, and that all padding is zero. Waits for the disk; memory as for a restore.
///
/// # Errors
/// The first thing that is wrong.
pub fn verify_segment<D: Disk>(
    disk: &mut D,
    path: &str,
    expected: &SegmentRef,
) -> Result<VerifyStats, RestoreError> {
    verify(disk, path, expected).map_err(|cause| RestoreError { path: String::from(path), cause })
}

fn verify<D: Disk>(disk: &mut D, path: &str, expected: &SegmentRef) -> Result<VerifyStats, RestoreCause> {
    let meta = SegmentMeta::read(disk, path, expected)?;
    let shapes = Shapes::of(&meta.header, &meta.footer()?);
    let hasher = Hasher::new(meta.header.hash_seed);
    let checker = PageChecker { header: meta.header, hasher, shapes: &shapes };
    let mut source = SegmentSource::open(disk, path, &meta)?;
    let mut tally = Tally::of(&meta.footer()?);
    let len = expected.len;
    let mut stats =
        VerifyStats { len, states: meta.footer()?.totals().state_count, ..VerifyStats::default() };
    let rows = meta.key_groups(meta.header.key_groups)?;
    for row in rows.into_iter().chain(meta.row_without_key()?) {
        let pages = source.read_key_group(&row, checker)?;
        let group = KeyGroup(row.key_group.get());
        if group == KeyGroup::NONE {
            stats.entries += pages.entries(&mut |state, key, _value| Ok(tally.add(group, state, key)?))?;
        } else {
            stats.key_groups += 1;
            for section in pages.index()?.sections() {
                // The section was checked, and with it that it has so many.
                let count = section.head.entry_count.get();
                tally.add_many(group, section.head.state_id.get(), count)?;
                stats.entries += count;
            }
        }
        source.reuse(pages.into_frames());
    }
    tally.check()?;
    Ok(stats)
}
