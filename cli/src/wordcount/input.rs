//! What is counted: files, or a folder of files that may grow in number.

use std::path::{Path, PathBuf};

use slackwater::JobBuilder;
use slackwater::folder_source::DiskFolder;
use slackwater::inputs::Inputs;
use slackwater::time::Millis;
use slackwater::word_count::{Totals, WordCountOptions, word_count, word_count_of_folder};

use crate::args::WordcountArgs;
use crate::failure::Failure;

/// From one look into a folder to the next.
const PERIOD: Millis = Millis(200);

/// The input of a word count.
#[derive(Debug)]
pub(super) enum Input {
    Files(Inputs),
    Watched(PathBuf),
}

impl Input {
    /// The input that the command line names.
    pub(super) fn open(args: &WordcountArgs) -> Result<Self, Failure> {
        let Some(folder) = &args.watch else {
            let inputs = Inputs::files(args.inputs.iter().cloned());
            return inputs.map(Self::Files).map_err(|error| Failure::environment(error.to_string()));
        };
        let cannot_watch = |why: &dyn std::fmt::Display| {
            Failure::environment(format!("cannot watch {}: {why}; give a folder", folder.display()))
        };
        let folder_in_full = folder.canonicalize().map_err(|error| cannot_watch(&error))?;
        if !folder_in_full.is_dir() {
            return Err(cannot_watch(&"it is a file"));
        }
        Ok(Self::Watched(folder_in_full))
    }

    /// A job whose output is its input would never come to an end.
    pub(super) fn refuse_own_output(&self, parts: &Path) -> Result<(), Failure> {
        match self {
            Self::Watched(folder) if folder == parts => {
                Err(Failure::usage("--watch and --output must be two folders"))
            }
            Self::Watched(_) | Self::Files(_) => Ok(()),
        }
    }

    /// How much there is, where that is known.
    pub(super) fn total_bytes(&self) -> Option<u64> {
        match self {
            Self::Files(inputs) => Some(inputs.total_bytes()),
            Self::Watched(_) => None,
        }
    }

    /// The job that counts it.
    pub(super) fn job(&self, options: &WordCountOptions) -> (JobBuilder, Totals) {
        match self {
            Self::Files(inputs) => word_count(inputs.clone(), options),
            Self::Watched(folder) => word_count_of_folder(DiskFolder::new(folder), PERIOD, options),
        }
    }
}
