use super::side::{Mark, Side};
use crate::arena::{ArenaHandle, FrameId};

/// Runs have up to `2^(ORDERS - 1)` frames.
const ORDERS: usize = 30;

/// Free runs of `2^order` frames, each at a multiple of its size (buddies). A list for each order, last in
/// first out; the link back lies where the epoch of a live frame would be.
#[derive(Debug)]
pub(super) struct FreeLists {
    heads: [FrameId; ORDERS],
    /// Bit `order` is set if that list is not empty.
    nonempty: u32,
    /// Frames from here on were never used.
    fresh: u32,
}

impl FreeLists {
    /// Frame 0 is in use, all others are fresh.
    pub(super) const fn new() -> Self {
        Self { heads: [FrameId::NONE; ORDERS], nonempty: 0, fresh: 1 }
    }

    /// Takes the smallest run that has room and gives back the rest of it.
    pub(super) fn take<A: ArenaHandle>(&mut self, side: &mut Side<A>, order: u8) -> Option<FrameId> {
        let fitting = self.nonempty.checked_shr(u32::from(order))?;
        if fitting == 0 {
            return None;
        }
        let mut have = order + low_order(fitting.trailing_zeros());
        let run = *self.heads.get(usize::from(have))?;
        self.unlink(side, run, have);
        while have > order {
            have -= 1;
            self.push(side, FrameId(run.0 + (1 << have)), have);
        }
        Some(run)
    }

    /// Takes a run that was never used. What is skipped to reach a multiple of its size becomes free.
    pub(super) fn take_fresh<A: ArenaHandle>(&mut self, side: &mut Side<A>, order: u8) -> Option<FrameId> {
        let size = 1_u32.checked_shl(u32::from(order))?;
        let start = self.fresh.checked_next_multiple_of(size)?;
        if start.checked_add(size)? > side.geometry().frames {
            return None;
        }
        while self.fresh < start {
            let order = low_order(self.fresh.trailing_zeros());
            let skipped = FrameId(self.fresh);
            self.fresh += 1 << order;
            self.push(side, skipped, order);
        }
        self.fresh = start + size;
        Some(FrameId(start))
    }

    /// The frames that were never used, at most `count` of them: the first one and how many.
    pub(super) fn fresh<A: ArenaHandle>(&self, side: &Side<A>, count: u32) -> (FrameId, u32) {
        (FrameId(self.fresh), side.geometry().frames.saturating_sub(self.fresh).min(count))
    }

    /// Gives back a run and joins it with its buddy for as long as that is free too.
    pub(super) fn give<A: ArenaHandle>(&mut self, side: &mut Side<A>, run: FrameId, order: u8) {
        let (mut run, mut order) = (run, order);
        side.set_mark(run, Mark::None);
        while usize::from(order) + 1 < ORDERS {
            let buddy = FrameId(run.0 ^ (1 << order));
            if side.mark(buddy) != Mark::Free(order) {
                break;
            }
            self.unlink(side, buddy, order);
            run = run.min(buddy);
            order += 1;
        }
        self.push(side, run, order);
    }

    fn push<A: ArenaHandle>(&mut self, side: &mut Side<A>, run: FrameId, order: u8) {
        let Some(head) = self.heads.get_mut(usize::from(order)) else { return };
        side.set_mark(run, Mark::Free(order));
        side.set_link(run, *head);
        side.set_born(run, FrameId::NONE.0);
        if !head.is_none() {
            side.set_born(*head, run.0);
        }
        *head = run;
        self.nonempty |= 1 << order;
    }

    fn unlink<A: ArenaHandle>(&mut self, side: &mut Side<A>, run: FrameId, order: u8) {
        let Some(head) = self.heads.get_mut(usize::from(order)) else { return };
        let (before, next) = (FrameId(side.born(run)), side.link(run));
        if before.is_none() {
            *head = next;
        } else {
            side.set_link(before, next);
        }
        if !next.is_none() {
            side.set_born(next, before.0);
        }
        if head.is_none() {
            self.nonempty &= !(1 << order);
        }
        side.set_mark(run, Mark::None);
    }
}

/// An order from a count of bits.
fn low_order(bits: u32) -> u8 {
    u8::try_from(bits).unwrap_or(u8::MAX)
}
