//! Room for one item. Whether it holds one is known from the queue's positions alone.

#![expect(unsafe_code, reason = "an item is moved into and out of memory that two threads can reach")]

use core::mem::MaybeUninit;

use crate::sync::UnsafeCell;

pub(super) struct Slot<T>(UnsafeCell<MaybeUninit<T>>);

impl<T> Slot<T> {
    pub(super) fn empty() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// Moves `item` in.
    ///
    /// # Safety
    /// The slot is empty and the caller's alone.
    #[inline]
    pub(super) unsafe fn put(&self, item: T) {
        self.0.with_mut(|content| {
            // SAFETY: `content` comes from a live cell, and nobody else reaches it, as the caller promises.
            unsafe { content.write(MaybeUninit::new(item)) };
        });
    }

    /// Moves the item out.
    ///
    /// # Safety
    /// The slot holds an item and is the caller's alone; it counts as empty from now on.
    #[inline]
    pub(super) unsafe fn take(&self) -> T {
        self.0.with(|content| {
            // SAFETY: the content is initialised and nobody reads it again, as the caller promises.
            unsafe { content.cast::<T>().read() }
        })
    }

    /// Looks at the item.
    ///
    /// # Safety
    /// The slot holds an item and is the caller's alone for as long as the reference lives.
    #[inline]
    pub(super) unsafe fn get(&self) -> &T {
        self.0.with(|content| {
            // SAFETY: the content is initialised and nobody writes it meanwhile, as the caller promises.
            unsafe { &*content.cast::<T>() }
        })
    }
}
