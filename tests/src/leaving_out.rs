//! A layer over a disk that answers some operations as done without doing them.

use std::collections::VecDeque;

use heapless::VecView;
use slackwater_core::durable::{Completion, Disk, Layer, Layered, Operation, Outcome, Token, Wait};

/// Which operations are left out.
pub trait Choice<D: Disk> {
    /// Whether an operation that somebody submits is left out.
    fn is_left_out(&mut self, token: Token, operation: &Operation<'_, D::Block, D::Frozen>) -> bool;

    /// Takes note of how one has ended.
    fn note_ended(&mut self, _completion: &Completion<D::Block>) {}
}

/// A disk on which chosen operations do not happen.
pub type LeavingOut<D, C> = Layered<D, LeavingOutLayer<C, <D as Disk>::Block>>;

/// Over this disk.
pub const fn leaving_out<D: Disk, C: Choice<D>>(disk: D, choice: C) -> LeavingOut<D, C> {
    Layered { disk, layer: LeavingOutLayer { choice, ended: VecDeque::new() } }
}

/// The layer.
#[derive(Debug)]
pub struct LeavingOutLayer<C, B> {
    choice: C,
    ended: VecDeque<Completion<B>>,
}

impl<D: Disk, C: Choice<D>> Layer<D> for LeavingOutLayer<C, D::Block> {
    fn submit<'p>(
        &mut self,
        disk: &mut D,
        token: Token,
        operation: Operation<'p, D::Block, D::Frozen>,
    ) -> Result<(), Operation<'p, D::Block, D::Frozen>> {
        if self.choice.is_left_out(token, &operation) {
            self.ended.push_back(Completion { token, outcome: Outcome::Done });
            return Ok(());
        }
        disk.submit(token, operation)
    }

    fn reap(&mut self, disk: &mut D, wait: Wait, out: &mut VecView<Completion<D::Block>>) -> usize {
        let before = out.len();
        while !out.is_full()
            && let Some(completion) = self.ended.pop_front()
        {
            out.extend([completion]);
        }
        if out.len() == before {
            disk.reap(wait, out);
        }
        out[before..].iter().for_each(|completion| self.choice.note_ended(completion));
        out.len() - before
    }

    fn in_flight(&self, disk: &D) -> usize {
        disk.in_flight() + self.ended.len()
    }
}
