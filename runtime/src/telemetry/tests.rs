//! What is told of a whole job, against the tables of the module's documentation.

use std::collections::BTreeSet;

use slackwater_core::ids::{CheckpointId, SavepointFormat, SnapshotKind, TaskIndex};
use slackwater_core::reason::FailureReason;
use slackwater_core::time::{Millis, Now};

use super::restarting;
use crate::error::JobError;
use crate::shared::Progress;
use crate::statistics::{RestoreFigures, SubtaskFigures, Tracker};
use crate::supervisor::Restart;

/// Names in the first column of a table of the documentation, with the second one.
fn table(heading: &str) -> BTreeSet<(String, String)> {
    let documentation = include_str!("../telemetry.rs");
    let rows = documentation.lines().map(|line| line.trim_start_matches("//!").trim());
    let rows =
        rows.skip_while(|line| !line.starts_with(heading)).take_while(|line| line.starts_with('|')).skip(2);
    let cell = |cell: &str| cell.trim().trim_matches('`').to_owned();
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        (cell(cells[0]), cell(cells[1]))
    })
    .collect()
}

/// Everything that can happen to checkpoints.
fn tell_all() {
    let now = |millis| Now { monotonic: Millis(millis), wall: Millis(1_000_000 + millis) };
    let mut tracker = Tracker::new("tides", vec![("source".to_owned(), 0)]);
    let kind = SnapshotKind::Savepoint(SavepointFormat::Native);
    tracker.restored(RestoreFigures { id: CheckpointId(1), kind, at: Millis(0), state_size: 5 });
    tracker.triggered(now(0), CheckpointId(2), kind).unwrap();
    tracker.reported(CheckpointId(2), SubtaskFigures::finished(TaskIndex(0), now(5).wall));
    tracker.completed(now(10), CheckpointId(2), &Progress::default()).unwrap();
    tracker.committed(now(20), CheckpointId(2), TaskIndex(0));
    tracker.triggered(now(30), CheckpointId(3), kind).unwrap();
    tracker.failed(now(40), Some(CheckpointId(3)), FailureReason::CheckpointExpired).unwrap();
    tracker.failed(now(40), None, FailureReason::CheckpointExpired).unwrap();
    let cause = JobError::Stopped;
    restarting("tides", &Restart { cause, at: Millis(90), delay: Millis(50), start: 2 });
}

#[test]
fn the_tables_are_found() {
    assert_eq!((table("| span |").len(), table("| metric |").len()), (4, 16));
    tell_all();
}

#[cfg(feature = "metrics")]
mod metered {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

    use super::{table, tell_all};
    use crate::actor::lock;

    /// Notes what is asked for.
    #[derive(Default)]
    struct Names(Mutex<BTreeSet<(String, String)>>);

    impl Names {
        fn note(&self, key: &Key, kind: &str) {
            assert!(key.labels().any(|label| (label.key(), label.value()) == ("job", "tides")), "{key}");
            lock(&self.0).insert((key.name().to_owned(), kind.to_owned()));
        }
    }

    impl Recorder for Names {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            self.note(key, "counter");
            Counter::noop()
        }

        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            self.note(key, "gauge");
            Gauge::noop()
        }

        fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
            self.note(key, "histogram");
            Histogram::noop()
        }
    }

    #[test]
    fn the_metrics_are_those_of_the_table() {
        let names = Names::default();
        metrics::with_local_recorder(&names, tell_all);
        assert_eq!(*lock(&names.0), table("| metric |"));
    }
}

#[cfg(feature = "tracing")]
mod traced {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};

    use slackwater_core::ids::{CheckpointId, TaskIndex};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::{table, tell_all};
    use crate::actor::lock;
    use crate::telemetry::{in_recovery, in_snapshot, passed_over, persisting};

    #[derive(Default)]
    struct Seen {
        spans: Mutex<BTreeSet<(String, String)>>,
        closed: AtomicU64,
        events: AtomicU64,
        next: AtomicU64,
    }

    /// Notes the spans.
    struct Listener(Arc<Seen>);

    impl Subscriber for Listener {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, span: &Attributes<'_>) -> Id {
            let (name, level) = (span.metadata().name(), span.metadata().level());
            lock(&self.0.spans).insert((name.to_owned(), level.as_str().to_lowercase()));
            Id::from_u64(self.0.next.fetch_add(1, Ordering::Relaxed) + 1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &Event<'_>) {
            self.0.events.fetch_add(1, Ordering::Relaxed);
        }

        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}

        fn try_close(&self, _: Id) -> bool {
            self.0.closed.fetch_add(1, Ordering::Relaxed);
            true
        }
    }

    #[test]
    fn the_spans_are_those_of_the_table_and_each_comes_to_an_end() {
        let seen = Arc::new(Seen::default());
        tracing::subscriber::with_default(Listener(Arc::clone(&seen)), || {
            tell_all();
            drop(in_recovery("tides"));
            passed_over(CheckpointId(9), "it is not sound");
            drop(in_snapshot("count (1/2)", CheckpointId(2)));
            drop(persisting(TaskIndex(0), CheckpointId(2)));
        });
        assert_eq!(*lock(&seen.spans), table("| span |"));
        assert_eq!(seen.events.load(Ordering::Relaxed), 8);
        // Two checkpoints, and one of each other sort. A span is cloned to say something in it, and each clone ends.
        assert!(seen.closed.load(Ordering::Relaxed) >= 5);
    }
}
