//! What a seed stands for: a job, how it runs, and what goes wrong.

use slackwater::mutants::Bug;
use slackwater::restart::RestartStrategy;
use slackwater_tests::rng::Rng;

use crate::hooks::{Failure, Place};
use crate::process::strategy;
use crate::record;

/// How barriers pass records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Aligned,
    /// At each start anew: aligned, unaligned, or aligned with a time-out.
    Mixed,
    AtLeastOnce,
}

/// A bug that can be switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// An operator keeps its bundle when a barrier passes.
    NoFlushBeforeBarrier,
    /// A sink keeps what it has buffered when it closes its transaction.
    NoFlushBeforePreCommit,
    /// The sync of a segment is said to be done before it is.
    AcknowledgeBeforeSync,
    /// A checkpoint is said to be complete before its manifest has its name.
    CompleteBeforeRename,
    /// A sink commits what it closes at once.
    CommitBeforeComplete,
    /// The last record of a batch is not captured.
    CaptureOneShort,
    /// What was in flight at the restored checkpoint is sent behind the first new records.
    ReplayLate,
    /// A source's position is that behind the next record.
    PositionAhead,
    /// A sink does not commit again what the restored checkpoint lists.
    RecoveredIgnored,
    /// The coordinator of a source gives what it should have given for the checkpoint before.
    CoordinatorBehind,
    /// What the coordinator of a source sends behind its snapshot does not wait for that of the subtask.
    EventsNotHeld,
}

impl Mutant {
    pub(crate) const ALL: [Self; 11] = [
        Self::NoFlushBeforeBarrier,
        Self::NoFlushBeforePreCommit,
        Self::AcknowledgeBeforeSync,
        Self::CompleteBeforeRename,
        Self::CommitBeforeComplete,
        Self::CaptureOneShort,
        Self::ReplayLate,
        Self::PositionAhead,
        Self::RecoveredIgnored,
        Self::CoordinatorBehind,
        Self::EventsNotHeld,
    ];

    /// The bug in the runtime, for those that cannot be had elsewhere.
    pub(crate) const fn of_runtime(self) -> Option<Bug> {
        match self {
            Self::ReplayLate => Some(Bug::ReplayLate),
            Self::EventsNotHeld => Some(Bug::EventsNotHeld),
            Self::NoFlushBeforeBarrier
            | Self::NoFlushBeforePreCommit
            | Self::AcknowledgeBeforeSync
            | Self::CompleteBeforeRename
            | Self::CommitBeforeComplete
            | Self::CaptureOneShort
            | Self::PositionAhead
            | Self::RecoveredIgnored
            | Self::CoordinatorBehind => None,
        }
    }
}

/// A source, what is made of its records, and a sink.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    pub(crate) source: SourceKind,
    /// Records in each of the source's splits, or files.
    pub(crate) splits: Vec<u64>,
    /// Records in each file, whatever of them a drained job has left.
    pub(crate) lens: Vec<u64>,
    pub(crate) keys: u64,
    /// Bytes appended to each record of the source.
    pub(crate) padding: usize,
    pub(crate) stages: Vec<Stage>,
    pub(crate) sink: SinkKind,
    /// The most records that one read emits.
    pub(crate) burst: u64,
    /// How often, of a hundred, a read emits nothing.
    pub(crate) pauses: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceKind {
    /// Subtasks have their splits from the start.
    Numbers,
    /// Splits are files, which a coordinator hands out.
    Files { chunk_len: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Makes none, one or two records of each; chained.
    Fork,
    /// Gives each record another key; chained.
    Rekey,
    /// Keeps up to so many records back, until a barrier at most; chained.
    Bundle(usize),
    Rebalance,
    Keyed(Keyed),
}

/// What a keyed process does with its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keyed {
    /// A value: counts, emits each count.
    Count,
    /// A map: how often it has seen each record.
    Tally,
    /// Timers: keeps records back for a while.
    Hold,
    /// A list: keeps all records until the end.
    Gather,
    /// Checks that the records of a key and a split come in their order.
    Ordered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SinkKind {
    Files { block_len: usize, part_len_max: usize },
    Ledger { buffer: usize },
}

/// Something that happens to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    Kill {
        rescales: bool,
    },
    PowerCut {
        rescales: bool,
    },
    /// A kill, after which one bit of the newest checkpoint is the other one.
    Damage,
    /// User code panics or gives up.
    UserCode(Place, Failure),
    DiskFull {
        steps: u64,
    },
    DiskSlow {
        steps: u64,
    },
    /// One of the next operations of the disk fails.
    DiskError {
        within: u64,
    },
    Savepoint,
    /// The next start is from the newest savepoint.
    StartFromSavepoint {
        claims: bool,
    },
    /// The job is stopped with a savepoint, from which it starts again.
    Stop {
        drains: bool,
        claims: bool,
    },
}

