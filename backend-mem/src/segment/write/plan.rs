//! The pages of one key group: in which order their frames go out, and the index they get.

use std::collections::VecDeque;
use std::vec::Vec;

use slackwater_core::durable::Frozen;
use slackwater_core::format::checksum::PART_FRAME;
use slackwater_core::format::segment::{
    Compression, IndexEncoder, IndexRow, KeyGroupRow, SectionHead, SegmentHeader,
};
use slackwater_core::key_group::KeyGroup;

use super::RUN_LEN_MAX;
use crate::arena::ArenaHandle;
use crate::heap::StateId;
use crate::heap::tags::prefetch_start;
use crate::snapshot::{FrozenRun, PageRef, Snapshot};

/// The pages of a key group in the order of their frames.
#[derive(Debug, Default)]
pub(super) struct GroupPlan {
    key_group: u16,
    first_frame: u32,
    pages: Vec<(StateId, IndexRow)>,
    /// Entries of each state that has pages, and the root of its tree.
    entries: Vec<(StateId, u64, u32)>,
    /// Pages whose checksum is known.
    summed: usize,
    /// Bytes of its chunks so far.
    chunks_len: u64,
}

impl GroupPlan {
    /// Lines up the pages that `states` have in a key group whose first frame will be number `first_frame`.
    /// Pages that lie one behind the other in memory make one run.
    pub(super) fn of<A: ArenaHandle + 'static>(
        snapshot: &Snapshot<A>,
        states: &[StateId],
        group: KeyGroup,
        first_frame: u64,
    ) -> Result<(Self, VecDeque<FrozenRun<A>>), &'static str> {
        let mut pages: Vec<(StateId, PageRef<'_, A>)> = Vec::new();
        let mut entries = Vec::new();
        for state in states {
            let before = pages.len();
            pages.extend(snapshot.pages(*state, group).map(|page| (*state, page)));
            let found = (pages.len() - before) as u64;
            debug_assert_eq!(found, snapshot.group_page_count(*state, group), "the file has room for all");
            if pages.len() > before {
                let root = snapshot.group_root(*state, group);
                entries.push((*state, snapshot.group_len(*state, group).into(), root));
            }
        }
        pages.sort_unstable_by_key(|(_, page)| page.bytes().as_ptr().addr());
        let end = first_frame + pages.len() as u64;
        u32::try_from(end).map_err(|_| "more frames than 2^32")?;
        let first_frame = u32::try_from(first_frame).map_err(|_| "more frames than 2^32")?;
        let rows = pages.iter().zip(first_frame..).map(|((state, page), frame)| (*state, row(page, frame)));
        let plan = Self {
            key_group: group.0,
            first_frame,
            pages: rows.collect(),
            entries,
            summed: 0,
            chunks_len: 0,
        };
        Ok((plan, runs(pages.iter().map(|(_, page)| page))))
    }

    /// Gives the first frame another number.
    pub(super) fn move_to(&mut self, first_frame: u64) -> Result<(), &'static str> {
        let end = first_frame + self.pages.len() as u64;
        u32::try_from(end).map_err(|_| "more frames than 2^32")?;
        self.first_frame = u32::try_from(first_frame).map_err(|_| "more frames than 2^32")?;
        for ((_, row), frame) in self.pages.iter_mut().zip(self.first_frame..) {
            row.frame_no = frame.into();
        }
        Ok(())
    }

    /// Computes the checksums of the frames of the next run; `next` is what will be read behind it.
    pub(super) fn sum_up(&mut self, run: &[u8], next: &[u8], header: &SegmentHeader) {
        let size = frame_size(header);
        let identity = header.identity(PART_FRAME).of_key_group(self.key_group);
        let pages = self.pages.get_mut(self.summed..).unwrap_or_default();
        let mut rest = run;
        for (state, row) in pages {
            let Some((frame, behind)) = rest.split_at_checked(size) else { return };
            prefetch_start(if behind.is_empty() { next } else { behind });
            row.checksum = identity.of_page(state.0, row.lpn.get()).checksum(frame).into();
            self.summed += 1;
            rest = behind;
        }
    }

    /// The key group, if it has pages.
    pub(super) fn key_group(&self) -> Option<KeyGroup> {
        (!self.pages.is_empty()).then_some(KeyGroup(self.key_group))
    }

    pub(super) const fn frame_count(&self) -> usize {
        self.pages.len()
    }

    /// The key group's number.
    pub(super) const fn number(&self) -> u16 {
        self.key_group
    }

    /// Takes note of chunks.
    pub(super) const fn add_chunks(&mut self, len: usize) {
        self.chunks_len += len as u64;
    }

    /// Bytes in which its frames are stored.
    pub(super) const fn data_len(&self, header: &SegmentHeader) -> u64 {
        match header.compression {
            Compression::None => (self.pages.len() as u64) << header.frame_size_log2,
            Compression::Lz4 | Compression::Zstd => self.chunks_len,
        }
    }

    /// Appends the index to `out`, and gives what the footer says of the key group.
    pub(super) fn encode(
        mut self,
        (data_offset, index_offset): (u64, u64),
        header: &SegmentHeader,
        out: &mut Vec<u8>,
    ) -> Result<KeyGroupRow, &'static str> {
        debug_assert_eq!(self.summed, self.pages.len(), "all frames were sent");
        self.pages.sort_unstable_by_key(|(state, row)| (*state, row.lpn.get()));
        let mut encoder = IndexEncoder::new(out, header, self.key_group);
        let mut rows = Vec::new();
        let mut rest = self.pages.as_slice();
        for (state, entry_count, root) in &self.entries {
            let (section, behind) = rest.split_at(rest.partition_point(|(id, _)| id <= state));
            rest = behind;
            rows.clear();
            rows.extend(section.iter().map(|(_, row)| *row));
            let head = section_head(*state, (*entry_count, *root), &rows)?;
            encoder.section(head, &rows).map_err(|_| "an index")?;
        }
        let mut row = KeyGroupRow {
            key_group: self.key_group.into(),
            section_count: 0.into(),
            index_len: 0.into(),
            index_offset: index_offset.into(),
            data_offset: data_offset.into(),
            data_len: self.data_len(header).into(),
            first_frame: self.first_frame.into(),
            frame_count: u32::try_from(self.pages.len()).map_err(|_| "more frames than 2^32")?.into(),
            index_checksum: 0.into(),
            delta_count: 0.into(),
        };
        encoder.finish(&mut row).map_err(|_| "an index above 4 GiB")?;
        Ok(row)
    }
}

