//! What a seed stands for: a job, how it takes checkpoints, and what goes wrong.

use std::collections::BTreeMap;

use slackwater_core::coordinator::{CoordinatorOptions, RequestKind};
use slackwater_core::ids::{AlignmentOptions, Guarantee, SavepointFormat};
use slackwater_core::time::Millis;
use slackwater_tests::rng::Rng;

use crate::job::{Job, narrow};

/// A bug in the program around the machines that can be switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    ReleaseBeforeSnapshot,
    AcknowledgeBeforeSync,
    CommitBeforeComplete,
    CaptureOneShort,
    NewBeforeReplay,
    NoCancelMarker,
    BarrierBeforePrepared,
    RecoveredIgnored,
    PositionAfterBarrier,
    KeyGroupsTwice,
    OlderRestored,
    InFlightForgotten,
    RestoredUnsynced,
}

impl Mutant {
    pub(crate) const ALL: [Self; 13] = [
        Self::ReleaseBeforeSnapshot,
        Self::AcknowledgeBeforeSync,
        Self::CommitBeforeComplete,
        Self::CaptureOneShort,
        Self::NewBeforeReplay,
        Self::NoCancelMarker,
        Self::BarrierBeforePrepared,
        Self::RecoveredIgnored,
        Self::PositionAfterBarrier,
        Self::KeyGroupsTwice,
        Self::OlderRestored,
        Self::InFlightForgotten,
        Self::RestoredUnsynced,
    ];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Aligned,
    Unaligned,
    /// Aligned, turning unaligned after so many milliseconds.
    Alternating(u64),
    AtLeastOnce,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A task dies; the job goes on from the newest checkpoint with the same coordinator.
    KillTask,
    /// Everything dies, perhaps in the middle of a manifest; without power, what is not durable may be lost.
    KillProcess { with_power: bool, at_manifest: bool },
    /// The job is stopped and started again with another parallelism.
    Rescale,
}

/// Nothing goes wrong any more, and no task is slow, after so many milliseconds, so that the job comes to its end.
pub(crate) const CALM_MS: u64 = 400;

/// Chances in percent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chances {
    pub(crate) lost_notification: u64,
    pub(crate) lost_trigger: u64,
    pub(crate) lost_report: u64,
    pub(crate) slow_message: u64,
    pub(crate) slow_flush: u64,
    pub(crate) failed_folder: u64,
    pub(crate) failed_part: u64,
    pub(crate) failed_manifest: u64,
    pub(crate) damage: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) mutant: Option<Mutant>,
    /// Whether what happens is printed.
    pub(crate) is_traced: bool,
    pub(crate) mode: Mode,
    pub(crate) job: Job,
    pub(crate) interval_ms: Option<u64>,
    pub(crate) timeout_ms: u64,
    pub(crate) min_pause_ms: u64,
    pub(crate) max_concurrent_checkpoints: u16,
    pub(crate) tolerable_failed_checkpoints: u32,
    pub(crate) participants: (u16, u16),
    pub(crate) num_retained: usize,
    /// Items in a channel from which on no record may start, and records in an item.
    pub(crate) bound: usize,
    pub(crate) batch: usize,
    /// A barrier waits until the channel is below its bound.
    pub(crate) is_patient: bool,
    /// A subtask that replays listens to the control lanes.
    pub(crate) hears_while_replaying: bool,
    /// How often a task of each vertex does nothing when it is its turn.
    pub(crate) idle_percent: Vec<u64>,
    pub(crate) chances: Chances,
    /// Faults and requests with the time of each, in milliseconds.
    pub(crate) faults: Vec<(u64, Fault)>,
    pub(crate) requests: Vec<(u64, RequestKind)>,
}

impl Plan {
    pub(crate) fn of(seed: u64, mutant: Option<Mutant>) -> Self {
        let rng = &mut Rng::new(seed);
        let job = Job::random(rng);
        let mode = match seed % 4 {
            0 => Mode::Aligned,
            1 => Mode::Unaligned,
            2 => Mode::Alternating(1 + rng.below(8)),
            _ => Mode::AtLeastOnce,
        };
        let is_manual = rng.chance(20);
        let can_overlap = matches!(mode, Mode::Aligned | Mode::AtLeastOnce);
        let tolerable_failed_checkpoints = if rng.chance(25) { 2 } else { u32::MAX };
        let timeout_ms =
            if tolerable_failed_checkpoints == 2 { 100 + rng.below(60) } else { 15 + rng.below(120) };
        let idle_percent = job.kinds.iter().map(|_| [0, 0, 30, 80][rng.index(4)]).collect();
        Self {
            seed,
            mutant,
            is_traced: false,
            mode,
            interval_ms: (!is_manual).then(|| 10 + rng.below(15)),
            timeout_ms,
            min_pause_ms: rng.below(2) * rng.below(20),
            max_concurrent_checkpoints: if can_overlap { 1 + narrow(rng.index(3)) } else { 1 },
            tolerable_failed_checkpoints,
            participants: (u16::from(rng.chance(30)), u16::from(rng.chance(30))),
            num_retained: 1 + rng.index(3),
            bound: 1 + rng.index(5),
            batch: 1 + rng.index(4),
            is_patient: rng.chance(50),
            hears_while_replaying: rng.chance(50),
            idle_percent,
            chances: chances(is_manual, rng),
            faults: faults(rng),
            requests: requests(is_manual, rng),
            job,
        }
    }

