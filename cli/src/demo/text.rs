//! A text that looks like one: words of a fixed vocabulary, common ones common, in lines of uneven length.

use std::io::{self, Write};

/// A small generator of pseudo-random numbers (xorshift64*), so that a seed gives the same text everywhere.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Starts from a seed; every seed is fine.
    pub(crate) const fn new(seed: u64) -> Self {
        Self((seed ^ 0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`, which must not be zero.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        let wide = u128::from(self.next()) * u128::from(limit);
        u64::try_from(wide >> 64).unwrap_or(0)
    }
}

const VOCABULARY: u64 = 200_000;

/// Writes about `len` bytes of text.
pub(crate) fn write(out: &mut impl Write, seed: u64, len: u64) -> io::Result<()> {
    let mut random = Random::new(seed);
    let mut written = 0;
    let mut line = Vec::new();
    while written < len {
        line.clear();
        for _ in 0..=random.below(16) {
            word(&mut line, rank(&mut random));
        }
        line.push(b'\n');
        out.write_all(&line)?;
        written += line.len() as u64;
    }
    Ok(())
}

/// A rank in the vocabulary; low ranks are far more likely.
fn rank(random: &mut Random) -> u64 {
    let limit = random.below(VOCABULARY) + 1;
    let limit = random.below(limit) + 1;
    random.below(limit)
}

/// Appends the word of a rank and a space: the rank in syllables.
fn word(line: &mut Vec<u8>, mut rank: u64) {
    const SYLLABLES: [&[u8]; 16] = [
        b"ta", b"me", b"ri", b"so", b"lun", b"de", b"ka", b"vi", b"no", b"sha", b"pel", b"or", b"quin",
        b"ze", b"fu", b"by",
    ];
    loop {
        let index = usize::try_from(rank % 16).unwrap_or(0);
        line.extend_from_slice(SYLLABLES[index]);
        rank /= 16;
        if rank == 0 {
            break;
        }
    }
    line.push(b' ');
}

#[cfg(test)]
mod tests {
    use super::write;

    #[test]
    fn a_seed_gives_the_same_text_and_another_seed_another() {
        let text = |seed| {
            let mut out = Vec::new();
            write(&mut out, seed, 10_000).unwrap();
            out
        };
        assert_eq!(text(1), text(1));
        assert_ne!(text(1), text(2));
        assert!((10_000..11_000).contains(&text(1).len()));
    }
}
