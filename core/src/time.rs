//! Time as an argument: machines never read a clock.

use core::fmt;

/// A moment or a span in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

impl Millis {
    /// A span longer than any job: "never".
    pub const MAX: Self = Self(u64::MAX);

    /// `self + span`, or [`Millis::MAX`] where that does not fit.
    #[must_use]
    pub const fn after(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The span from `earlier` to `self`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

/// What the caller's clocks say at the moment of an event.
///
/// Time-outs and pauses use `monotonic`, which must not go backwards. Timestamps that travel in barriers
/// are `wall`, which may jump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// A clock that only moves forwards, from an arbitrary start.
    pub monotonic: Millis,
    /// Milliseconds since the Unix epoch.
    pub wall: Millis,
}
