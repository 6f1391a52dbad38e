//! What a word count tells while it runs.

use serde_json::json;
use slackwater::driver::Moment;
use slackwater::job::AssembledJob;
use slackwater::supervisor::Restart;

use super::furthest::Furthest;
use super::progress::Bar;
use crate::args::WordcountArgs;
use crate::output;

/// Watches a job over all its attempts.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    args: &'a WordcountArgs,
    bar: Bar,
    /// Where positions in the input tell how much of it has been read.
    furthest: Option<Furthest>,
    /// Completed in the attempts before this one.
    checkpoints_before: u64,
    has_started: bool,
}

impl<'a> Watch<'a> {
    pub(super) const fn new(args: &'a WordcountArgs, bar: Bar, furthest: Option<Furthest>) -> Self {
        Self { args, bar, furthest, checkpoints_before: 0, has_started: false }
    }

    /// Tells what is to be told now, when so many words are counted.
    pub(super) fn on(&mut self, moment: &Moment<'_>, words: u64) {
        match moment {
            Moment::Started(job) => self.started(job),
            Moment::Running(job) => self.running(job, words),
            Moment::Ended(job) => {
                self.running(job, words);
                self.checkpoints_before += job.observer().progress().checkpoints_completed;
            }
            Moment::Restarting(restart) => self.restarting(restart),
            Moment::Waiting => {}
        }
    }

    /// Nothing follows. Gives the bytes that were read again, where that is known.
    pub(super) fn end(&self) -> Option<u64> {
        self.bar.end();
        self.furthest.as_ref().map(Furthest::replayed)
    }

    fn started(&mut self, job: &AssembledJob) {
        let start = job.observer().progress().bytes_restored;
        self.furthest.iter_mut().for_each(|furthest| furthest.start_at(start));
        self.bar.start_at(start);
        for passed in &job.passed_over {
            output::note(&format!(
                "checkpoint {} is passed over and left in place: {}",
                passed.id, passed.reason
            ));
        }
        if job.resumed_from.is_none() && !job.passed_over.is_empty() {
            output::note("no checkpoint is sound: starting from the beginning");
        }
        if let Some(id) = job.resumed_from {
            let behind =
                self.furthest.is_some().then(|| format!(", behind {} of the input", output::bytes(start)));
            output::note(&format!("going on from checkpoint {id}{}", behind.unwrap_or_default()));
        }
        // Who started this process asks how that began.
        if self.args.events && !std::mem::replace(&mut self.has_started, true) {
            let resumed_from = job.resumed_from.map(|id| id.0);
            output::json(
                &json!({ "event": "started", "resumed_from": resumed_from, "position_bytes": start }),
            );
        }
    }

    fn running(&mut self, job: &AssembledJob, words: u64) {
        let progress = job.observer().progress();
        let position = progress.bytes_restored + progress.bytes_read;
        self.furthest.iter_mut().for_each(|furthest| furthest.note(position));
        self.bar.show(position, &progress, words);
        if self.args.events {
            output::json(&json!({
                "event": "progress",
                "position_bytes": position,
                "checkpoints_completed": self.checkpoints_before + progress.checkpoints_completed,
            }));
        }
    }

    fn restarting(&self, restart: &Restart) {
        self.bar.aside(|| output::note(&restart.to_string()));
        if self.args.events {
            output::json(&json!({
                "event": "restarting",
                "cause": restart.cause.to_string(),
                "delay_ms": restart.delay.0,
                "attempt": restart.start,
            }));
        }
    }
}
