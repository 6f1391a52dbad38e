//! The one shape of every machine: events in, actions out into the caller's buffer, refusals that change nothing.

use core::fmt;

use heapless::VecView;

use crate::time::{Millis, Now};

/// Why a machine refused an event. Its state is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// The action buffer has less room than the machine's `ACTIONS_MAX`.
    NoRoom {
        /// Actions that must fit.
        needed: usize,
        /// Actions that do fit.
        free: usize,
    },
    /// The monotonic clock went backwards.
    TimeWentBack {
        /// The latest time the machine has seen.
        last: Millis,
        /// The time it was given.
        now: Millis,
    },
    /// An index or a number lies outside the machine's capacity.
    OutOfRange {
        /// What was out of range.
        what: &'static str,
        /// The value given.
        value: u64,
        /// The first value that is too large.
        limit: u64,
    },
    /// The event cannot happen in this state.
    Unexpected {
        /// What was wrong.
        what: &'static str,
    },
    /// An invariant was found broken; the machine answers so from then on.
    Poisoned {
        /// Id of the invariant.
        invariant: &'static str,
    },
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoom { needed, free } => {
                write!(
                    f,
                    "action buffer has room for {free}, {needed} needed: drain it before the next event"
                )
            }
            Self::TimeWentBack { last, now } => write!(f, "monotonic time went back from {last} to {now}"),
            Self::OutOfRange { what, value, limit } => write!(f, "{what} {value} is not below {limit}"),
            Self::Unexpected { what } => write!(f, "unexpected event: {what}"),
            Self::Poisoned { invariant } => write!(f, "invariant {invariant} is broken: rebuild the machine"),
        }
    }
}

impl core::error::Error for Rejected {}

/// What every machine checks before it looks at an event.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Admission {
    last: Millis,
    broken: Option<&'static str>,
}

impl Admission {
    /// Admits an event at `now` whose actions go to `out`, or says why not. Changes only the time.
    pub(crate) fn admit<A>(&mut self, now: Now, out: &VecView<A>, needed: usize) -> Result<(), Rejected> {
        if let Some(invariant) = self.broken {
            return Err(Rejected::Poisoned { invariant });
        }
        let free = out.capacity().saturating_sub(out.len());
        if free < needed {
            return Err(Rejected::NoRoom { needed, free });
        }
        if now.monotonic < self.last {
            return Err(Rejected::TimeWentBack { last: self.last, now: now.monotonic });
        }
        self.last = now.monotonic;
        Ok(())
    }

    /// Ends an event: the machine is broken for good if an invariant is, or if its orders did not fit.
    pub(crate) fn conclude<A>(
        &mut self,
        orders: &Orders<'_, A>,
        broken: Option<&'static str>,
    ) -> Result<(), Rejected> {
        match broken.or_else(|| orders.overflowed.then_some("ACTIONS_MAX")) {
            Some(invariant) => Err(self.poison(invariant)),
            None => Ok(()),
        }
    }

    /// Marks the machine as broken for good.
    pub(crate) fn poison(&mut self, invariant: &'static str) -> Rejected {
        debug_assert!(false, "invariant {invariant} is broken");
        self.broken = Some(invariant);
        Rejected::Poisoned { invariant }
    }
}

/// The caller's buffer during one event, for which [`Admission::admit`] has made sure of `budget` free places.
#[derive(Debug)]
pub(crate) struct Orders<'a, A> {
    out: &'a mut VecView<A>,
    left: usize,
    overflowed: bool,
}

impl<'a, A> Orders<'a, A> {
    /// Takes at most `budget` actions into `out`.
    pub(crate) const fn new(out: &'a mut VecView<A>, budget: usize) -> Self {
        Self { out, left: budget, overflowed: false }
    }

    /// Adds an action. One that does not fit breaks the machine: nothing is ever lost in silence.
    pub(crate) fn push(&mut self, action: A) {
        self.overflowed |= self.left == 0 || self.out.push(action).is_err();
        self.left = self.left.saturating_sub(1);
    }

    /// How many more actions this event may give.
    pub(crate) const fn left(&self) -> usize {
        self.left
    }
}

/// The id of the first of `invariants` that does not hold.
pub(crate) fn first_broken(invariants: &[(&'static str, bool)]) -> Option<&'static str> {
    invariants.iter().find(|(_, holds)| !holds).map(|(id, _)| *id)
}
