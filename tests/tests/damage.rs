//! A small checkpoint with one thing wrong: any bit of any file turned over, any file cut off anywhere, any block in the
//! place of any other. Verification says so, and recovery takes the older checkpoint, whatever the compression.
#![expect(clippy::print_stdout, reason = "a test says how much it has tried")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use slackwater::Compression;
use slackwater::recovery::{find, read_manifest};
use slackwater::word_count::Emit;
use slackwater_core::durable::run_to_end;
use slackwater_core::ids::CheckpointId;
use slackwater_mem::FrozenRun;
use slackwater_mem::in_flight::{
    self, CapturedChannel, InFlight, InFlightHeader, InFlightRef, InFlightSpec, InFlightWriter,
    StoredInFlight,
};
use slackwater_mem::segment::{SegmentRef, verify_segment};
use slackwater_mem::sim::{SimDisk, SimOptions};
use slackwater_tests::sim_job::{CHECKPOINTS, SimJob};

type Sim = SimDisk<FrozenRun>;

const COMPRESSIONS: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];
/// Sizes of blocks that change places: a sector, a frame, a block of the file.
const BLOCK_SIZES: [usize; 3] = [512, 1024, 4096];

/// Two checkpoints of a job, the newer of which is to be damaged.
struct Small {
    disk: Sim,
    older: CheckpointId,
    newest: CheckpointId,
    /// Path and bytes of each file of the newest.
    files: Vec<(String, Vec<u8>)>,
    segments: Vec<SegmentRef>,
    records: InFlightRef,
}

/// Adds records in flight to a checkpoint of the job, in a file of one block. Gives its reference.
fn add_records(disk: &mut Sim, id: CheckpointId) -> InFlightRef {
    let manifest =
        read_manifest(disk, CHECKPOINTS, id).expect("the disk can be read").expect("it is complete");
    let mut manifest = manifest.expect("it is whole");
    let bytes = |len: u64, seed: u64| -> Vec<u8> {
        (0..len).map(|at| ((at * at * 37) ^ seed.rotate_left(7)).to_le_bytes()[0]).collect()
    };
    let batches = vec![bytes(3000, id.0), bytes(976, id.0 + 50)];
    let header = InFlightHeader {
        subtask: 1,
        file_id: u128::from(id.0) << 32,
        job_id: manifest.job_id,
        checkpoint: id.0,
        attempt: 1,
    };
    let (folder, file_name) = (String::from(CHECKPOINTS), format!("chk-{id}/1-1.inflight"));
    let captured = InFlight { channels: vec![CapturedChannel { edge: 0, sender: 0, batches }] };
    let mut writer = InFlightWriter::new(captured, InFlightSpec { folder, file_name, header });
    run_to_end(disk, &mut writer).expect("nothing else is in flight");
    let file = writer.result().expect("it has ended").clone().expect("the disk has room");
    assert_eq!(file.len, 4096, "a block, so that it can change places with others");
    let vertex = manifest.vertices.last_mut().expect("it has vertices");
    vertex.subtasks[0].in_flight = Some(StoredInFlight::File(file.clone()));
    let path = format!("{CHECKPOINTS}/chk-{id}/_metadata");
    disk.overwrite(&path, &manifest.encode().expect("as it was")).expect("the file is there");
    file
}

impl Small {
    fn new(compression: Compression) -> Self {
        let disk = Sim::new(SimOptions { seed: 1, ..SimOptions::default() });
        let mut job = SimJob::small(1, Emit::Updates).over(4_000).compressed(compression);
        let run = job.run(disk.clone(), None).expect("the job ends");
        let [.., older, newest] = run.completed[..] else { panic!("{run:?}") };
        add_records(&mut disk.clone(), older);
        let records = add_records(&mut disk.clone(), newest);
        let mut small = Self { disk, older, newest, files: Vec::new(), segments: Vec::new(), records };
        let folder = small.folder(newest);
        let names = small.disk.names(&folder);
        let read = |name: String| {
            let path = format!("{folder}/{name}");
            let bytes = small.disk.read_file(&path).expect("it is listed");
            (path, bytes)
        };
        small.files = names.into_iter().map(read).collect();
        let manifest = read_manifest(&mut small.disk.clone(), CHECKPOINTS, newest);
        let manifest = manifest.expect("the disk can be read").expect("it is complete").expect("it is whole");
        let subtasks = manifest.vertices.iter().flat_map(|vertex| &vertex.subtasks);
        small.segments = subtasks.filter_map(|subtask| subtask.segment.clone()).collect();
        assert!(small.files.len() > 2, "a manifest, a segment, records in flight");
        small.expect_sound();
        small
    }

