//! What all attempts of a job came to, in bounded memory however many there are.

use crate::error::JobError;
use crate::job::Report;
use crate::recovery::PassedOver;
use crate::shared::keep_note;

/// Different causes that are told apart.
const CAUSES_MAX: usize = 16;
/// Checkpoints passed over that are listed.
const PASSED_OVER_MAX: usize = 64;

/// Why a job was started again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The failure.
    pub error: JobError,
    /// How often.
    pub times: u64,
}

/// The sum of the attempts so far.
#[derive(Debug, Default)]
pub(super) struct Account {
    sum: Option<Report>,
    causes: Vec<Cause>,
}

impl Account {
    /// Adds an attempt.
    pub(super) fn add(&mut self, attempt: Report) {
        let Some(sum) = &mut self.sum else {
            self.sum = Some(attempt);
            return;
        };
        sum.bytes_read += attempt.bytes_read;
        sum.source_records += attempt.source_records;
        sum.records += attempt.records;
        sum.checkpoints_completed += attempt.checkpoints_completed;
        sum.checkpoints_failed += attempt.checkpoints_failed;
        sum.bytes_after_resume += attempt.bytes_after_resume;
        sum.last_checkpoint = attempt.last_checkpoint.or(sum.last_checkpoint);
        sum.stopped_with = attempt.stopped_with.or(sum.stopped_with);
        let is_new = |over: &PassedOver| !sum.passed_over.contains(over);
        let room = PASSED_OVER_MAX.saturating_sub(sum.passed_over.len());
        let new: Vec<_> = attempt.passed_over.into_iter().filter(is_new).take(room).collect();
        sum.passed_over.extend(new);
        attempt.notes.into_iter().for_each(|note| keep_note(&mut sum.notes, note));
    }

    /// Notes why the job starts again. The first causes are kept, since later ones often follow from them.
    pub(super) fn restarting(&mut self, error: &JobError) {
        if let Some(cause) = self.causes.iter_mut().find(|cause| cause.error == *error) {
            cause.times += 1;
        } else if self.causes.len() < CAUSES_MAX {
            self.causes.push(Cause { error: error.clone(), times: 1 });
        }
    }

    pub(super) fn report(&self, restarts: u64) -> Report {
        let sum = self.sum.clone().unwrap_or_default();
        Report { restarts, causes: self.causes.clone(), ..sum }
    }
}
