//! Key groups that are copied before their turn, because the heap has no memory and waits for them.

use std::collections::VecDeque;
use std::vec::Vec;

use slackwater_core::durable::Frozen;
use slackwater_core::key_group::KeyGroup;

use super::plan::GroupPlan;
use crate::arena::ArenaHandle;
use crate::snapshot::FrozenRun;

/// No more bytes are kept at a time: memory is what the heap has too little of.
const CAPTURED_LEN_MAX: usize = 8 << 20;

/// Copies of key groups, in no order.
#[derive(Debug, Default)]
pub(super) struct Captured {
    groups: Vec<(KeyGroup, GroupPlan, Vec<u8>)>,
    len: usize,
    /// The last one there was no room for.
    refused: Option<KeyGroup>,
}

impl Captured {
    /// Whether a copy of the key group is there or was refused.
    pub(super) fn knows(&self, group: KeyGroup) -> bool {
        self.refused == Some(group) || self.groups.iter().any(|(captured, ..)| *captured == group)
    }

    /// Copies the key group, and lets go of its runs. False if that would be too much.
    pub(super) fn add<A: ArenaHandle + 'static>(
        &mut self,
        group: KeyGroup,
        plan: GroupPlan,
        runs: VecDeque<FrozenRun<A>>,
    ) -> bool {
        let len = runs.iter().map(FrozenRun::len).sum::<usize>();
        if self.len + len > CAPTURED_LEN_MAX {
            self.refused = Some(group);
            return false;
        }
        let mut bytes = Vec::with_capacity(len);
        runs.iter().for_each(|run| bytes.extend_from_slice(run.bytes()));
        self.len += len;
        self.groups.push((group, plan, bytes));
        true
    }

    /// The key group's turn has come.
    pub(super) fn take(&mut self, group: KeyGroup) -> Option<(GroupPlan, Vec<u8>)> {
        let at = self.groups.iter().position(|(captured, ..)| *captured == group)?;
        let (_, plan, bytes) = self.groups.swap_remove(at);
        self.len -= bytes.len();
        self.refused = None;
        Some((plan, bytes))
    }
}
