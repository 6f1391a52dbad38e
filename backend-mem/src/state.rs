//! Typed handles on the states of a heap.
//!
//! A handle is a small value that knows how keys and values are encoded; the entries are the heap's. The key is
//! an argument of each call, and so is the namespace of a state that has one.

/// A handle is a small value, whatever its codecs are.
macro_rules! handle {
    ([$($generics:tt)*] $name:ident[$($arguments:tt)*] $($id:tt)+) => {
        impl<$($generics)*> $name<$($arguments)*> {
            /// The state's id in its heap.
            #[must_use]
            pub const fn id(&self) -> crate::heap::StateId {
                self.$($id)+
            }
        }

        impl<$($generics)*> Clone for $name<$($arguments)*> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<$($generics)*> Copy for $name<$($arguments)*> {}

        impl<$($generics)*> core::fmt::Debug for $name<$($arguments)*> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct(stringify!($name)).field("id", &self.id()).finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use handle;

mod aggregating;
mod encoding;
mod entries;
mod error;
mod expiring;
mod expiry;
mod list;
mod map;
#[cfg(feature = "std")]
mod migration;
mod namespace;
mod reducing;
#[cfg(test)]
mod tests;
mod timers;
mod value;

pub use aggregating::{Aggregate, AggregatingState};
#[doc(hidden)]
pub use encoding::{Bare, Encoding, Stamped};
#[cfg(feature = "std")]
pub use error::RefusedCodec;
pub use error::StateError;
#[doc(hidden)]
pub use expiring::Sweep;
pub use expiring::{CanExpire, Cleaned, Expiring};
pub use expiry::{At, Expiry, Never, TimeToLive, TtlUpdate, TtlVisibility};
pub use list::{ListItems, ListState};
pub use map::{MapEntries, MapState};
pub use namespace::{DecodeNamespace, Namespace};
pub use reducing::ReducingState;
pub use timers::{GroupMinimum, Timer, Timers};
pub use value::ValueState;

pub(crate) use entries::Entries;
