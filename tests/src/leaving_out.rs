//! A layer over a disk that answers some operations as done without doing them.

use std::collections::VecDeque;
use std::fmt;

use heapless::VecView;
use slackwater_core::durable::{Completion, Disk, DiskError, Entry, Operation, Outcome, Token, Wait};

/// Which operations are left out.
pub trait Choice<D: Disk> {
    /// Whether an operation that somebody submits is left out.
    fn is_left_out(&mut self, token: Token, operation: &Operation<'_, D::Block, D::Frozen>) -> bool;

    /// Takes note of how one has ended.
    fn note_ended(&mut self, _completion: &Completion<D::Block>) {}
}

/// A disk on which chosen operations do not happen.
pub struct LeavingOut<D: Disk, C> {
    disk: D,
    choice: C,
    ended: VecDeque<Completion<D::Block>>,
}

impl<D: Disk, C> LeavingOut<D, C> {
    /// Over this disk.
    pub const fn new(disk: D, choice: C) -> Self {
        Self { disk, choice, ended: VecDeque::new() }
    }
}

impl<D: Disk, C: Choice<D>> Disk for LeavingOut<D, C> {
    type Block = D::Block;
    type Frozen = D::Frozen;

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
        if self.choice.is_left_out(token, &operation) {
            self.ended.push_back(Completion { token, outcome: Outcome::Done });
            return Ok(());
        }
        self.disk.submit(token, operation)
    }

    fn reap(&mut self, wait: Wait, out: &mut VecView<Completion<D::Block>>) -> usize {
        let before = out.len();
        while !out.is_full()
            && let Some(completion) = self.ended.pop_front()
        {
            out.extend([completion]);
        }
        if out.len() == before {
            self.disk.reap(wait, out);
        }
        out[before..].iter().for_each(|completion| self.choice.note_ended(completion));
        out.len() - before
    }

    fn in_flight(&self) -> usize {
        self.disk.in_flight() + self.ended.len()
    }

    fn list(&mut self, folder: &str, each: &mut dyn FnMut(Entry<'_>)) -> Result<(), DiskError> {
        self.disk.list(folder, each)
    }
}

impl<D: Disk, C: fmt::Debug> fmt::Debug for LeavingOut<D, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeavingOut").field("choice", &self.choice).finish_non_exhaustive()
    }
}
