//! A disk whose power can fail at every operation.
//!
//! # Fault model
//! - Operations are numbered from 1 in the order of their submission. They take effect in an order chosen by
//!   the seed, and their completions are delivered later still.
//! - The power can go before or after any operation. From then on nothing takes effect and everything fails.
//! - What a power cut leaves ([`SimDisk::image_after_power_cut`]): everything synced, and of the rest a part
//!   that the seed chooses. Each unsynced sector of 512 bytes is as it was after any one of the writes that
//!   touched it since the sync, or before them all; a write is thereby torn. A file's length likewise,
//!   independently of its bytes. Names (made, removed, renamed) since the sync of their folder survive one
//!   without the other; only changes of the same name keep their order, and a rename's old name does not go
//!   before its new name is there.
//! - A sync covers the operations whose completions were reaped before it was submitted, and no others.
//!   Syncing a file does not make its name durable, syncing a folder does not make its files' bytes durable.
//! - Any operation can be made to fail ([`SimDisk::fail`]). A failed write may have written a part. What a
//!   failed sync should have covered is never made durable by a later one.
//! - The disk can be full ([`SimOptions::capacity`]), and it can lie about syncs ([`Lies`]).
//! - Not modelled: bits that rot, writes that land elsewhere, synced things that go.
//!
//! A breach of the contract of [`Disk`] (a misaligned write, a file that is not open) is a panic.

mod file_system;
mod pending;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use heapless::VecView;
use slackwater_core::durable::{
    Completion, Disk, DiskError, Entry, Frozen, Operation, OperationKind, Token, Wait,
};

use crate::rng::Rng;
use file_system::FileSystem;
use pending::State;

/// How a simulated disk behaves.
#[derive(Clone, Copy, Debug)]
pub struct SimOptions {
    /// Decides about orders, delays and what is lost.
    pub seed: u64,
    /// Blocks lent out at the same time.
    pub blocks: usize,
    /// Operations in flight at the same time.
    pub in_flight_max: usize,
    /// Room in bytes.
    pub capacity: u64,
    /// What the disk does not do although it says so.
    pub lies: Lies,
}

impl Default for SimOptions {
    fn default() -> Self {
        Self { seed: 0, blocks: 16, in_flight_max: 8, capacity: 1 << 30, lies: Lies::default() }
    }
}

/// Syncs that do nothing: with these on, a test of durability has to fail.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lies {
    /// `SyncFile` does nothing.
    pub sync_file: bool,
    /// `SyncFolder` does nothing.
    pub sync_folder: bool,
}

/// When the power goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Just before this operation takes effect.
    Before(u64),
    /// Just after it has taken effect, before anybody knows.
    After(u64),
}

/// A simulated disk; clones are the same disk.
pub struct SimDisk<F: Frozen> {
    state: Arc<Mutex<State<F>>>,
}

/// A block of a simulated disk.
#[derive(Debug)]
pub struct SimBlock(Box<[u8]>);

impl<F: Frozen> SimDisk<F> {
    /// An empty disk.
    #[must_use]
    pub fn new(options: SimOptions) -> Self {
        Self::with_files(options, FileSystem::new())
    }

    fn with_files(options: SimOptions, files: FileSystem) -> Self {
        Self { state: Arc::new(Mutex::new(State::new(options, files))) }
    }

    /// How many operations have been submitted.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state().operations()
    }

    /// What kind of operation each one so far was.
    #[must_use]
    pub fn history(&self) -> Vec<OperationKind> {
        self.state().history.clone()
    }

    /// Orders a power cut.
    pub fn cut_power(&self, cut: Cut) {
        self.state().cut = Some(cut);
    }

    /// Whether the power has gone.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.state().off
    }

    /// Makes an operation fail with an error of the system (`DiskError::IO`, `DiskError::NO_SPACE`).
    pub fn fail(&self, operation: u64, errno: i32) {
        self.state().failures.push((operation, errno));
    }

    /// What a program finds that starts again after the power goes now; the seed says what is lost, and how
    /// the new disk behaves. The new disk is honest and has no cut or failure ordered.
    #[must_use]
    pub fn image_after_power_cut(&self, seed: u64) -> Self {
        let state = self.state();
        let files = state.files.after_power_cut(&mut Rng::new(seed));
        Self::with_files(SimOptions { seed, lies: Lies::default(), ..state.options }, files)
    }

    /// What a program finds that starts again after this one was killed now, the power staying on: all that
    /// took effect is there, synced or not, and can still be lost in a later power cut.
    #[must_use]
    pub fn image_after_kill(&self, seed: u64) -> Self {
        let state = self.state();
        let options = SimOptions { seed, lies: Lies::default(), ..state.options };
        Self::with_files(options, state.files.inherited())
    }

    /// The whole of a file as a running program sees it.
    #[must_use]
    pub fn read_file(&self, path: &str) -> Option<Vec<u8>> {
        let state = self.state();
        let (node, len) = state.files.open(path).ok()?;
        let mut bytes = vec![0; len];
        state.files.read(node, 0, &mut bytes);
        Some(bytes)
    }

    /// The names in a folder, in order; nothing if there is no such folder.
    #[must_use]
    pub fn names(&self, folder: &str) -> Vec<String> {
        let state = self.state();
        let names = state.files.list(folder).unwrap_or_default();
        names.into_iter().map(|(name, ..)| name.to_owned()).collect()
    }

    fn state(&self) -> MutexGuard<'_, State<F>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Frozen> Disk for SimDisk<F> {
    type Block = SimBlock;
    type Frozen = F;

    fn block(&mut self) -> Option<SimBlock> {
        self.state().lend_block().then(|| SimBlock(vec![0xEE; 64 << 10].into()))
    }

    fn recycle(&mut self, block: SimBlock) {
        drop(block);
        self.state().take_back_block();
    }

    fn submit<'p>(
        &mut self,
        token: Token,
        operation: Operation<'p, SimBlock, F>,
    ) -> Result<(), Operation<'p, SimBlock, F>> {
        self.state().submit(token, operation)
    }

    fn reap(&mut self, wait: Wait, out: &mut VecView<Completion<SimBlock>>) -> usize {
        self.state().reap(wait, out)
    }

    fn in_flight(&self) -> usize {
        self.state().in_flight()
    }

    fn list(&mut self, folder: &str, each: &mut dyn FnMut(Entry<'_>)) -> Result<(), DiskError> {
        let state = self.state();
        let failed = |errno| DiskError { operation: OperationKind::List, errno };
        if state.off {
            return Err(failed(DiskError::IO));
        }
        for (name, is_folder, len) in state.files.list(folder).map_err(failed)? {
            each(Entry { name, is_folder, len });
        }
        Ok(())
    }
}

impl<F: Frozen> Clone for SimDisk<F> {
    fn clone(&self) -> Self {
        Self { state: Arc::clone(&self.state) }
    }
}

impl<F: Frozen> fmt::Debug for SimDisk<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        let mut shown = f.debug_struct("SimDisk");
        shown.field("operations", &state.operations()).field("off", &state.off).finish_non_exhaustive()
    }
}

impl AsRef<[u8]> for SimBlock {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsMut<[u8]> for SimBlock {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests;
