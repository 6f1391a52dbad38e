//! What a word count says when it is over.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use slackwater::ids::CheckpointId;
use slackwater::job::Report;

use super::progress::per_second;
use crate::args::WordcountArgs;
use crate::failure::Failure;
use crate::output;
use crate::parts;

/// A run that has come to its end.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) report: Report,
    pub(crate) words: u64,
    pub(crate) distinct: u64,
    pub(crate) elapsed: Duration,
    /// None where a folder was watched.
    pub(crate) bytes_replayed: Option<u64>,
    pub(crate) storage: &'static str,
    pub(crate) parts: PathBuf,
    /// The folder of the savepoint with which the job was stopped.
    pub(crate) stopped_in: Option<PathBuf>,
}

impl Outcome {
    /// Prints it, as JSON or as a table.
    pub(crate) fn tell(&self, args: &WordcountArgs) -> Result<(), Failure> {
        let top = self.top(args.top)?;
        self.report.notes.iter().for_each(|note| output::note(note));
        if let (Some(savepoint), Some(folder)) = (self.report.stopped_with, &self.stopped_in) {
            output::note(&format!("stopped with savepoint {savepoint} in {}", folder.display()));
        }
        if args.json || args.events {
            output::json(&self.json(&top));
        } else {
            self.table();
            for (word, count) in top {
                output::line(format_args!("{count:>12}  {}", String::from_utf8_lossy(&word)));
            }
        }
        Ok(())
    }

    fn json(&self, top: &[(Vec<u8>, u64)]) -> Value {
        let report = &self.report;
        let passed_over = report.passed_over.iter();
        let causes = report.causes.iter();
        let causes = causes.map(|cause| json!({ "cause": cause.error.to_string(), "times": cause.times }));
        let top =
            top.iter().map(|(word, count)| json!({ "word": String::from_utf8_lossy(word), "count": count }));
        json!({
            "words": self.words,
            "distinct": self.distinct,
            "seconds": self.elapsed.as_secs_f64(),
            "checkpoints_completed": report.checkpoints_completed,
            "checkpoints_failed": report.checkpoints_failed,
            "resumed_from": report.resumed_from.map(|id| id.0),
            "restarts": report.restarts,
            "restart_causes": causes.collect::<Vec<_>>(),
            "bytes_read": report.bytes_read,
            "bytes_replayed": self.bytes_replayed,
            "passed_over": passed_over.map(|over| json!({ "id": over.id.0, "reason": over.reason })).collect::<Vec<_>>(),
            "storage": self.storage,
            "output": self.parts.display().to_string(),
            "already_finished": false,
            "stopped_with": self.stopped_with(),
            "top": top.collect::<Vec<_>>(),
            "notes": report.notes,
        })
    }

    fn stopped_with(&self) -> Value {
        let folder = self.stopped_in.as_ref().map(|folder| folder.display().to_string());
        self.report
            .stopped_with
            .map_or(Value::Null, |savepoint| json!({ "savepoint": savepoint.0, "folder": folder }))
    }

    fn table(&self) {
        let report = &self.report;
        let rate = per_second(report.bytes_read, self.elapsed);
        output::table(&[
            ("words", format!("{} ({} distinct)", self.words, self.distinct)),
            ("seconds", format!("{:.2}", self.elapsed.as_secs_f64())),
            ("read", format!("{} ({}/s)", output::bytes(report.bytes_read), output::bytes(rate))),
            ("  of it again", self.bytes_replayed.map_or_else(|| "unknown".to_owned(), output::bytes)),
            (
                "resumed from",
                report.resumed_from.map_or_else(|| "nothing".to_owned(), |id| format!("checkpoint {id}")),
            ),
            ("restarts", report.restarts.to_string()),
            (
                "checkpoints",
                format!("{} completed, {} failed", report.checkpoints_completed, report.checkpoints_failed),
            ),
            ("storage", self.storage.to_owned()),
            ("output", self.parts.display().to_string()),
        ]);
    }

    /// The most frequent words, by count and then by word.
    fn top(&self, limit: usize) -> Result<Vec<(Vec<u8>, u64)>, Failure> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let mut counts: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        parts::for_each_line(&self.parts, |word, count| {
            let highest = counts.entry(word.to_vec()).or_default();
            *highest = count.max(*highest);
        })?;
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        counts.truncate(limit);
        Ok(counts)
    }
}

/// There is nothing to do.
pub(crate) fn finished_before(args: &WordcountArgs, parts: &Path, checkpoint: CheckpointId) {
    output::note(&format!(
        "the job had finished with checkpoint {checkpoint}; its output is in {}, nothing was done",
        parts.display()
    ));
    if args.json || args.events {
        output::json(&json!({
            "words": null,
            "distinct": null,
            "seconds": 0.0,
            "checkpoints_completed": 0,
            "checkpoints_failed": 0,
            "resumed_from": checkpoint.0,
            "restarts": 0,
            "restart_causes": [],
            "bytes_read": 0,
            "bytes_replayed": 0,
            "passed_over": [],
            "output": parts.display().to_string(),
            "already_finished": true,
        }));
    }
}
