//! A piece of work on a disk: many operations that lead to one end, driven by whoever owns the disk.

use core::fmt;

use heapless::Vec;

use super::{Completion, Disk, Token, Wait};

/// Draws the tokens of one job, so that one disk can serve many: the high half of each token is the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tokens {
    job: u32,
    next: u32,
}

impl Tokens {
    /// Tokens of this job, from zero.
    #[must_use]
    pub const fn new(job: u32) -> Self {
        Self { job, next: 0 }
    }

    /// The job they are for.
    #[must_use]
    pub const fn job(self) -> u32 {
        self.job
    }

    /// The next token. They repeat after 2^32, far beyond what can be in flight.
    pub fn draw(&mut self) -> Token {
        let token = Token((u64::from(self.job) << 32) | u64::from(self.next));
        self.next = self.next.wrapping_add(1);
        token
    }
}

/// Something that is done in many operations: a segment, a manifest, a part of a sink's output.
///
/// Its driver calls `advance`, reaps, hands each completion of the work's job to `on_completion`, and calls
/// `advance` again, until `is_done`. A work is done only when nothing of it is in flight.
pub trait Work<D: Disk> {
    /// Submits what can be submitted now. Never waits. With none of its operations in flight it submits one,
    /// or is done, unless the disk has no block to lend.
    fn advance(&mut self, disk: &mut D, tokens: &mut Tokens);

    /// Takes the end of one of its operations; a block that comes back is reused or recycled.
    fn on_completion(&mut self, completion: Completion<D::Block>, disk: &mut D);

    /// Whether it has come to its end, good or bad.
    fn is_done(&self) -> bool;
}

/// Why [`run_to_end`] gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The disk has operations of somebody else in flight.
    Busy {
        /// How many.
        in_flight: usize,
    },
    /// The work is not done, but nothing is in flight and it submits nothing.
    Stalled,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy { in_flight } => {
                write!(f, "the disk has {in_flight} operations of other work in flight: reap them first")
            }
            Self::Stalled => f.write_str("the work waits for nothing: give the disk's blocks back to it"),
        }
    }
}

impl core::error::Error for RunError {}

/// Drives one work on a disk that nobody else uses, waiting for the disk, until the work is done.
///
/// # Errors
/// [`RunError`] when the disk is in use or the work cannot go on; whether the work itself went well it says
/// itself.
pub fn run_to_end<D: Disk, W: Work<D> + ?Sized>(disk: &mut D, work: &mut W) -> Result<(), RunError> {
    let in_flight = disk.in_flight();
    if in_flight > 0 {
        return Err(RunError::Busy { in_flight });
    }
    let mut tokens = Tokens::new(u32::MAX);
    let mut ended = Vec::<Completion<D::Block>, 16>::new();
    while !work.is_done() {
        work.advance(disk, &mut tokens);
        let reaped = disk.reap(Wait::ForOne, &mut ended);
        while let Some(completion) = ended.pop() {
            work.on_completion(completion, disk);
        }
        if reaped == 0 && !work.is_done() && disk.in_flight() == 0 {
            return Err(RunError::Stalled);
        }
    }
    Ok(())
}
