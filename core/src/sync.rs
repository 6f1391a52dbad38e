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

/// Whether the named fault is on, which the loom tests must find. Only in a loom build, and only if
/// `SLACKWATER_MUTANT` names it when the tests start.
#[cfg(slackwater_loom)]
#[must_use]
pub fn is_mutant(name: &str) -> bool {
    static MUTANT: std::sync::OnceLock<std::string::String> = std::sync::OnceLock::new();
    MUTANT.get_or_init(|| std::env::var("SLACKWATER_MUTANT").unwrap_or_default()) == name
}

/// Whether the named fault is on: never outside loom's tests.
#[cfg(not(slackwater_loom))]
#[must_use]
pub const fn is_mutant(_name: &str) -> bool {
    false
}
