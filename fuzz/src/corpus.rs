//! The committed inputs: seeds, and what a fuzzer once failed on, under a name that says why.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::{TARGETS, seeds};

fn folder(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// The inputs of a target; none if the corpus is not there.
#[must_use]
pub fn inputs(target: &str) -> Vec<Vec<u8>> {
    let files = fs::read_dir(folder(target)).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read(file.path()).ok()).collect()
}

/// Runs a target over its corpus, and says how many inputs there are.
pub fn replay(target: &str) -> usize {
    let inputs = inputs(target);
    for (_, body) in TARGETS.iter().filter(|(name, _)| *name == target) {
        inputs.iter().for_each(|input| body(input));
    }
    inputs.len()
}

/// Runs a target over the files that the command line names, over its corpus if there are none: what its program does
/// without a fuzzer.
pub fn main(target: &str) {
    let inputs: Vec<Vec<u8>> = std::env::args_os().skip(1).filter_map(|path| fs::read(path).ok()).collect();
    if inputs.is_empty() {
        replay(target);
    }
    for (_, body) in TARGETS.iter().filter(|(name, _)| *name == target) {
        inputs.iter().for_each(|input| body(input));
    }
}

/// Writes the seeds of every target anew.
///
/// # Errors
/// What the system says.
pub fn write_seeds() -> io::Result<()> {
    for (target, _) in TARGETS {
        let folder = folder(target);
        fs::create_dir_all(&folder)?;
        for (name, seed) in seeds::named(target) {
            fs::write(folder.join(name), seed)?;
        }
    }
    Ok(())
}
