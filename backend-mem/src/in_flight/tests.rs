use std::string::ToString;
use std::vec;
use std::vec::Vec;

use slackwater_core::durable::{
    Completion, Disk, DiskError, Failure, Names, Tokens, Wait, Work, WriteFile, run_to_end,
};

use super::*;
use crate::{FrozenRun, MemDisk};

type TestDisk = MemDisk<FrozenRun>;

const HEADER: InFlightHeader =
    InFlightHeader { subtask: 3, file_id: 5, job_id: 6, checkpoint: 7, attempt: 8 };

fn channel(edge: u16, sender: u16, batches: &[&[u8]]) -> CapturedChannel {
    CapturedChannel { edge, sender, batches: batches.iter().map(|batch| batch.to_vec()).collect() }
}

fn sample() -> InFlight {
    InFlight { channels: vec![channel(0, 1, &[b"one", b"", b"three"]), channel(1, 0, &[b"four"])] }
}

fn spec(name: &str) -> InFlightSpec {
    InFlightSpec { folder: String::new(), file_name: name.into(), header: HEADER }
}

fn write(disk: &mut TestDisk, captured: InFlight, spec: InFlightSpec) -> Result<InFlightRef, WriteError> {
    let mut writer = InFlightWriter::new(captured, spec);
    run_to_end(disk, &mut writer).unwrap();
    writer.result().unwrap().clone()
}

fn bytes_of(disk: &mut TestDisk, path: &str) -> Vec<u8> {
    read_file(disk, path, u64::MAX).unwrap()
}

fn names(disk: &mut TestDisk) -> Vec<String> {
    let mut names = Vec::new();
    disk.list("", &mut |entry| names.push(entry.name.into())).unwrap();
    names
}

/// What verification says of other bytes than those that were written.
fn verify_bytes(bytes: &[u8], expected: &InFlightRef) -> Result<(), RestoreError> {
    let mut disk = TestDisk::new();
    run_to_end(&mut disk, &mut WriteFile::new(Names::Final { path: "a" }, bytes)).unwrap();
    verify(&mut disk, "a", expected)
}

#[test]
fn captured_records_come_back_from_a_file_and_from_a_manifest() {
    let mut disk = TestDisk::new();
    let file = write(&mut disk, sample(), spec("a")).unwrap();
    assert_eq!(file.len, sample().encoded_len());
    verify(&mut disk, "a", &file).unwrap();
    assert_eq!(read(&mut disk, "a", &StoredInFlight::File(file)), Ok(sample()));
    let inline = StoredInFlight::Inline(sample().encode(&HEADER).unwrap());
    assert_eq!(inline.len(), sample().encoded_len());
    assert_eq!(read(&mut disk, "_metadata", &inline), Ok(sample()));
}

#[test]
fn a_file_has_the_bytes_that_a_manifest_would_have() {
    let mut disk = TestDisk::new();
    write(&mut disk, sample(), spec("a")).unwrap();
    assert_eq!(bytes_of(&mut disk, "a"), sample().encode(&HEADER).unwrap());
}

#[test]
fn channels_come_in_any_order_and_what_is_of_one_channel_is_joined() {
    let captured = InFlight {
        channels: vec![
            channel(2, 0, &[b"d"]),
            channel(0, 9, &[b"a"]),
            channel(1, 1, &[]),
            channel(0, 9, &[b"b", b"c"]),
        ],
    };
    let joined = InFlight { channels: vec![channel(0, 9, &[b"a", b"b", b"c"]), channel(2, 0, &[b"d"])] };
    assert_eq!(InFlight::decode(&captured.clone().encode(&HEADER).unwrap()), Ok(joined.clone()));
    let mut disk = TestDisk::new();
    let file = write(&mut disk, captured, spec("a")).unwrap();
    assert_eq!(read(&mut disk, "a", &StoredInFlight::File(file)), Ok(joined));
}

