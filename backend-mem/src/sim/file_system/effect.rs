//! What an operation changes, without the buffers and numbers of open files that belong to one disk.

use std::string::String;
use std::sync::Arc;

use super::{FileSystem, NodeId};

/// A change that an operation makes when it takes effect.
#[derive(Clone, Debug)]
pub(in crate::sim) enum Effect {
    CreateFolder(String),
    Write { node: NodeId, offset: usize, bytes: Arc<[u8]> },
    SetLength { node: NodeId, len: usize },
    SyncFile(NodeId),
    SyncFolder(String),
    Rename { from: String, to: String },
    Remove(String),
}

impl FileSystem {
    /// Carries out a change; `unknown` are the earlier operations that nobody knew to have ended when it was
    /// submitted, which a sync therefore does not cover.
    pub(in crate::sim) fn carry_out(
        &mut self,
        number: u64,
        effect: &Effect,
        unknown: &[u64],
    ) -> Result<(), i32> {
        let covers = |operation: u64| operation < number && !unknown.contains(&operation);
        match effect {
            Effect::CreateFolder(path) => self.create_folder(number, path)?,
            Effect::Write { node, offset, bytes } => self.write(number, *node, *offset, bytes),
            Effect::SetLength { node, len } => self.set_length(number, *node, *len),
            Effect::SyncFile(node) => self.sync_file(*node, covers),
            Effect::SyncFolder(path) => self.sync_folder(path, covers)?,
            Effect::Rename { from, to } => self.rename(number, from, to)?,
            Effect::Remove(path) => self.remove(number, path)?,
        }
        Ok(())
    }
}
