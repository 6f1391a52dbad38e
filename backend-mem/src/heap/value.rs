use slackwater_core::format::page::{Content, NO_PAGE, OVERFLOW_BYTES_OFFSET, OverflowRef, TreeKey};

use super::tables::{self, Head};
use crate::arena::FrameView;

/// A key or a value that a heap or a snapshot holds.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a>(Parts<'a>);

#[derive(Clone, Copy, Debug)]
enum Parts<'a> {
    Inline(&'a [u8]),
    Chain(Chain<'a>),
    /// A key of an ordered page.
    Joined {
        front: &'a [u8],
        back: &'a [u8],
        chain: Option<Chain<'a>>,
    },
}

/// Bytes that lie elsewhere, for whoever decodes what no heap holds.
impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::inline(bytes)
    }
}

impl<'a> Value<'a> {
    pub(crate) const fn inline(bytes: &'a [u8]) -> Self {
        Self(Parts::Inline(bytes))
    }

    pub(crate) const fn of(content: Content<'a>, frames: FrameView<'a>, head: &'a Head) -> Self {
        match content {
            Content::Inline(bytes) => Self::inline(bytes),
            Content::Overflow(reference) => Self(Parts::Chain(Chain::new(reference, frames, head))),
        }
    }

    #[inline]
    pub(crate) fn of_tree_key(key: &TreeKey<'a>, frames: FrameView<'a>, head: &'a Head) -> Self {
        if key.prefix.is_empty() && key.chain.is_none() {
            return Self::inline(key.rest);
        }
        let chain = key.chain.map(|reference| Chain::new(reference, frames, head));
        Self(Parts::Joined { front: key.prefix, back: key.rest, chain })
    }

    /// Length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        match &self.0 {
            Parts::Inline(bytes) => bytes.len(),
            Parts::Chain(chain) => chain.len(),
            Parts::Joined { front, back, chain: Some(chain) } => front.len() + back.len() + chain.len(),
            Parts::Joined { front, back, chain: None } => front.len() + back.len(),
        }
    }

    /// Whether there are no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, if they lie in one piece.
    #[must_use]
    pub const fn as_slice(&self) -> Option<&'a [u8]> {
        match self.0 {
            Parts::Inline(bytes)
            | Parts::Joined { front: [], back: bytes, chain: None }
            | Parts::Joined { front: bytes, back: [], chain: None } => Some(bytes),
            Parts::Chain(_) | Parts::Joined { .. } => None,
        }
    }

    /// The bytes in order, piece by piece.
    #[must_use]
    pub const fn chunks(&self) -> Chunks<'a> {
        Chunks(self.0)
    }

    /// The first `len` bytes and the others; none if there are fewer. Takes a step for each page of the first.
    #[must_use]
    pub fn split_at_checked(&self, len: usize) -> Option<(Self, Self)> {
        match self.0 {
            Parts::Inline(bytes) => {
                let (front, back) = bytes.split_at_checked(len)?;
                Some((Self::inline(front), Self::inline(back)))
            }
            Parts::Chain(chain) => {
                let (front, back) = chain.split_at_checked(len)?;
                Some((Self(Parts::Chain(front)), Self(Parts::Chain(back))))
            }
            Parts::Joined { front, back, chain } => {
                if let Some((first, front)) = front.split_at_checked(len) {
                    return Some((Self::inline(first), Self(Parts::Joined { front, back, chain })));
                }
                let len = len - front.len();
                if let Some((back, rest)) = back.split_at_checked(len) {
                    let first = Parts::Joined { front, back, chain: None };
                    return Some((Self(first), Self(Parts::Joined { front: rest, back: &[], chain })));
                }
                let (first, rest) = chain?.split_at_checked(len - back.len())?;
                Some((Self(Parts::Joined { front, back, chain: Some(first) }), Self(Parts::Chain(rest))))
            }
        }
    }

    /// Copies the bytes to the start of `out`, as many as fit, and says how many.
    pub fn copy_to(&self, out: &mut [u8]) -> usize {
        let mut copied = 0;
        for chunk in self.chunks() {
            let Some(room) = out.get_mut(copied..) else { break };
            let len = chunk.len().min(room.len());
            if let (Some(to), Some(from)) = (room.get_mut(..len), chunk.get(..len)) {
                to.copy_from_slice(from);
            }
            copied += len;
        }
        copied
    }

    /// Whether the bytes begin with `prefix`.
    #[must_use]
    pub fn begins_with(&self, prefix: &[u8]) -> bool {
        self.split_at_checked(prefix.len()).is_some_and(|(front, _)| front.is(prefix))
    }

    /// The bytes in memory of their own.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn to_vec(&self) -> std::vec::Vec<u8> {
        let mut bytes = std::vec::Vec::with_capacity(self.len());
        self.chunks().for_each(|chunk| bytes.extend_from_slice(chunk));
        bytes
    }

    /// Whether the bytes are `other`.
    #[must_use]
    pub fn is(&self, mut other: &[u8]) -> bool {
        if self.len() != other.len() {
            return false;
        }
        self.chunks().all(|chunk| match other.split_at_checked(chunk.len()) {
            Some((front, rest)) => {
                other = rest;
                front == chunk
            }
            None => false,
        }) && other.is_empty()
    }
}

