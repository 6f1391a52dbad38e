//! A frozen heap, and the guards that keep it frozen.

#![expect(unsafe_code, reason = "reads frames that its guard keeps frozen")]

use slackwater_core::durable::Frozen;
use slackwater_core::format::page::{PAGE_TYPE_INNER, PAGE_TYPE_LEAF, PAGE_TYPE_OVERFLOW, PageHeader};
use slackwater_core::format::segment::Distribution;
use slackwater_core::key_group::{KeyGroup, KeyGroupRange};
use slackwater_core::sync::is_mutant;
use zerocopy::FromBytes;

use crate::arena::{ArenaHandle, DefaultArena, DoneGroups, FrameId, FrameView, Geometry};
use crate::codec::CodecId;
use crate::heap::tables::{EMPTY_HEAD, ENTRY_FREE, Head, StateRow, Walk, directory_entry};
use crate::heap::tags::prefetch;
use crate::heap::tree::Tree;
use crate::heap::{Entries, HeapOptions, StateId, StateKind, Value, scan};

/// All states of a heap as they were at one moment. Its frames stay as they are until the snapshot and every
/// guard made from it are dropped; any thread may do that. Key groups can be given up one by one before
/// ([`Snapshot::key_group_done`]).
#[derive(Debug)]
pub struct Snapshot<A: ArenaHandle = DefaultArena> {
    guard: Guard<A>,
    geometry: Geometry,
    epoch: u32,
    root: FrameId,
    options: HeapOptions,
}

/// One of those that keep a snapshot's frames frozen.
#[derive(Debug)]
struct Guard<A: ArenaHandle> {
    arena: A,
    slot: usize,
}

impl<A: ArenaHandle> Clone for Guard<A> {
    fn clone(&self) -> Self {
        self.arena.arena().slots().join(self.slot);
        Self { arena: self.arena.clone(), slot: self.slot }
    }
}

impl<A: ArenaHandle> Drop for Guard<A> {
    fn drop(&mut self) {
        self.arena.arena().slots().leave(self.slot);
    }
}

impl<A: ArenaHandle> Snapshot<A> {
    /// The heap has just opened the slot and counts this as its one guard.
    pub(crate) const fn new(
        arena: A,
        geometry: Geometry,
        (epoch, slot): (u32, usize),
        root: FrameId,
        options: HeapOptions,
    ) -> Self {
        Self { guard: Guard { arena, slot }, geometry, epoch, root, options }
    }

    /// The epoch that it closed: 1 for the first, one more each time.
    #[must_use]
    pub const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Size of a frame in bytes.
    #[must_use]
    pub const fn frame_size(&self) -> usize {
        self.geometry.frame_size()
    }

    /// The key groups of the heap.
    #[must_use]
    pub const fn key_groups(&self) -> KeyGroupRange {
        self.options.key_groups
    }

    /// Seed of the hash that placed the keys.
    #[must_use]
    pub const fn hash_seed(&self) -> u64 {
        self.options.hash_seed
    }

