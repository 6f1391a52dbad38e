//! Each invariant, broken by hand, is reported under its id.

use super::{Mark, Tracked, Tracker};
use crate::gate::ChannelSet;
use crate::ids::CheckpointId;

/// Of a tracker over channels 0 and 1 that tracks these checkpoints, each of which awaits these channels.
fn broken(tracked: &[(u64, &[u16])], latest: u64) -> Option<&'static str> {
    let mut tracker = Tracker::<1, 4> { latest: Some(CheckpointId(latest)), ..Tracker::default() };
    for (id, awaited) in tracked {
        let awaited = awaited.iter().copied().collect();
        tracker.tracked.push_back(Tracked { mark: Mark::GivenUp(CheckpointId(*id)), awaited }).unwrap();
    }
    tracker.broken_invariant(&ChannelSet::first(2))
}

#[test]
fn each_broken_invariant_is_named() {
    assert_eq!(broken(&[], 0), None);
    assert_eq!(broken(&[(3, &[0, 1]), (4, &[1])], 4), None);
    assert_eq!(broken(&[(3, &[0, 1]), (4, &[1])], 5), None);
    assert_eq!(broken(&[(4, &[0, 1]), (4, &[1])], 4), Some("GI10"));
    assert_eq!(broken(&[(4, &[0, 1]), (3, &[1])], 4), Some("GI10"));
    assert_eq!(broken(&[(3, &[0, 1]), (4, &[1])], 3), Some("GI10"));
    assert_eq!(broken(&[(3, &[]), (4, &[1])], 4), Some("GI11"));
    assert_eq!(broken(&[(3, &[0, 1]), (4, &[2])], 4), Some("GI11"));
}