#[test]
fn what_is_longer_than_the_disks_blocks_streams_through_them() {
    let long: Vec<u8> = (0..300_000_u32).map(|at| (at >> 3).to_le_bytes()[0]).collect();
    for len in [1, 4095, 65_000, 65_536, 300_000] {
        let batches = vec![long[..len].to_vec(), vec![7], long[..len / 2].to_vec()];
        let channels = (0..5).map(|sender| CapturedChannel { edge: 0, sender, batches: batches.clone() });
        let captured = InFlight { channels: channels.collect() };
        let mut disk = TestDisk::new();
        let file = write(&mut disk, captured.clone(), spec("a")).unwrap();
        assert_eq!(bytes_of(&mut disk, "a").len() as u64, file.len, "no byte behind the end");
        assert_eq!(read(&mut disk, "a", &StoredInFlight::File(file)).as_ref(), Ok(&captured), "{len}");
    }
}

#[test]
fn nothing_in_flight_is_no_file() {
    assert!(InFlight::default().is_empty());
    assert!(InFlight { channels: vec![channel(0, 0, &[])] }.is_empty());
    assert!(!sample().is_empty());
    let mut disk = TestDisk::new();
    let refused = write(&mut disk, InFlight::default(), spec("a"));
    assert!(matches!(refused, Err(WriteError::TooLarge { .. })), "{refused:?}");
    assert_eq!(names(&mut disk), Vec::<String>::new());
}

#[test]
fn a_file_that_nobody_wants_is_removed() {
    let mut disk = TestDisk::new();
    let mut writer = InFlightWriter::new(sample(), spec("a"));
    let mut tokens = Tokens::new(1);
    let mut ended = heapless::Vec::<Completion<_>, 16>::new();
    writer.advance(&mut disk, &mut tokens);
    writer.abandon();
    while !writer.is_done() {
        writer.advance(&mut disk, &mut tokens);
        disk.reap(Wait::ForOne, &mut ended);
        while let Some(completion) = ended.pop() {
            writer.on_completion(completion, &mut disk);
        }
    }
    assert_eq!(writer.result(), Some(&Err(WriteError::File(Failure::Abandoned))));
    assert_eq!(names(&mut disk), Vec::<String>::new());
}

#[test]
fn a_file_that_exists_is_left_alone() {
    let mut disk = TestDisk::new();
    write(&mut disk, sample(), spec("a")).unwrap();
    let other = InFlight { channels: vec![channel(0, 0, &[b"other"])] };
    let refused = write(&mut disk, other, spec("a")).unwrap_err();
    let WriteError::File(Failure::Disk { error, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(error.errno, DiskError::EXISTS);
    assert_eq!(bytes_of(&mut disk, "a"), sample().encode(&HEADER).unwrap());
}

#[test]
fn every_bit_and_every_truncation_of_a_file_is_found() {
    let mut disk = TestDisk::new();
    let file = write(&mut disk, sample(), spec("a")).unwrap();
    let bytes = bytes_of(&mut disk, "a");
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(verify_bytes(&damaged, &file).is_err(), "bit {bit}");
    }
    for len in 0..bytes.len() {
        assert!(verify_bytes(&bytes[..len], &file).is_err(), "cut to {len}");
    }
    assert!(verify_bytes(&[bytes.as_slice(), &[0]].concat(), &file).is_err(), "longer");
    assert_eq!(verify_bytes(&bytes, &file), Ok(()));
}

#[test]
fn a_sound_file_in_the_place_of_another_is_found() {
    let mut disk = TestDisk::new();
    let file = write(&mut disk, sample(), spec("a")).unwrap();
    let other = InFlightSpec { header: InFlightHeader { file_id: 9, ..HEADER }, ..spec("b") };
    let other = write(&mut disk, sample(), other).unwrap();
    let error = verify(&mut disk, "b", &file).unwrap_err();
    assert!(error.to_string().starts_with("b: not the file the checkpoint lists: file id"), "{error}");
    let stale = InFlightRef { checksum: file.checksum ^ 1, ..file };
    assert!(matches!(verify(&mut disk, "a", &stale).unwrap_err().cause, RestoreCause::Foreign { .. }));
    verify(&mut disk, "b", &other).unwrap();
}
