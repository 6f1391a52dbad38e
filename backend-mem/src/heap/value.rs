use slackwater_core::format::page::{Content, NO_PAGE, OVERFLOW_BYTES_OFFSET, OverflowRef};

use super::tables::{self, Head};
use crate::arena::FrameView;

/// A key or a value that a heap or a snapshot holds.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a>(Parts<'a>);

#[derive(Clone, Copy, Debug)]
enum Parts<'a> {
    Inline(&'a [u8]),
    /// What is left of a chain, `skip` bytes into its first page.
    Chain {
        frames: FrameView<'a>,
        head: &'a Head,
        reference: OverflowRef,
        skip: u32,
    },
}

impl<'a> Value<'a> {
    pub(crate) const fn inline(bytes: &'a [u8]) -> Self {
        Self(Parts::Inline(bytes))
    }

    pub(crate) const fn of(content: Content<'a>, frames: FrameView<'a>, head: &'a Head) -> Self {
        match content {
            Content::Inline(bytes) => Self::inline(bytes),
            Content::Overflow(reference) => Self(Parts::Chain { frames, head, reference, skip: 0 }),
        }
    }

    /// Length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        match &self.0 {
            Parts::Inline(bytes) => bytes.len(),
            Parts::Chain { reference, .. } => reference.len.get() as usize,
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
            Parts::Inline(bytes) => Some(bytes),
            Parts::Chain { .. } => None,
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
            Parts::Chain { frames, head, mut reference, skip } => {
                let back = self.chunks().advanced(u32::try_from(len).ok()?)?;
                reference.len = u32::try_from(len).ok()?.into();
                Some((Self(Parts::Chain { frames, head, reference, skip }), Self(back)))
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

/// Iterator over the pieces of a [`Value`].
#[derive(Clone, Debug)]
pub struct Chunks<'a>(Parts<'a>);

impl<'a> Chunks<'a> {
    /// What lies behind the next `count` bytes of a chain; none if there are fewer.
    fn advanced(mut self, mut count: u32) -> Option<Parts<'a>> {
        loop {
            let before = self.clone();
            let Parts::Chain { frames, head, mut reference, skip } = before.0 else { return None };
            if count == 0 {
                return Some(before.0);
            }
            let len = u32::try_from(self.next()?.len()).ok()?;
            if count < len {
                reference.len = (reference.len.get() - count).into();
                return Some(Parts::Chain { frames, head, reference, skip: skip + count });
            }
            count -= len;
        }
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        match &mut self.0 {
            Parts::Inline([]) => None,
            Parts::Inline(bytes) => Some(core::mem::take(bytes)),
            Parts::Chain { frames, head, reference, skip } => {
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
        }
    }
}
