//! Seeded walks against a model by brute force: what a manifest on the disk or a checkpoint under way uses is never
//! deleted, and in the end everything is gone that is ours and unused.
//!
//! Some jobs start from a snapshot, with files inside its folder that they own, or with files that they do not own. The
//! model is a task with a set of files that it changes from snapshot to snapshot, and sends placeholders for those
//! that the last checkpoint it knows to be complete has. Reports of completion reach it late, acknowledgements and
//! reports of discards reach the store late, some discards fail, and the job is restarted and ended.

use super::*;

const SEEDS: u64 = 800;
const STEPS: usize = 120;
/// The snapshot that some jobs start from, and its files, which are their own keys.
const START: u64 = 5;
const START_FILES: [u64; 3] = [1, 2, 3];

/// What a job starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Nothing,
    Claimed,
    Unclaimed,
}

struct Walk {
    world: World,
    random: u64,
    next: u64,
    kind: CheckpointKind,
    num_retained: usize,
    /// Keys of the task's files.
    keys: BTreeSet<u64>,
    /// The newest checkpoint that the task knows to be complete, and its keys.
    base: BTreeSet<u64>,
    /// Keys and the file that goes with a new one, of snapshots that were not acknowledged.
    snapshots: BTreeMap<u64, BTreeMap<u64, Option<u64>>>,
    acknowledged: BTreeMap<u64, BTreeSet<u64>>,
    /// Those whose manifest is being written.
    writing: BTreeMap<u64, BTreeSet<u64>>,
    complete: BTreeMap<u64, BTreeSet<u64>>,
    next_file: u64,
    /// Discards that are under way.
    discards: Vec<u64>,
    /// Manifests that nobody will remove any more.
    stuck: BTreeSet<u64>,
    /// Files of nobody: a restart has forgotten them.
    orphans: BTreeSet<u64>,
    is_incremental: bool,
    start: Start,
    seen: Seen,
}

/// What the walks have met, to know that they went everywhere.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    completed: u32,
    late_completions: u32,
    failed: u32,
    aborted: u32,
    late: u32,
    full: u32,
    superseded: u32,
    deleted: u32,
    stuck: u32,
    restarted: u32,
    waited: u32,
}

impl Walk {
    fn new(seed: u64) -> Self {
        let num_retained = 1 + usize::try_from(seed % 3).unwrap();
        let kinds = [NEVER, ON_FAILURE, ON_CANCELLATION];
        let mut world = World::new(num_retained);
        world.is_slow = true;
        let start = match seed % 4 {
            0 => Start::Claimed,
            1 => Start::Unclaimed,
            _ => Start::Nothing,
        };
        let mut walk = Self {
            world,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            next: START + 1,
            kind: kinds[usize::try_from(seed / 3 % 3).unwrap()],
            num_retained,
            keys: BTreeSet::new(),
            base: BTreeSet::new(),
            snapshots: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            writing: BTreeMap::new(),
            complete: BTreeMap::new(),
            next_file: 1_000,
            discards: Vec::new(),
            stuck: BTreeSet::new(),
            orphans: BTreeSet::new(),
            is_incremental: !seed.is_multiple_of(5),
            start,
            seen: Seen::default(),
        };
        walk.start();
        walk
    }

    fn start(&mut self) {
        let (ownership, kind) = match self.start {
            Start::Nothing => return,
            Start::Claimed => (Ownership::InsideCheckpoint, self.kind),
            Start::Unclaimed => (Ownership::Own, CheckpointKind::Unclaimed),
        };
        for file in START_FILES {
            self.world.reference(START, file, Some(file), ownership).unwrap();
        }
        self.world.start_from(START, kind);
        self.complete.insert(START, START_FILES.into());
        self.keys = START_FILES.into();
        self.tell_the_task();
    }

    fn kind_of(&self, number: u64) -> CheckpointKind {
        if number == START && self.start == Start::Unclaimed { CheckpointKind::Unclaimed } else { self.kind }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let index = self.draw(from.len().max(1) as u64);
        from.get(usize::try_from(index).unwrap()).copied()
    }

