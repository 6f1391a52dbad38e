//! What happens at its time.

use slackwater_core::coordinator::{CoordinatorEvent, TaskReport, TaskState};
use slackwater_core::ids::CheckpointId;
use slackwater_core::subtask::Part;
use slackwater_core::two_phase::Transactions;

use crate::storage::{FileName, TransactionName};
use crate::task::Mail;

/// Something that happens at its time.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Coordinator(CoordinatorEvent),
    Acknowledged {
        id: CheckpointId,
        task: u16,
        attempt: u16,
        report: TaskReport,
        files: Vec<FileName>,
    },
    Mail {
        run: u32,
        task: u16,
        mail: Mail,
    },
    Start {
        run: u32,
        task: u16,
    },
    TaskChanged {
        run: u32,
        task: u16,
        state: TaskState,
    },
    Persisted {
        name: FileName,
        part: Part,
        is_good: bool,
    },
    Flush(TransactionName),
    Commit {
        name: TransactionName,
        transactions: Transactions,
    },
    /// A manifest is durable or not; if not, it may lie there all the same.
    Manifest {
        id: CheckpointId,
        is_good: bool,
        may_exist: bool,
    },
    Discarded(CheckpointId),
    Cleaned(CheckpointId),
    FailOver {
        run: u32,
    },
}

impl Event {
    /// Whether it is lost with the tasks.
    pub(crate) const fn is_of_tasks(&self) -> bool {
        match self {
            Self::Mail { .. }
            | Self::Start { .. }
            | Self::TaskChanged { .. }
            | Self::Persisted { .. }
            | Self::Flush(_)
            | Self::Commit { .. } => true,
            Self::Coordinator(_)
            | Self::Acknowledged { .. }
            | Self::Manifest { .. }
            | Self::Discarded(_)
            | Self::Cleaned(_)
            | Self::FailOver { .. } => false,
        }
    }
}
