//! How barriers pass records, and how the options of a job decide it (Flink: `CheckpointOptions`).

use super::SnapshotKind;
use crate::machine::Rejected;
use crate::time::{Millis, Now};

/// How a barrier passes the records that lie before it in a channel (Flink: `CheckpointOptions.AlignmentType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// It keeps its place; channels wait for each other.
    Aligned,
    /// It keeps its place at first, but may overtake once the checkpoint is older than this, by the wall clock.
    AlignedFor(Millis),
    /// It overtakes the records before it, which become part of the checkpoint.
    Unaligned,
    /// It keeps its place on an edge where nothing may overtake, and takes its old form again behind it (rule U4).
    ForcedAligned {
        /// The old form: unaligned after this span; none: at once.
        timeout: Option<Millis>,
    },
    /// It keeps its place; channels do not wait for each other.
    AtLeastOnce,
}

impl Alignment {
    /// Whether the barrier overtakes records now.
    #[must_use]
    pub const fn is_unaligned(self) -> bool {
        matches!(self, Self::Unaligned)
    }

    /// How old the checkpoint must be before the barrier may overtake; none if age does not matter (rule U2).
    #[must_use]
    pub const fn timeout(self) -> Option<Millis> {
        if let Self::AlignedFor(timeout) = self { Some(timeout) } else { None }
    }

    /// Whether records in flight may become part of the checkpoint (rule U2).
    #[must_use]
    pub const fn needs_channel_state(self) -> bool {
        matches!(self, Self::Unaligned | Self::AlignedFor(_))
    }

    /// The form that overtakes; none if this one never may (rule U3).
    #[must_use]
    pub const fn to_unaligned(self) -> Option<Self> {
        match self {
            Self::Aligned | Self::AlignedFor(_) | Self::Unaligned => Some(Self::Unaligned),
            Self::ForcedAligned { .. } | Self::AtLeastOnce => None,
        }
    }

    /// The form for an edge on which nothing may overtake (rule U4; Flink: `withUnalignedUnsupported`).
    #[must_use]
    pub const fn without_overtaking(self) -> Self {
        match self {
            Self::Unaligned => Self::ForcedAligned { timeout: None },
            Self::AlignedFor(timeout) => Self::ForcedAligned { timeout: Some(timeout) },
            Self::Aligned | Self::ForcedAligned { .. } | Self::AtLeastOnce => self,
        }
    }

    /// Takes [`without_overtaking`](Self::without_overtaking) back (rules U4 and X8; Flink: `withUnalignedSupported`).
    #[must_use]
    pub const fn with_overtaking(self) -> Self {
        match self {
            Self::ForcedAligned { timeout: None } => Self::Unaligned,
            Self::ForcedAligned { timeout: Some(timeout) } => Self::AlignedFor(timeout),
            Self::Aligned | Self::AlignedFor(_) | Self::Unaligned | Self::AtLeastOnce => self,
        }
    }
}

/// What the output promises when a job restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guarantee {
    /// Every record counts once.
    #[default]
    ExactlyOnce,
    /// Every record counts, some twice: channels never wait for each other.
    AtLeastOnce,
}

/// From which the form of each barrier follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlignmentOptions {
    /// What the output promises.
    pub guarantee: Guarantee,
    /// Whether barriers may overtake records.
    pub unaligned: bool,
    /// If so, after which span; none and zero: at once.
    pub aligned_timeout: Option<Millis>,
}

impl AlignmentOptions {
    /// Whether these go together (rule U27).
    ///
    /// # Errors
    /// [`Rejected::Unexpected`]: at-least-once with barriers that overtake.
    pub const fn validate(&self) -> Result<(), Rejected> {
        match self.guarantee {
            Guarantee::AtLeastOnce if self.unaligned => {
                Err(Rejected::Unexpected { what: "at-least-once does not go with unaligned checkpoints" })
            }
            Guarantee::AtLeastOnce | Guarantee::ExactlyOnce => Ok(()),
        }
    }

    /// The form of the barriers of a checkpoint; those of a savepoint never overtake (rules U1 and U5).
    #[must_use]
    pub const fn alignment_of(&self, kind: SnapshotKind) -> Alignment {
        match (self.guarantee, self.aligned_timeout) {
            (Guarantee::AtLeastOnce, _) => Alignment::AtLeastOnce,
            (Guarantee::ExactlyOnce, _) if kind.is_savepoint() || !self.unaligned => Alignment::Aligned,
            (Guarantee::ExactlyOnce, None | Some(Millis(0))) => Alignment::Unaligned,
            (Guarantee::ExactlyOnce, Some(timeout)) => Alignment::AlignedFor(timeout),
        }
    }
}

impl super::Barrier {
    /// Whether the barrier kept its place for longer than it has to; not yet at the very moment (rule B20).
    #[must_use]
    pub fn is_timed_out(&self, now: Now) -> bool {
        self.alignment.timeout().is_some_and(|timeout| timeout < now.wall.since(self.triggered_at))
    }

