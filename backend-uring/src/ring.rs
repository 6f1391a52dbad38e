//! The ring and its table of transfers in flight.
//!
//! # Invariants
//! - R1: a transfer's buffer stays in the table, untouched, from the moment its entry is queued until the
//!   kernel has completed it or can no longer see it; if neither can be had, the buffer is leaked.
//! - R2: a completion is matched by slot and generation, so a late one finds nobody.
//! - R3: the submission queue has at least as many places as the table has slots.
#![expect(unsafe_code, reason = "the kernel reads and writes buffers through raw addresses")]

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::{EnterFlags, IoUring, Probe, opcode, squeue, types};
use slackwater_core::durable::{Frozen, Token};

use crate::block::Block;
use crate::files::Errno;
use crate::unavailable::UringUnavailable;

#[cfg(test)]
mod tests;

/// What the kernel reads from or writes to.
#[derive(Debug)]
pub(crate) enum Buffer<F> {
    /// Written from a block.
    Write(Block),
    /// Written from frozen frames.
    Frozen(F),
    /// Read into a block.
    Read(Block),
}

/// A read or a write, until all its bytes have gone.
#[derive(Debug)]
pub(crate) struct Transfer<F> {
    pub(crate) token: Token,
    pub(crate) file: Arc<File>,
    pub(crate) offset: u64,
    pub(crate) len: usize,
    /// Bytes that have gone.
    pub(crate) done: usize,
    /// What the start of the remainder of a short transfer must be a multiple of.
    pub(crate) step: usize,
    /// Completions in a row that brought nothing.
    pub(crate) stalls: u8,
    pub(crate) buffer: Buffer<F>,
}

/// A transfer that the kernel has given back, and how many bytes went.
pub(crate) struct Ended<F> {
    pub(crate) token: Token,
    pub(crate) result: Result<usize, Errno>,
    /// None if the kernel never gave it back.
    pub(crate) buffer: Option<Buffer<F>>,
}

struct Slot<F> {
    generation: u32,
    transfer: Option<Transfer<F>>,
}

pub(crate) struct Ring<F: Frozen> {
    // Dropped before the buffers in `slots`.
    ring: IoUring,
    slots: Vec<Slot<F>>,
    free: Vec<u32>,
    /// Slots whose entry is queued but not yet taken by the kernel, oldest first.
    queued: VecDeque<u32>,
    ended: VecDeque<Ended<F>>,
    /// Refusals in a row.
    refusals: u32,
    /// Why nothing more is submitted.
    broken: Option<Errno>,
}

/// Completions without progress, or refusals for lack of memory, before giving up.
const STALLS_MAX: u8 = 64;
const REFUSALS_MAX: u32 = 10_000;

impl<F: Frozen> Ring<F> {
    pub(crate) fn new(slots: u32) -> Result<Self, UringUnavailable> {
        let slots = slots.clamp(1, 4096);
        let ring =
            IoUring::new(slots.next_power_of_two()).map_err(|error| UringUnavailable::from_setup(&error))?;
        check_features(&ring)?;
        Ok(Self {
            ring,
            slots: (0..slots).map(|_index| Slot { generation: 0, transfer: None }).collect(),
            free: (0..slots).rev().collect(),
            queued: VecDeque::new(),
            ended: VecDeque::new(),
            refusals: 0,
            broken: None,
        })
    }