    /// The states in the order of their ids.
    pub fn states(&self) -> impl Iterator<Item = StateView<'_>> + Clone {
        self.walk().all_states()
    }

    /// The states that anything was ever written to.
    #[cfg(feature = "std")]
    pub(crate) fn written_states(&self) -> impl Iterator<Item = StateId> + Clone {
        let walk = self.walk();
        walk.state_ids().filter(move |id| !walk.table(*id).is_none())
    }

    /// How many entries a key group of a state has; 0 for one that is not there.
    #[must_use]
    pub fn group_len(&self, state: StateId, group: KeyGroup) -> u32 {
        self.head(state, group).entries.get()
    }

    /// How many pages [`Snapshot::pages`] gives, without a look at them.
    #[cfg(feature = "std")]
    pub(crate) fn group_page_count(&self, state: StateId, group: KeyGroup) -> u64 {
        let head = self.readable_head(state, group);
        let linked = head.overflow_used.get().saturating_sub(head.overflow_free_count.get());
        u64::from(head.pages.get()) + u64::from(linked)
    }

    /// How deep the directory of a key group of a state is.
    #[must_use]
    pub fn group_depth(&self, state: StateId, group: KeyGroup) -> u8 {
        self.head(state, group).depth
    }

    /// Gives up a key group, of all states: nobody will read it again, and the heap writes to its pages without
    /// copying them from now on. The snapshot shows it without pages and entries then; its counts stay. Constant
    /// time.
    ///
    /// False, and nothing has changed, while a [`FrozenRun`] may keep its pages; runs of key groups that agree in
    /// their last bits are not told apart. To be asked again when one has been dropped.
    pub fn key_group_done(&mut self, group: KeyGroup) -> bool {
        let has_runs = self.guard.arena.arena().slots().has_runs(self.guard.slot, group);
        if has_runs && !is_mutant("heap_done_early") {
            return false;
        }
        self.done_groups().set(group);
        true
    }

    /// Whether the key group was given up. Always false in a heap so small that it keeps no books of that.
    #[must_use]
    pub fn is_key_group_done(&self, group: KeyGroup) -> bool {
        self.done_groups().has(group)
    }

    /// The key group that the heap lacks memory for and asks to be given up next, if there is one.
    #[must_use]
    pub fn wanted_key_group(&self) -> Option<KeyGroup> {
        let wanted = self.guard.arena.arena().slots().wanted(self.guard.slot);
        wanted.filter(|group| !self.is_key_group_done(*group))
    }

    fn done_groups(&self) -> DoneGroups<'_> {
        // SAFETY: the geometry is that of the heap that has made the snapshot.
        unsafe { DoneGroups::new(self.guard.arena.arena(), self.geometry, self.guard.slot) }
    }

    /// The lpn of the root of a key group of an ordered state; 0 if it has none.
    #[cfg(feature = "std")]
    pub(crate) fn group_root(&self, state: StateId, group: KeyGroup) -> u32 {
        if self.kind(state) == StateKind::Ordered {
            self.readable_head(state, group).directory.get()
        } else {
            0
        }
    }

    /// The pages of a key group of a state: those of the directory by rising prefix, then by rising lpn the
    /// ones that others refer to. None for a key group that was never written, or given up.
    pub fn pages(&self, state: StateId, group: KeyGroup) -> impl Iterator<Item = PageRef<'_, A>> + Clone {
        let head = self.readable_head(state, group);
        let directory = Directory { frames: self.view(), head, index: 0 };
        let linked = Linked { frames: self.view(), head, index: 0 };
        directory.chain(linked).filter_map(move |frame| PageRef::new(self, group, frame))
    }

    /// Visits every entry of a state, key group by key group, key first; not those of key groups given up. What is not
    /// kept by key comes as of [`KeyGroup::NONE`].
    pub fn entries(&self, state: StateId, each: &mut dyn FnMut(KeyGroup, Value<'_>, Value<'_>)) {
        if self.walk().entries(state) == 0 {
            return;
        }
        for group in self.walk().groups_of(state).iter() {
            let head = self.readable_head(state, group);
            if self.kind(state) == StateKind::Ordered {
                Entries::all(Tree::new(self.view(), head)).for_each(|(key, value)| each(group, key, value));
                continue;
            }
            for first in (Directory { frames: self.view(), head, index: 0 }) {
                scan::visit(self.view(), head, first, |_, key, value| {
                    let value = Value::of(value, self.view(), head);
                    each(group, Value::of(key, self.view(), head), value);
                });
            }
        }
    }

    fn kind(&self, state: StateId) -> StateKind {
        self.walk().row(state).map_or(StateKind::Hash, StateRow::kind)
    }

    fn head(&self, state: StateId, group: KeyGroup) -> &Head {
        self.walk().head(state, group).unwrap_or(&EMPTY_HEAD)
    }

    /// The head of a key group; of an empty one if it was given up, since all that it leads to may change.
    fn readable_head(&self, state: StateId, group: KeyGroup) -> &Head {
        if self.is_key_group_done(group) { &EMPTY_HEAD } else { self.head(state, group) }
    }

    fn walk(&self) -> Walk<'_> {
        let key_groups = self.options.key_groups;
        Walk { frames: self.view(), root: self.root, key_groups, awaited: &[] }
    }

    fn view(&self) -> FrameView<'_> {
        // SAFETY: only frames that the frozen root leads to are read through it, and none of a key group that was
        // given up, which takes the snapshot borrowed for writing; the heap does not write the others while the
        // guard lives, and the view does not outlive the guard.
        unsafe { FrameView::new(self.guard.arena.arena(), self.geometry) }
    }
}

/// How far ahead of the page in hand headers are asked for.
const PAGES_AHEAD: usize = 16;

/// The frames of a directory's pages.
#[derive(Clone, Copy)]
struct Directory<'a> {
    frames: FrameView<'a>,
    head: &'a Head,
    index: usize,
}

impl Iterator for Directory<'_> {
    type Item = FrameId;

    fn next(&mut self) -> Option<FrameId> {
        if self.head.pages.get() == 0 || self.index >> self.head.depth != 0 {
            return None;
        }
        // Where the next page begins only this one's header says, so each would be waited for in turn.
        let ahead = self.index + PAGES_AHEAD;
        if ahead >> self.head.depth == 0 {
            prefetch(self.frames.frame(directory_entry(self.frames, self.head, ahead)).as_ptr());
        }
        let frame = directory_entry(self.frames, self.head, self.index);
        let (header, _) = PageHeader::ref_from_prefix(self.frames.frame(frame)).ok()?;
        self.index += 1 << self.head.depth.saturating_sub(header.local_depth);
        Some(frame)
    }
}

/// The frames that an overflow table holds.
#[derive(Clone, Copy)]
struct Linked<'a> {
    frames: FrameView<'a>,
    head: &'a Head,
    index: u32,
}

impl Iterator for Linked<'_> {
    type Item = FrameId;

    fn next(&mut self) -> Option<FrameId> {
        while self.index < self.head.overflow_used.get() {
            let entry = self.frames.u32(FrameId(self.head.overflow.get()), self.index as usize * 4);
            self.index += 1;
            if entry & ENTRY_FREE == 0 {
                return Some(FrameId(entry));
            }
        }
        None
    }
}

