//! Lengths in as few bytes as they need: seven bits a byte, the lowest first, bit 7 set in all but the last.

/// The longest length in bytes.
pub(crate) const LEN_MAX: usize = 5;

/// A length, encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Varint {
    bytes: [u8; LEN_MAX],
    len: usize,
}

impl Varint {
    pub(crate) fn new(number: u32) -> Self {
        let mut varint = Self { bytes: [0; LEN_MAX], len: 0 };
        let mut left = number;
        for byte in &mut varint.bytes {
            let [low, ..] = left.to_le_bytes();
            left >>= 7;
            varint.len += 1;
            if left == 0 {
                *byte = low;
                break;
            }
            *byte = low | 0x80;
        }
        varint
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// The number at the front of `bytes` and how many bytes it takes; none if it is cut off, has more bytes than it
/// needs or does not fit.
pub(crate) fn read(bytes: &[u8]) -> Option<(u32, usize)> {
    let (mut number, mut count) = (0_u32, 0);
    for byte in bytes.iter().take(LEN_MAX) {
        let bits = u32::from(byte & 0x7f);
        let shift = 7 * count;
        number |= bits.checked_shl(shift).filter(|shifted| shifted >> shift == bits)?;
        count += 1;
        if byte & 0x80 == 0 {
            return (bits != 0 || count == 1).then_some((number, count as usize));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn j02_numbers_take_as_few_bytes_as_they_need_and_come_back() {
        let lens = [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), (1 << 26, 4), (u32::MAX, 5)];
        for (number, len) in lens {
            let varint = Varint::new(number);
            assert_eq!(read(varint.as_bytes()), Some((number, len)));
            assert_eq!(varint.as_bytes().len(), len);
            assert_eq!(read(&varint.as_bytes()[..len - 1]), None);
        }
    }

    #[test]
    fn j02_a_number_has_one_encoding() {
        assert_eq!(read(&[0x80, 0]), None);
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x1f]), None);
        assert_eq!(read(&[0x80, 0x80, 0x80, 0x80, 0x80, 1]), None);
        assert_eq!(read(&[5, 0x80]), Some((5, 1)));
        // Longer than any number, cut off, one above the largest, and zeros in front.
        for bytes in [&[0xff; 11][..], &[0x80], &[], &[0x80, 0x80, 0x80, 0x80, 0x10], &[0x80; 10]] {
            assert_eq!(read(bytes), None, "{bytes:?}");
        }
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Some((u32::MAX, 5)));
    }
}
