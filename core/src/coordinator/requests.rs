//! Requests that wait for their turn (Flink: `CheckpointRequestDecider`).

#[cfg(test)]
mod tests;

use super::RequestToken;
use crate::ids::SnapshotKind;
use crate::reason::FailureReason;
use crate::time::Millis;

/// Somebody wants a checkpoint (rule T15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Who; nobody if it is a periodic one.
    pub(super) token: Option<RequestToken>,
    pub(super) kind: SnapshotKind,
    /// It need not wait for other checkpoints (rule T16).
    pub(super) is_forced: bool,
    /// By the wall clock.
    pub(super) requested_at: Millis,
    /// It will not be served, and nobody has been told.
    pub(super) refused: Option<FailureReason>,
}

impl Request {
    pub(super) const fn is_periodic(&self) -> bool {
        self.token.is_none()
    }

    /// Lower ranks are served first (rule T17).
    const fn rank(&self) -> (bool, bool, bool, Millis) {
        (!self.kind.is_savepoint(), !self.is_forced, self.is_periodic(), self.requested_at)
    }
}

/// Requests in the order in which they are served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requests<const QUEUE: usize> {
    waiting: [Option<Request>; QUEUE],
}

impl<const QUEUE: usize> Requests<QUEUE> {
    pub(super) const fn new() -> Self {
        Self { waiting: [None; QUEUE] }
    }

    /// Puts a request in line and gives back the one for which there is no room: a new one does not drive out one
    /// that somebody asked for (rules T18 and T19).
    pub(super) fn add(&mut self, request: Request) -> Option<Request> {
        if self.waiting.last().is_some_and(|last| last.is_some_and(|last| !last.is_periodic())) {
            return Some(request);
        }
        let is_later = |slot: &Option<Request>| slot.is_none_or(|other| request.rank() < other.rank());
        let position = self.waiting.iter().position(is_later).unwrap_or(QUEUE);
        let mut moving = Some(request);
        let behind = self.waiting.iter_mut().skip(position);
        behind.for_each(|slot| core::mem::swap(slot, &mut moving));
        moving
    }

    /// The one that is served next.
    pub(super) fn first(&self) -> Option<&Request> {
        self.waiting.iter().flatten().find(|request| request.refused.is_none())
    }

    /// Takes out the one that is served next.
    pub(super) fn take_first(&mut self) -> Option<Request> {
        self.take(|request| request.refused.is_none())
    }

    /// Takes out the first of those that nobody has been told of.
    pub(super) fn take_refused(&mut self) -> Option<(Option<RequestToken>, FailureReason)> {
        let request = self.take(|request| request.refused.is_some())?;
        Some((request.token, request.refused?))
    }

    /// None will be served (rule T24).
    pub(super) fn refuse_all(&mut self, reason: FailureReason) {
        let served = self.waiting.iter_mut().flatten().filter(|request| request.refused.is_none());
        served.for_each(|request| request.refused = Some(reason));
    }

    pub(super) fn has_refused(&self) -> bool {
        self.waiting.iter().flatten().any(|request| request.refused.is_some())
    }

    pub(super) fn has_periodic(&self) -> bool {
        self.waiting.iter().flatten().any(|request| request.refused.is_none() && request.is_periodic())
    }

    /// Whether they are in order and without a gap.
    pub(super) fn is_sorted(&self) -> bool {
        let all = || self.waiting.iter().take_while(|slot| slot.is_some()).flatten();
        all().is_sorted_by_key(Request::rank) && all().count() == self.waiting.iter().flatten().count()
    }

    /// Takes the first that is `wanted` out; those behind it move up.
    fn take(&mut self, wanted: impl Fn(&Request) -> bool) -> Option<Request> {
        let is_wanted = |slot: &Option<Request>| slot.as_ref().is_some_and(&wanted);
        let position = self.waiting.iter().position(is_wanted)?;
        let mut moving = None;
        let behind = self.waiting.iter_mut().skip(position).rev();
        behind.for_each(|slot| core::mem::swap(slot, &mut moving));
        moving
    }
}
