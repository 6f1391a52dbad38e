//! The queue by itself; who is served when, the coordinator's tests say.

use super::{Request, Requests};
use crate::coordinator::RequestToken;
use crate::ids::SnapshotKind;
use crate::reason::FailureReason;
use crate::time::Millis;

fn request(token: Option<u32>, requested_at: u64) -> Request {
    Request {
        token: token.map(RequestToken),
        kind: SnapshotKind::Checkpoint,
        is_forced: false,
        requested_at: Millis(requested_at),
        refused: None,
    }
}

fn queue(requests: &[Request]) -> Requests<4> {
    let mut queue = Requests::new();
    requests.iter().for_each(|request| assert_eq!(queue.add(*request), None));
    queue
}

#[test]
fn t24_refused_requests_are_told_of_once_and_are_no_longer_served() {
    let mut queue = queue(&[request(None, 1), request(Some(2), 2)]);
    assert!(queue.has_periodic() && !queue.has_refused());
    let reason = FailureReason::CheckpointCoordinatorSuspend;
    queue.refuse_all(reason);
    assert!(queue.has_refused() && !queue.has_periodic() && queue.first().is_none());
    assert_eq!(queue.add(request(Some(3), 3)), None);
    assert!(!queue.has_periodic());
    assert_eq!(queue.take_refused(), Some((Some(RequestToken(2)), reason)));
    assert_eq!(queue.take_refused(), Some((None, reason)));
    assert!(!queue.has_refused());
    assert_eq!(queue.take_refused(), None);
    assert_eq!(queue.take_first(), Some(request(Some(3), 3)));
    assert_eq!(queue.take_first(), None);
}

#[test]
fn t17_a_queue_out_of_order_or_with_a_gap_is_noticed() {
    let two = [request(Some(1), 1), request(Some(2), 2)];
    assert!(queue(&[]).is_sorted() && queue(&two).is_sorted());
    let mut swapped = queue(&two);
    swapped.waiting.swap(0, 1);
    assert!(!swapped.is_sorted());
    let mut gap = queue(&two);
    gap.waiting.swap(1, 2);
    assert!(!gap.is_sorted());
    let mut gap_in_front = queue(&two[..1]);
    gap_in_front.waiting.swap(0, 1);
    assert!(!gap_in_front.is_sorted());
}
