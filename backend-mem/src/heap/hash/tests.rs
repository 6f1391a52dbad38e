use std::vec::Vec;

use super::hash_key;

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|index| u8::try_from(index * 31 % 251).unwrap()).collect()
}

/// Length of the key, seed, hash; byte `i` of a key is `31 i mod 251`. Frozen: other numbers are another format.
const VECTORS: [(usize, u64, u64); 20] = [
    (0, 0, 0x6d03be66c5e506a3),
    (0, 1, 0x6b630046599bbb04),
    (1, 0, 0xc6c51b7420357282),
    (2, 0, 0xf9a0c693e681face),
    (3, 0, 0xe65a7cf76aca0621),
    (4, 0, 0x838721731edaccd8),
    (7, 0, 0x714877f2811fb55d),
    (8, 0, 0x8d6d2221aaace691),
    (8, 42, 0x3d87ad1eba45bfe8),
    (9, 0, 0xc3d242b8cb786fdb),
    (15, 0, 0xb3d53b2092b8f7a3),
    (16, 0, 0x8299a7493e6f0a6f),
    (16, 42, 0x4dcf79c52f7d567f),
    (17, 0, 0xeb1536bb7d727416),
    (31, 7, 0x41be0940f63544b5),
    (32, 0, 0xfed03f363b964bc9),
    (33, 0, 0x9582727d433ac232),
    (64, 0, 0x1a2a366ba65af83c),
    (100, u64::MAX, 0x38e8b3596fbe25c0),
    (1000, 42, 0xcaa2063e7dad445e),
];

#[test]
fn the_published_vectors_hold() {
    for (len, seed, hash) in VECTORS {
        assert_eq!(hash_key(seed, &bytes(len)), hash, "{len} bytes, seed {seed}");
    }
}

#[test]
fn every_bit_of_a_key_turns_half_of_the_hash() {
    for len in [1, 4, 8, 12, 16, 24, 40] {
        for bit in 0..len * 8 {
            let turned: u32 = (0..64_u64)
                .map(|sample| {
                    let mut key = bytes(len);
                    key[0] ^= u8::try_from(sample).unwrap();
                    let before = hash_key(sample, &key);
                    key[bit / 8] ^= 1 << (bit % 8);
                    (before ^ hash_key(sample, &key)).count_ones()
                })
                .sum();
            // 64 samples of 64 bits: 2048 expected, standard deviation 32.
            assert!((1_850..=2_250).contains(&turned), "bit {bit} of {len} bytes turns {turned} of 4096");
        }
    }
}

#[test]
fn numbers_in_a_row_fill_buckets_evenly() {
    for shift in [0, 20, 40] {
        for (from_bit, seed) in [(54, 1), (32, 2), (0, 3)] {
            let mut buckets = [0_u32; 1024];
            for number in 0..65_536_u64 {
                let hash = hash_key(seed, &(number << shift).to_le_bytes());
                buckets[usize::try_from((hash >> from_bit) & 1023).unwrap()] += 1;
            }
            let square: f64 = buckets.iter().map(|count| (f64::from(*count) - 64.0).powi(2) / 64.0).sum();
            // Chi square with 1023 degrees of freedom: standard deviation 45.
            assert!((800.0..1_250.0).contains(&square), "shift {shift}, bits from {from_bit}: {square}");
        }
    }
}

#[test]
fn keys_of_zeros_differ_by_their_length() {
    let mut hashes: Vec<u64> = (0..300).map(|len| hash_key(9, &std::vec![0; len])).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 300);
}
