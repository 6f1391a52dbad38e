//! How fast a segment becomes a heap again, through each kind of storage; the other way is `snapshot`.

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on fails, as a test does")]

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput};
use slackwater_benches::Failed;
use slackwater_benches::scale::sized;
use slackwater_benches::segments::Segments;
use slackwater_benches::storage::{OnDisk, Storage};
use slackwater_benches::subject::{Shape, Subject};
use slackwater_core::durable::Disk;
use slackwater_mem::segment::Compression;
use slackwater_mem::{FrozenRun, Plain};

/// Files go to the build folder: the one for temporary files may lie in memory.
fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("segment");
    group.sample_size(10);
    for storage in [Storage::Mem, Storage::Mmap, Storage::Uring] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        storage.with_disk_if_any(folder.path(), Restore { group: &mut group, storage }).unwrap();
    }
    group.finish();
    criterion.final_summary();
}

struct Restore<'a, 'c> {
    group: &'a mut BenchmarkGroup<'c, WallTime>,
    storage: Storage,
}

/// The bytes of all are those of the segment that is not compressed.
impl OnDisk for Restore<'_, '_> {
    type Output = ();

    fn run<D: Disk<Frozen = FrozenRun> + Send + 'static>(self, disk: D) -> Result<(), Failed> {
        let Self { group, storage } = self;
        let shape = Shape { keys: sized(1_000_000, 2_000), value_len: 8 };
        let mut segments = Segments::new(disk);
        let mut counts = Subject::<Plain<u64>>::filled(shape)?;
        for compression in Compression::ALL {
            let segment = segments.write_with(counts.heap.freeze()?, compression)?;
            let name = match compression {
                Compression::None => {
                    group.throughput(Throughput::Bytes(segment.len));
                    storage.to_string()
                }
                Compression::Lz4 | Compression::Zstd => format!("{storage}_{compression}"),
            };
            group.bench_function(format!("restore_{name}"), |bencher| {
                bencher.iter_batched(
                    || (),
                    |()| segments.restore::<Plain<u64>>(&segment, shape).unwrap(),
                    BatchSize::PerIteration,
                );
            });
        }
        Ok(())
    }
}