/// When it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// After so many steps of the run, or of what came before.
    Steps(u64),
    /// When the next manifest has been submitted, or given its name.
    Manifest,
    /// When a sink has been told to commit, before or after it has.
    Commit,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) mutant: Option<Mutant>,
    /// Whether what happens is printed.
    pub(crate) is_traced: bool,
    pub(crate) mode: Mode,
    pub(crate) pipelines: Vec<Pipeline>,
    pub(crate) key_groups: u16,
    pub(crate) frame_size: u32,
    /// Of each subtask's keyed state.
    pub(crate) memory_limit_bytes: u64,
    pub(crate) num_retained: usize,
    pub(crate) tolerable_failed_checkpoints: u32,
    pub(crate) restart: Option<RestartStrategy>,
    /// How many hooks it has.
    pub(crate) hooks: u64,
    /// How often, of a hundred, an actor does nothing when it is its turn.
    pub(crate) dallies: Vec<u64>,
    pub(crate) troubles: Vec<(Moment, Trouble)>,
}

impl Pipeline {
    fn random(rng: &mut Rng) -> Self {
        let scale = [10, 40, 100][rng.index(3)];
        let source = if rng.chance(35) {
            SourceKind::Files { chunk_len: [20, 100, 1000][rng.index(3)] }
        } else {
            SourceKind::Numbers
        };
        let splits: Vec<u64> = match source {
            SourceKind::Numbers => (0..=rng.below(3)).map(|_| rng.below(scale) * rng.below(5) / 2).collect(),
            SourceKind::Files { .. } => {
                (0..=rng.below(12)).map(|_| rng.below(scale) * rng.below(3) / 4).collect()
            }
        };
        let mut pipeline = Self {
            source,
            lens: Vec::new(),
            splits,
            keys: 1 + rng.below(12),
            padding: [0, 0, 0, 200, 3000][rng.index(5)],
            stages: stages(rng),
            sink: if rng.chance(50) {
                let block_len = [64, 1000, 5000][rng.index(3)];
                SinkKind::Files { block_len, part_len_max: block_len * (1 + rng.index(4)) }
            } else {
                SinkKind::Ledger { buffer: [1, 4, 30][rng.index(3)] }
            },
            burst: 1 + rng.below(6),
            pauses: [0, 30, 70][rng.index(3)],
        };
        if pipeline.padding == 3000 {
            pipeline.splits.iter_mut().for_each(|len| *len = (*len).min(40));
        }
        pipeline.lens.clone_from(&pipeline.splits);
        pipeline
    }

    /// A record of the source.
    pub(crate) fn record(&self, split: u16, number: u64) -> Vec<u8> {
        let key = (number * 7 + u64::from(split) * 3 + number / 5) % self.keys;
        let mut record = record::record(key, split, number);
        record.resize(record.len() + self.padding, b'.');
        record
    }

    /// Bytes of all its records.
    fn size(&self) -> u64 {
        self.splits.iter().sum::<u64>() * (self.padding as u64 + 100)
    }

    /// How many vertices it has.
    pub(crate) fn vertices(&self) -> usize {
        let starts = |stage: &&Stage| matches!(stage, Stage::Rebalance | Stage::Keyed(_));
        1 + self.stages.iter().filter(starts).count()
    }
}

