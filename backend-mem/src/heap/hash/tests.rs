use std::vec::Vec;

use super::{A, B, C, hash_key};

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|index| u8::try_from(index * 31 % 251).unwrap()).collect()
}

/// Length of the key, seed, hash; byte `i` of a key is `31 i mod 251`. Frozen: other numbers are another format.
const VECTORS: [(usize, u64, u64); 87] = [
    (0, 0, 0x70c3edc89edb949e),
    (1, 0, 0xabdb4ff0727c6ba1),
    (2, 0, 0x3df78ca685734bf5),
    (3, 0, 0x38a74127327c8cf9),
    (4, 0, 0x969d6be9d6fb8f5c),
    (5, 0, 0x56537e96a2a84a40),
    (6, 0, 0x38688828fbed941f),
    (7, 0, 0x6c6b636bb8a13b13),
    (8, 0, 0x2b4fd159df2e209d),
    (9, 0, 0xae33c73c8aa93425),
    (10, 0, 0x48190b1bcc3b16f0),
    (11, 0, 0xdf48dc5ab0be7033),
    (12, 0, 0xd101938887266d3f),
    (13, 0, 0xf81944bb9251e13e),
    (14, 0, 0x37dc44edca0e630b),
    (15, 0, 0x3e000e68b9cd5399),
    (16, 0, 0x6df8012d89e3a7ff),
    (17, 0, 0x72ba8208fbe14d5e),
    (18, 0, 0xf947d621cf675a84),
    (23, 0, 0x49a85be2cbb10331),
    (24, 0, 0x19be4d64385bcb10),
    (25, 0, 0x21c7bde57b1e1f2f),
    (31, 0, 0xb6b00e205f5b99e2),
    (32, 0, 0xa4322a762081df19),
    (33, 0, 0xbb1cf7c952fc8e9a),
    (40, 0, 0xe583bb02d07aefe5),
    (47, 0, 0xf954f1f1ed09f54e),
    (48, 0, 0xabede5cc7e720f7e),
    (49, 0, 0x6a3a6165861f0cae),
    (63, 0, 0xb9208a24ec624c58),
    (64, 0, 0x2b2f7beee7fd0662),
    (65, 0, 0xdee261d6d3d128c4),
    (100, 0, 0xeb268135c8e3a0a5),
    (127, 0, 0xa5092a478d60ce51),
    (128, 0, 0xde2deced5cf61927),
    (129, 0, 0xd14d30302f44db47),
    (255, 0, 0xb99362f38f8ea333),
    (256, 0, 0x6ae23e00494f29c1),
    (1000, 0, 0x066f388a66545349),
    (4096, 0, 0xe3fad80b77884544),
    (65537, 0, 0xd6a5f5a95d05619b),
    (1048576, 0, 0x05fb1178c50f84f3),
    (0, 1, 0x16be49c73721a675),
    (0, 42, 0x550c1a65b31961da),
    (0, 0x8000000000000000, 0x79693cc2d1e54a7e),
    (0, 0x9e3779b97f4a7c15, 0x5423bfbe884e00df),
    (0, 0xffffffffffffffff, 0x0159878dbefb53f0),
    (1, 1, 0x40ff7faab885928b),
    (1, 42, 0x27646fe492ebb741),
    (1, 0x8000000000000000, 0x869a9f4de4890a1a),
    (1, 0x9e3779b97f4a7c15, 0x31f00155985654a5),
    (1, 0xffffffffffffffff, 0xf0dc9a13f89a687e),
    (3, 1, 0x6a14282e7020b2a2),
    (3, 42, 0x0feffe45dc011f48),
    (3, 0x8000000000000000, 0xc79e797872c4fc5e),
    (3, 0x9e3779b97f4a7c15, 0xdaf35da4f0674119),
    (3, 0xffffffffffffffff, 0x9be9986caee0618a),
    (8, 1, 0x72e8e164acb01af4),
    (8, 42, 0x032cabcc090d6e57),
    (8, 0x8000000000000000, 0xda27ff694e0ffba2),
    (8, 0x9e3779b97f4a7c15, 0x538104d64957ce52),
    (8, 0xffffffffffffffff, 0x6046f129586f2b2f),
    (16, 1, 0x8a606178f376229e),
    (16, 42, 0x570efe64d7f170e3),
    (16, 0x8000000000000000, 0x1c9c881aaa01b3b5),
    (16, 0x9e3779b97f4a7c15, 0x7f3fac761971afdb),
    (16, 0xffffffffffffffff, 0x72837c6a7dda992b),
    (17, 1, 0x4cc31defcde5a80b),
    (17, 42, 0x7b1c70bf904138be),
    (17, 0x8000000000000000, 0xd80098cb1721211d),
    (17, 0x9e3779b97f4a7c15, 0x07d89867318b5377),
    (17, 0xffffffffffffffff, 0xb9b9f6817c7d1e45),
    (32, 1, 0xbd0a6d104139f87d),
    (32, 42, 0x18d1af6033ad501e),
    (32, 0x8000000000000000, 0x069361a03ed93ad1),
    (32, 0x9e3779b97f4a7c15, 0xd3d62015f4002fb6),
    (32, 0xffffffffffffffff, 0xcda4bd623108600f),
    (64, 1, 0xf0c8812342087d32),
    (64, 42, 0x1b5acec5ab943c93),
    (64, 0x8000000000000000, 0xa866431a9af788f4),
    (64, 0x9e3779b97f4a7c15, 0x46c69acaf4af6658),
    (64, 0xffffffffffffffff, 0x424c085ec88ceede),
    (1000, 1, 0x926980850a1433d5),
    (1000, 42, 0x6bcc111f908c0bb9),
    (1000, 0x8000000000000000, 0xa6a1b2d8af17c676),
    (1000, 0x9e3779b97f4a7c15, 0x5fee04f8b9abc5a1),
    (1000, 0xffffffffffffffff, 0x29efa22d947c8a6c),
];