    fn follow(&mut self, actions: &[RetainedAction]) {
        for action in actions {
            if let RetainedAction::DiscardCheckpoint(id) = action {
                self.discards.push(id.0);
            }
            self.seen.deleted += u32::from(matches!(action, RetainedAction::DeleteFile(_)));
        }
    }

    fn step(&mut self) {
        match self.draw(10) {
            0 | 1 => self.snapshot(),
            2..=4 => self.acknowledge(),
            5 => self.write_a_manifest(),
            6 => self.end_a_manifest(),
            7 => self.end_a_discard(),
            8 => self.tell_the_task(),
            _ => match self.draw(12) {
                0 => self.restart(),
                1..=4 => self.abort_one(),
                _ => {}
            },
        }
    }

    /// The task drops some files for good and writes some new ones.
    fn snapshot(&mut self) {
        if self.snapshots.len() + self.acknowledged.len() + self.writing.len() > 2 {
            return;
        }
        let keys: Vec<_> = self.keys.iter().copied().collect();
        for key in keys {
            if self.draw(3) == 0 {
                self.keys.remove(&key);
            }
        }
        for _file in 0..self.draw(3) {
            self.next_file += 1;
            self.keys.insert(self.next_file);
        }
        let mut parts = BTreeMap::new();
        for key in self.keys.clone() {
            let is_known = self.is_incremental && self.base.contains(&key);
            parts.insert(key, (!is_known).then(|| self.upload()));
        }
        self.snapshots.insert(self.next, parts);
        self.next += 1;
    }

    fn upload(&mut self) -> u64 {
        self.next_file += 1;
        self.next_file
    }

    /// The acknowledgement of a snapshot arrives; perhaps of one that was aborted meanwhile.
    fn acknowledge(&mut self) {
        let waiting: Vec<_> = self.snapshots.keys().copied().collect();
        let Some(number) = self.pick(&waiting) else { return };
        let parts = self.snapshots.remove(&number).unwrap();
        let is_late = self.complete.keys().any(|complete| *complete > number);
        for (key, file) in &parts {
            let before = self.world.deleted.len();
            let is_repeated = self.world.uses.values().any(|(other, ..)| other == key);
            match self.world.reference(number, *key, *file, Ownership::Own) {
                Ok(used) => self.seen.superseded += u32::from(is_repeated && *file == Some(used)),
                Err(Rejected::OutOfRange { .. }) => {
                    // The file was written, and nobody takes it.
                    self.orphans.extend(file);
                    self.world.files.extend(file);
                    self.world.abort(number);
                    self.seen.full += 1;
                    return;
                }
                Err(_) => assert!(is_late, "{number} refers to {key}"),
            }
            self.seen.deleted += u32::try_from(self.world.deleted.len() - before).unwrap();
        }
        if is_late {
            self.world.abort(number);
            self.seen.late += 1;
        } else {
            self.acknowledged.insert(number, parts.keys().copied().collect());
        }
    }

    fn write_a_manifest(&mut self) {
        let waiting: Vec<_> = self.acknowledged.keys().copied().collect();
        let Some(number) = self.pick(&waiting) else { return };
        if !self.world.store.has_room() {
            self.seen.full += 1;
            return;
        }
        self.world.send(RetainedEvent::AllAcknowledged(id(number)));
        self.writing.insert(number, self.acknowledged.remove(&number).unwrap());
    }

    /// A manifest becomes durable, whatever has completed meanwhile, or fails.
    fn end_a_manifest(&mut self) {
        let waiting: Vec<_> = self.writing.keys().copied().collect();
        let Some(number) = self.pick(&waiting) else { return };
        let keys = self.writing.remove(&number).unwrap();
        match self.draw(16) {
            0 => self.fail_a_manifest(number, true),
            1 => self.fail_a_manifest(number, false),
            _ => self.complete(number, keys),
        }
    }