    pub(crate) fn alignment(&self) -> AlignmentOptions {
        let (guarantee, unaligned, aligned_timeout) = match self.mode {
            Mode::Aligned => (Guarantee::ExactlyOnce, false, None),
            Mode::Unaligned => (Guarantee::ExactlyOnce, true, None),
            Mode::Alternating(timeout) => (Guarantee::ExactlyOnce, true, Some(Millis(timeout))),
            Mode::AtLeastOnce => (Guarantee::AtLeastOnce, false, None),
        };
        AlignmentOptions { guarantee, unaligned, aligned_timeout }
    }

    pub(crate) fn coordinator_options(&self) -> CoordinatorOptions {
        CoordinatorOptions {
            interval: self.interval_ms.map(Millis),
            timeout: Millis(self.timeout_ms),
            min_pause: Millis(self.min_pause_ms),
            max_concurrent_checkpoints: self.max_concurrent_checkpoints,
            tolerable_failed_checkpoints: self.tolerable_failed_checkpoints,
            alignment: self.alignment(),
            operator_coordinators: self.participants.0,
            hooks: self.participants.1,
            seed: self.seed,
            ..CoordinatorOptions::default()
        }
    }

    pub(crate) fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}

fn chances(is_manual: bool, rng: &mut Rng) -> Chances {
    let mut sometimes = |percent: u64| if rng.chance(50) { percent } else { 0 };
    Chances {
        lost_notification: sometimes(25),
        // Without periodic checkpoints nothing but a cancel marker frees who waits for a barrier.
        lost_trigger: if is_manual { 0 } else { sometimes(4) },
        lost_report: sometimes(3),
        slow_message: sometimes(15),
        slow_flush: sometimes(40),
        failed_folder: sometimes(5),
        failed_part: sometimes(4),
        failed_manifest: sometimes(8),
        damage: sometimes(40),
    }
}

fn faults(rng: &mut Rng) -> Vec<(u64, Fault)> {
    let mut faults: Vec<_> = (0..rng.below(5))
        .map(|_| {
            let fault = match rng.below(10) {
                0..4 => Fault::KillTask,
                4..6 => Fault::Rescale,
                _ => Fault::KillProcess { with_power: rng.chance(60), at_manifest: rng.chance(40) },
            };
            (15 + rng.below(300), fault)
        })
        .collect();
    if rng.chance(30) {
        // What a start has found after a kill has to survive the power cut that follows.
        let at = 15 + rng.below(300);
        faults.push((at, Fault::KillProcess { with_power: false, at_manifest: true }));
        faults.push((at + 1 + rng.below(25), Fault::KillProcess { with_power: true, at_manifest: false }));
    }
    faults.sort_by_key(|(at, _)| *at);
    faults
}

fn requests(is_manual: bool, rng: &mut Rng) -> Vec<(u64, RequestKind)> {
    let count = if is_manual { 2 + rng.below(8) } else { rng.below(3) };
    let mut requests: Vec<_> = (0..count)
        .map(|_| {
            let kind = match rng.below(if is_manual { 8 } else { 3 }) {
                0 => RequestKind::Savepoint(SavepointFormat::Canonical),
                1 => RequestKind::Full,
                _ => RequestKind::Configured,
            };
            (rng.below(250), kind)
        })
        .collect();
    requests.sort_by_key(|(at, _)| *at);
    requests
}

/// How often what happened, over all seeds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coverage(BTreeMap<&'static str, u64>);

impl Coverage {
    pub(crate) fn note(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    pub(crate) fn add(&mut self, what: &'static str, times: u64) {
        *self.0.entry(what).or_default() += times;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(what, times)| self.add(what, *times));
    }

    pub(crate) fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.0.iter().map(|(what, times)| (*what, *times))
    }
}
