use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, Unaligned};

use slackwater_core::format::page::FRAME_SIZE_MIN;
use slackwater_core::key_group::KeyGroupRange;

use super::{Arena, SLOTS};

/// A frame, or the first one of a run. Frame 0 is never written and stands for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FrameId(pub(crate) u32);

impl FrameId {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn is_none(self) -> bool {
        self == Self::NONE
    }
}

/// Where things lie in an arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    /// Offset of the bits of key groups that are done, a multiple of 64 in memory.
    pub(crate) side_at: usize,
    /// How many words of such bits a slot has; none where they would take too much of the arena.
    pub(crate) done_words: usize,
    /// The key groups of the heap.
    pub(crate) key_groups: KeyGroupRange,
    /// Offset of `born`, a multiple of 4 in memory.
    pub(crate) born_at: usize,
    /// Offset of frame 0.
    pub(crate) frames_at: usize,
    /// Number of frames.
    pub(crate) frames: u32,
    /// Bytes of all frames together.
    pub(crate) frames_len: usize,
    /// Bytes of a frame, at hand for every access. Not to divide by: nothing tells the compiler that it is not 0.
    frame_len: usize,
    /// Logarithm of the frame size.
    pub(crate) frame_size_log2: u8,
}

/// Bytes of `born`, `link` and `mark` for each frame.
const SIDE_LEN: usize = 9;
/// Fewer frames than this make no heap.
const FRAMES_MIN: u32 = 8;
/// And so there are this many bytes at least.
const FRAMES_LEN_MIN: usize = FRAMES_MIN as usize * FRAME_SIZE_MIN;
/// More frames than a directory entry can name.
const FRAMES_END: usize = 1 << 29;
/// The bits of key groups take at most one of so many bytes of the arena.
const DONE_SHARE: usize = 32;

impl Geometry {
    /// Divides the arena; none if it has no room for the few frames that any heap needs.
    pub(crate) fn new(arena: &Arena<'_>, frame_size_log2: u8, key_groups: KeyGroupRange) -> Option<Self> {
        let frame_size = 1_usize << frame_size_log2;
        let side_at = arena.address().wrapping_neg() & 63;
        let done_words = done_words(arena, key_groups);
        let born_at = side_at + SLOTS * done_words * size_of::<usize>();
        // The alignment of the frames may cost up to one of it.
        let room = arena.len().checked_sub(born_at)?.checked_sub(arena.alignment())?;
        let frames = (room >> frame_size_log2).min(FRAMES_END - 1);
        let frames = (frames - frames * SIDE_LEN / (frame_size + SIDE_LEN)).checked_sub(1)?;
        let side_end = arena.address() + born_at + frames * SIDE_LEN;
        let frames_at = side_end.checked_next_multiple_of(arena.alignment())? - arena.address();
        let frames = u32::try_from(frames).ok()?;
        (frames >= FRAMES_MIN).then_some(Self {
            side_at,
            done_words,
            key_groups,
            born_at,
            frames_at,
            frames,
            frames_len: (frames as usize) << frame_size_log2,
            frame_len: frame_size,
            frame_size_log2,
        })
    }

    pub(crate) const fn frame_size(self) -> usize {
        1 << self.frame_size_log2
    }

    pub(crate) const fn offset(self, frame: FrameId) -> usize {
        self.frames_at + ((frame.0 as usize) << self.frame_size_log2)
    }
}

/// Words of bits that a slot needs, or none if that is too much for the arena.
fn done_words(arena: &Arena<'_>, key_groups: KeyGroupRange) -> usize {
    let words = key_groups.len().div_ceil(usize::BITS as usize);
    if SLOTS * words * size_of::<usize>() > arena.len() / DONE_SHARE { 0 } else { words }
}

/// Reads frames that are not written meanwhile: all frames for the heap itself, which cannot write while it
/// is borrowed, and for a snapshot the frames that its root leads to.
#[derive(Clone, Copy)]
pub(crate) struct FrameView<'a> {
    base: NonNull<u8>,
    len: usize,
    frame_len: usize,
    frame_size_log2: u8,
    #[cfg(slackwater_loom)]
    tracked: (&'a super::tracked::Tracked, usize),
    _arena: PhantomData<&'a [u8]>,
}