fn frame_size(header: &SegmentHeader) -> usize {
    1 << header.frame_size_log2
}

fn section_head(
    state: StateId,
    (entry_count, root): (u64, u32),
    rows: &[IndexRow],
) -> Result<SectionHead, &'static str> {
    let above = rows.last().map_or(0, |row| row.lpn.get()).checked_add(1).ok_or("more pages than 2^32")?;
    Ok(SectionHead {
        state_id: state.0.into(),
        depth: rows.iter().map(|row| row.depth).max().unwrap_or(0),
        reserved: 0,
        row_count: 0.into(),
        entry_count: entry_count.into(),
        next_lpn: above.into(),
        root_lpn: root.into(),
    })
}

fn row<A: ArenaHandle>(page: &PageRef<'_, A>, frame_no: u32) -> IndexRow {
    IndexRow {
        lpn: page.lpn().into(),
        depth: page.depth(),
        kind: page.page_type().to_le_bytes()[0],
        flags: 0.into(),
        file_no: 0.into(),
        frame_no: frame_no.into(),
        checksum: 0.into(),
    }
}

/// Joins pages that lie one behind the other.
fn runs<'s, A: ArenaHandle + 'static>(
    pages: impl Iterator<Item = &'s PageRef<'s, A>>,
) -> VecDeque<FrozenRun<A>> {
    let mut runs: VecDeque<FrozenRun<A>> = VecDeque::new();
    for page in pages {
        let joined = match runs.back_mut() {
            Some(run) if run.bytes().len() < RUN_LEN_MAX => run.try_extend(page),
            Some(_) | None => false,
        };
        if !joined {
            runs.push_back(page.guard());
        }
    }
    runs
}
