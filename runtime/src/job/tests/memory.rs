//! Jobs whose state nearly fills its memory: they wait for what snapshots hold, and lose nothing.

use slackwater_core::key_group::MaxParallelism;
use slackwater_mem::{Bytes, Plain, ValueState};

use super::*;
use crate::keyed::{Context, KeyedProcess, Setup};

const KEYS: u64 = 300;
/// So long that each key has a page of its own, nearly.
const VALUE_LEN: usize = 900;

/// Keeps a long value for each key, whose first bytes count its records; emits each record.
struct Wide {
    counts: Option<ValueState<Plain<u64>, Bytes>>,
}

impl KeyedProcess for Wide {
    type Key = Plain<u64>;
    type In = (u64, u64);
    type Out = u64;

    fn open(&mut self, setup: &mut Setup<'_>) -> Result<(), OperatorError> {
        let max = MaxParallelism::new(setup.info.max_parallelism.into()).unwrap();
        let counts = ValueState::register(setup.heap, &setup.info.operator, "counts", max);
        self.counts = Some(counts.map_err(|error| OperatorError::new(error.to_string()))?);
        Ok(())
    }

    fn process(
        &mut self,
        key: &u64,
        record: &(u64, u64),
        context: &mut Context<'_, u64>,
    ) -> Result<(), OperatorError> {
        let counts = self.counts.unwrap();
        let refused = |error: slackwater_mem::StateError| OperatorError::new(error.to_string());
        let mut value = vec![0; VALUE_LEN];
        if let Some(before) = counts.get(context.heap(), key).map_err(refused)? {
            value = before;
        }
        let count = u64::from_le_bytes(value[..8].try_into().unwrap()) + 1;
        value[..8].copy_from_slice(&count.to_le_bytes());
        counts.put(context.heap_mut(), key, &value).map_err(refused)?;
        context.emit(&record.1);
        Ok(())
    }
}

fn wide_job(committed: &Committed) -> JobBuilder {
    let committed = Arc::clone(committed);
    let mut job = JobBuilder::new("wide", 16);
    job.source("source", 1, |_| Numbers { next: 0, end: END, step: 1 })
        .flat_map("pair", |number: &u64, out: &mut Output<'_, (u64, u64)>| {
            out.emit(&(number % KEYS, *number * 2));
        })
        .key_by::<Plain<u64>, _>(|pair: &(u64, u64)| &pair.0)
        .process("wide", 1, |_| Wide { counts: None })
        .sink("collect", move |_| Collect {
            committed: Arc::clone(&committed),
            current: Vec::new(),
            pending: Vec::new(),
        });
    job
}

#[test]
fn a_task_waits_for_memory_that_a_snapshot_holds() {
    let (disk, committed) = (Disk::new(), Committed::default());
    // The values alone take 270 kB, with pages half empty about twice that.
    let options = JobOptions { memory_limit_bytes: 768 << 10, ..options(1) };
    let mut job = Job::assemble(wide_job(&committed), disk, Now::default(), &options).unwrap();
    let mut actors = job.take_actors();
    let mut finished = 0;
    for round in (0..1_000_000).map(Millis) {
        finished = 0;
        let now = Now { monotonic: round, wall: round };
        for actor in &mut actors {
            // The writer is slow: every entry would be changed while a snapshot waits for it.
            if actor.name() != "writer" || round.0.is_multiple_of(20) {
                finished += usize::from(actor.step(now) == Step::Finished);
            }
        }
        if job.observer().is_over() && round.0.is_multiple_of(20) {
            break;
        }
    }
    assert!(finished > 0);
    let report = job.report().unwrap();
    assert!(report.checkpoints_completed > 1, "{report:?}");
    assert_exact(&committed);
}
