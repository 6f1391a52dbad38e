//! What is left when the power goes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::vec::Vec;

use super::{Change, File, FileSystem, Folder, Names, Node, NodeId, ROOT, What, apply, put};
use crate::sim::rng::Rng;

/// Writes are torn at multiples of this many bytes.
pub(in crate::sim) const SECTOR: usize = 512;

/// How likely it is that a change which no sync covers survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum Chances {
    /// As likely as not, each by itself: the disk was in the middle of writing them.
    Even,
    /// One of several likelihoods for all names, and one for each file.
    Any,
}

/// What a power cut took and in which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Writes of which nothing is left.
    pub writes: u64,
    /// Writes of which some sectors are left and others are not.
    pub torn_writes: u64,
    /// Changes of a file's length.
    pub lengths: u64,
    /// Names made, removed or renamed.
    pub names: u64,
    /// Whether something is left although something older is not.
    pub is_reordered: bool,
}

/// The choices of one power cut.
struct Draw<'r> {
    rng: &'r mut Rng,
    chances: Chances,
    lost: Lost,
    first_lost: Option<u64>,
    last_kept: Option<u64>,
}

impl FileSystem {
    /// What is left when the power goes now: durable things, and of the others what the seed says.
    pub(in crate::sim) fn after_power_cut(&self, rng: &mut Rng, chances: Chances) -> (Self, Lost) {
        let mut draw = Draw { rng, chances, lost: Lost::default(), first_lost: None, last_kept: None };
        let left = self.names_left(&mut draw);
        let mut image = Self::new();
        self.copy_folder(ROOT, &left, &mut image, ROOT, &mut draw);
        (image, draw.result())
    }

    /// What is left when the process ends and the power stays on: everything. What is not durable yet a sync of the
    /// next process covers, whose operations are numbered anew.
    pub(in crate::sim) fn after_kill(&self) -> Self {
        let mut left = self.clone();
        Arc::make_mut(&mut left.edits).iter_mut().for_each(|edit| edit.operation = 0);
        for node in &mut left.nodes {
            if let Node::File(file) = node
                && !file.pending.is_empty()
            {
                Arc::make_mut(file).pending.iter_mut().for_each(|change| change.operation = 0);
            }
        }
        left
    }

    fn names_left(&self, draw: &mut Draw<'_>) -> Vec<Names> {
        let keep = draw.percent();
        let mut left: Vec<Names> = self.nodes.iter().map(durable_names_of).collect();
        let mut lost: Vec<(NodeId, &str)> = Vec::new();
        let mut previous_kept = true;
        for edit in self.edits.iter() {
            let name = (edit.folder, edit.name.as_str());
            let allowed = !lost.contains(&name) && (previous_kept || !edit.needs_previous);
            previous_kept = draw.keeps(edit.operation, if allowed { keep } else { 0 });
            if previous_kept {
                apply(&mut left[edit.folder.0], &edit.name, edit.node);
            } else {
                draw.lost.names += 1;
                lost.push(name);
            }
        }
        left
    }

    fn copy_folder(&self, from: NodeId, left: &[Names], image: &mut Self, to: NodeId, draw: &mut Draw<'_>) {
        for (name, node) in &left[from.0] {
            let copy = match &self.nodes[node.0] {
                Node::File(file) => image.add(Node::File(after_power_cut(file, draw))),
                Node::Folder(_) => {
                    let folder = image.add(Node::Folder(Arc::default()));
                    self.copy_folder(*node, left, image, folder, draw);
                    folder
                }
            };
            let Folder { now, durable } = image.folder_mut(to);
            apply(now, name, Some(copy));
            apply(durable, name, Some(copy));
        }
    }
}

/// Each sector is as it was after one of the writes that touched it, the length as after one of the changes.
fn after_power_cut(file: &Arc<File>, draw: &mut Draw<'_>) -> Arc<File> {
    if file.pending.is_empty() {
        return Arc::clone(file);
    }
    let keep = draw.percent();
    let mut bytes = file.durable.clone();
    let mut len = bytes.len();
    let mut length_lost = false;
    let mut lost_sectors = BTreeSet::new();
    for Change { operation, what, .. } in &file.pending {
        match what {
            What::Length(new) if !length_lost && draw.keeps(*operation, keep) => len = *new,
            What::Length(_) => {
                draw.lost.lengths += 1;
                length_lost = true;
            }
            What::Bytes { offset, bytes: new } => {
                let mut kept = 0;
                let parts = new.chunks(SECTOR);
                let count = parts.len();
                for (part, at) in parts.zip((*offset..).step_by(SECTOR)) {
                    if !lost_sectors.contains(&at) && draw.keeps(*operation, keep) {
                        put(&mut bytes, at, part);
                        kept += 1;
                    } else {
                        lost_sectors.insert(at);
                    }
                }
                draw.lost.writes += u64::from(kept == 0 && count > 0);
                draw.lost.torn_writes += u64::from(kept > 0 && kept < count);
            }
        }
    }
    bytes.resize(len, 0);
    Arc::new(File { now: bytes.clone(), durable: bytes, pending: Vec::new() })
}

impl Draw<'_> {
    fn percent(&mut self) -> u64 {
        // All lost and all kept are likely in practice and too unlikely by fair coins alone.
        match self.chances {
            Chances::Even => 50,
            Chances::Any => [0, 100, 50, 50, 10, 90][self.rng.index(6)],
        }
    }

    /// Whether a change by this operation survives.
    fn keeps(&mut self, operation: u64, percent: u64) -> bool {
        let is_kept = self.rng.chance(percent);
        if is_kept {
            self.last_kept = self.last_kept.max(Some(operation));
        } else {
            self.first_lost = Some(self.first_lost.map_or(operation, |first| first.min(operation)));
        }
        is_kept
    }

    fn result(self) -> Lost {
        let is_reordered = self.first_lost.is_some_and(|lost| Some(lost) < self.last_kept);
        Lost { is_reordered, ..self.lost }
    }
}

fn durable_names_of(node: &Node) -> Names {
    match node {
        Node::Folder(folder) => folder.durable.clone(),
        Node::File(_) => Names::new(),
    }
}