    /// The same checkpoints on a disk of their own.
    fn copy(&self) -> Self {
        let disk = self.disk.image_after_power_cut(0);
        let (files, segments) = (self.files.clone(), self.segments.clone());
        Self { disk, files, segments, records: self.records.clone(), ..*self }
    }

    fn folder(&self, id: CheckpointId) -> String {
        format!("{CHECKPOINTS}/chk-{id}")
    }

    fn expect_sound(&self) {
        let found = find(&mut self.disk.clone(), CHECKPOINTS).expect("the disk can be read");
        assert_eq!(found.newest.expect("one is whole").id, self.newest);
        assert!(found.passed_over.is_empty());
    }

    /// Verification of this file says no; the others are sound.
    fn expect_refused(&self, path: &str, what: &dyn Fn() -> String) {
        let disk = &mut self.disk.clone();
        let name = path.strip_prefix("wordcount/").unwrap_or(path);
        let is_refused = match self.segments.iter().find(|segment| segment.file_name == name) {
            Some(segment) => verify_segment(disk, path, segment).is_err(),
            None if name == self.records.file_name => in_flight::verify(disk, path, &self.records).is_err(),
            None => {
                let read = read_manifest(disk, CHECKPOINTS, self.newest).expect("the disk can be read");
                !matches!(read, Some(Ok(_)))
            }
        };
        assert!(is_refused, "{} passes verification", what());
    }

    /// Recovery takes the older checkpoint and says why.
    fn expect_passed_over(&self, what: &dyn Fn() -> String) {
        let found = find(&mut self.disk.clone(), CHECKPOINTS);
        let found = found.unwrap_or_else(|error| panic!("{}: {error}", what()));
        assert_eq!(found.newest.map(|manifest| manifest.id), Some(self.older), "{}", what());
        assert_eq!(
            found.passed_over.first().map(|passed_over| passed_over.id),
            Some(self.newest),
            "{}",
            what()
        );
    }

    /// Puts other bytes into a file, looks, and puts the right ones back.
    fn with(&self, path: &str, bytes: &[u8], what: &dyn Fn() -> String) {
        let before = self.disk.read_file(path).expect("the file is there");
        if before == bytes {
            return;
        }
        self.disk.overwrite(path, bytes).expect("the file is there");
        self.expect_refused(path, what);
        if is_for_recovery(bytes.len()) {
            self.expect_passed_over(what);
        }
        self.disk.overwrite(path, &before).expect("the file is there");
    }
}

/// Does the work on every processor, each part on checkpoints of its own.
fn in_parallel(
    compression: Compression,
    count: impl Fn(&Small) -> usize,
    work: impl Fn(&Small, usize) + Sync,
) {
    let small = Small::new(compression);
    let count = count(&small);
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let copies: Vec<Small> = (0..threads).map(|_| small.copy()).collect();
    thread::scope(|scope| {
        for small in copies {
            scope.spawn(|| {
                let small = small;
                while let Some(index) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|index| *index < count)
                {
                    work(&small, index);
                }
                small.expect_sound();
            });
        }
    });
    println!("{compression:?}: {count}");
}

/// Everything goes through verification. Through recovery, which verifies and then takes another checkpoint, goes all of
/// it in an optimised build, and otherwise every 37th: each bit of a byte in turn.
const fn is_for_recovery(number: usize) -> bool {
    !cfg!(debug_assertions) || number.is_multiple_of(37)
}

fn len_of(small: &Small) -> usize {
    small.files.iter().map(|(_, bytes)| bytes.len()).sum()
}

/// The file in which this byte of all files lies, and where.
fn place(small: &Small, mut index: usize) -> (&str, &[u8], usize) {
    for (path, bytes) in &small.files {
        if index < bytes.len() {
            return (path, bytes, index);
        }
        index -= bytes.len();
    }
    panic!("beyond the last file")
}

fn flip_every_bit(compression: Compression) {
    in_parallel(compression, len_of, |small, index| {
        let (path, _, byte) = place(small, index);
        for bit in 0..8 {
            let what = || format!("{path}, bit {bit} of byte {byte}");
            small.disk.flip_bit(path, byte * 8 + bit).expect("the file is there");
            small.expect_refused(path, &what);
            if is_for_recovery(byte * 8 + bit) {
                small.expect_passed_over(&what);
            }
            small.disk.flip_bit(path, byte * 8 + bit).expect("the file is there");
        }
    });
}

