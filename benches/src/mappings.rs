//! Memory for what the heap is compared with: mapped, with the heap's own setting of huge pages.

#![expect(unsafe_code, reason = "an allocator is an unsafe trait")]

use std::cell::RefCell;
use std::ptr::NonNull;
use std::rc::Rc;

use allocator_api2::alloc::{AllocError, Allocator, Layout};
use memmap2::{Advice, MmapMut};

/// Most alignment that the start of a mapping has for certain.
const ALIGNMENT_MAX: usize = 4096;

/// Gives each allocation a mapping of its own, so that all of it comes from the system and goes back there.
#[derive(Clone, Debug, Default)]
pub struct Mappings {
    huge_pages: bool,
    live: Rc<RefCell<Vec<MmapMut>>>,
}

impl Mappings {
    /// None yet; `huge_pages` says whether the system is asked for huge pages.
    #[must_use]
    pub fn new(huge_pages: bool) -> Self {
        Self { huge_pages, live: Rc::default() }
    }
}

// SAFETY: a mapping has the length and the alignment that were checked, and stays where it is until it is
// unmapped: when its block is given back, or when the last clone of the allocator is dropped.
unsafe impl Allocator for Mappings {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.align() > ALIGNMENT_MAX {
            return Err(AllocError);
        }
        let mut mapping = map(layout.size(), self.huge_pages).map_err(|_| AllocError)?;
        let block = NonNull::from(&mut mapping[..]);
        self.live.borrow_mut().push(mapping);
        Ok(block)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, _layout: Layout) {
        self.live.borrow_mut().retain(|mapping| mapping.as_ptr() != block.as_ptr().cast_const());
    }
}

/// Maps `len` bytes that are zero.
///
/// # Errors
/// What the system said.
pub fn map(len: usize, huge_pages: bool) -> std::io::Result<MmapMut> {
    let mapping = MmapMut::map_anon(len)?;
    if huge_pages {
        mapping.advise(Advice::HugePage)?;
    }
    Ok(mapping)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_lives_until_it_is_given_back() {
        let mappings = Mappings::new(true);
        let mut numbers = allocator_api2::vec::Vec::new_in(mappings.clone());
        numbers.extend(0..100_000_u32);
        assert!(numbers.iter().copied().eq(0..100_000));
        assert_eq!(mappings.live.borrow().len(), 1);
        drop(numbers);
        assert!(mappings.live.borrow().is_empty());
    }

    #[test]
    fn an_alignment_beyond_that_of_a_mapping_is_refused() {
        let layout = Layout::from_size_align(64, 2 * ALIGNMENT_MAX).unwrap();
        assert!(Mappings::new(false).allocate(layout).is_err());
    }
}
