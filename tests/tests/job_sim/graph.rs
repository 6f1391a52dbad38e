//! Builds the job of a plan out of the real operators.

use slackwater::JobBuilder;
use slackwater::file_sink::{FileSink, FileSinkOptions};
use slackwater::graph::Stream;
use slackwater::mem::Bytes;
use slackwater::output::Output;

use slackwater_tests::rng::Rng;
use slackwater_tests::sim_job::CHECKPOINTS;

use crate::cut::{Cut, Meter};
use crate::folder::{Coordinator, Reader, Texts};
use crate::hooks::{Hooks, Place};
use crate::ledger::Ledger;
use crate::operators::{Bundle, Process};
use crate::plan::{Pipeline, Plan, SinkKind, SourceKind, Stage};
use crate::record::{forked, key_of, rekeyed};
use crate::sink::{Failing, LedgerSink};
use crate::source::Numbers;

/// What user code of a run shares.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) hooks: Hooks,
    pub(crate) ledger: Ledger,
    pub(crate) cut: Cut,
    /// Decides about the order in which sources read.
    pub(crate) seed: u64,
}

/// The folder into which a pipeline's sink of files writes.
pub(crate) fn output_folder(pipeline: u16) -> String {
    format!("out-{pipeline}")
}

/// The name of a pipeline's source.
pub(crate) fn source_name(pipeline: u16) -> String {
    format!("source-{pipeline}")
}

/// The job with these parallelisms, one for each vertex in the order of the graph.
pub(crate) fn build(plan: &Plan, parallelism: &[u16], shared: &Shared) -> JobBuilder {
    let mut job = JobBuilder::new(CHECKPOINTS, u32::from(plan.key_groups));
    for (name, number) in plan.meters().into_iter().zip(0..) {
        let rng = Rng::new(shared.seed ^ number);
        job.hook(name.clone(), Meter::new(name, shared.cut.clone(), rng));
    }
    let mut parallelism = parallelism.iter().copied();
    for (index, pipeline) in (0u16..).zip(&plan.pipelines) {
        add(&mut job, (index, pipeline), &mut parallelism, shared);
    }
    job
}

fn add(
    job: &mut JobBuilder,
    (index, pipeline): (u16, &Pipeline),
    parallelism: &mut dyn Iterator<Item = u16>,
    shared: &Shared,
) {
    let mut next = || parallelism.next().expect("each vertex has a parallelism");
    let mut stream = source(job, (index, pipeline), next(), shared);
    for (number, stage) in pipeline.stages.iter().enumerate() {
        let name = format!("stage-{index}-{number}");
        stream = match *stage {
            Stage::Fork => then(stream, name, &shared.hooks, forked),
            Stage::Rekey => {
                let keys = pipeline.keys;
                then(stream, name, &shared.hooks, move |record| vec![rekeyed(record, keys)])
            }
            Stage::Bundle(kept_max) => {
                let hooks = shared.hooks.clone();
                stream.transform(name, move |_| Bundle::new(kept_max, hooks.clone()))
            }
            Stage::Rebalance => stream.rebalance(name, next()),
            Stage::Keyed(kind) => {
                let hooks = shared.hooks.clone();
                let keyed = stream.key_by::<Bytes, _>(|record: &[u8]| key_of(record));
                keyed.process(name, next(), move |_| Process::new(kind, hooks.clone()))
            }
        };
    }
    end(stream, (index, pipeline), shared);
}

fn source<'j>(
    job: &'j mut JobBuilder,
    (index, pipeline): (u16, &Pipeline),
    parallelism: u16,
    shared: &Shared,
) -> Stream<'j, [u8]> {
    let (name, shared) = (source_name(index), shared.clone());
    match pipeline.source {
        SourceKind::Numbers => {
            let pipeline = pipeline.clone();
            job.source(name, parallelism, move |info| {
                let seed = shared.seed ^ (u64::from(index) << 32 | u64::from(info.index));
                Numbers::new(pipeline.clone(), &shared, seed, info.index, info.parallelism)
            })
        }
        SourceKind::Files { chunk_len } => {
            let (texts, padding) = (Texts::new(pipeline), pipeline.padding);
            let coordinator = Coordinator::new(texts.clone(), shared.hooks.clone());
            job.coordinated_source(name, parallelism, coordinator, move |_| {
                Reader::new(
                    texts.clone(),
                    chunk_len.max(padding / 2),
                    shared.hooks.clone(),
                    shared.cut.clone(),
                )
            })
        }
    }
}

fn then<'j>(
    stream: Stream<'j, [u8]>,
    name: String,
    hooks: &Hooks,
    function: impl Fn(&[u8]) -> Vec<Vec<u8>> + Clone + Send + 'static,
) -> Stream<'j, [u8]> {
    let hooks = hooks.clone();
    stream.flat_map(name, move |record: &[u8], out: &mut Output<'_, [u8]>| {
        if hooks.at(Place::Function).is_err() {
            // A function has no other way to give up.
            std::panic::panic_any(crate::hooks::PlannedPanic);
        }
        function(record).iter().for_each(|made| out.emit(made));
    })
}

fn end(stream: Stream<'_, [u8]>, (index, pipeline): (u16, &Pipeline), shared: &Shared) {
    let (name, hooks) = (format!("sink-{index}"), shared.hooks.clone());
    match pipeline.sink {
        SinkKind::Files { block_len, part_len_max } => stream.sink(name, move |info| {
            let options = FileSinkOptions { block_len, part_len_max };
            Failing { sink: FileSink::new(output_folder(index), info, options), hooks: hooks.clone() }
        }),
        SinkKind::Ledger { buffer } => {
            let ledger = shared.ledger.clone();
            stream.sink(name, move |info| {
                let sink = LedgerSink::new(ledger.clone(), hooks.clone(), index, buffer, info);
                Failing { sink, hooks: hooks.clone() }
            });
        }
    }
}