    /// The barrier in the form that overtakes; none if it never may (rule U3).
    #[must_use]
    pub fn to_unaligned(self) -> Option<Self> {
        self.alignment.to_unaligned().map(|alignment| Self { alignment, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::{Alignment, AlignmentOptions, Guarantee};
    use crate::ids::{Barrier, CheckpointId, SavepointFormat, SnapshotKind};
    use crate::machine::Rejected;
    use crate::time::{Millis, Now};

    use Alignment::{Aligned, AlignedFor, AtLeastOnce, ForcedAligned, Unaligned};
    use Guarantee::{AtLeastOnce as Least, ExactlyOnce as Once};

    const SAVEPOINTS: [SnapshotKind; 3] = [
        SnapshotKind::Savepoint(SavepointFormat::Canonical),
        SnapshotKind::Suspend(SavepointFormat::Native),
        SnapshotKind::Drain(SavepointFormat::Canonical),
    ];

    /// What the options give for a checkpoint and for a savepoint.
    const CHOICES: [(Guarantee, bool, Option<u64>, Alignment, Alignment); 8] = [
        (Once, false, None, Aligned, Aligned),
        (Once, false, Some(5), Aligned, Aligned),
        (Once, true, None, Unaligned, Aligned),
        (Once, true, Some(0), Unaligned, Aligned),
        (Once, true, Some(1), AlignedFor(Millis(1)), Aligned),
        (Once, true, Some(u64::MAX), AlignedFor(Millis::MAX), Aligned),
        (Least, false, None, AtLeastOnce, AtLeastOnce),
        (Least, false, Some(5), AtLeastOnce, AtLeastOnce),
    ];

    #[test]
    fn u1_u5_the_options_and_the_kind_of_the_checkpoint_decide_the_form() {
        for (guarantee, unaligned, timeout, checkpoint, savepoint) in CHOICES {
            let aligned_timeout = timeout.map(Millis);
            let options = AlignmentOptions { guarantee, unaligned, aligned_timeout };
            assert_eq!(options.validate(), Ok(()));
            for kind in [SnapshotKind::Checkpoint, SnapshotKind::FullCheckpoint] {
                assert_eq!(options.alignment_of(kind), checkpoint, "{options:?} {kind:?}");
            }
            for kind in SAVEPOINTS {
                assert_eq!(options.alignment_of(kind), savepoint, "{options:?} {kind:?}");
            }
        }
    }

    #[test]
    fn u27_at_least_once_does_not_go_with_unaligned() {
        let options = AlignmentOptions { guarantee: Least, unaligned: true, aligned_timeout: None };
        assert!(matches!(options.validate(), Err(Rejected::Unexpected { .. })));
    }

    #[test]
    fn u2_u3_u4_each_form_and_what_becomes_of_it() {
        let span = Millis(7);
        let (forced, forced_for) = (ForcedAligned { timeout: None }, ForcedAligned { timeout: Some(span) });
        // The form, its time-out, whether it needs channel state, overtaking, on a forced edge, behind it.
        let table = [
            (Aligned, None, false, Some(Unaligned), Aligned, Aligned),
            (AlignedFor(span), Some(span), true, Some(Unaligned), forced_for, AlignedFor(span)),
            (Unaligned, None, true, Some(Unaligned), forced, Unaligned),
            (forced, None, false, None, forced, Unaligned),
            (forced_for, None, false, None, forced_for, AlignedFor(span)),
            (AtLeastOnce, None, false, None, AtLeastOnce, AtLeastOnce),
        ];
        for (form, timeout, needs_state, unaligned, on_forced_edge, behind) in table {
            assert_eq!(form.timeout(), timeout, "{form:?}");
            assert_eq!(form.needs_channel_state(), needs_state, "{form:?}");
            assert_eq!(form.to_unaligned(), unaligned, "{form:?}");
            assert_eq!(form.without_overtaking(), on_forced_edge, "{form:?}");
            assert_eq!(form.with_overtaking(), behind, "{form:?}");
            assert_eq!(form.is_unaligned(), form == Unaligned);
            let (id, kind, triggered_at) = (CheckpointId(3), SnapshotKind::Checkpoint, Millis(100));
            let barrier = Barrier { id, triggered_at, kind, alignment: form };
            let turned = barrier.to_unaligned();
            assert_eq!(turned.map(|turned| turned.alignment), unaligned);
            assert!(turned.is_none_or(|turned| turned.id == id && turned.triggered_at == triggered_at));
        }
    }

    #[test]
    fn b20_a_barrier_is_timed_out_when_it_is_older_than_its_span_not_as_old() {
        let (id, kind) = (CheckpointId(1), SnapshotKind::Checkpoint);
        let barrier = |alignment| Barrier { id, triggered_at: Millis(100), kind, alignment };
        for (wall, is_timed_out) in [(0, false), (100, false), (107, false), (108, true), (u64::MAX, true)] {
            let now = Now { monotonic: Millis(0), wall: Millis(wall) };
            assert_eq!(barrier(AlignedFor(Millis(7))).is_timed_out(now), is_timed_out, "{wall}");
            for never in [Aligned, Unaligned, ForcedAligned { timeout: Some(Millis(7)) }, AtLeastOnce] {
                assert!(!barrier(never).is_timed_out(now), "{never:?} {wall}");
            }
        }
    }
}
