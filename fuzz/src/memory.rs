//! How much memory a decoder takes, and that it is no more than FORMAT.md allows.
#![expect(unsafe_code, reason = "an allocator is made by an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, which counts for each thread.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    /// Bytes that the thread has taken and not given back. Those that another one gave back for it count as taken.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    /// The most since it was last looked at.
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn note(taken: usize, given_back: usize) {
    let live = LIVE.get().wrapping_add_unsigned(taken);
    PEAK.set(PEAK.get().max(live));
    LIVE.set(live.wrapping_sub_unsigned(given_back));
}

// SAFETY: what the system's allocator gives and takes back is passed on as it is; counting touches none of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 0);
        // SAFETY: the caller's promise is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 0);
        // SAFETY: the caller's promise is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // While it is moved there are both.
        note(size, layout.size());
        // SAFETY: the caller's promise is the same.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(0, layout.size());
        // SAFETY: the caller's promise is the same.
        unsafe { System.dealloc(block, layout) }
    }
}

/// What a piece of work gives, and the most memory that it had at any time.
pub(crate) fn measured<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let done = work();
    (done, PEAK.get().wrapping_sub(before).unsigned_abs())
}

/// Does a piece of work that may take so many bytes of memory at a time.
///
/// # Panics
/// It takes more.
pub(crate) fn within<T>(what: &str, bytes_max: usize, work: impl FnOnce() -> T) -> T {
    let (done, peak) = measured(work);
    assert!(peak <= bytes_max, "{what} took {peak} bytes of memory, {bytes_max} are allowed");
    done
}

#[cfg(test)]
mod tests {
    use super::{measured, within};

    #[test]
    fn the_most_at_a_time_is_measured() {
        let (_, peak) = measured(|| {
            drop(vec![0_u8; 5000]);
            let mut grown = vec![0_u8; 1000];
            grown.reserve_exact(2000);
            grown.len()
        });
        assert_eq!(peak, 5000);
        assert_eq!(measured(|| vec![0_u8; 70]).1, 70);
    }

    #[test]
    #[should_panic(expected = "took 100 bytes of memory, 99 are allowed")]
    fn too_much_is_noticed() {
        within("a test", 99, || drop(vec![0_u8; 100]));
    }
}
