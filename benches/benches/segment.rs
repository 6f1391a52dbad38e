//! How fast a snapshot becomes a durable segment, and a segment a heap again, through each kind of storage.

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on fails, as a test does")]

use std::io::{self, Write};
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput};
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use slackwater_benches::Failed;
use slackwater_benches::scale::sized;
use slackwater_benches::segments::Segments;
use slackwater_benches::stopwatch::Stopwatch;
use slackwater_benches::storage::{OnDisk, Storage};
use slackwater_benches::subject::{Shape, Subject};
use slackwater_core::durable::Disk;
use slackwater_core::format::segment::CHUNK_LEN_MAX;
use slackwater_mem::segment::{Compression, SegmentRef, read_file};
use slackwater_mem::{FrozenRun, Plain};

/// Files go to the build folder: the one for temporary files may lie in memory.
fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("segment");
    group.sample_size(10);
    for storage in [Storage::Mem, Storage::Mmap, Storage::Uring] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let bench = WriteAndRestore { group: &mut group, storage };
        if let Err(reason) = storage.with_disk(folder.path(), bench) {
            skip(storage, &reason);
        }
    }
    group.finish();
    criterion.final_summary();
}

/// A machine without io_uring measures the rest; `REQUIRE_URING` makes its lack an error.
fn skip(storage: Storage, reason: &Failed) {
    assert_eq!(storage, Storage::Uring, "{reason}");
    assert!(std::env::var_os("REQUIRE_URING").is_none(), "{reason}");
    let mut out = io::stderr().lock();
    writeln!(out, "{storage} is left out: {reason}").unwrap();
}

type Counts = Subject<Plain<u64>>;

fn shape() -> Shape {
    Shape { keys: sized(1_000_000, 2_000), value_len: 8 }
}

struct WriteAndRestore<'a, 'c> {
    group: &'a mut BenchmarkGroup<'c, WallTime>,
    storage: Storage,
}

/// The bytes of all are those of the segment that is not compressed.
impl OnDisk for WriteAndRestore<'_, '_> {
    type Output = ();

    fn run<D: Disk<Frozen = FrozenRun> + Send + 'static>(self, disk: D) -> Result<(), Failed> {
        let Self { group, storage } = self;
        let (mut segments, mut counts) = (Segments::new(disk), Counts::filled(shape())?);
        let (plain, _) = write(&mut segments, &mut counts, Compression::None);
        group.throughput(Throughput::Bytes(plain.len));
        for compression in Compression::ALL {
            let name = match compression {
                Compression::None => storage.to_string(),
                Compression::Lz4 | Compression::Zstd => format!("{storage}_{compression}"),
            };
            let (segment, _) = write(&mut segments, &mut counts, compression);
            group.bench_function(format!("write_{name}"), |bencher| {
                bencher.iter_custom(|times| {
                    (0..times).map(|_| write_and_remove(&mut segments, &mut counts, compression)).sum()
                });
            });
            group.bench_function(format!("restore_{name}"), |bencher| {
                bencher.iter_batched(
                    || (),
                    |()| segments.restore::<Plain<u64>>(&segment, shape()).unwrap(),
                    BatchSize::PerIteration,
                );
            });
        }
        if matches!(storage, Storage::Mem) {
            let bytes = read_file(&mut segments.into_disk(), &plain.file_name, plain.len)?;
            group.bench_function("lz4_alone", |bencher| bencher.iter(|| lz4_alone(&bytes)));
        }
        Ok(())
    }
}

/// What the compressor of the segments takes by itself for the same bytes.
fn lz4_alone(bytes: &[u8]) -> usize {
    let mut out = vec![0; get_maximum_output_size(CHUNK_LEN_MAX)];
    let mut table = CompressTable::large();
    bytes
        .chunks(CHUNK_LEN_MAX)
        .map(|chunk| compress_into_with_table(chunk, &mut out, &mut table).unwrap())
        .sum()
}

/// Writes all of the state to a new segment; the time is that from the frozen heap to the durable file.
fn write<D: Disk<Frozen = FrozenRun>>(
    segments: &mut Segments<D>,
    counts: &mut Counts,
    compression: Compression,
) -> (SegmentRef, Duration) {
    let snapshot = counts.heap.freeze().unwrap();
    let stopwatch = Stopwatch::start();
    let segment = segments.write_with(snapshot, compression).unwrap();
    (segment, stopwatch.elapsed())
}

fn write_and_remove<D: Disk<Frozen = FrozenRun>>(
    segments: &mut Segments<D>,
    counts: &mut Counts,
    compression: Compression,
) -> Duration {
    let (segment, elapsed) = write(segments, counts, compression);
    segments.remove(&segment).unwrap();
    elapsed
}
