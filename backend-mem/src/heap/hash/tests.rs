use std::vec::Vec;

use super::hash_key;

const FORMAT_MD: &str = include_str!("../../../../FORMAT.md");

/// Seed, key and hash of each row of the table of test vectors.
fn vectors() -> Vec<(u64, Vec<u8>, u64)> {
    let (_, table) = FORMAT_MD.split_once("| seed | key in hexadecimal | hash |").unwrap();
    let number = |cell: &str| u64::from_str_radix(cell.strip_prefix("0x")?, 16).ok();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let digits = cells[1].trim_matches('`').as_bytes();
        let key = digits.chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap());
        (number(cells[0]).unwrap(), key.collect(), number(cells[2]).unwrap())
    })
    .collect()
}

#[test]
fn the_hash_gives_the_published_numbers() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 10);
    for (seed, key, hash) in vectors {
        assert_eq!(hash_key(seed, &key), hash, "seed {seed:#x}, key {key:?}");
    }
}

#[test]
fn keys_of_zeros_differ_by_their_length() {
    let mut hashes: Vec<_> = (0..100).map(|len| hash_key(0, &[0; 100][..len])).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 100);
}
