//! The options that say how barriers pass records.

use std::time::Duration;

use clap::{Args, ValueEnum};
use slackwater::time::Millis;
use slackwater::{CheckpointingMode, JobOptions};

use crate::args::duration;
use crate::failure::Failure;
use crate::wordcount::failure;

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ModeArgs {
    /// What the output promises after a crash.
    #[arg(long, value_enum, default_value_t = ModeArg::ExactlyOnce)]
    mode: ModeArg,
    /// Let barriers overtake records, which become part of the checkpoint: it does not wait for slow operators.
    #[arg(long)]
    unaligned: bool,
    /// With --unaligned: keep to the order of records until a checkpoint is so old, such as 100ms.
    #[arg(long, default_value = "0ms", value_parser = duration, requires = "unaligned")]
    aligned_timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModeArg {
    /// Each record counts once.
    ExactlyOnce,
    /// Each record counts, some twice; channels never wait for each other.
    AtLeastOnce,
}

impl ModeArg {
    /// The word a user types for it.
    const fn name(self) -> &'static str {
        match self {
            Self::ExactlyOnce => "exactly-once",
            Self::AtLeastOnce => "at-least-once",
        }
    }
}

impl ModeArgs {
    /// What the output promises.
    pub(crate) const fn guarantee(&self) -> CheckpointingMode {
        match self.mode {
            ModeArg::ExactlyOnce => CheckpointingMode::ExactlyOnce,
            ModeArg::AtLeastOnce => CheckpointingMode::AtLeastOnce,
        }
    }

    /// The same options with these modes.
    pub(crate) fn applied_to(&self, options: JobOptions) -> JobOptions {
        let timeout = u64::try_from(self.aligned_timeout.as_millis()).unwrap_or(u64::MAX);
        JobOptions {
            mode: self.guarantee(),
            unaligned: self.unaligned,
            aligned_checkpoint_timeout: Millis(timeout),
            ..options
        }
    }

    /// Refuses what does not go together, before anything is touched.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.applied_to(JobOptions::new(0)).check_modes().map_err(|error| failure(&error))
    }

    /// As they are typed.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["--mode".to_owned(), self.mode.name().to_owned()];
        if self.unaligned {
            let timeout = format!("{}ms", self.aligned_timeout.as_millis());
            arguments.extend(["--unaligned".to_owned(), "--aligned-timeout".to_owned(), timeout]);
        }
        arguments
    }

    /// For the reader of a table.
    pub(crate) fn describe(&self) -> String {
        let passing = match self.aligned_timeout {
            _ if !self.unaligned => String::new(),
            Duration::ZERO => ", unaligned".to_owned(),
            after => format!(", unaligned after {} ms", after.as_millis()),
        };
        format!("{}{passing}", self.mode.name())
    }

    /// What the output promises, as typed.
    pub(crate) const fn name(&self) -> &'static str {
        self.mode.name()
    }
}
