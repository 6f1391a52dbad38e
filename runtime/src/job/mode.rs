//! How barriers pass records in a job, as its options say.

use slackwater_core::gate::GateOptions;
use slackwater_core::ids::AlignmentOptions;
use slackwater_core::time::Millis;

use super::JobOptions;
use crate::error::JobError;

impl JobOptions {
    /// From which the form of each barrier follows.
    pub(crate) fn alignment(&self) -> AlignmentOptions {
        let aligned_timeout = Some(self.aligned_checkpoint_timeout).filter(|timeout| *timeout > Millis(0));
        AlignmentOptions { guarantee: self.mode, unaligned: self.unaligned, aligned_timeout }
    }

    /// How subtasks treat their channels.
    pub(crate) const fn gate(&self) -> GateOptions {
        GateOptions { guarantee: self.mode, unaligned: self.unaligned, ..GateOptions::ALIGNED }
    }

    /// Refuses modes that do not go together (rule U27). [`Job::assemble`](super::Job::assemble) does so, too.
    ///
    /// # Errors
    /// [`JobError::InvalidJob`].
    pub fn check_modes(&self) -> Result<(), JobError> {
        let invalid = |what: String| Err(JobError::InvalidJob { what });
        if self.alignment().validate().is_err() {
            return invalid(
                "unaligned checkpoints capture records so that each counts once, which at-least-once does not promise: \
                 choose one of the two"
                    .to_owned(),
            );
        }
        if self.unaligned && self.max_concurrent_checkpoints > 1 {
            let concurrent = self.max_concurrent_checkpoints;
            return invalid(format!(
                "{concurrent} checkpoints at the same time cannot be unaligned: allow one, or align them"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::CheckpointingMode;

    use super::*;

    #[test]
    fn u27_unaligned_checkpoints_are_exactly_once_and_one_at_a_time() {
        let refused = |options: &JobOptions| options.check_modes().map_err(|error| error.to_string());
        let unaligned = JobOptions { unaligned: true, ..JobOptions::new(1) };
        assert_eq!(refused(&unaligned), Ok(()));
        let least = JobOptions { mode: CheckpointingMode::AtLeastOnce, ..unaligned.clone() };
        assert!(refused(&least).unwrap_err().contains("at-least-once"));
        assert!(
            refused(&JobOptions { max_concurrent_checkpoints: 2, ..unaligned })
                .unwrap_err()
                .contains("allow one")
        );
        let several = JobOptions {
            mode: CheckpointingMode::AtLeastOnce,
            max_concurrent_checkpoints: 2,
            ..JobOptions::new(1)
        };
        assert_eq!(refused(&several), Ok(()));
    }

    #[test]
    fn u1_a_time_out_of_zero_is_none() {
        let alignment = |millis| JobOptions {
            aligned_checkpoint_timeout: Millis(millis),
            unaligned: true,
            ..JobOptions::new(1)
        };
        assert_eq!(alignment(0).alignment().aligned_timeout, None);
        assert_eq!(alignment(5).alignment().aligned_timeout, Some(Millis(5)));
    }
}