    /// Transfers that have not ended.
    pub(crate) const fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) const fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    pub(crate) fn ended_len(&self) -> usize {
        self.ended.len()
    }

    pub(crate) fn pop_ended(&mut self) -> Option<Ended<F>> {
        self.ended.pop_front()
    }

    /// Starts a transfer. There must be room.
    pub(crate) fn start(&mut self, transfer: Transfer<F>) {
        let index = self.free.pop().expect("the caller has asked whether there is room");
        self.slots[index as usize].transfer = Some(transfer);
        self.queue(index);
        self.enter(0);
    }

    /// Takes completions, waiting for one if `wait` and any transfer is in flight.
    pub(crate) fn reap(&mut self, wait: bool) {
        let want = usize::from(wait && self.in_flight() > 0);
        self.enter(want);
        loop {
            // One at a time: completing may queue the remainder.
            let Some(entry) = self.ring.completion().next() else { break };
            self.complete(entry.user_data(), entry.result());
        }
        self.enter(0);
    }

    fn queue(&mut self, index: u32) {
        if let Some(errno) = self.broken {
            self.end(index, Err(errno));
            return;
        }
        let slot = &mut self.slots[index as usize];
        let Some(transfer) = &mut slot.transfer else { return };
        let user_data = u64::from(index) | (u64::from(slot.generation) << 32);
        let entry = entry_of(transfer).user_data(user_data);
        // SAFETY: the entry's addresses lie in the transfer's buffer, which stays in the slot until the
        // completion (R1); its descriptor is kept open by the transfer's file.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the queue has a place for every slot (R3)");
        self.queued.push_back(index);
    }

    /// Hands the queue to the kernel and waits for `want` completions.
    fn enter(&mut self, want: usize) {
        if want == 0 && self.queued.is_empty() {
            return;
        }
        let entered = match self.broken {
            None => self.ring.submit_and_wait(want),
            Some(_) if want == 0 => return,
            Some(_) => self.only_wait(),
        };
        match entered {
            Ok(taken) => {
                self.refusals = 0;
                self.queued.drain(..taken.min(self.queued.len()));
            }
            Err(error) => self.refused(error.raw_os_error().unwrap_or(libc::EIO)),
        }
    }

    /// EINTR: the caller comes again. EAGAIN and EBUSY: the kernel lacks memory or wants completions reaped.
    fn refused(&mut self, errno: Errno) {
        self.refusals += 1;
        let is_passing = matches!(errno, libc::EINTR | libc::EAGAIN | libc::EBUSY);
        if errno == libc::EINTR || (is_passing && self.refusals < REFUSALS_MAX) {
            std::thread::yield_now();
        } else if self.broken.is_none() {
            self.give_up(errno);
        } else {
            self.lose_all(errno);
        }
    }

    /// The kernel takes no more entries: those that are queued fail, the others are still waited for.
    fn give_up(&mut self, errno: Errno) {
        self.broken = Some(errno);
        for index in std::mem::take(&mut self.queued) {
            self.end(index, Err(errno));
        }
    }

    /// Not even waiting works: the buffers can never be used again (R1).
    fn lose_all(&mut self, errno: Errno) {
        for (index, slot) in (0..).zip(&mut self.slots) {
            if let Some(transfer) = slot.transfer.take() {
                slot.generation = slot.generation.wrapping_add(1);
                self.free.push(index);
                self.ended.push_back(Ended { token: transfer.token, result: Err(errno), buffer: None });
                Box::leak(Box::new(transfer));
            }
        }
    }

    fn only_wait(&self) -> io::Result<usize> {
        // SAFETY: nothing is submitted and no argument is passed.
        unsafe { self.ring.submitter().enter::<()>(0, 1, EnterFlags::GETEVENTS.bits(), None) }
    }

    fn complete(&mut self, user_data: u64, result: i32) {
        let [index, generation] = [user_data & u64::from(u32::MAX), user_data >> 32];
        let slot = usize::try_from(index).ok().and_then(|index| self.slots.get_mut(index));
        let transfer = slot.filter(|slot| u64::from(slot.generation) == generation);
        let Some(transfer) = transfer.and_then(|slot| slot.transfer.as_mut()) else {
            debug_assert!(false, "a completion nobody waits for (R2)");
            return;
        };
        let index = u32::try_from(index).expect("it was masked");
        match transfer.advance(result) {
            Progress::Ended(result) => self.end(index, result),
            Progress::More => self.queue(index),
        }
    }

    fn end(&mut self, index: u32, result: Result<usize, Errno>) {
        let slot = &mut self.slots[index as usize];
        let Some(transfer) = slot.transfer.take() else { return };
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        self.ended.push_back(Ended { token: transfer.token, result, buffer: Some(transfer.buffer) });
    }
}

impl<F: Frozen> Drop for Ring<F> {
    /// Waits for the kernel: it may still use the buffers.
    fn drop(&mut self) {
        while self.in_flight() > 0 {
            self.reap(true);
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Progress {
    Ended(Result<usize, Errno>),
    More,
}

impl<F> Transfer<F> {
    /// What one completion means: the end, or a remainder to be submitted.
    fn advance(&mut self, result: i32) -> Progress {
        let Ok(count) = usize::try_from(result) else {
            return match -result {
                libc::EINTR | libc::EAGAIN => self.again(0),
                errno => Progress::Ended(Err(errno)),
            };
        };
        let done = self.done + count;
        if done >= self.len {
            return Progress::Ended(Ok(self.len));
        }
        match self.buffer {
            Buffer::Read(_) if count == 0 || self.is_at_end(done) => Progress::Ended(Ok(done)),
            Buffer::Read(_) | Buffer::Write(_) | Buffer::Frozen(_) => self.again(count),
        }
    }

    /// The rest, from a position that direct I/O takes. A transfer that gets nowhere fails.
    fn again(&mut self, count: usize) -> Progress {
        let done = (self.done + count) / self.step * self.step;
        self.stalls = if done > self.done { 0 } else { self.stalls + 1 };
        self.done = done.max(self.done);
        if self.stalls < STALLS_MAX { Progress::More } else { Progress::Ended(Err(libc::EIO)) }
    }

    fn is_at_end(&self, done: usize) -> bool {
        let position = self.offset + done as u64;
        self.file.metadata().is_ok_and(|about| position >= about.len())
    }
}

/// The entry for what is left of a transfer.
fn entry_of<F: Frozen>(transfer: &mut Transfer<F>) -> squeue::Entry {
    // One call moves less than 2 GiB; a longer transfer goes on like a short one.
    const CALL_MAX: usize = 1 << 30;
    let file = types::Fd(transfer.file.as_raw_fd());
    let offset = transfer.offset + transfer.done as u64;
    let end = transfer.len.min(transfer.done + CALL_MAX);
    let range = transfer.done..end;
    let len = u32::try_from(range.len()).expect("it is at most CALL_MAX");
    match &mut transfer.buffer {
        Buffer::Write(block) => {
            opcode::Write::new(file, block.as_ref()[range].as_ptr(), len).offset(offset).build()
        }
        Buffer::Frozen(run) => {
            opcode::Write::new(file, run.bytes()[range].as_ptr(), len).offset(offset).build()
        }
        Buffer::Read(block) => {
            opcode::Read::new(file, block.as_mut()[range].as_mut_ptr(), len).offset(offset).build()
        }
    }
}

/// Linux 5.6: reads and writes by address, and a completion queue that loses nothing.
fn check_features(ring: &IoUring) -> Result<(), UringUnavailable> {
    let mut probe = Probe::new();
    let is_probed = ring.submitter().register_probe(&mut probe).is_ok();
    let missing = if !is_probed {
        "the probe for operations"
    } else if !probe.is_supported(opcode::Write::CODE) || !probe.is_supported(opcode::Read::CODE) {
        "reads and writes by address"
    } else if !ring.params().is_feature_nodrop() {
        "a completion queue that loses nothing"
    } else {
        return Ok(());
    };
    Err(UringUnavailable::TooOld { missing })
}
