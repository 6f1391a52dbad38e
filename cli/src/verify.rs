//! `verify`: reads every byte and says what is not as it was written.

use serde_json::json;

use crate::args::FolderArgs;
use crate::failure::Failure;
use crate::folder::{self, State};
use crate::output;

/// Verifies the checkpoints of a folder. False if one is damaged, or if there is none.
pub(crate) fn run(args: &FolderArgs) -> Result<bool, Failure> {
    let found = folder::checkpoints(&args.dir)?;
    if found.iter().all(|checkpoint| matches!(checkpoint.state, State::Incomplete)) {
        return Err(Failure::answer(format!("there is no completed checkpoint in {}", args.dir.display())));
    }
    let mut is_sound = true;
    for checkpoint in &found {
        let damages = checkpoint.verify()?;
        is_sound &= damages.is_empty();
        let verdict = match (&checkpoint.state, damages.is_empty()) {
            (State::Incomplete, _) => "incomplete",
            (_, true) => "sound",
            (_, false) => "damaged",
        };
        if args.json {
            output::json(&json!({
                "id": checkpoint.id.0,
                "job": checkpoint.job(),
                "path": checkpoint.path().display().to_string(),
                "state": verdict,
                "size_bytes": checkpoint.size_bytes(),
                "damages": damages,
            }));
            continue;
        }
        output::line(format_args!("checkpoint {} of {}: {verdict}", checkpoint.id, checkpoint.job()));
        damages.iter().for_each(|damage| output::line(format_args!("  {damage}")));
    }
    Ok(is_sound)
}