#[test]
fn j04_every_bit_turned_over_is_found() {
    flip_every_bit(Compression::None);
}

#[test]
fn j04_every_bit_turned_over_is_found_in_lz4() {
    flip_every_bit(Compression::Lz4);
}

#[test]
fn j04_every_bit_turned_over_is_found_in_zstd() {
    flip_every_bit(Compression::Zstd);
}

#[test]
fn j03_every_truncation_is_found() {
    for compression in COMPRESSIONS {
        in_parallel(compression, len_of, |small, index| {
            let (path, bytes, len) = place(small, index);
            small.with(path, &bytes[..len], &|| format!("{path} cut to {len} bytes"));
        });
    }
}

#[test]
fn j03_bytes_behind_the_end_are_found() {
    for compression in COMPRESSIONS {
        let small = Small::new(compression);
        for (path, bytes) in &small.files {
            for more in [1, 512, 1024, 4096, bytes.len()] {
                let longer = [&bytes[..], &bytes[bytes.len() - more..]].concat();
                small.with(path, &longer, &|| format!("{path} with its last {more} bytes twice"));
                let longer = [&bytes[..], &vec![0; more]].concat();
                small.with(path, &longer, &|| format!("{path} with {more} zeros behind it"));
            }
        }
    }
}

/// Every block of all files in the place of every other, of the same file or of another.
#[test]
fn j04_every_block_that_changed_places_is_found() {
    for compression in COMPRESSIONS {
        for size in BLOCK_SIZES {
            in_parallel(
                compression,
                |small| len_of(small) / size,
                |small, first| {
                    for second in 0..first {
                        swap(small, size, first, second);
                    }
                },
            );
        }
    }
}

fn swap(small: &Small, size: usize, first: usize, second: usize) {
    let what = || format!("blocks {first} and {second} of {size} bytes");
    let block = |index| {
        let (path, bytes, at) = place(small, index * size);
        (path, at, &bytes[at..at + size])
    };
    let ((path, at, bytes), (other_path, other_at, other_bytes)) = (block(first), block(second));
    if bytes == other_bytes {
        return;
    }
    put(small, path, at, other_bytes);
    put(small, other_path, other_at, bytes);
    small.expect_passed_over(&what);
    put(small, path, at, bytes);
    put(small, other_path, other_at, other_bytes);
}

fn put(small: &Small, path: &str, at: usize, block: &[u8]) {
    let mut bytes = small.disk.read_file(path).expect("the file is there");
    bytes[at..at + block.len()].copy_from_slice(block);
    small.disk.overwrite(path, &bytes).expect("the file is there");
}

/// Every block replaced by the same one of the older checkpoint: sound by itself, but not of this file.
#[test]
fn j04_every_block_of_another_checkpoint_is_found() {
    for compression in COMPRESSIONS {
        let small = Small::new(compression);
        let mut tried = 0;
        for (path, bytes) in &small.files {
            let older_path = path.replace(&small.folder(small.newest), &small.folder(small.older));
            let older = small.disk.read_file(&older_path).expect("both have the same files");
            for size in BLOCK_SIZES {
                for (index, (block, stale)) in bytes.chunks(size).zip(older.chunks(size)).enumerate() {
                    let mut damaged = bytes.clone();
                    damaged[index * size..][..block.len().min(stale.len())]
                        .copy_from_slice(&stale[..block.len().min(stale.len())]);
                    tried += usize::from(damaged != *bytes);
                    small.with(path, &damaged, &|| {
                        format!("{path}, block {index} of {size} from the older one")
                    });
                }
            }
            small.with(path, &older, &|| format!("{path}, all of it from the older one"));
        }
        assert!(tried > 10, "only {tried} blocks differ");
    }
}

/// A file that is not there, and files that have changed places as a whole.
#[test]
fn j03_a_missing_or_exchanged_file_is_found() {
    for compression in COMPRESSIONS {
        let small = Small::new(compression);
        for (path, _) in &small.files {
            for (other_path, other) in &small.files {
                small.with(path, other, &|| format!("{other_path} in the place of {path}"));
            }
            small.with(path, &[], &|| format!("{path}, empty"));
        }
    }
}
