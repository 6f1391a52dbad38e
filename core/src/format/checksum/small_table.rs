//! CRC-32 by a table of 64 bytes, for programs that have no room for the 16 KiB of a fast one, nor for the
//! bounds checks in it, which can panic as far as a linker sees.

/// Remainders of the numbers below 16.
#[expect(clippy::indexing_slicing, reason = "worked out by the compiler, for whom a wrong index is an error")]
const TABLE: [u32; 16] = {
    let mut table = [0_u32; 16];
    let mut number = 0_u32;
    while number < 16 {
        let mut rest = number;
        let mut bit = 0;
        while bit < 4 {
            rest = (rest >> 1) ^ (0xEDB8_8320 & (rest & 1).wrapping_neg());
            bit += 1;
        }
        table[number as usize] = rest;
        number += 1;
    }
    table
};

/// Does what `crc32fast::Hasher` does.
#[derive(Clone, Debug)]
pub(super) struct Hasher(u32);

impl Hasher {
    pub(super) const fn new() -> Self {
        Self(!0)
    }

    /// Takes two look-ups per byte.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 ^= u32::from(*byte);
            self.0 = step(step(self.0));
        }
    }

    pub(super) const fn finalize(self) -> u32 {
        !self.0
    }
}

fn step(rest: u32) -> u32 {
    let entry = TABLE.get((rest & 15) as usize).copied().unwrap_or(0);
    (rest >> 4) ^ entry
}

#[cfg(test)]
mod tests {
    use super::Hasher;

    #[test]
    fn both_tables_give_the_same() {
        let bytes: std::vec::Vec<u8> =
            (0..1000_u32).map(|number| (number * number).to_le_bytes()[1]).collect();
        for len in (0..70).chain([255, 256, 257, 1000]) {
            let mut hasher = Hasher::new();
            hasher.update(&bytes[..len / 2]);
            hasher.update(&bytes[len / 2..len]);
            assert_eq!(hasher.finalize(), crc32fast::hash(&bytes[..len]), "{len} bytes");
        }
    }

    #[test]
    fn the_check_value_is_that_of_crc_32() {
        let mut hasher = Hasher::new();
        hasher.update(b"123456789");
        assert_eq!(hasher.finalize(), 0xCBF4_3926);
    }
}
