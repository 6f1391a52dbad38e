//! What happened on a disk, operation by operation, with what lay on it in between.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

use slackwater_core::durable::OperationKind;

use super::disk::Submitted;
use super::file_system::{Effect, FileSystem};

/// Keeps what a power cut could leave at each operation of a disk; clones are the same log. It is made by
/// [`SimDisk::log`](super::SimDisk::log) or by a [`Recorder`](super::Recorder).
#[derive(Clone, Debug)]
pub struct Log {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    moments: Vec<Arc<Moment>>,
    promised: Option<u64>,
    in_flight: Vec<Arc<InFlight>>,
    files: FileSystem,
}

/// When an operation took effect.
#[derive(Debug)]
pub(super) struct Moment {
    pub(super) number: u64,
    pub(super) submitted: Submitted,
    pub(super) before: FileSystem,
    pub(super) after: FileSystem,
    /// What had been promised by then.
    pub(super) promised: Option<u64>,
    /// Others that may have taken effect although nobody knew.
    pub(super) in_flight: Vec<Arc<InFlight>>,
}

/// An operation that has been submitted and whose end nobody knows.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) number: u64,
    pub(super) effect: Option<Effect>,
    /// Those that were in flight when it was submitted.
    pub(super) unknown: Vec<u64>,
}

impl Log {
    pub(super) fn starting_from(files: FileSystem) -> Self {
        let inner = Inner { moments: Vec::new(), promised: None, in_flight: Vec::new(), files };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    /// Says that from now on somebody relies on what the program has done, whatever the number stands for: what
    /// an image shows of it is [`Image::promised`](super::Image::promised). Numbers go up; lower ones are ignored.
    pub fn promise(&self, number: u64) {
        let mut inner = self.lock();
        inner.promised = inner.promised.max(Some(number));
    }

    /// What has been promised so far.
    #[must_use]
    pub fn promised(&self) -> Option<u64> {
        self.lock().promised
    }

    /// The operations that have taken effect, in that order.
    #[must_use]
    pub fn history(&self) -> Vec<Submitted> {
        self.lock().moments.iter().map(|moment| moment.submitted.clone()).collect()
    }

    /// The number of operations that have taken effect.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().moments.len()
    }

    /// Whether nothing has taken effect.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Notes that an operation has taken effect and left these files.
    pub(super) fn add(
        &self,
        number: u64,
        submitted: &Submitted,
        files: &FileSystem,
        in_flight: Vec<Arc<InFlight>>,
    ) {
        let mut inner = self.lock();
        let after = files.clone();
        let before = core::mem::replace(&mut inner.files, after.clone());
        let (submitted, promised) = (submitted.clone(), inner.promised);
        inner.in_flight.clone_from(&in_flight);
        inner.moments.push(Arc::new(Moment { number, submitted, before, after, promised, in_flight }));
    }

    /// Notes what is in flight when nothing has taken effect.
    pub(super) fn set_in_flight(&self, in_flight: Vec<Arc<InFlight>>) {
        self.lock().in_flight = in_flight;
    }

    /// Every moment, and the present one behind the last.
    pub(super) fn moments(&self) -> (Vec<Arc<Moment>>, Arc<Moment>) {
        let inner = self.lock();
        let last = inner.moments.last();
        let path = last.map(|moment| moment.submitted.path.clone()).unwrap_or_default();
        let now = Moment {
            number: last.map_or(0, |moment| moment.number),
            submitted: Submitted { kind: last.map_or(OperationKind::List, |m| m.submitted.kind), path },
            before: inner.files.clone(),
            after: inner.files.clone(),
            promised: inner.promised,
            in_flight: inner.in_flight.clone(),
        };
        (inner.moments.clone(), Arc::new(now))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
