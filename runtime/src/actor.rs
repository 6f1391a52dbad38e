//! Everything that runs is an actor: it does a bounded piece of work per `step` and never blocks.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use slackwater_core::queue::RoomWanted;
use slackwater_core::time::{Millis, Now};

mod guarded;

pub(crate) use self::guarded::Guarded;

/// A task, the coordinator or the writer.
///
/// A driver calls [`Actor::step`] again and again: at once after [`Step::Progress`], after a wake-up or at
/// the deadline after [`Step::Parked`], never after [`Step::Finished`].
pub trait Actor: Send {
    /// Does about one batch of work. Never waits for input, room, the disk or a lock held for long.
    fn step(&mut self, now: Now) -> Step;

    /// Who is to be woken when there is something to do again.
    fn set_waker(&mut self, waker: Waker);

    /// Its name, for errors and threads.
    fn name(&self) -> &str;

    /// Waits until the disk has ended an operation. Only for a driver that may block, only after the actor
    /// parked on [`ParkedOn::Disk`]; another driver calls `step` when its disk has something.
    fn wait_for_disk(&mut self) {}
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is more to do.
    Progress,
    /// Nothing to do until a wake-up or the deadline.
    Parked(Parked),
    /// Done for good.
    Finished,
}

/// Why and until when an actor rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parked {
    /// Monotonic time at which it wants to be called even if nobody woke it.
    pub deadline: Option<Millis>,
    /// What it waits for.
    pub on: ParkedOn,
}

/// What an actor waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParkedOn {
    /// Records or marks on its channels.
    Input,
    /// Room in a queue behind it or in its sink, or memory that snapshots hold.
    Room,
    /// Messages.
    Mail,
    /// An operation of the disk that is in flight.
    Disk,
}

impl Step {
    /// Parked without a deadline.
    #[must_use]
    pub const fn parked(on: ParkedOn) -> Self {
        Self::Parked(Parked { deadline: None, on })
    }
}

/// Wakes one actor, from anywhere, as often as you like. A wake-up may be spurious.
#[derive(Clone, Default)]
pub(crate) struct Signal {
    driver: Arc<DriverWaker>,
}

#[derive(Default)]
struct DriverWaker {
    /// Of whoever drives the actor now.
    waker: Mutex<Option<Waker>>,
    /// The actor rests until there is room in a queue behind it.
    room: RoomWanted,
}

impl Signal {
    pub(crate) fn set(&self, waker: Waker) {
        *lock(&self.driver.waker) = Some(waker);
    }

    pub(crate) fn wake(&self) {
        self.driver.wake_by_ref();
    }

    /// Whether to look for room once more before a rest; see [`RoomWanted::want`].
    pub(crate) fn want_room(&self) -> bool {
        self.driver.room.want()
    }

    /// Wakes the actor if it waits for room; call this when there is more.
    pub(crate) fn made_room(&self) {
        if self.driver.room.made() {
            self.wake();
        }
    }

    /// Wakes the actor whoever drives it; for those who know no signals.
    pub(crate) fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.driver))
    }
}

impl Wake for DriverWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(waker) = &*lock(&self.waker) {
            waker.wake_by_ref();
        }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signal")
    }
}

/// The messages to one actor. Cloning gives another handle to the same box.
pub(crate) struct Mailbox<M> {
    queue: Arc<Mutex<VecDeque<M>>>,
    signal: Signal,
}

impl<M> Mailbox<M> {
    pub(crate) fn new(signal: Signal) -> Self {
        Self { queue: Arc::default(), signal }
    }

    /// Puts a message in and wakes the receiver.
    pub(crate) fn send(&self, message: M) {
        lock(&self.queue).push_back(message);
        self.signal.wake();
    }

    /// Wakes the receiver without a message.
    pub(crate) fn wake(&self) {
        self.signal.wake();
    }

    pub(crate) fn receive(&self) -> Option<M> {
        lock(&self.queue).pop_front()
    }
}

impl<M> Clone for Mailbox<M> {
    fn clone(&self) -> Self {
        Self { queue: Arc::clone(&self.queue), signal: self.signal.clone() }
    }
}

impl<M> fmt::Debug for Mailbox<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("waiting", &lock(&self.queue).len()).finish()
    }
}

/// A lock whose owner panicked is taken all the same: no value behind one is ever left half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