    fn fail_a_manifest(&mut self, number: u64, may_exist: bool) {
        if may_exist {
            self.world.commit(number);
            self.stuck.insert(number);
        } else {
            self.world.abort(number);
        }
        let actions = self.world.send(RetainedEvent::ManifestFailed { id: id(number), may_exist });
        self.follow(&actions);
        self.seen.failed += 1;
    }

    /// A checkpoint completes; older ones are aborted, unless their manifest is being written.
    fn complete(&mut self, number: u64, keys: BTreeSet<u64>) {
        self.world.commit(number);
        let older: Vec<_> = self.acknowledged.keys().copied().filter(|other| *other < number).collect();
        older.into_iter().for_each(|other| self.abort(other));
        self.seen.late_completions += u32::from(self.complete.keys().any(|other| *other > number));
        let event = RetainedEvent::CheckpointCompleted { id: id(number), kind: self.kind };
        let actions = self.world.send(event);
        self.follow(&actions);
        self.complete.insert(number, keys);
        self.seen.completed += 1;
        let waits = self.start == Start::Claimed && self.world.manifests.contains_key(&START);
        self.seen.waited +=
            u32::from(waits && !self.discards.contains(&START) && !self.stuck.contains(&START));
        let wanted: Vec<_> = self.complete.keys().rev().take(self.num_retained).copied().collect();
        let mut retained = self.world.retained();
        retained.reverse();
        assert_eq!(retained, wanted);
    }

    fn abort(&mut self, number: u64) {
        self.world.abort(number);
        self.acknowledged.remove(&number);
        self.seen.aborted += 1;
    }

    fn abort_one(&mut self) {
        let waiting: Vec<_> = self.acknowledged.keys().copied().collect();
        if let Some(number) = self.pick(&waiting) {
            self.abort(number);
        }
    }

    fn end_a_discard(&mut self) {
        let discards = self.discards.clone();
        let Some(number) = self.pick(&discards) else { return };
        self.discards.retain(|other| *other != number);
        if self.draw(8) > 0 {
            let mut actions = self.world.discarded(number);
            actions.iter().for_each(|action| drop(self.world.carry_out(*action)));
            actions.extend(self.world.send(RetainedEvent::DeadlineReached));
            self.follow(&actions);
        } else {
            let actions =
                self.world.send(RetainedEvent::DiscardEnded { id: id(number), manifest_gone: false });
            self.follow(&actions);
            self.stuck.insert(number);
            self.seen.stuck += 1;
        }
    }

    fn tell_the_task(&mut self) {
        if let Some((number, keys)) = self.complete.last_key_value() {
            let is_owned = self.kind_of(*number) != CheckpointKind::Unclaimed;
            self.base = if is_owned { keys.clone() } else { BTreeSet::new() };
        }
    }

    /// The process dies and another one goes on from what lies on the disk.
    fn restart(&mut self) {
        if self.world.manifests.len() > 5 {
            return;
        }
        let listed: BTreeSet<_> = self.world.manifests.values().flatten().copied().collect();
        self.orphans.extend(self.world.files.difference(&listed));
        let mut world =
            World { files: self.world.files.clone(), is_slow: true, ..World::new(self.num_retained) };
        let retained = self.world.retained();
        for (number, files) in &self.world.manifests {
            if *number == START && self.start == Start::Unclaimed && !retained.contains(number) {
                world.manifests.insert(*number, files.clone()); // Elsewhere.
                continue;
            }
            for file in files {
                let (key, ..) = self.world.uses[file];
                let is_inside = self.world.inside.contains_key(file);
                let ownership = if is_inside { Ownership::InsideCheckpoint } else { Ownership::Own };
                world.reference(*number, key, Some(*file), ownership).unwrap();
            }
            world.recover(*number, self.kind_of(*number));
            // One whose manifest was said to have failed is a checkpoint after all.
            let keys = files.iter().map(|file| self.world.uses[file].0).collect();
            self.complete.entry(*number).or_insert(keys);
        }
        self.world = world;
        self.snapshots.clear();
        self.acknowledged.clear();
        self.writing.clear();
        self.discards.clear();
        self.stuck.clear();
        self.keys = self.complete.values().last().cloned().unwrap_or_default();
        self.tell_the_task();
        self.seen.restarted += 1;
    }

