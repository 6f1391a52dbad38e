//! What follows the frames: indexes, footer, trailer.

use std::vec::Vec;

use slackwater_core::format::segment::{
    FooterEncoder, FooterHead, FooterTotals, IndexRow, KeyGroupRow, SectionHead, SegmentHeader,
    SegmentTrailer, SegmentTrailerLayout, StateEntry, StateHead,
};
use slackwater_core::key_group::KeyGroup;
use zerocopy::IntoBytes;

use super::chunks::data_len_max;
use super::plan::GroupPlan;
use crate::arena::ArenaHandle;
use crate::heap::StateId;
use crate::snapshot::{Snapshot, StateView};

/// Indexes and rows of the key groups so far.
#[derive(Debug, Default)]
pub(super) struct Tail {
    frame_count: u64,
    /// Bytes in which these are stored.
    data_len: u64,
    indexes: Vec<u8>,
    rows: Vec<KeyGroupRow>,
    footer_checksum: u32,
}

impl Tail {
    pub(super) const fn frame_count(&self) -> u64 {
        self.frame_count
    }

    pub(super) const fn footer_checksum(&self) -> u32 {
        self.footer_checksum
    }

    /// Takes in a key group whose frames have all been sent. One without pages leaves no trace.
    pub(super) fn add(&mut self, group: GroupPlan, header: &SegmentHeader) -> Result<(), &'static str> {
        if group.frame_count() == 0 {
            return Ok(());
        }
        self.frame_count += group.frame_count() as u64;
        // Where the indexes begin is known when the last frame is; until then offsets count from there.
        let places = (header.block_size() + self.data_len, self.indexes.len() as u64);
        self.data_len += group.data_len(header);
        let row = group.encode(places, header, &mut self.indexes)?;
        self.rows.push(row);
        Ok(())
    }

    /// Everything behind the frames, to the end of the file.
    pub(super) fn encode<A: ArenaHandle>(
        &mut self,
        snapshot: &Snapshot<A>,
        header: &SegmentHeader,
    ) -> Result<Vec<u8>, &'static str> {
        let indexes_offset = header.block_size() + self.data_len;
        for row in &mut self.rows {
            row.index_offset = (row.index_offset.get() + indexes_offset).into();
        }
        let mut bytes = core::mem::take(&mut self.indexes);
        let totals = FooterTotals {
            key_group_count: u32::try_from(self.rows.len()).map_err(|_| "key groups")?,
            state_count: u32::try_from(snapshot.states().count()).map_err(|_| "states")?,
            frame_count: self.frame_count,
            data_len: self.data_len,
            index_len: bytes.len() as u64,
            entry_count: snapshot.states().map(|state| state.entries).sum(),
        };
        let footer_offset = indexes_offset + totals.index_len;
        let mut footer = FooterEncoder::new(&mut bytes, header, &totals).map_err(|_| "the footer")?;
        for row in &self.rows {
            footer.key_group(row).map_err(|_| "the key groups of the footer")?;
        }
        for state in snapshot.states() {
            footer.state(&entry(&state)).map_err(|_| "the name of a state")?;
        }
        let footer = footer.finish().map_err(|_| "the footer")?;
        self.footer_checksum = footer.checksum;
        let trailer = SegmentTrailer {
            footer_checksum: footer.checksum,
            footer_offset,
            footer_len: footer.len,
            file_len: SegmentTrailer::file_len(footer_offset, footer.len, header),
            file_id: header.file_id,
        };
        let tail_len = trailer.file_len - indexes_offset - SegmentTrailerLayout::LEN as u64;
        bytes.resize(usize::try_from(tail_len).map_err(|_| "the tail")?, 0);
        bytes.extend_from_slice(trailer.encode().as_bytes());
        Ok(bytes)
    }
}

fn entry<'s>(state: &StateView<'s>) -> StateEntry<'s> {
    StateEntry {
        state_id: state.id.0,
        kind: state.kind.number(),
        distribution: state.distribution,
        operator: state.operator,
        state: state.name,
        key_codec: state.key.name,
        key_codec_version: state.key.version,
        value_codec: state.value.name,
        value_codec_version: state.value.version,
        key_width: state.key.width,
        value_width: state.value.width,
        entry_count: state.entries,
    }
}

/// How long the file of this snapshot, in which `states` were written, becomes, or at most if it is compressed.
pub(super) fn file_len<A: ArenaHandle>(
    snapshot: &Snapshot<A>,
    states: &[StateId],
    header: &SegmentHeader,
) -> u64 {
    let (mut frames, mut data_len, mut sections, mut groups) = (0_u64, 0_u64, 0_u64, 0_u64);
    for group in header.key_groups.iter().chain([KeyGroup::NONE]) {
        let before = frames;
        for state in states {
            let pages = snapshot.group_page_count(*state, group);
            sections += u64::from(pages > 0);
            frames += pages;
        }
        data_len += data_len_max(frames - before, header);
        groups += u64::from(frames > before);
    }
    let names = |state: StateView<'_>| {
        [state.operator, state.name, state.key.name, state.value.name].map(str::len).iter().sum::<usize>()
    };
    let registry: usize = snapshot.states().map(|state| StateHead::LEN + names(state)).sum();
    let footer_len = FooterHead::LEN as u64 + groups * KeyGroupRow::LEN as u64 + registry as u64;
    let index_len = sections * SectionHead::LEN as u64 + frames * IndexRow::LEN as u64;
    SegmentTrailer::file_len(header.block_size() + data_len + index_len, footer_len, header)
}
