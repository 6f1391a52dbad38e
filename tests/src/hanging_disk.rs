//! A layer over a disk that keeps the news of what has ended back for a while, as a device does that hangs.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use heapless::{Vec as FixedVec, VecView};
use slackwater_core::durable::{Completion, Disk, Layer, Layered, Operation, Token, Wait};

/// What hangs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Hanging {
    /// Nothing.
    #[default]
    Nothing,
    /// Every operation.
    Everything,
    /// Renames below this folder.
    RenamesBelow(String),
}

/// Says what hangs, from anywhere.
#[derive(Clone, Debug, Default)]
pub struct Hangs(Arc<Mutex<Hanging>>);

impl Hangs {
    /// From now on this hangs; what hung until now goes on unless it is the same.
    pub fn set(&self, what: Hanging) {
        *self.lock() = what;
    }

    fn lock(&self) -> MutexGuard<'_, Hanging> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has<B, F>(&self, operation: &Operation<'_, B, F>) -> bool {
        match (&*self.lock(), operation) {
            (Hanging::Everything, _) => true,
            (Hanging::RenamesBelow(folder), Operation::Rename { from, .. }) => {
                from.strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/'))
            }
            (Hanging::Nothing | Hanging::RenamesBelow(_), _) => false,
        }
    }

    fn is_over(&self) -> bool {
        *self.lock() == Hanging::Nothing
    }
}

/// The disk.
pub type HangingDisk<D> = Layered<D, HangingLayer<<D as Disk>::Block>>;

/// A disk on which what these say hangs.
pub const fn hanging<D: Disk>(disk: D, hangs: Hangs) -> HangingDisk<D> {
    Layered { disk, layer: HangingLayer { hangs, tokens: BTreeSet::new(), held: Vec::new() } }
}

/// The layer.
#[derive(Debug)]
pub struct HangingLayer<B> {
    hangs: Hangs,
    /// Operations that hang.
    tokens: BTreeSet<Token>,
    /// What has become of some of them.
    held: Vec<Completion<B>>,
}

impl<D: Disk> Layer<D> for HangingLayer<D::Block> {
    fn submit<'p>(
        &mut self,
        disk: &mut D,
        token: Token,
        operation: Operation<'p, D::Block, D::Frozen>,
    ) -> Result<(), Operation<'p, D::Block, D::Frozen>> {
        let hangs = self.hangs.has(&operation);
        disk.submit(token, operation)?;
        if hangs {
            self.tokens.insert(token);
        }
        Ok(())
    }

    fn reap(&mut self, disk: &mut D, wait: Wait, out: &mut VecView<Completion<D::Block>>) -> usize {
        let before = out.len();
        if self.hangs.is_over() {
            self.tokens.clear();
        }
        while self.tokens.is_empty()
            && !out.is_full()
            && let Some(completion) = self.held.pop()
        {
            out.push(completion).unwrap_or_else(|_| unreachable!("there is room"));
        }
        while !out.is_full() {
            let mut ended = FixedVec::<_, 1>::new();
            let wait = if out.len() == before { wait } else { Wait::No };
            disk.reap(wait, &mut ended);
            let Some(completion) = ended.pop() else { break };
            if self.tokens.contains(&completion.token) {
                self.held.push(completion);
            } else {
                out.push(completion).unwrap_or_else(|_| unreachable!("there is room"));
            }
        }
        out.len() - before
    }

    fn in_flight(&self, disk: &D) -> usize {
        disk.in_flight() + self.held.len()
    }
}
