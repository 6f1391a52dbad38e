use std::vec::Vec;

use super::*;
use crate::format::EncodeError;

const HEADER: InFlightHeader =
    InFlightHeader { subtask: 3, file_id: 5 << 64, job_id: 0x1234_5678_9abc_def0, checkpoint: 7, attempt: 9 };

type Captured<'b> = ((u16, u16), &'b [&'b [u8]]);

const SAMPLE: &[Captured<'_>] =
    &[((0, 1), &[b"one", b"", b"three"]), ((0, 4), &[b"four"]), ((2, 0), &[b"one"])];

fn rows(channels: &[Captured<'_>]) -> Vec<ChannelRow> {
    let row = |((edge, sender), batches): &Captured<'_>| {
        ChannelRow::new(*edge, *sender, batches.iter().map(|batch| batch.len()))
    };
    channels.iter().map(row).collect()
}

fn encode(channels: &[Captured<'_>]) -> Result<Vec<u8>, EncodeError<core::convert::Infallible>> {
    let rows = rows(channels);
    let mut encoder = InFlightEncoder::new(Vec::new(), &HEADER, &rows)?;
    for (_, batches) in channels {
        batches.iter().try_for_each(|batch| encoder.batch(batch))?;
    }
    let (bytes, checksum) = encoder.finish()?;
    assert_eq!(bytes.len() as u64, encoded_len(&rows), "the length is known before");
    assert_eq!(InFlightView::parse(&bytes).unwrap().checksum(), checksum);
    Ok(bytes)
}

fn sample() -> Vec<u8> {
    encode(SAMPLE).unwrap()
}

/// Puts the checksum of the whole right.
fn sign(bytes: &mut [u8]) {
    let (header, _) = InFlightHeaderLayout::ref_from_prefix(bytes).unwrap();
    let at = bytes.len() - 8;
    let sum = header.identity(PART_IN_FLIGHT).checksum(&bytes[..at]);
    bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
}

fn what(bytes: &[u8]) -> &'static str {
    match InFlightView::parse(bytes).unwrap_err() {
        FormatError::Corrupt { what, .. } | FormatError::Unsupported { what, .. } => what,
    }
}

#[test]
fn u6_captured_records_are_read_back_channel_by_channel_and_in_order() {
    let bytes = sample();
    let view = InFlightView::parse(&bytes).unwrap();
    assert_eq!(view.header(), HEADER);
    let found: Vec<_> = view
        .channels()
        .map(|channel| ((channel.edge, channel.sender), channel.batches().collect::<Vec<_>>()))
        .collect();
    let expected: Vec<_> = SAMPLE.iter().map(|(place, batches)| (*place, batches.to_vec())).collect();
    assert_eq!(found, expected);
}

#[test]
fn every_bit_turned_over_is_found() {
    let bytes = sample();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let error = InFlightView::parse(&damaged).unwrap_err();
        assert!(matches!(error, FormatError::Corrupt { .. }), "bit {bit}: {error}");
    }
}

#[test]
fn every_truncation_and_extension_is_found() {
    let bytes = sample();
    for len in 0..bytes.len() {
        assert!(InFlightView::parse(&bytes[..len]).is_err(), "cut to {len}");
    }
    assert!(InFlightView::parse(&[bytes.as_slice(), &[0]].concat()).is_err());
    assert!(InFlightView::parse(&[bytes.as_slice(), bytes.as_slice()].concat()).is_err());
}

#[test]
fn a_batch_in_the_place_of_another_is_found_by_its_own_checksum() {
    // Both of three bytes that are the same: the one of channel (2, 0) and the first of channel (0, 1).
    let mut bytes = sample();
    let first = InFlightHeaderLayout::LEN + 3 * ChannelRow::LEN;
    let last = bytes.len() - InFlightTail::LEN - 3 - BatchHead::LEN;
    let heads = [first, last].map(|at| bytes[at..at + BatchHead::LEN].to_vec());
    assert_eq!(heads[0][..4], heads[1][..4]);
    assert_ne!(heads[0], heads[1], "the checksum knows whose batch it is");
    bytes[first..first + BatchHead::LEN].copy_from_slice(&heads[1]);
    bytes[last..last + BatchHead::LEN].copy_from_slice(&heads[0]);
    sign(&mut bytes);
    assert_eq!(what(&bytes), "checksum of a batch");
}

#[test]
fn lengths_counts_and_order_are_checked_behind_a_sound_checksum() {
    let row = InFlightHeaderLayout::LEN;
    let changes: &[(usize, &[u8], &str)] = &[
        (10, &[1], "flags of captured records"),
        (64, &[0], "number of channels"),
        (64, &[200], "number of channels"),
        (64, &[2], "checksum of a batch"),
        (68, &[1], "reserved field of captured records"),
        (row, &[9], "checksum of a batch"),
        (row + ChannelRow::LEN + 2, &[1], "order of channels"),
        (row + 4, &[0], "batches of a channel"),
        (row + 4, &[2], "bytes behind the batches of a channel"),
        (row + 4, &[4], "length of a batch"),
        (row + 8, &[255], "bytes of a channel"),
        (row + 15, &[255], "bytes of a channel"),
        (row + 3 * ChannelRow::LEN, &[255, 255], "length of a batch"),
        (row + 2 * ChannelRow::LEN + 8, &[10], "length of a batch"),
    ];
    for (at, change, expected) in changes {
        let mut bytes = sample();
        bytes[*at..*at + change.len()].copy_from_slice(change);
        sign(&mut bytes);
        assert_eq!(what(&bytes), *expected, "byte {at}");
    }
    let mut bytes = encode(&SAMPLE[..1]).unwrap();
    bytes.splice(bytes.len() - InFlightTail::LEN..bytes.len() - InFlightTail::LEN, [0; 8]);
    let len_at = bytes.len() - InFlightTail::LEN;
    bytes[len_at] += 8;
    sign(&mut bytes);
    assert_eq!(what(&bytes), "bytes behind the batches");
}

#[test]
fn a_newer_version_is_named_so_and_a_damaged_number_is_damage() {
    let mut bytes = sample();
    bytes[8] = 2;
    assert!(matches!(InFlightView::parse(&bytes), Err(FormatError::Corrupt { offset: 8, .. })));
    sign(&mut bytes);
    let error = InFlightView::parse(&bytes).unwrap_err();
    assert_eq!(error, FormatError::Unsupported { what: "version of captured records", value: 2 });
}

#[test]
fn the_encoder_refuses_what_the_view_would() {
    let wrong = |channels| assert!(matches!(encode(channels), Err(EncodeError::WrongOrder { .. })));
    wrong(&[]);
    wrong(&[((0, 0), &[])]);
    wrong(&[((1, 0), &[b"a"]), ((0, 9), &[b"b"])]);
    wrong(&[((1, 0), &[b"a"]), ((1, 0), &[b"b"])]);

    let rows = rows(SAMPLE);
    let mut encoder = InFlightEncoder::new(Vec::new(), &HEADER, &rows).unwrap();
    encoder.batch(b"one").unwrap();
    encoder.batch(b"longer than it was").unwrap();
    assert!(encoder.batch(b"three").is_err(), "the channel is longer than its row says");

    let mut encoder = InFlightEncoder::new(Vec::new(), &HEADER, &rows[..1]).unwrap();
    encoder.batch(b"one").unwrap();
    assert!(encoder.finish().is_err(), "two batches are missing");

    let mut encoder = InFlightEncoder::new(Vec::new(), &HEADER, &rows[1..2]).unwrap();
    encoder.batch(b"four").unwrap();
    assert!(encoder.batch(b"five").is_err(), "no row speaks of it");
}

#[test]
fn a_full_buffer_is_said_so() {
    let mut buffer = heapless::Vec::<u8, 64>::new();
    let refused = InFlightEncoder::new(buffer.as_mut_view(), &HEADER, rows(SAMPLE)).unwrap_err();
    assert_eq!(refused, EncodeError::Sink(crate::format::Full));
}
