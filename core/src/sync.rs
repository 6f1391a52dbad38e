//! What the lock-free parts are built from, exchanged for loom's tracked versions under `slackwater_loom`.

#[cfg(not(slackwater_loom))]
pub use core::sync::atomic::{AtomicUsize, Ordering};

#[cfg(slackwater_loom)]
pub use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicUsize, Ordering},
};

/// A cell whose content is reached through closures, so that loom can see when an access starts and ends.
#[cfg(not(slackwater_loom))]
#[derive(Debug)]
#[repr(transparent)]
pub struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(slackwater_loom))]
impl<T> UnsafeCell<T> {
    /// A cell that holds `value`.
    pub const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }

    /// Lends the content for reading.
    #[inline]
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get().cast_const())
    }

    /// Lends the content for writing.
    #[inline]
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// Whether this build has the named fault, which the loom tests must find. Only a loom build can have one:
/// the one that `SLACKWATER_MUTANT` named when it was compiled.
#[must_use]
pub const fn is_mutant(name: &str) -> bool {
    #[cfg(slackwater_loom)]
    if let Some(mutant) = option_env!("SLACKWATER_MUTANT") {
        return equal(mutant.as_bytes(), name.as_bytes());
    }
    let _ = name;
    false
}

#[cfg(slackwater_loom)]
const fn equal(mut left: &[u8], mut right: &[u8]) -> bool {
    while let ([first, left_rest @ ..], [second, right_rest @ ..]) = (left, right) {
        if *first != *second {
            return false;
        }
        (left, right) = (left_rest, right_rest);
    }
    left.is_empty() && right.is_empty()
}
