//! What each subtask's part in a checkpoint took, as its manifest tells.

use serde_json::{Value, json};
use slackwater::checkpoint::Manifest;
use slackwater::statistics::{Spread, SubtaskFigures};

use crate::output;

/// A subtask that reported what its part took.
struct Row<'m> {
    operator: &'m str,
    index: usize,
    figures: SubtaskFigures,
}

fn rows(manifest: &Manifest) -> impl Iterator<Item = Row<'_>> {
    manifest.vertices.iter().flat_map(|vertex| {
        let figures = vertex.subtasks.iter().enumerate();
        figures.filter_map(|(index, subtask)| {
            Some(Row { operator: &vertex.name, index, figures: subtask.figures? })
        })
    })
}

/// Adds what all subtasks together took, and what each did if `each`. Nothing if no subtask has reported.
pub(super) fn add(object: &mut Value, manifest: &Manifest, each: bool) {
    let mut all = Spread::default();
    rows(manifest).for_each(|row| all.add(&row.figures, manifest.triggered_at));
    if all.duration.count() == 0 {
        return;
    }
    object["acknowledged_after_ms"] = json!(all.duration.max());
    object["checkpointed_bytes"] = json!(all.checkpointed_size.sum());
    object["state_bytes"] = json!(all.state_size.sum());
    object["processed_bytes"] = json!(all.processed.sum());
    object["persisted_bytes"] = json!(all.persisted.sum());
    if each {
        object["details"] = rows(manifest).map(|row| detail(&row, manifest)).collect();
    }
}

fn detail(row: &Row<'_>, manifest: &Manifest) -> Value {
    let figures = &row.figures;
    json!({
        "operator": row.operator,
        "subtask": row.index,
        "acknowledged_at_ms": figures.acknowledged_at.0,
        "duration_ms": figures.duration(manifest.triggered_at).0,
        "start_delay_ms": figures.start_delay.0,
        "alignment_ms": figures.alignment.0,
        "processed_bytes": figures.processed,
        "persisted_bytes": figures.persisted,
        "sync_ms": figures.synchronous.0,
        "async_ms": figures.asynchronous.0,
        "checkpointed_bytes": figures.checkpointed_size,
        "state_bytes": figures.state_size,
        "unaligned": figures.is_unaligned,
    })
}

/// A table of the subtasks; a sentence if none has reported.
pub(super) fn table(title: &str, manifest: &Manifest) {
    let rows: Vec<Vec<String>> = rows(manifest).map(|row| cells(&row, manifest)).collect();
    if rows.is_empty() {
        return output::line(format_args!("\n{title} does not say what its subtasks took"));
    }
    output::line(format_args!("\n{title}, times in ms"));
    let headings = [
        "subtask",
        "took",
        "delay",
        "alignment",
        "processed",
        "persisted",
        "sync",
        "async",
        "written",
        "state",
        "operator",
    ];
    output::columns(&headings, &rows);
}

fn cells(row: &Row<'_>, manifest: &Manifest) -> Vec<String> {
    let figures = &row.figures;
    vec![
        row.index.to_string(),
        figures.duration(manifest.triggered_at).0.to_string(),
        figures.start_delay.0.to_string(),
        figures.alignment.0.to_string(),
        output::bytes(figures.processed),
        output::bytes(figures.persisted),
        figures.synchronous.0.to_string(),
        figures.asynchronous.0.to_string(),
        output::bytes(figures.checkpointed_size),
        output::bytes(figures.state_size),
        row.operator.to_owned(),
    ]
}