impl<'a> FrameView<'a> {
    /// # Safety
    /// The geometry is one of this arena. For `'a`, no frame that is read through the view is written.
    #[inline]
    pub(crate) unsafe fn new(arena: &'a Arena<'_>, geometry: Geometry) -> Self {
        // SAFETY: the geometry divides the arena.
        let frames = unsafe { arena.base.add(geometry.frames_at) };
        Self {
            base: frames,
            len: geometry.frames_len,
            frame_len: geometry.frame_len,
            frame_size_log2: geometry.frame_size_log2,
            #[cfg(slackwater_loom)]
            tracked: (&arena.tracked, geometry.frames_at),
            _arena: PhantomData,
        }
    }

    pub(crate) const fn frame_size(self) -> usize {
        1 << self.frame_size_log2
    }

    /// An offset as one within a frame.
    pub(crate) const fn in_frame(self, offset: usize) -> usize {
        offset & (self.frame_len - 1)
    }

    pub(crate) const fn frame_size_log2(self) -> u8 {
        self.frame_size_log2
    }

    /// A frame's bytes; nothing for a frame that does not exist.
    #[inline]
    pub(crate) fn frame(self, frame: FrameId) -> &'a [u8] {
        let offset = (frame.0 as usize) << self.frame_size_log2;
        self.bytes(offset, self.frame_size())
    }

    /// `len` bytes at `offset` of a run; nothing if there are not so many.
    #[inline]
    pub(crate) fn part(self, run: FrameId, offset: usize, len: usize) -> &'a [u8] {
        self.bytes(((run.0 as usize) << self.frame_size_log2).wrapping_add(offset), len)
    }

    /// A frame's bytes, if there is such a frame.
    #[inline]
    pub(crate) fn frame_at(self, frame: FrameId) -> Option<&'a [u8]> {
        let offset = (frame.0 as usize) << self.frame_size_log2;
        if offset >= self.len {
            return None;
        }
        #[cfg(slackwater_loom)]
        self.tracked.0.read(self.tracked.1 + offset, self.frame_size());
        // SAFETY: within the frames, of which there is a whole number.
        let at = unsafe { self.base.add(offset) };
        // SAFETY: within the frames, which are initialised and live for 'a; not written, as `new` demands.
        Some(unsafe { core::slice::from_raw_parts(at.as_ptr(), self.frame_len) })
    }

    /// A structure at `offset` of a run, if that lies within the frames.
    #[inline]
    pub(crate) fn read<T: FromBytes + Immutable + Unaligned>(
        self,
        run: FrameId,
        offset: usize,
    ) -> Option<&'a T> {
        let offset = ((run.0 as usize) << self.frame_size_log2).wrapping_add(offset);
        const { assert!(size_of::<T>() <= FRAMES_LEN_MIN, "there are always more bytes than in a structure") }
        if offset > self.len - size_of::<T>() {
            return None;
        }
        #[cfg(slackwater_loom)]
        self.tracked.0.read(self.tracked.1 + offset, size_of::<T>());
        // SAFETY: within the frames.
        let at = unsafe { self.base.add(offset) };
        // SAFETY: within the frames, which are initialised and live for 'a; not written, as `new` demands. Any bytes
        // are a `T`, which needs no alignment.
        Some(unsafe { at.cast::<T>().as_ref() })
    }

    /// A number in a run.
    #[inline]
    pub(crate) fn u32(self, run: FrameId, offset: usize) -> u32 {
        self.read::<U32>(run, offset).map_or(0, |number| number.get())
    }

    #[inline]
    fn bytes(self, offset: usize, len: usize) -> &'a [u8] {
        if offset > self.len || len > self.len - offset {
            return &[];
        }
        #[cfg(slackwater_loom)]
        self.tracked.0.read(self.tracked.1 + offset, len);
        // SAFETY: within the frames.
        let start = unsafe { self.base.add(offset) };
        // SAFETY: within the frames, which are initialised and live for 'a; not written, as `new` demands.
        unsafe { core::slice::from_raw_parts(start.as_ptr(), len) }
    }
}

impl fmt::Debug for FrameView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameView").field("len", &self.len).finish_non_exhaustive()
    }
}
