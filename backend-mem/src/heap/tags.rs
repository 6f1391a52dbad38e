//! Sixteen tags at a time, and bringing them near.

#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "loads tags into a vector, and prefetches"))]

use slackwater_core::format::page::TAG_MASK;

/// The slots that are searched at once, and that their tags are aligned to.
pub(super) const GROUP_LEN: usize = 16;

/// The tags of sixteen slots, without their dirty bits.
#[derive(Clone, Copy)]
pub(super) struct Tags(Vector);

impl Tags {
    #[inline]
    pub(super) fn new(tags: &[u8; GROUP_LEN]) -> Self {
        Self(Vector::masked(tags))
    }

    /// A bit for each tag that is `wanted`.
    #[inline]
    pub(super) fn equal(self, wanted: u8) -> u16 {
        self.0.equal(wanted)
    }

    /// A bit for each empty slot.
    #[inline]
    pub(super) fn empty(self) -> u16 {
        self.0.equal(0)
    }
}

#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct Vector(core::arch::x86_64::__m128i);

#[cfg(target_arch = "x86_64")]
impl Vector {
    #[inline]
    fn masked(tags: &[u8; GROUP_LEN]) -> Self {
        // SAFETY: every x86_64 has SSE2.
        unsafe { Self::masked_by_sse2(tags) }
    }

    #[inline]
    fn equal(self, wanted: u8) -> u16 {
        // SAFETY: every x86_64 has SSE2.
        unsafe { self.equal_by_sse2(wanted) }
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn masked_by_sse2(tags: &[u8; GROUP_LEN]) -> Self {
        use core::arch::x86_64::{_mm_and_si128, _mm_set_epi64x, _mm_set1_epi8};
        // The two halves become one load.
        let both = u128::from_le_bytes(*tags);
        #[expect(clippy::cast_possible_truncation, reason = "the halves of the number")]
        let (low, high) = ((both as u64).cast_signed(), ((both >> 64) as u64).cast_signed());
        Self(_mm_and_si128(_mm_set_epi64x(high, low), _mm_set1_epi8(TAG_MASK.cast_signed())))
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn equal_by_sse2(self, wanted: u8) -> u16 {
        use core::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set1_epi8};
        let bits = _mm_movemask_epi8(_mm_cmpeq_epi8(self.0, _mm_set1_epi8(wanted.cast_signed())));
        u16::try_from(bits).unwrap_or(u16::MAX)
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[derive(Clone, Copy)]
struct Vector([u64; 2]);

#[cfg(not(target_arch = "x86_64"))]
impl Vector {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;

    fn masked(tags: &[u8; GROUP_LEN]) -> Self {
        let half = |at: usize| {
            let tags = tags.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
            u64::from_le_bytes(tags) & (u64::from(TAG_MASK) * Self::ONES)
        };
        Self([half(0), half(8)])
    }

    fn equal(self, wanted: u8) -> u16 {
        // No byte is above 127, so no sum carries into the next.
        let bits = |half: u64| {
            let differing = half ^ (u64::from(wanted) * Self::ONES);
            let equal = !(differing + !Self::HIGHS) & Self::HIGHS;
            // Gathers the top bits of the eight bytes, the first one lowest.
            ((equal >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56).to_le_bytes()[0]
        };
        u16::from_le_bytes(self.0.map(bits))
    }
}

/// Asks for the cache line at an address, which may be any.
#[inline]
pub(crate) fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86_64 has SSE; a prefetch reads nothing that the program sees.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Lines of a frame to ask for ahead: from there on the processor sees by itself where the reading goes.
#[cfg(feature = "std")]
const LINES_AHEAD: usize = 8;

/// Asks for the first cache lines of bytes that are soon to be read to their end.
#[cfg(feature = "std")]
#[inline]
pub(crate) fn prefetch_start(bytes: &[u8]) {
    bytes.iter().step_by(64).take(LINES_AHEAD).for_each(|byte| prefetch(byte));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tag_is_compared_without_its_dirty_bit() {
        for at in 0..GROUP_LEN {
            for tag in [1, 64, 126, 127] {
                let mut tags = [3; GROUP_LEN];
                tags[at] = tag | 0x80;
                assert_eq!(Tags::new(&tags).equal(tag), 1 << at);
                assert_eq!(Tags::new(&tags).equal(3), !(1 << at));
                assert_eq!(Tags::new(&tags).empty(), 0);
                tags[at] = 0x80;
                assert_eq!(Tags::new(&tags).empty(), 1 << at);
            }
        }
    }
}
