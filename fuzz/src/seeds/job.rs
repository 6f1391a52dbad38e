//! Folders that word counts have left behind, on a disk in memory and virtual time.

use slackwater::Compression;
use slackwater::ids::CheckpointId;
use slackwater::word_count::Emit;
use slackwater_mem::MemDisk;

use super::Seed;
use super::captured::with_records;
use crate::archive::{File, files_of, pack};
use crate::folders::{Start, drive};
use crate::repair::{LINKS, MANIFESTS, SEGMENTS};

const ALL: u8 = MANIFESTS | SEGMENTS | LINKS;
/// Bits of the parallelism that a folder is restored with, and of the output that is asked for.
const PARALLELISM_2: u8 = 1 << 4;
const UPDATES: u8 = 1 << 6;
/// Bit of a folder whose keyed state is read while records flow.
const LAZY: u8 = 1 << 7;

pub(super) fn folders() -> Vec<Seed> {
    let final_counts = killed(Emit::Final, 1, Compression::None, 3);
    let updates = killed(Emit::Updates, 1, Compression::Lz4, 2);
    let mut incomplete = killed(Emit::Final, 1, Compression::Zstd, 2);
    incomplete.retain(|(path, _)| path != "wordcount/chk-2/_metadata");
    let mut rotten = updates.clone();
    let newest = rotten.iter_mut().rev().find(|(path, _)| path.ends_with(".seg"));
    newest.expect("it has segments").1[4100] ^= 1;
    let mut foreign = killed(Emit::Final, 2, Compression::None, 1);
    foreign.retain(|(path, _)| !path.ends_with("0.seg"));
    foreign.push((String::from("wordcount/chk-7/_metadata"), b"not a manifest".to_vec()));
    foreign.push((String::from("wordcount/chk-8.old/_metadata"), Vec::new()));
    let in_flight = killed(Emit::Final, 1, Compression::None, 1);
    vec![
        ("two-checkpoints", seed(ALL, &final_counts)),
        ("two-checkpoints-lz4-and-parts", seed(ALL | UPDATES, &updates)),
        ("two-checkpoints-lazily", seed(ALL | LAZY | PARALLELISM_2, &final_counts)),
        ("newest-incomplete-zstd", seed(ALL | PARALLELISM_2, &incomplete)),
        ("newest-segment-rotten", seed(UPDATES, &rotten)),
        ("two-subtasks-and-leftovers", seed(ALL | PARALLELISM_2, &foreign)),
        ("finished", seed(ALL, &finished())),
        ("records-in-flight-in-files", seed(ALL, &with_records(in_flight.clone(), true))),
        ("records-in-flight-in-manifests", seed(ALL | PARALLELISM_2, &with_records(in_flight, false))),
    ]
}

fn seed(order: u8, files: &[File]) -> Vec<u8> {
    [&[order], pack(files).as_slice()].concat()
}

/// What is there when a job dies behind a checkpoint.
fn killed(emit: Emit, parallelism: u16, compression: Compression, checkpoint: u64) -> Vec<File> {
    let mut disk = MemDisk::new();
    let start = Start { parallelism, emit, is_lazy: false };
    let mut job = start.assemble(disk.clone(), 1, compression).expect("a fresh disk");
    drive(&mut job, 100_000, |last| last >= Some(CheckpointId(checkpoint)));
    drop(job);
    files_of(&mut disk, "")
}

fn finished() -> Vec<File> {
    let mut disk = MemDisk::new();
    let start = Start { parallelism: 1, emit: Emit::Final, is_lazy: false };
    let mut job = start.assemble(disk.clone(), 1, Compression::None).expect("a fresh disk");
    drive(&mut job, 100_000, |_| false);
    job.report().expect("it has ended");
    let mut files = files_of(&mut disk, "");
    // The last checkpoint is enough.
    let newest =
        files.iter().filter(|(path, _)| path.ends_with("_metadata")).map(|(path, _)| path.len()).max();
    let last = files.iter().rev().find(|(path, _)| path.ends_with("_metadata") && Some(path.len()) == newest);
    let folder = last.expect("it took one").0.replace("_metadata", "");
    files.retain(|(path, _)| path.starts_with(&folder) || path.starts_with("out/"));
    files
}