/// What is left of a chain, `skip` bytes into its first page.
#[derive(Clone, Copy, Debug)]
struct Chain<'a> {
    frames: FrameView<'a>,
    head: &'a Head,
    reference: OverflowRef,
    skip: u32,
}

impl<'a> Chain<'a> {
    const fn new(reference: OverflowRef, frames: FrameView<'a>, head: &'a Head) -> Self {
        Self { frames, head, reference, skip: 0 }
    }

    const fn len(&self) -> usize {
        self.reference.len.get() as usize
    }

    /// The next piece.
    fn next(&mut self) -> Option<&'a [u8]> {
        let Self { frames, head, reference, skip } = self;
        let lpn = reference.first_lpn.get();
        let left = reference.len.get();
        if left == 0 || lpn == NO_PAGE {
            return None;
        }
        let frame = tables::overflow_frame(*frames, head, lpn);
        let len = left.min(frames.u32(frame, OVERFLOW_BYTES_OFFSET - 4).saturating_sub(*skip));
        let offset = OVERFLOW_BYTES_OFFSET + core::mem::take(skip) as usize;
        reference.first_lpn = frames.u32(frame, OVERFLOW_BYTES_OFFSET - 8).into();
        reference.len = (left - len).into();
        // A page without bytes would be a broken chain: end it.
        (len > 0).then(|| frames.part(frame, offset, len as usize))
    }

    fn split_at_checked(self, len: usize) -> Option<(Self, Self)> {
        let count = u32::try_from(len).ok()?;
        let mut front = self;
        front.reference.len = count.into();
        Some((front, self.advanced(count)?))
    }

    /// What lies behind the next `count` bytes; none if there are fewer.
    fn advanced(mut self, mut count: u32) -> Option<Self> {
        while count > 0 {
            let mut before = self;
            let len = u32::try_from(self.next()?.len()).ok()?;
            if count < len {
                before.reference.len = (before.reference.len.get() - count).into();
                before.skip += count;
                return Some(before);
            }
            count -= len;
        }
        Some(self)
    }
}

/// Iterator over the pieces of a [`Value`].
#[derive(Clone, Debug)]
pub struct Chunks<'a>(Parts<'a>);

impl<'a> Iterator for Chunks<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        match &mut self.0 {
            Parts::Inline([]) => None,
            Parts::Inline(bytes) => Some(core::mem::take(bytes)),
            Parts::Chain(chain) => chain.next(),
            Parts::Joined { front, back, chain } => loop {
                match core::mem::replace(front, core::mem::take(back)) {
                    [] if front.is_empty() => return chain.as_mut()?.next(),
                    [] => {}
                    bytes => return Some(bytes),
                }
            },
        }
    }
}
