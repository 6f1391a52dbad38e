//! Each invariant, broken by hand, is reported under its id.

use super::{Aligner, Phase};
use crate::gate::{ChannelSet, GateOptions};
use crate::ids::{Alignment, Barrier, CheckpointId, SnapshotKind};
use crate::time::Millis;

type Machine = Aligner<1>;

fn set(channels: &[u16]) -> ChannelSet<1> {
    channels.iter().copied().collect()
}

/// An aligner over channels 0 to 2 that waits for 1 and 2, with something set wrong.
fn spoilt(options: GateOptions, spoil: impl FnOnce(&mut Machine)) -> Option<&'static str> {
    let barrier = Barrier {
        id: CheckpointId(5),
        triggered_at: Millis(0),
        kind: SnapshotKind::Checkpoint,
        alignment: Alignment::AlignedFor(Millis(9)),
    };
    let mut aligner = Machine {
        phase: Phase::Aligning,
        current: Some(barrier.id),
        is_given_up: false,
        pending: Some(barrier),
        awaited: set(&[1, 2]),
        blocked: set(&[0]),
        announced: set(&[2]),
        deadline: None,
    };
    let open = set(&[0, 1, 2]);
    assert_eq!(aligner.broken_invariant(&open, options), None);
    spoil(&mut aligner);
    aligner.broken_invariant(&open, options)
}

#[test]
fn each_broken_invariant_of_a_pending_checkpoint_is_named() {
    let spoilt = |spoil: fn(&mut Machine)| spoilt(GateOptions::UNALIGNED, spoil);
    assert_eq!(spoilt(|aligner| aligner.awaited = set(&[1, 2, 3])), Some("GI2"));
    assert_eq!(spoilt(|aligner| aligner.blocked = set(&[0, 3])), Some("GI2"));
    assert_eq!(spoilt(|aligner| aligner.blocked = set(&[0, 1])), Some("GI3"));
    let awaits_none =
        |aligner: &mut Machine| (aligner.awaited, aligner.blocked) = (set(&[]), set(&[0, 1, 2]));
    assert_eq!(spoilt(awaits_none), Some("GI4"));
    assert_eq!(spoilt(|aligner| aligner.current = None), Some("GI5"));
    assert_eq!(spoilt(|aligner| aligner.current = Some(CheckpointId(6))), Some("GI5"));
    assert_eq!(spoilt(|aligner| aligner.phase = Phase::Idle), Some("GI5"));
    for phase in [Phase::Announced, Phase::Aligning] {
        let misses_one = move |aligner: &mut Machine| (aligner.phase, aligner.blocked) = (phase, set(&[]));
        assert_eq!(self::spoilt(GateOptions::UNALIGNED, misses_one), Some("GI7"));
    }
    for phase in [Phase::AwaitingOvertaker, Phase::Overtaking] {
        let overtakes = move |aligner: &mut Machine| (aligner.phase, aligner.blocked) = (phase, set(&[]));
        assert_eq!(self::spoilt(GateOptions::UNALIGNED, overtakes), None);
    }
    assert_eq!(spoilt(|aligner| aligner.announced = set(&[0])), Some("GI8"));
    let late =
        |aligner: &mut Machine| (aligner.phase, aligner.deadline) = (Phase::Overtaking, Some(Millis(9)));
    assert_eq!(spoilt(late), Some("GI9"));
    let has_deadline = |aligner: &mut Machine| aligner.deadline = Some(Millis(9));
    assert_eq!(self::spoilt(GateOptions::UNALIGNED, has_deadline), None);
    assert_eq!(self::spoilt(GateOptions::ALIGNED, has_deadline), Some("GI9"));
}

#[test]
fn each_trace_of_a_checkpoint_that_is_over_is_noticed() {
    let traces: [fn(&mut Machine); 5] = [
        |aligner| aligner.phase = Phase::Announced,
        |aligner| aligner.deadline = Some(Millis(9)),
        |aligner| aligner.awaited = set(&[1]),
        |aligner| aligner.blocked = set(&[1]),
        |aligner| aligner.announced = set(&[1]),
    ];
    for (index, trace) in traces.into_iter().enumerate() {
        let mut aligner = Machine { current: Some(CheckpointId(5)), ..Machine::default() };
        let open = set(&[0, 1, 2]);
        assert_eq!(aligner.broken_invariant(&open, GateOptions::UNALIGNED), None);
        trace(&mut aligner);
        assert_eq!(aligner.broken_invariant(&open, GateOptions::UNALIGNED), Some("GI6"), "{index}");
    }
}
