//! How fast a frozen heap becomes a durable segment, through each kind of storage, by each compression.

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on fails, as a test does")]

use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};
use slackwater_benches::scale::sized;
use slackwater_benches::segments::Segments;
use slackwater_benches::stopwatch::Stopwatch;
use slackwater_benches::storage::{OnDisk, Storage};
use slackwater_benches::subject::{Shape, Subject};
use slackwater_benches::{Failed, lz4};
use slackwater_core::durable::Disk;
use slackwater_mem::segment::{Compression, SegmentRef, read_file};
use slackwater_mem::{FrozenRun, Plain};

/// Files go to the build folder: the one for temporary files may lie in memory.
fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("snapshot");
    group.sample_size(10);
    for storage in [Storage::Uring, Storage::Mmap, Storage::Mem] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        storage.with_disk_if_any(folder.path(), Write { group: &mut group, storage }).unwrap();
    }
    group.finish();
    criterion.final_summary();
}

type Counts = Subject<Plain<u64>>;

struct Write<'a, 'c> {
    group: &'a mut BenchmarkGroup<'c, WallTime>,
    storage: Storage,
}

/// The bytes of all are those of the segment that is not compressed.
impl OnDisk for Write<'_, '_> {
    type Output = ();

    fn run<D: Disk<Frozen = FrozenRun> + Send + 'static>(self, disk: D) -> Result<(), Failed> {
        let Self { group, storage } = self;
        let shape = Shape { keys: sized(1_000_000, 2_000), value_len: 8 };
        let (mut segments, mut counts) = (Segments::new(disk), Counts::filled(shape)?);
        let (plain, _) = write(&mut segments, &mut counts, Compression::None);
        group.throughput(Throughput::Bytes(plain.len));
        for compression in Compression::ALL {
            group.bench_function(format!("{storage}/{compression}"), |bencher| {
                let mut once = || {
                    let (segment, elapsed) = write(&mut segments, &mut counts, compression);
                    segments.remove(&segment).unwrap();
                    elapsed
                };
                bencher.iter_custom(|times| (0..times).map(|_| once()).sum());
            });
        }
        if storage == Storage::Mem {
            let bytes = read_file(&mut segments.into_disk(), &plain.file_name, plain.len)?;
            group.bench_function("lz4_alone", |bencher| bencher.iter(|| lz4::compress(&bytes).unwrap()));
        }
        Ok(())
    }
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