    fn end(&mut self) {
        self.snapshots.clear();
        for number in self.acknowledged.keys().copied().collect::<Vec<_>>() {
            self.abort(number);
        }
        while !self.writing.is_empty() {
            self.end_a_manifest();
        }
        let statuses = [JobStatus::Finished, JobStatus::Canceled, JobStatus::Failed];
        let status = self.pick(&statuses).unwrap();
        let retained = self.world.retained();
        let actions = self.world.send(RetainedEvent::ShutDown(status));
        self.follow(&actions);
        while !self.discards.is_empty() {
            self.end_a_discard();
        }
        let is_kept = |number: &u64| !self.kind_of(*number).is_discarded_at(status);
        let kept = retained.into_iter().filter(is_kept).chain(self.stuck.iter().copied());
        let unclaimed = (self.start == Start::Unclaimed).then_some(START);
        let expected: BTreeSet<_> = kept.chain(unclaimed).collect();
        let on_disk: BTreeSet<_> = self.world.on_disk().into_iter().collect();
        assert!(expected.is_subset(&on_disk), "{expected:?} of {on_disk:?}");
        for extra in on_disk.difference(&expected) {
            let mut inside = self.world.inside.iter().filter(|(_, of)| *of == extra).map(|(file, _)| *file);
            let is_listed =
                |file| self.world.manifests.iter().any(|(of, files)| of != extra && files.contains(&file));
            let may_be_listed = |file| self.is_doubtful(file);
            assert!(inside.any(|file| is_listed(file) || may_be_listed(file)), "{extra} is left");
        }
        let listed: BTreeSet<_> = self.world.manifests.values().flatten().copied().collect();
        assert!(listed.is_subset(&self.world.files), "what is kept can be restored");
        let unused: Vec<_> = self.world.files.difference(&listed).collect();
        let leaked: Vec<_> = unused.into_iter().filter(|file| !self.may_be_left(**file)).collect();
        assert_eq!(leaked, Vec::<&u64>::new(), "ours, unused and still there");
    }

    /// Files that a restart has forgotten, and those that a manifest which could not be removed might list.
    fn may_be_left(&self, file: u64) -> bool {
        self.orphans.contains(&file) || self.is_doubtful(file)
    }

    fn is_doubtful(&self, file: u64) -> bool {
        let (_, first, last) = self.world.uses.get(&file).copied().unwrap_or_default();
        self.stuck.range(first..=last).next().is_some()
    }
}

#[test]
fn nothing_in_use_is_deleted_and_nothing_unused_is_left() {
    let mut all = Seen::default();
    for seed in 0..SEEDS {
        let mut walk = Walk::new(seed);
        (0..STEPS).for_each(|_| walk.step());
        walk.end();
        let seen = walk.seen;
        all.completed += seen.completed;
        all.late_completions += seen.late_completions;
        all.failed += seen.failed;
        all.aborted += seen.aborted;
        all.late += seen.late;
        all.full += seen.full;
        all.superseded += seen.superseded;
        all.deleted += seen.deleted;
        all.stuck += seen.stuck;
        all.restarted += seen.restarted;
        all.waited += seen.waited;
    }
    let Seen {
        completed,
        late_completions,
        failed,
        aborted,
        late,
        full,
        superseded,
        deleted,
        stuck,
        restarted,
        waited,
    } = all;
    for (what, count) in [
        ("completed", completed),
        ("late completions", late_completions),
        ("failed", failed),
        ("aborted", aborted),
        ("late", late),
        ("full", full),
        ("superseded", superseded),
        ("deleted", deleted),
        ("stuck", stuck),
        ("restarted", restarted),
        ("waited", waited),
    ] {
        assert!(count > 10, "{what}: {count} in {all:?}");
    }
}
