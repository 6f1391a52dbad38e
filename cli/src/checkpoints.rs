//! `checkpoints`: what is there.

use serde_json::{Value, json};
use slackwater::recovery::Defect;

use crate::args::CheckpointsArgs;
use crate::failure::Failure;
use crate::folder::{self, Checkpoint, State};
use crate::output;

mod details;

/// Lists the checkpoints of a folder.
pub(crate) fn run(args: &CheckpointsArgs) -> Result<bool, Failure> {
    let (details, args) = (args.details, &args.folder);
    let found = folder::checkpoints(&args.dir)?;
    if args.json {
        found.iter().for_each(|checkpoint| output::json(&object(checkpoint, details)));
    } else if found.is_empty() {
        output::line(format_args!("no checkpoints in {}", args.dir.display()));
    } else {
        let rows: Vec<Vec<String>> = found.iter().map(row).collect();
        output::columns(&["id", "job", "triggered (ms)", "took (ms)", "size", "subtasks", "state"], &rows);
        if details {
            found.iter().for_each(tell_details);
        }
    }
    Ok(true)
}

fn tell_details(checkpoint: &Checkpoint) {
    if let State::Complete(manifest) = &checkpoint.state {
        details::table(&format!("checkpoint {} of {}", checkpoint.id, checkpoint.job()), manifest);
    }
}

fn object(checkpoint: &Checkpoint, details: bool) -> Value {
    let mut object = json!({
        "id": checkpoint.id.0,
        "job": checkpoint.job(),
        "path": checkpoint.path().display().to_string(),
        "state": state(checkpoint),
        "size_bytes": checkpoint.size_bytes(),
    });
    match &checkpoint.state {
        State::Incomplete => {}
        State::Unreadable(defect) => object["reason"] = json!(defect.to_string()),
        State::Complete(manifest) => {
            object["kind"] = json!("full");
            object["triggered_at_ms"] = json!(manifest.triggered_at.0);
            object["duration_ms"] = json!(duration_ms(checkpoint));
            object["max_parallelism"] = json!(manifest.max_parallelism);
            object["subtasks"] = json!(subtasks(checkpoint));
            details::add(&mut object, manifest, details);
        }
    }
    object
}

fn row(checkpoint: &Checkpoint) -> Vec<String> {
    let number = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let triggered = match &checkpoint.state {
        State::Complete(manifest) => Some(manifest.triggered_at.0),
        State::Incomplete | State::Unreadable(_) => None,
    };
    let state = match &checkpoint.state {
        State::Unreadable(Defect::Damaged(reason)) => format!("damaged: {reason}"),
        State::Unreadable(defect @ Defect::Unchecked(_)) => defect.to_string(),
        State::Complete(_) | State::Incomplete => state(checkpoint).to_owned(),
    };
    vec![
        checkpoint.id.to_string(),
        checkpoint.job(),
        number(triggered),
        number(duration_ms(checkpoint)),
        output::bytes(checkpoint.size_bytes()),
        number(subtasks(checkpoint)),
        state,
    ]
}

fn state(checkpoint: &Checkpoint) -> &'static str {
    match &checkpoint.state {
        State::Incomplete => "incomplete",
        State::Unreadable(Defect::Damaged(_)) => "damaged",
        State::Unreadable(Defect::Unchecked(_)) => "unchecked",
        State::Complete(manifest) if manifest.is_finished => "finished",
        State::Complete(_) => "complete",
    }
}

/// From the trigger to the manifest, by the wall clock.
fn duration_ms(checkpoint: &Checkpoint) -> Option<u64> {
    match &checkpoint.state {
        State::Complete(manifest) => {
            checkpoint.completed_at.map(|end| end.saturating_sub(manifest.triggered_at.0))
        }
        State::Incomplete | State::Unreadable(_) => None,
    }
}

fn subtasks(checkpoint: &Checkpoint) -> Option<u64> {
    match &checkpoint.state {
        State::Complete(manifest) => {
            Some(manifest.vertices.iter().map(|vertex| vertex.subtasks.len() as u64).sum())
        }
        State::Incomplete | State::Unreadable(_) => None,
    }
}
