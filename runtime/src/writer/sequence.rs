//! Operations on names, one after the other.

use std::collections::VecDeque;

use slackwater_core::durable::{Completion, Disk, DiskError, Operation, Outcome, Tokens, Work};

/// An operation on names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    CreateFolder(String),
    SyncFolder(String),
    Rename { from: String, to: String },
    Remove(String),
}

/// Carries out orders until the first that fails.
#[derive(Debug)]
pub(super) struct Sequence {
    orders: VecDeque<Order>,
    is_submitted: bool,
    failure: Option<(String, DiskError)>,
}

impl Sequence {
    pub(super) fn new(orders: impl IntoIterator<Item = Order>) -> Self {
        Self { orders: orders.into_iter().collect(), is_submitted: false, failure: None }
    }

    /// How it ended; with the path of the order that failed.
    pub(super) fn result(self) -> Result<(), (String, DiskError)> {
        self.failure.map_or(Ok(()), Err)
    }
}

impl Order {
    const fn operation<B, F>(&self) -> Operation<'_, B, F> {
        match self {
            Self::CreateFolder(path) => Operation::CreateFolder { path: path.as_str() },
            Self::SyncFolder(path) => Operation::SyncFolder { path: path.as_str() },
            Self::Rename { from, to } => Operation::Rename { from: from.as_str(), to: to.as_str() },
            Self::Remove(path) => Operation::Remove { path: path.as_str() },
        }
    }

    fn into_path(self) -> String {
        match self {
            Self::CreateFolder(path) | Self::SyncFolder(path) | Self::Remove(path) => path,
            Self::Rename { to, .. } => to,
        }
    }
}

impl<D: Disk> Work<D> for Sequence {
    fn advance(&mut self, disk: &mut D, tokens: &mut Tokens) {
        if let Some(order) = self.orders.front()
            && !self.is_submitted
        {
            self.is_submitted = disk.submit(tokens.draw(), order.operation()).is_ok();
        }
    }

    fn on_completion(&mut self, completion: Completion<D::Block>, _disk: &mut D) {
        self.is_submitted = false;
        let order = self.orders.pop_front();
        if let (Outcome::Failed(error), Some(order)) = (completion.outcome, order) {
            // Removing what is gone has nothing left to do.
            if !(matches!(order, Order::Remove(_)) && error.errno == DiskError::NOT_FOUND) {
                self.orders.clear();
                self.failure = Some((order.into_path(), error));
            }
        }
    }

    fn is_done(&self) -> bool {
        self.orders.is_empty()
    }
}