fn stages(rng: &mut Rng) -> Vec<Stage> {
    let mut stages = Vec::new();
    if rng.chance(40) {
        stages.push(Stage::Fork);
    }
    if rng.chance(25) {
        stages.push(Stage::Bundle(1 + rng.index(20)));
    }
    if rng.chance(30) {
        // Before anything changes their order.
        stages.push(Stage::Keyed(Keyed::Ordered));
    }
    let mut exchanges = rng.index(3);
    while exchanges > 0 {
        let keyed = [Keyed::Count, Keyed::Tally, Keyed::Hold, Keyed::Gather];
        stages.push(match rng.below(10) {
            0..6 => Stage::Keyed(keyed[rng.index(keyed.len())]),
            6..8 => Stage::Rebalance,
            8 => Stage::Rekey,
            _ if rng.chance(60) => Stage::Bundle(1 + rng.index(20)),
            _ => Stage::Fork,
        });
        exchanges -= usize::from(matches!(stages.last(), Some(Stage::Rebalance | Stage::Keyed(_))));
    }
    if !stages.iter().any(|stage| matches!(stage, Stage::Keyed(_))) && rng.chance(80) {
        stages.push(Stage::Keyed(Keyed::Count));
    }
    stages
}

impl Plan {
    pub(crate) fn of(seed: u64, mutant: Option<Mutant>) -> Self {
        let rng = &mut Rng::new(seed);
        let pipelines: Vec<_> = (0..[1, 1, 2, 3][rng.index(4)]).map(|_| Pipeline::random(rng)).collect();
        let vertices: usize = pipelines.iter().map(Pipeline::vertices).sum();
        let largest = pipelines.iter().map(Pipeline::size).max().unwrap_or(0);
        Self {
            seed,
            mutant,
            is_traced: false,
            mode: [Mode::Aligned, Mode::Mixed, Mode::Mixed, Mode::AtLeastOnce][rng.index(4)],
            key_groups: [3, 4, 7, 16, 40][rng.index(5)],
            frame_size: [256, 512, 1024, 4096][rng.index(4)],
            memory_limit_bytes: (300 << 10) + largest * [3, 20][rng.index(2)],
            num_retained: 2 + rng.index(2),
            tolerable_failed_checkpoints: if rng.chance(20) { 2 } else { 1000 },
            restart: strategy(rng),
            hooks: [0, 0, 1, 2][rng.index(4)],
            // Subtasks first, whatever their number; see `World::start`.
            dallies: (0..vertices + 2).map(|_| [0, 0, 0, 30, 60][rng.index(5)]).collect(),
            troubles: troubles(rng),
            pipelines,
        }
    }
}

impl Plan {
    /// The names of its hooks.
    pub(crate) fn meters(&self) -> Vec<String> {
        (0..self.hooks).map(|number| format!("meter-{number}")).collect()
    }

    pub(crate) fn has_coordinators(&self) -> bool {
        self.pipelines.iter().any(|pipeline| matches!(pipeline.source, SourceKind::Files { .. }))
    }

    /// Whether jobs are stopped with savepoints.
    pub(crate) fn stops(&self) -> bool {
        self.troubles.iter().any(|(_, trouble)| matches!(trouble, Trouble::Stop { .. }))
    }
}

fn troubles(rng: &mut Rng) -> Vec<(Moment, Trouble)> {
    let count = rng.below(7);
    let mut troubles = Vec::new();
    for _ in 0..count {
        let moment = match rng.below(10) {
            0..6 => Moment::Steps(30 + rng.below(80) * rng.below(14)),
            6..8 => Moment::Manifest,
            _ => Moment::Commit,
        };
        let rescales = rng.chance(50);
        let trouble = match rng.below(22) {
            0..3 => Trouble::Kill { rescales },
            3..8 => Trouble::PowerCut { rescales },
            8 => Trouble::Damage,
            9..13 => Trouble::UserCode(Place::random(rng), Failure::random(rng)),
            13 => Trouble::DiskFull { steps: rng.below(150) },
            14 => Trouble::DiskSlow { steps: rng.below(400) },
            15 => Trouble::DiskError { within: 1 + rng.below(20) },
            16 => Trouble::Savepoint,
            17 | 18 => Trouble::Stop { drains: rng.chance(40), claims: rng.chance(50) },
            _ => Trouble::StartFromSavepoint { claims: rng.chance(50) },
        };
        if matches!(trouble, Trouble::StartFromSavepoint { .. }) {
            troubles.push((Moment::Steps(rng.below(200)), Trouble::Savepoint));
        }
        troubles.push((moment, trouble));
    }
    troubles
}
