use std::string::String;

use slackwater_core::durable::Disk;
use slackwater_core::format::segment::{Distribution, IndexView, KeyGroupRow};
use slackwater_core::key_group::KeyGroup;

use super::SegmentRef;
use super::error::{RestoreCause, RestoreError};
use super::key_group::KeyGroupPages;
use super::page::{PageChecker, Shapes};
use super::source::{SegmentMeta, SegmentSource, batches, split_indexes};
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

/// Reads and checks all of a segment but the frames of its key groups: header, registry, every index, what is not
/// kept by key, and that states have as many entries as they should. Together with a restore of every key group,
/// whoever restores it, that is every byte. Says whether there is a state that is not kept by key, which
/// [`restore_operator_state`](super::restore_operator_state) gives out. Waits for the disk; memory as for a restore.
///
/// # Errors
/// The first thing that is wrong.
pub fn verify_all_but_key_groups<D: Disk>(
    disk: &mut D,
    path: &str,
    expected: &SegmentRef,
) -> Result<bool, RestoreError> {
    verify_tables(disk, path, expected).map_err(|cause| RestoreError { path: String::from(path), cause })
}

fn verify<D: Disk>(disk: &mut D, path: &str, expected: &SegmentRef) -> Result<VerifyStats, RestoreCause> {
    let meta = SegmentMeta::read(disk, path, expected)?;
    let shapes = Shapes::of(&meta.header, &meta.footer()?);
    let mut source = SegmentSource::open(disk, path, &meta)?;
    let mut tally = Tally::of(&meta.footer()?);
    let states = meta.footer()?.totals().state_count;
    let mut stats = VerifyStats { len: expected.len, states, ..VerifyStats::default() };
    for rows in batches(meta.footer()?.key_groups(), &meta.header) {
        source.read_key_groups(rows, checker(&meta, &shapes), &mut |pages| {
            stats.entries += count(pages, &mut tally)?;
            stats.key_groups += u32::from(!is_without_key(pages.row()));
            Ok(())
        })?;
    }
    tally.check()?;
    Ok(stats)
}

fn verify_tables<D: Disk>(disk: &mut D, path: &str, expected: &SegmentRef) -> Result<bool, RestoreCause> {
    let meta = SegmentMeta::read(disk, path, expected)?;
    let shapes = Shapes::of(&meta.header, &meta.footer()?);
    let mut source = SegmentSource::open(disk, path, &meta)?;
    let mut tally = Tally::of(&meta.footer()?);
    for rows in batches(meta.footer()?.key_groups(), &meta.header) {
        let indexes = source.read_indexes(rows)?;
        for (row, index) in split_indexes(rows, &indexes).filter(|(row, _)| !is_without_key(row)) {
            tally.add_index(row, &IndexView::parse(index, &meta.header, row)?)?;
        }
    }
    if let Some(row) = meta.row_without_key()? {
        let mut each = |pages: &KeyGroupPages<'_>| count(pages, &mut tally).map(drop);
        source.read_key_groups(&[row], checker(&meta, &shapes), &mut each)?;
    }
    tally.check()?;
    Ok(meta.footer()?.states().any(|state| state.distribution != Distribution::ByKey))
}

const fn checker<'s>(meta: &SegmentMeta, shapes: &'s Shapes) -> PageChecker<'s> {
    let hasher = Hasher::new(meta.header.hash_seed);
    PageChecker { header: meta.header, hasher, shapes }
}

const fn is_without_key(row: &KeyGroupRow) -> bool {
    row.key_group.get() == KeyGroup::NONE.0
}

/// Counts the entries of a sound key group.
fn count(pages: &KeyGroupPages<'_>, tally: &mut Tally) -> Result<u64, RestoreCause> {
    if is_without_key(pages.row()) {
        return pages.entries(&mut |state, key, _value| Ok(tally.add(KeyGroup::NONE, state, key)?));
    }
    // The sections were checked, and with them that they have as many as they say.
    Ok(tally.add_index(pages.row(), &pages.index()?)?)
}
