//! `verify`: reads every byte and says what is not as it was written.

use serde_json::json;
use slackwater::recovery::Defect;

use crate::args::FolderArgs;
use crate::failure::Failure;
use crate::folder::{self, Checkpoint, State};
use crate::output;

/// Verifies the checkpoints of a folder. False if one is damaged, or if there is none; a failure if nothing is known
/// to be wrong with any, but one of them cannot be read here.
pub(crate) fn run(args: &FolderArgs) -> Result<bool, Failure> {
    let found = folder::checkpoints(&args.dir)?;
    if found.iter().all(|checkpoint| matches!(checkpoint.state, State::Incomplete)) {
        return Err(Failure::answer(format!("there is no completed checkpoint in {}", args.dir.display())));
    }
    let (mut is_sound, mut unchecked) = (true, None);
    for checkpoint in &found {
        let defects = checkpoint.verify()?;
        tell(args, checkpoint, &defects);
        is_sound &= !defects.iter().any(is_damage);
        if let Some(defect) = defects.iter().find(|defect| !is_damage(defect)) {
            let name = format!("checkpoint {} of {}", checkpoint.id, checkpoint.job());
            unchecked.get_or_insert_with(|| format!("{name} {defect}"));
        }
    }
    match unchecked {
        Some(why) if is_sound => Err(Failure::environment(why)),
        Some(_) | None => Ok(is_sound),
    }
}

const fn is_damage(defect: &Defect) -> bool {
    matches!(defect, Defect::Damaged(_))
}

fn tell(args: &FolderArgs, checkpoint: &Checkpoint, defects: &[Defect]) {
    let verdict = match &checkpoint.state {
        State::Incomplete => "incomplete",
        State::Unreadable(_) | State::Complete(_) if defects.iter().any(is_damage) => "damaged",
        State::Complete(_) if defects.is_empty() => "sound",
        State::Unreadable(_) | State::Complete(_) => "unchecked",
    };
    if args.json {
        let sentences = |damages: bool| {
            let wanted = defects.iter().filter(|defect| is_damage(defect) == damages);
            wanted.map(ToString::to_string).collect::<Vec<_>>()
        };
        return output::json(&json!({
            "id": checkpoint.id.0,
            "job": checkpoint.job(),
            "path": checkpoint.path().display().to_string(),
            "state": verdict,
            "size_bytes": checkpoint.size_bytes(),
            "damages": sentences(true),
            "unchecked": sentences(false),
        }));
    }
    output::line(format_args!("checkpoint {} of {}: {verdict}", checkpoint.id, checkpoint.job()));
    defects.iter().for_each(|defect| output::line(format_args!("  {defect}")));
}
