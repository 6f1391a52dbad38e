//! The simulated disk itself.

use core::fmt;
use std::borrow::ToOwned;
use std::boxed::Box;
use std::string::String;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec;
use std::vec::Vec;

use heapless::VecView;
use slackwater_core::durable::{
    Completion, Disk, DiskError, Entry, Frozen, Operation, OperationKind, Token, Wait,
};

use super::file_system::{Chances, FileSystem};
use super::log::Log;
use super::rng::Rng;
use state::State;

mod state;

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

/// What a disk, or the system before it, says without doing it: with these on, a test of durability has to fail.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lies {
    /// `SyncFile` does nothing.
    pub sync_file: bool,
    /// `SyncFolder` does nothing.
    pub sync_folder: bool,
    /// After a sync of a file has failed, the next one says that all is well, as kernels do.
    pub sync_again: bool,
}

/// What goes wrong with one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// It fails with this error of the system (`DiskError::IO`, `DiskError::NO_SPACE`). A write may have written
    /// a part; what a sync should have covered is never made durable by a later one.
    Error(i32),
    /// A write says that it is done, but only its front part has reached the disk.
    ShortWrite,
    /// A write says that it is done, but landed at another place in the file.
    MisdirectedInFile,
    /// A write says that it is done, but landed in another file below the same topmost folder.
    MisdirectedToFile,
}

/// An operation that was submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// What kind it was.
    pub kind: OperationKind,
    /// The file or folder that it was about; the old name of a rename.
    pub path: String,
}

/// A simulated disk; clones are the same disk.
///
/// What it does to what lies on it is told in the [module's documentation](super). A breach of the contract of
/// [`Disk`] (a misaligned write, a file that is not open) is a panic.
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

    pub(super) fn with_files(options: SimOptions, files: FileSystem) -> Self {
        Self { state: Arc::new(Mutex::new(State::new(options, files))) }
    }

    /// How many operations have been submitted; they are numbered from 1 in that order.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state().operations()
    }

    /// The operation with this number.
    #[must_use]
    pub fn submitted(&self, operation: u64) -> Option<Submitted> {
        let index = usize::try_from(operation.checked_sub(1)?).ok()?;
        self.state().history.get(index).cloned()
    }

    /// Every operation so far, in the order of their numbers.
    #[must_use]
    pub fn history(&self) -> Vec<Submitted> {
        self.state().history.clone()
    }

    /// Starts to keep what a power cut could leave at each operation from now on.
    #[must_use]
    pub fn log(&self) -> Log {
        let mut state = self.state();
        let log = Log::starting_from(state.files.clone());
        state.log = Some(log.clone());
        log
    }

    /// Lets something go wrong with an operation.
    pub fn inject(&self, operation: u64, fault: Fault) {
        self.state().faults.push((operation, fault));
    }

    /// The faults that have had an effect, each with its operation.
    #[must_use]
    pub fn injected(&self) -> Vec<(Submitted, Fault)> {
        self.state().injected.clone()
    }

    /// Makes the disk larger, or smaller: then it is full until enough has been removed.
    pub fn set_capacity(&self, bytes: u64) {
        self.state().options.capacity = bytes;
    }

    /// Puts these bytes into a file, durably, as if they had always been there.
    ///
    /// # Errors
    /// The system's error if there is no such file.
    pub fn overwrite(&self, path: &str, bytes: &[u8]) -> Result<(), DiskError> {
        let mut state = self.state();
        let opened = state.files.open(path);
        let (node, _) = opened.map_err(|errno| DiskError { operation: OperationKind::OpenFile, errno })?;
        state.files.overwrite(node, bytes);
        Ok(())
    }

    /// Turns a bit of a file over where it lies, durably. Nothing happens beyond the end of the file.
    ///
    /// # Errors
    /// The system's error if there is no such file.
    pub fn flip_bit(&self, path: &str, bit: usize) -> Result<(), DiskError> {
        let mut state = self.state();
        let opened = state.files.open(path);
        let (node, _) = opened.map_err(|errno| DiskError { operation: OperationKind::OpenFile, errno })?;
        state.files.flip_bit(node, bit);
        Ok(())
    }

    /// What a program finds that starts again after the power goes now; the seed says what is lost, and how
    /// the new disk behaves. The new disk is honest and nothing goes wrong with it.
    #[must_use]
    pub fn image_after_power_cut(&self, seed: u64) -> Self {
        let state = self.state();
        let (files, _) = state.files.after_power_cut(&mut Rng::new(seed), Chances::Any);
        Self::with_files(SimOptions { seed, lies: Lies::default(), ..state.options }, files)
    }

    /// What a program finds that starts again after this one was killed now, the power staying on: all that
    /// took effect is there, synced or not, and can still be lost in a later power cut.
    #[must_use]
    pub fn image_after_kill(&self, seed: u64) -> Self {
        let state = self.state();
        let options = SimOptions { seed, lies: Lies::default(), ..state.options };
        Self::with_files(options, state.files.after_kill())
    }

    /// The whole of a file as a running program sees it.
    #[must_use]
    pub fn read_file(&self, path: &str) -> Option<Vec<u8>> {
        let state = self.state();
        let (node, _) = state.files.open(path).ok()?;
        Some(state.files.bytes(node).to_vec())
    }

    /// Whether a running program finds a file of this name.
    #[must_use]
    pub fn is_there(&self, path: &str) -> bool {
        self.state().files.open(path).is_ok()
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
        let mut shown = f.debug_struct("SimDisk");
        shown.field("operations", &self.state().operations()).finish_non_exhaustive()
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
