//! FORMAT.md says what the code says.

use slackwater_core::format::{LAYOUTS, VERSION, VERSION_MIN, checksum, in_flight, manifest, page, segment};
use slackwater_core::key_group::{KeyGroup, MaxParallelism, hash_of_bytes, key_group_of_hash};

const FORMAT_MD: &str = include_str!("../../FORMAT.md");

/// The cells of a row of a table.
fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

/// The rows of the table that follows a heading: all its lines that start with a number.
fn fields_below(heading: &str) -> Vec<(usize, usize, String)> {
    let (_, section) = FORMAT_MD
        .split_once(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("FORMAT.md has a section {heading:?}"));
    let table =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    table
        .map(cells)
        .filter_map(|row| Some((row[0].parse().ok()?, row[1].parse().ok()?, row[2].trim_matches('`').into())))
        .collect()
}

#[test]
fn every_structure_has_its_table_and_every_table_is_right() {
    for layout in LAYOUTS {
        let expected: Vec<_> =
            layout.fields.iter().map(|field| (field.offset, field.size, field.name.to_owned())).collect();
        let heading = format!("### {}: {} bytes", layout.name, layout.size);
        assert_eq!(fields_below(&heading), expected, "{}", layout.name);
    }
    let tables = FORMAT_MD.lines().filter(|line| line.starts_with("### ") && line.ends_with(" bytes"));
    assert_eq!(tables.count(), LAYOUTS.len(), "no table without a structure");
}

#[test]
fn every_constant_has_its_value() {
    let expected: &[(&str, u64)] = &[
        ("VERSION", VERSION.into()),
        ("VERSION_MIN", VERSION_MIN.into()),
        ("PAGE_FORMAT", page::PAGE_FORMAT.into()),
        ("FRAME_SIZE_MIN", page::FRAME_SIZE_MIN as u64),
        ("FRAME_SIZE_MAX", page::FRAME_SIZE_MAX as u64),
        ("BLOCK_SIZE_MIN", segment::BLOCK_SIZE_MIN as u64),
        ("BLOCK_SIZE_MAX", segment::BLOCK_SIZE_MAX as u64),
        ("MANIFEST_BLOCK_SIZE", manifest::MANIFEST_BLOCK_SIZE as u64),
        ("KEY_LEN_MAX", page::KEY_LEN_MAX as u64),
        ("VALUE_LEN_MAX", page::VALUE_LEN_MAX as u64),
        ("PARALLELISM_MAX", manifest::PARALLELISM_MAX.into()),
        ("KEY_GROUP_NONE", KeyGroup::NONE.0.into()),
        ("NO_PAGE", page::NO_PAGE.into()),
        ("PAGE_TYPE_HASH_FIXED", page::PAGE_TYPE_HASH_FIXED.into()),
        ("PAGE_TYPE_HASH", page::PAGE_TYPE_HASH.into()),
        ("PAGE_TYPE_LEAF", page::PAGE_TYPE_LEAF.into()),
        ("PAGE_TYPE_INNER", page::PAGE_TYPE_INNER.into()),
        ("PAGE_TYPE_OVERFLOW", page::PAGE_TYPE_OVERFLOW.into()),
        ("TREE_HINTS", page::TREE_HINTS as u64),
        ("TREE_HINTS_FRAME_SIZE_MIN", page::TREE_HINTS_FRAME_SIZE_MIN as u64),
        ("TREE_LEVELS_MAX", page::TREE_LEVELS_MAX.into()),
        ("TAG_EMPTY", page::TAG_EMPTY.into()),
        ("TAG_PADDING", page::TAG_PADDING.into()),
        ("FINGERPRINT_MAX", page::FINGERPRINT_MAX.into()),
        ("TAG_DIRTY", page::TAG_DIRTY.into()),
        ("LEN_OVERFLOW", page::LEN_OVERFLOW.into()),
        ("COMPRESSION_NONE", segment::COMPRESSION_NONE.into()),
        ("COMPRESSION_LZ4", segment::COMPRESSION_LZ4.into()),
        ("COMPRESSION_ZSTD", segment::COMPRESSION_ZSTD.into()),
        ("CHUNK_LEN_MAX", segment::CHUNK_LEN_MAX as u64),
        ("STATE_KIND_HASH", segment::STATE_KIND_HASH.into()),
        ("STATE_KIND_ORDERED", segment::STATE_KIND_ORDERED.into()),
        ("WIDTH_ANY", segment::WIDTH_ANY.into()),
        ("FLAG_FINISHED", manifest::FLAG_FINISHED.into()),
        ("SUBTASK_FLAG_FINISHED", manifest::SUBTASK_FLAG_FINISHED.into()),
        ("PART_HEADER", checksum::PART_HEADER.into()),
        ("PART_FRAME", checksum::PART_FRAME.into()),
        ("PART_INDEX", checksum::PART_INDEX.into()),
        ("PART_FOOTER", checksum::PART_FOOTER.into()),
        ("PART_TRAILER", checksum::PART_TRAILER.into()),
        ("PART_MANIFEST", checksum::PART_MANIFEST.into()),
        ("PART_CHUNK", checksum::PART_CHUNK.into()),
        ("PART_IN_FLIGHT", checksum::PART_IN_FLIGHT.into()),
        ("PART_BATCH", checksum::PART_BATCH.into()),
    ];
    let (_, section) = FORMAT_MD.split_once("\n### Constants\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let found: Vec<_> = section
        .lines()
        .map(cells)
        .filter(|row| row.len() == 3)
        .filter_map(|row| Some((row[0].trim_matches('`'), row[1].parse::<u64>().ok()?)))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn every_magic_is_named() {
    let magics: [&[u8]; 6] = [
        &segment::SEGMENT_MAGIC,
        &segment::TRAILER_MAGIC,
        &manifest::MANIFEST_MAGIC,
        &manifest::MANIFEST_TAIL_MAGIC,
        &in_flight::IN_FLIGHT_MAGIC,
        &in_flight::IN_FLIGHT_TAIL_MAGIC,
    ];
    for magic in magics {
        let text = String::from_utf8_lossy(magic).replace('\0', "\\0");
        assert!(FORMAT_MD.contains(&format!("`{text}`")), "{text}");
    }
}

/// A reader that follows FORMAT.md by hand: the checksum of a trailer, bit by bit.
#[test]
fn a_checksum_is_crc_32_over_the_identity_and_then_the_bytes() {
    let mut bytes = vec![0; 40];
    bytes[0] = checksum::PART_TRAILER;
    bytes[24] = 9;
    bytes.extend(b"block");
    let crc = !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 },
        )
    });
    assert_eq!(checksum::Identity::new(checksum::PART_TRAILER, 9, 0).checksum(b"block"), crc);
}

#[test]
fn keys_have_the_hashes_and_key_groups_of_the_table() {
    let (_, section) = FORMAT_MD.split_once("| key group of 128 | key group of 196 |\n").unwrap();
    let rows: Vec<_> = section.lines().skip(1).take_while(|line| line.starts_with('|')).map(cells).collect();
    assert_eq!(rows.len(), 3);
    for row in rows {
        let digits = row[0].trim_matches('`');
        let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        let key: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
        let hash = hash_of_bytes(&key);
        let group = |max| key_group_of_hash(hash, MaxParallelism::new(max).unwrap());
        assert_eq!(row[1], format!("0x{hash:08x}"));
        assert_eq!([row[2], row[3]], [group(128), group(196)].map(|group| group.to_string()));
    }
}