/// A state of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateView<'s> {
    /// Its id; also in the header of its pages.
    pub id: StateId,
    /// Who gets its entries in a restore.
    pub distribution: Distribution,
    /// The operator.
    pub operator: &'s str,
    /// Its name.
    pub name: &'s str,
    /// The codec of its keys.
    pub key: CodecId<'s>,
    /// The codec of its values.
    pub value: CodecId<'s>,
    /// How its entries are found.
    pub kind: StateKind,
    /// How many entries it has.
    pub entries: u64,
}

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// Records.
    Hash,
    /// Entries in order.
    Leaf,
    /// Names of ordered pages.
    Inner,
    /// A part of a key or value too long for a record.
    Overflow,
}

/// A frozen page.
#[derive(Clone, Copy, Debug)]
pub struct PageRef<'s, A: ArenaHandle = DefaultArena> {
    snapshot: &'s Snapshot<A>,
    group: KeyGroup,
    frame: FrameId,
    bytes: &'s [u8],
    header: &'s PageHeader,
}

impl<'s, A: ArenaHandle> PageRef<'s, A> {
    fn new(snapshot: &'s Snapshot<A>, group: KeyGroup, frame: FrameId) -> Option<Self> {
        let bytes = snapshot.view().frame(frame);
        let (header, _) = PageHeader::ref_from_prefix(bytes).ok()?;
        Some(Self { snapshot, group, frame, bytes, header })
    }

    /// Its name within state and key group.
    #[must_use]
    pub const fn lpn(&self) -> u32 {
        self.header.lpn.get()
    }

    /// How many leading bits of the hash its records share, or for an ordered page how many levels it is above
    /// the leaves; 0 for an overflow page.
    #[must_use]
    pub const fn depth(&self) -> u8 {
        self.header.local_depth
    }

    /// The epoch in which it was last changed.
    #[must_use]
    pub const fn epoch(&self) -> u32 {
        self.header.epoch.get()
    }

    /// Its type, as its header has it.
    #[must_use]
    pub const fn page_type(&self) -> u16 {
        self.header.page_type.get()
    }

    /// What it holds.
    #[must_use]
    pub const fn kind(&self) -> PageKind {
        match self.page_type() {
            PAGE_TYPE_OVERFLOW => PageKind::Overflow,
            PAGE_TYPE_LEAF => PageKind::Leaf,
            PAGE_TYPE_INNER => PageKind::Inner,
            _ => PageKind::Hash,
        }
    }

    /// Its frame.
    #[must_use]
    pub const fn bytes(&self) -> &'s [u8] {
        self.bytes
    }

    /// Keeps the page frozen beyond the life of the snapshot.
    #[must_use]
    pub fn guard(&self) -> FrozenRun<A> {
        let guard = self.snapshot.guard.clone();
        guard.arena.arena().slots().join_run(guard.slot, self.group);
        FrozenRun { guard, group: self.group, geometry: self.snapshot.geometry, first: self.frame, count: 1 }
    }
}

/// Frozen pages of a key group that lie one behind the other, kept frozen for as long as this lives.
#[derive(Debug)]
pub struct FrozenRun<A: ArenaHandle = DefaultArena> {
    guard: Guard<A>,
    group: KeyGroup,
    geometry: Geometry,
    first: FrameId,
    count: u32,
}

impl<A: ArenaHandle> FrozenRun<A> {
    /// Takes the page in if it is of the same key group and snapshot and lies right behind the run; says whether
    /// it does.
    pub fn try_extend(&mut self, page: &PageRef<'_, A>) -> bool {
        let other = &page.snapshot.guard;
        // A slot of an arena is one snapshot's for as long as it has guards.
        let same =
            core::ptr::eq(self.guard.arena.arena(), other.arena.arena()) && self.guard.slot == other.slot;
        let extends = same && page.group == self.group && page.frame.0 == self.first.0 + self.count;
        self.count += u32::from(extends);
        extends
    }

    /// Bytes in the run: whole frames.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a run has one page at least")]
    pub const fn len(&self) -> usize {
        (self.count as usize) << self.geometry.frame_size_log2
    }

    fn frozen(&self) -> &[u8] {
        // SAFETY: frames of pages of one key group of one snapshot, within the arena; the heap does not write them
        // while the guard lives, and the key group is not given up while the run is counted.
        unsafe { self.guard.arena.arena().bytes(self.geometry.offset(self.first), self.len()) }
    }
}

impl<A: ArenaHandle> Drop for FrozenRun<A> {
    fn drop(&mut self) {
        // Before the guard, which is dropped behind this: a released slot has no runs.
        self.guard.arena.arena().slots().leave_run(self.guard.slot, self.group);
    }
}

// SAFETY: the arena's memory does not move and outlives the guard; the heap does not write these frames until the
// guard has been dropped.
unsafe impl<A: ArenaHandle + 'static> Frozen for FrozenRun<A> {
    fn bytes(&self) -> &[u8] {
        self.frozen()
    }
}
