use heapless::VecView;

use super::{Completion, Disk, DiskError, Entry, Operation, Token, Wait};

/// What is done otherwise over a disk: operations counted, delayed, left out, failed. All that it does not say is
/// passed on.
pub trait Layer<D: Disk> {
    /// In the place of [`Disk::submit`].
    ///
    /// # Errors
    /// Gives back an operation that the disk does not take now.
    fn submit<'p>(
        &mut self,
        disk: &mut D,
        token: Token,
        operation: Operation<'p, D::Block, D::Frozen>,
    ) -> Result<(), Operation<'p, D::Block, D::Frozen>> {
        disk.submit(token, operation)
    }

    /// In the place of [`Disk::reap`].
    fn reap(&mut self, disk: &mut D, wait: Wait, out: &mut VecView<Completion<D::Block>>) -> usize {
        disk.reap(wait, out)
    }

    /// In the place of [`Disk::in_flight`].
    fn in_flight(&self, disk: &D) -> usize {
        disk.in_flight()
    }
}

/// A disk with a layer over it, which is a disk again.
#[derive(Clone, Debug)]
pub struct Layered<D, L> {
    /// The disk below.
    pub disk: D,
    /// What is done otherwise.
    pub layer: L,
}

impl<D: Disk, L: Layer<D>> Disk for Layered<D, L> {
    type Block = D::Block;
    type Frozen = D::Frozen;

    const ALIGNMENT: usize = D::ALIGNMENT;

    fn block(&mut self) -> Option<D::Block> {
        self.disk.block()
    }

    fn recycle(&mut self, block: D::Block) {
        self.disk.recycle(block);
    }

    fn submit<'p>(
        &mut self,
        token: Token,
        operation: Operation<'p, D::Block, D::Frozen>,
    ) -> Result<(), Operation<'p, D::Block, D::Frozen>> {
        self.layer.submit(&mut self.disk, token, operation)
    }

    fn reap(&mut self, wait: Wait, out: &mut VecView<Completion<D::Block>>) -> usize {
        self.layer.reap(&mut self.disk, wait, out)
    }

    fn in_flight(&self) -> usize {
        self.layer.in_flight(&self.disk)
    }

    fn list(&mut self, folder: &str, each: &mut dyn FnMut(Entry<'_>)) -> Result<(), DiskError> {
        self.disk.list(folder, each)
    }
}
