//! Requests that wait for their turn (Flink: `CheckpointRequestDecider`).

use super::RequestToken;

/// How many manual requests may wait at once.
pub(super) const REQUESTS_MAX: usize = 8;

/// Manual requests in order of arrival, and at most one periodic request behind them (rule T17). A tick that finds
/// the periodic request still waiting adds nothing: two of them ask for the same thing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Requests {
    manual: [Option<RequestToken>; REQUESTS_MAX],
    pub(super) periodic: bool,
}

impl Requests {
    /// Adds a manual request. False if there is no room (rule T18).
    pub(super) fn push(&mut self, request: RequestToken) -> bool {
        let free = self.manual.iter_mut().find(|slot| slot.is_none());
        free.is_some_and(|slot| slot.replace(request).is_none())
    }

    /// Takes the oldest manual request out; the others move up.
    pub(super) fn pop(&mut self) -> Option<RequestToken> {
        let mut moving = None;
        self.manual.iter_mut().rev().for_each(|slot| core::mem::swap(slot, &mut moving));
        moving
    }

    pub(super) const fn has_manual(&self) -> bool {
        matches!(self.manual, [Some(_), ..])
    }

    pub(super) const fn is_empty(&self) -> bool {
        !self.periodic && !self.has_manual()
    }
}

#[cfg(test)]
mod tests {
    use super::{REQUESTS_MAX, Requests};
    use crate::coordinator::RequestToken;
    use std::vec::Vec;

    #[test]
    fn serves_manual_requests_in_order_and_refuses_beyond_the_capacity() {
        let mut requests = Requests::default();
        let tokens: Vec<_> = (0..).map(RequestToken).take(REQUESTS_MAX).collect();
        assert!(tokens.iter().all(|token| requests.push(*token)));
        assert!(!requests.push(RequestToken(99)));
        assert_eq!(requests.pop(), Some(tokens[0]));
        assert!(requests.push(RequestToken(100)));
        let rest: Vec<_> = core::iter::from_fn(|| requests.pop()).collect();
        assert_eq!(rest, [&tokens[1..], &[RequestToken(100)]].concat());
        assert!(requests.is_empty());
    }
}
