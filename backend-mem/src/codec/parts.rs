//! Encodings made of others, one behind the other.
//!
//! A part of fixed width stands as it is. So does a part of any width if all parts behind it have fixed
//! ones: its length follows from the whole. Any other has its length before it. Different items have different
//! bytes, then, and a single part, or one with parts of no width beside it, costs nothing more.

use super::varint;
use super::{Codec, CodecId, Full, Scratch, Unencodable};
use crate::heap::Value;

/// How a part stands among others.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Framing {
    /// So many bytes.
    Fixed(usize),
    /// Its length stands before it.
    Framed,
    /// All but this many bytes, which the parts behind it take.
    Rest(usize),
}

/// How the part at `index` stands.
pub(crate) const fn framing(parts: &[CodecId<'_>], index: usize) -> Framing {
    if let Some(width) = parts[index].width {
        return Framing::Fixed(width as usize);
    }
    match total_width(parts, index + 1) {
        Some(width) => Framing::Rest(width as usize),
        None => Framing::Framed,
    }
}

/// The width of all parts from `index` on, if all have one.
pub(crate) const fn total_width(parts: &[CodecId<'_>], mut index: usize) -> Option<u16> {
    let mut total = 0_u16;
    while index < parts.len() {
        match parts[index].width {
            Some(width) => match total.checked_add(width) {
                Some(sum) => total = sum,
                None => return None,
            },
            None => return None,
        }
        index += 1;
    }
    Some(total)
}

/// Adds a part to those before it.
#[inline]
pub(crate) fn push<C: Codec>(
    scratch: &mut Scratch,
    item: &C::Item,
    framing: Framing,
) -> Result<(), Unencodable> {
    let unencodable = |what| Unencodable { codec: C::ID, what };
    C::encoded(item, |bytes| match framing {
        Framing::Fixed(width) if width != bytes.len() => {
            Err(unencodable("its length is not the width of its codec"))
        }
        Framing::Fixed(_) | Framing::Rest(_) => scratch.push(bytes).map_err(|_| unencodable(Full::WHAT)),
        Framing::Framed => scratch.push_framed(bytes).map_err(|_| unencodable(Full::WHAT)),
    })?
}

impl Framing {
    /// Takes a part off the front; none if it is not there.
    #[inline]
    pub(crate) fn take<'v>(self, from: &mut Value<'v>) -> Option<Value<'v>> {
        let len = match self {
            Self::Fixed(width) => width,
            Self::Rest(behind) => from.len().checked_sub(behind)?,
            Self::Framed => return take_framed(from),
        };
        let (part, rest) = from.split_at_checked(len)?;
        *from = rest;
        Some(part)
    }
}

/// Takes a part behind its length off the front.
pub(crate) fn take_framed<'v>(from: &mut Value<'v>) -> Option<Value<'v>> {
    let mut front = [0; varint::LEN_MAX];
    let copied = from.copy_to(&mut front);
    let (len, len_len) = varint::read(front.get(..copied)?)?;
    let (_, rest) = from.split_at_checked(len_len)?;
    let (part, rest) = rest.split_at_checked(len as usize)?;
    *from = rest;
    Some(part)
}
