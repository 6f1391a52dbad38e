//! The memory of a heap, and the count of who still reads frozen frames.
//!
//! ```text
//! | done: bits of each slot | born: u32 each | link: u32 each | mark: u8 each | frame 0 | frame 1 | ...
//! ```
//! A bit for each slot and key group says that nobody reads the key group in that snapshot any more. Three
//! numbers for each frame stand before the frames and belong to the heap alone. The arena itself knows no
//! frames: it is a range of memory that outlives all guards, with one heap in it at most, ever.

#![expect(
    unsafe_code,
    reason = "hands out parts of one range of memory to a heap and to readers of its snapshots"
)]

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use slackwater_core::sync::{AtomicUsize, Ordering};

mod done;
mod slots;
#[cfg(slackwater_loom)]
mod tracked;
mod view;

pub(crate) use done::DoneGroups;
pub(crate) use slots::{SLOTS, Slots};
pub(crate) use view::{FrameId, FrameView, Geometry};

/// The arena a heap uses unless told otherwise.
#[cfg(feature = "std")]
pub type DefaultArena = std::sync::Arc<Arena<'static>>;
/// The arena a heap uses unless told otherwise.
#[cfg(not(feature = "std"))]
pub type DefaultArena = &'static Arena<'static>;

/// How much of a reserved arena is kept in small pages of memory.
#[cfg(all(feature = "std", target_os = "linux"))]
const SMALL_PAGES_LEN: usize = 4 << 20;

/// A range of memory for one heap.
pub struct Arena<'m> {
    base: NonNull<u8>,
    len: usize,
    /// Frames start at a multiple of this.
    alignment: usize,
    claims: AtomicUsize,
    slots: Slots,
    #[cfg(slackwater_loom)]
    tracked: tracked::Tracked,
    #[cfg(feature = "std")]
    _mapping: Option<memmap2::MmapMut>,
    _memory: PhantomData<&'m mut [u8]>,
}

// SAFETY: the memory behind `base` belongs to the arena and is as good on one thread as on another.
unsafe impl Send for Arena<'_> {}
// SAFETY: a shared arena gives memory only to the one heap that claimed it and, through the unsafe functions
// below, to readers of frozen frames; the counters are atomic.
unsafe impl Sync for Arena<'_> {}

impl<'m> Arena<'m> {
    /// An arena in the caller's memory; all of it is used, aligned as needed, and set to zero first.
    #[must_use]
    pub fn new(memory: &'m mut [u8]) -> Self {
        memory.fill(0);
        let len = memory.len();
        let base = NonNull::from(memory).cast();
        Self {
            base,
            len,
            alignment: 64,
            claims: AtomicUsize::new(0),
            slots: Slots::new(),
            #[cfg(slackwater_loom)]
            tracked: tracked::Tracked::new(len),
            #[cfg(feature = "std")]
            _mapping: None,
            _memory: PhantomData,
        }
    }

    /// Reserves `len` bytes of address space. The system gives memory for a page of it when it is first
    /// written, so what is never used costs nothing.
    ///
    /// # Errors
    /// What the system said.
    #[cfg(feature = "std")]
    pub fn reserve(len: usize) -> std::io::Result<Self> {
        let mut mapping = memmap2::MmapOptions::new().len(len).no_reserve_swap().map_anon()?;
        // Look-ups at random need far fewer entries of the processor's address cache then. A small heap stays small:
        // its first part, the tables in front included, keeps to small pages. A system without them refuses; no harm.
        #[cfg(target_os = "linux")]
        if let Some(large) = len.checked_sub(SMALL_PAGES_LEN) {
            let _refused = mapping.advise_range(memmap2::Advice::HugePage, SMALL_PAGES_LEN, large);
        }
        let base = NonNull::from(&mut mapping[..]).cast();
        Ok(Self {
            base,
            len,
            alignment: 4096,
            claims: AtomicUsize::new(0),
            slots: Slots::new(),
            #[cfg(slackwater_loom)]
            tracked: tracked::Tracked::new(len),
            _mapping: Some(mapping),
            _memory: PhantomData,
        })
    }

    /// Length in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a length in bytes, not a collection's")]
    pub const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn alignment(&self) -> usize {
        self.alignment
    }

    pub(crate) fn address(&self) -> usize {
        self.base.as_ptr().addr()
    }

    pub(crate) const fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Takes the arena for one heap. Says whether the caller is the first: only then may it write.
    pub(crate) fn claim(&self) -> bool {
        self.claims.swap(1, Ordering::Relaxed) == 0
    }

    /// Where `offset` lies. The memory is valid from there to the arena's end, for the arena's life.
    pub(crate) const fn at(&self, offset: usize) -> *mut u8 {
        self.base.as_ptr().wrapping_add(offset)
    }

    /// # Safety
    /// `offset + len` is within the arena, and nobody writes these bytes while the slice lives.
    pub(crate) unsafe fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        debug_assert!(
            offset.checked_add(len).is_some_and(|end| end <= self.len),
            "bytes lie within the arena"
        );
        #[cfg(slackwater_loom)]
        self.tracked.read(offset, len);
        // SAFETY: within the arena, which is initialised and outlives the slice; not written, as the caller says.
        unsafe { core::slice::from_raw_parts(self.at(offset), len) }
    }

    /// # Safety
    /// `offset + len` is within the arena, and nobody else reads or writes these bytes while the slice lives.
    #[expect(clippy::mut_from_ref, reason = "the one heap that claimed the arena vouches for being alone")]
    pub(crate) unsafe fn bytes_mut(&self, offset: usize, len: usize) -> &mut [u8] {
        debug_assert!(
            offset.checked_add(len).is_some_and(|end| end <= self.len),
            "bytes lie within the arena"
        );
        #[cfg(slackwater_loom)]
        self.tracked.write(offset, len);
        // SAFETY: within the arena, which is initialised and outlives the slice; the caller is alone with them.
        unsafe { core::slice::from_raw_parts_mut(self.at(offset), len) }
    }
}

impl fmt::Debug for Arena<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena").field("len", &self.len).finish_non_exhaustive()
    }
}

/// A shared handle on an arena: `&Arena`, or with `std` `Arc<Arena>`.
pub trait ArenaHandle: sealed::Handle + Clone + Send + fmt::Debug {}

impl<'a> ArenaHandle for &'a Arena<'a> {}
#[cfg(feature = "std")]
impl ArenaHandle for std::sync::Arc<Arena<'static>> {}

mod sealed {
    use super::Arena;

    /// # Safety
    /// `arena` gives the same arena each time, for every clone of the handle, for as long as any of them lives.
    #[expect(unsafe_code, reason = "guards read memory through the handle")]
    #[expect(unnameable_types, reason = "sealed: no other handle is possible")]
    pub unsafe trait Handle {
        fn arena(&self) -> &Arena<'_>;
    }

    // SAFETY: a shared reference leads to one arena and keeps it.
    unsafe impl<'a> Handle for &'a Arena<'a> {
        fn arena(&self) -> &Arena<'_> {
            self
        }
    }

    #[cfg(feature = "std")]
    // SAFETY: every clone of the `Arc` leads to one arena and keeps it.
    unsafe impl Handle for std::sync::Arc<Arena<'static>> {
        fn arena(&self) -> &Arena<'_> {
            self
        }
    }
}
