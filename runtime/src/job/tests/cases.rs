//! Bugs that users of other systems reported in public.

use super::*;
use crate::recovery::find;

/// Begins the job and drops it after so many rounds.
fn begin(disk: &Disk, committed: &Committed, rounds: u64) {
    let mut left = rounds;
    drive(&mut assemble(disk, committed, 1).unwrap().take_actors(), || {
        left -= 1;
        left == 0
    });
}

#[test]
fn h03_a_job_that_dies_in_any_round_around_a_checkpoint_is_exact() {
    let mut resumed_from = BTreeSet::new();
    for rounds in 1..60 {
        let (disk, committed) = (Disk::new(), Committed::default());
        begin(&disk, &committed, rounds);
        let job = assemble(&disk, &committed, 2).unwrap();
        resumed_from.insert(job.resumed_from);
        run(job).unwrap();
        assert_exact(&committed);
    }
    assert!(resumed_from.len() > 3, "{resumed_from:?}");
}

#[test]
fn h06_the_first_record_after_a_restore_is_the_one_behind_the_checkpoint() {
    for rounds in [30, 45, 60] {
        let (mut disk, committed) = (Disk::new(), Committed::default());
        begin(&disk, &committed, rounds);
        let newest = find(&mut disk, "numbers").unwrap().newest.unwrap();
        let sources = newest.vertices[0].subtasks.iter();
        let positions = sources.flat_map(|subtask| &subtask.inline).flat_map(|state| &state.partitions);
        let next: Vec<u64> =
            positions.map(|bytes| u64::from_le_bytes(bytes[..].try_into().unwrap())).collect();
        // Each of the two reads every second number.
        let left: u64 = next.iter().map(|next| (END + 1 - next.min(&END)) / 2).sum();
        let report = run(assemble(&disk, &committed, 2).unwrap()).unwrap();
        assert_eq!((next.len(), report.source_records), (2, left), "{next:?}");
        assert_exact(&committed);
    }
}

/// A sink that cannot commit as often as is asked for.
struct Stubborn {
    sink: Collect,
    failures: Arc<Mutex<u64>>,
}

impl Stubborn {
    fn fail(&self) -> Result<(), OperatorError> {
        let mut left = lock(&self.failures);
        if *left == 0 {
            return Ok(());
        }
        *left -= 1;
        Err(OperatorError::new("not now"))
    }
}

impl Sink for Stubborn {
    type In = u64;

    fn recover(
        &mut self,
        restored: Option<CheckpointId>,
        pending: &[Vec<u8>],
        files: &mut dyn BlockingFiles,
    ) -> Result<Vec<String>, OperatorError> {
        if !pending.is_empty() {
            self.fail()?;
        }
        self.sink.recover(restored, pending, files)
    }

    fn write(&mut self, record: &u64, files: &mut Files) -> Result<(), OperatorError> {
        self.sink.write(record, files)
    }

    fn pre_commit(&mut self, id: CheckpointId, files: &mut Files) -> Result<Vec<Vec<u8>>, OperatorError> {
        self.sink.pre_commit(id, files)
    }

    fn is_sealed(&self, checkpoint: CheckpointId) -> bool {
        self.sink.is_sealed(checkpoint)
    }

    fn commit(&mut self, checkpoint: CheckpointId, files: &mut Files) -> Result<(), OperatorError> {
        self.fail()?;
        self.sink.commit(checkpoint, files)
    }

    fn is_committed(&self, checkpoint: CheckpointId) -> bool {
        self.sink.is_committed(checkpoint)
    }

    fn on_file(&mut self, event: FileEvent, files: &mut Files) -> Result<(), OperatorError> {
        self.sink.on_file(event, files)
    }
}

#[test]
fn h02_a_commit_that_fails_is_made_up_for_by_a_restart_and_nothing_is_dropped_before() {
    let (mut disk, committed, failures) = (Disk::new(), Committed::default(), Arc::new(Mutex::new(3)));
    for attempt in 1..=4 {
        let (committed, failures) = (Arc::clone(&committed), Arc::clone(&failures));
        let mut builder = JobBuilder::new("numbers", 128);
        builder.source("source", 1, |_| Numbers { next: 0, end: END, step: 1 }).sink("collect", move |_| {
            let sink =
                Collect { committed: Arc::clone(&committed), current: Vec::new(), pending: Vec::new() };
            Stubborn { sink, failures: Arc::clone(&failures) }
        });
        let ended = Job::assemble(builder, disk.clone(), Now::default(), &options(attempt)).and_then(run);
        if attempt == 4 {
            ended.unwrap();
            continue;
        }
        let failure = ended.unwrap_err().to_string();
        assert!(failure.contains("not now"), "{failure}");
        let newest = find(&mut disk, "numbers").unwrap().newest.unwrap();
        let mut states = newest.vertices[0].subtasks[0].inline.iter();
        let listed = states.find(|state| state.operator == "collect").unwrap();
        assert!(!listed.partitions.is_empty(), "still listed after failure {attempt}");
    }
    let numbers: Vec<u64> = (0..END).collect();
    assert!(*lock(&committed) == numbers, "each once");
}