#[test]
fn the_published_vectors_hold() {
    for (len, seed, hash) in VECTORS {
        assert_eq!(hash_key(seed, &bytes(len)), hash, "{len} bytes, seed {seed}");
    }
}

/// Seed, key and hash of the rows below a heading of FORMAT.md.
fn published() -> Vec<(u64, Vec<u8>, u64)> {
    let format = include_str!("../../../../FORMAT.md");
    let (_, section) = format.split_once("### The hash of keys\n").expect("the section is there");
    let (section, _) = section.split_once("\n### ").expect("it is not the last one");
    let number = |text: &str| u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).unwrap();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let key = cells[2].trim_matches('`');
        let key = (0..key.len() / 2).map(|at| u8::from_str_radix(&key[2 * at..][..2], 16).unwrap()).collect();
        (number(cells[1]), key, number(cells[3]))
    };
    section.lines().filter(|line| line.starts_with("| 0x")).map(row).collect()
}

#[test]
fn the_table_of_the_format_holds() {
    let rows = published();
    assert!(rows.len() >= 10);
    for (seed, key, hash) in rows {
        assert_eq!(hash_key(seed, &key), hash, "{key:?}, seed {seed}");
    }
}

/// Case E-04: a multiplication by zero would let anybody make collisions that hold for every seed.
#[test]
fn e04_keys_made_to_cancel_a_factor_do_not_collide() {
    let blocks = |parts: [u64; 4]| parts.map(u64::to_le_bytes).concat();
    for seed in [0, 1, 0x5eed, u64::MAX] {
        for (even, odd) in [(C, B), (C, C), (B, B), (A, C), (0, 0)] {
            let mut hashes: Vec<u64> =
                (0..16_384).map(|x| hash_key(seed, &blocks([x, even, x ^ 77, odd]))).collect();
            hashes.sort_unstable();
            hashes.dedup();
            assert_eq!(hashes.len(), 16_384, "seed {seed}");
        }
    }
}

/// Case E-04: keys whose Java hashes are all alike.
#[test]
fn e04_strings_that_collide_in_java_spread_evenly() {
    let mut buckets = [0_u32; 256];
    for number in 0..16_384_u32 {
        let key: Vec<u8> =
            (0..14).flat_map(|bit| if number >> bit & 1 == 0 { *b"Aa" } else { *b"BB" }).collect();
        buckets[usize::try_from(hash_key(42, &key) >> 56).unwrap()] += 1;
    }
    assert!(buckets.iter().all(|count| (24..=120).contains(count)), "64 each: {buckets:?}");
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
