//! How long everything stands still for a snapshot.

use criterion::Criterion;
use slackwater_benches::freezing::{Freezing, Layout};
use slackwater_benches::scale::sized;
use slackwater_core::key_group::MaxParallelism;

use crate::sizes;

/// One iteration is one freeze; updates before it and the snapshot's release after it are not measured.
pub(crate) fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("freeze");
    let shapes = [("", 1, 128), ("_16_states", 16, 128), ("_32768_groups", 1, sized(32_768, 1_000))];
    for (suffix, states, max_parallelism) in shapes {
        for (name, keys) in sizes() {
            let max_parallelism = MaxParallelism::new(max_parallelism).unwrap();
            group.bench_function(format!("{name}{suffix}"), |bencher| {
                let mut freezing = Freezing::filled(Layout { keys, states, max_parallelism }).unwrap();
                bencher
                    .iter_custom(|times| (0..times).map(|_| freezing.freeze_after_updates().unwrap()).sum());
            });
        }
    }
    group.finish();
}
