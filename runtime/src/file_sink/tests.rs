use std::collections::BTreeMap;

use slackwater_core::durable::{DiskError, OperationKind};
use slackwater_core::ids::CheckpointId;

use super::{FileSink, FileSinkOptions, PendingPart};
use crate::files::{BlockingFiles, FileEntry, FileEvent, FileRequest, FileTicket, Files};
use crate::operator::{Sink, SubtaskInfo};

const FOLDER: &str = "out";

/// A disk that keeps what it is told, and a writer that carries out a sink's requests in order.
#[derive(Clone, Debug, Default)]
struct FakeDisk {
    files: BTreeMap<String, Vec<u8>>,
    folders: Vec<String>,
    open: BTreeMap<FileTicket, (String, u64)>,
    /// Requests and calls that are still carried out; then the power is off.
    power: usize,
    synced: Vec<String>,
}

impl FakeDisk {
    fn new() -> Self {
        Self { power: usize::MAX, ..Self::default() }
    }

    fn spend(&mut self) -> bool {
        let is_on = self.power > 0;
        self.power = self.power.saturating_sub(1);
        is_on
    }

    /// Carries out what the sink asked for; gives the answers.
    fn serve(&mut self, requests: &mut Files) -> Vec<FileEvent> {
        let mut events = Vec::new();
        while let Some((ticket, request)) = requests.take_request() {
            if !self.spend() {
                break;
            }
            match request {
                FileRequest::Create { path, len_max } => {
                    assert_eq!(self.files.insert(path.clone(), Vec::new()), None, "{path} is new");
                    self.open.insert(ticket, (path, len_max));
                }
                FileRequest::Append { bytes } => {
                    let (path, len_max) = &self.open[&ticket];
                    let file = self.files.get_mut(path).unwrap();
                    file.extend_from_slice(&bytes);
                    assert!(file.len() as u64 <= *len_max, "{path} stays in the room set aside");
                    requests.written(bytes.len());
                }
                FileRequest::Seal => {
                    self.open.remove(&ticket).unwrap();
                    events.push(FileEvent::Sealed(ticket));
                }
                FileRequest::Publish { from, to } => {
                    self.move_file(&from, &to).unwrap();
                    events.push(FileEvent::Published(ticket));
                }
                FileRequest::Remove { path } => {
                    self.files.remove(&path).unwrap();
                    events.push(FileEvent::Removed(ticket));
                }
            }
        }
        events
    }

    fn move_file(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        let error = |errno| DiskError { operation: OperationKind::Rename, errno };
        if self.files.contains_key(to) {
            return Err(error(DiskError::EXISTS));
        }
        let file = self.files.remove(from).ok_or_else(|| error(DiskError::NOT_FOUND))?;
        self.files.insert(to.to_owned(), file);
        Ok(())
    }

    fn call<T>(
        &mut self,
        operation: OperationKind,
        call: impl FnOnce(&mut Self) -> Result<T, DiskError>,
    ) -> Result<T, DiskError> {
        if self.spend() { call(self) } else { Err(DiskError { operation, errno: DiskError::IO }) }
    }

    fn names(&self) -> Vec<&str> {
        self.files.keys().map(String::as_str).collect()
    }

    /// The committed lines of all visible parts.
    fn committed(&self) -> String {
        let visible = self.files.iter().filter(|(path, _)| path.starts_with("out/part-"));
        let mut lines: Vec<&str> =
            visible.flat_map(|(_, bytes)| std::str::from_utf8(bytes).unwrap().lines()).collect();
        lines.sort_unstable();
        lines.join(" ")
    }
}

impl BlockingFiles for FakeDisk {
    fn list(&mut self, folder: &str) -> Result<Vec<FileEntry>, DiskError> {
        let prefix = format!("{folder}/");
        let names = self.files.iter().filter_map(|(path, bytes)| Some((path.strip_prefix(&prefix)?, bytes)));
        let here = names.filter(|(name, _)| !name.contains('/'));
        let entry = |(name, bytes): (&str, &Vec<u8>)| FileEntry {
            name: name.to_owned(),
            is_folder: false,
            len: bytes.len() as u64,
        };
        Ok(here.map(entry).collect())
    }

    fn is_same(&mut self, one: &str, other: &str) -> Result<bool, DiskError> {
        self.call(OperationKind::Read, |disk| Ok(disk.files[one] == disk.files[other]))
    }

    fn create_folder(&mut self, folder: &str) -> Result<(), DiskError> {
        let parent = folder.rsplit_once('/').map(|(parent, _)| parent.to_owned());
        self.call(OperationKind::CreateFolder, |disk| {
            if parent.is_some_and(|parent| !parent.is_empty() && !disk.folders.contains(&parent)) {
                let errno = DiskError::NOT_FOUND;
                return Err(DiskError { operation: OperationKind::CreateFolder, errno });
            }
            disk.folders.push(folder.to_owned());
            Ok(())
        })
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        self.call(OperationKind::Rename, |disk| disk.move_file(from, to))
    }

    fn remove(&mut self, path: &str) -> Result<(), DiskError> {
        self.call(OperationKind::Remove, |disk| {
            disk.files.remove(path).unwrap();
            Ok(())
        })
    }

    fn sync_folder(&mut self, folder: &str) -> Result<(), DiskError> {
        self.call(OperationKind::SyncFolder, |disk| {
            disk.synced.push(folder.to_owned());
            Ok(())
        })
    }
}

/// A sink with its disk; tests say what happens to it line by line.
struct Bench {
    sink: FileSink,
    files: Files,
    disk: FakeDisk,
    /// What the newest checkpoint lists.
    pending: Vec<Vec<u8>>,
}

impl Bench {
    fn start(
        attempt: u64,
        mut disk: FakeDisk,
        restored: Option<u64>,
        pending: Vec<Vec<u8>>,
    ) -> (Self, String) {
        let mut sink = new_sink(attempt);
        let said = sink.recover(restored.map(CheckpointId), &pending, &mut disk).unwrap().join("; ");
        (Self { sink, files: Files::default(), disk, pending: Vec::new() }, said)
    }

    fn fresh() -> Self {
        Self::start(1, FakeDisk::new(), None, Vec::new()).0
    }

    fn write(&mut self, lines: &str) {
        for line in lines.split(' ') {
            self.sink.write(line.as_bytes(), &mut self.files).unwrap();
        }
    }

    /// Until nothing is asked for any more: a commit may follow from the end of the one before.
    fn serve(&mut self) {
        loop {
            let events = self.disk.serve(&mut self.files);
            if events.is_empty() {
                break;
            }
            for event in events {
                self.sink.on_file(event, &mut self.files).unwrap();
            }
        }
    }

    fn pre_commit(&mut self, id: u64) {
        self.pending = self.sink.pre_commit(CheckpointId(id), &mut self.files).unwrap();
        self.serve();
    }

    fn commit(&mut self, id: u64) {
        self.sink.commit(CheckpointId(id), &mut self.files).unwrap();
        self.serve();
    }

    /// Dies here; the next attempt restores this checkpoint.
    fn restart(self, attempt: u64, restored: u64, pending: Vec<Vec<u8>>) -> (Self, String) {
        Self::start(attempt, self.disk, Some(restored), pending)
    }
}

fn new_sink(attempt: u64) -> FileSink {
    let info =
        SubtaskInfo { operator: "sink".into(), index: 3, parallelism: 4, max_parallelism: 128, attempt };
    FileSink::new(FOLDER, &info, FileSinkOptions { block_len: 8, part_len_max: 20 })
}

#[test]
fn lines_are_hidden_until_their_checkpoint_completes() {
    let mut bench = Bench::fresh();
    bench.write("a b c d e f");
    bench.serve();
    assert_eq!(bench.disk.names(), ["out/.part-3-1-0.tmp"]);
    bench.pre_commit(1);
    assert!(bench.sink.is_sealed(CheckpointId(1)) && !bench.sink.is_committed(CheckpointId(1)));
    assert_eq!(bench.disk.committed(), "");
    bench.commit(1);
    assert!(bench.sink.is_committed(CheckpointId(1)));
    assert_eq!(bench.disk.names(), ["out/part-3-0-chk-1"]);
    assert_eq!(bench.disk.committed(), "a b c d e f");
}

#[test]
fn h04_a_checkpoint_is_sealed_only_when_its_parts_are_durable() {
    let mut bench = Bench::fresh();
    bench.write("a");
    bench.pending = bench.sink.pre_commit(CheckpointId(1), &mut bench.files).unwrap();
    assert!(!bench.sink.is_sealed(CheckpointId(1)));
    bench.sink.commit(CheckpointId(1), &mut bench.files).unwrap_err();
    bench.serve();
    assert!(bench.sink.is_sealed(CheckpointId(1)));
}

#[test]
fn an_empty_transaction_leaves_no_file_and_is_committed_at_once() {
    let mut bench = Bench::fresh();
    bench.pre_commit(1);
    assert!(bench.pending.is_empty() && bench.disk.names().is_empty());
    assert!(bench.sink.is_sealed(CheckpointId(1)) && bench.sink.is_committed(CheckpointId(1)));
}

#[test]
fn long_parts_are_rolled_and_a_longer_line_has_a_part_of_its_own() {
    let mut bench = Bench::fresh();
    let long = "x".repeat(50);
    bench.write(&format!("0123456789 0123456789 {long} a b"));
    bench.pre_commit(1);
    bench.commit(1);
    let lens: Vec<usize> = bench.disk.files.values().map(Vec::len).collect();
    assert_eq!(lens, [11, 11, 51, 4]);
}

// Rules C3, C4: what a checkpoint lists and which commit makes visible what.
#[test]
fn a_lost_notification_is_made_up_for_by_the_next() {
    for (lost, aborted) in [(true, false), (false, true), (true, true)] {
        let mut bench = Bench::fresh();
        bench.write("a");
        bench.pre_commit(1);
        bench.write("b");
        if aborted {
            // Rule C5: the transaction stays pending.
            bench.sink.abort(CheckpointId(1));
        }
        bench.pre_commit(2);
        assert_eq!(bench.pending.len(), 2, "lost {lost}: both are listed");
        bench.write("c");
        bench.pre_commit(3);
        bench.commit(2);
        assert_eq!(bench.disk.committed(), "a b");
        assert!(bench.sink.is_committed(CheckpointId(2)) && !bench.sink.is_committed(CheckpointId(3)));
        bench.commit(2);
        bench.commit(3);
        assert_eq!(bench.disk.committed(), "a b c");
    }
}

#[test]
fn h01_a_later_notice_commits_earlier_work_and_the_earlier_one_does_nothing_then() {
    let mut bench = Bench::fresh();
    bench.write("a");
    bench.pre_commit(1);
    bench.write("b");
    bench.pre_commit(2);
    bench.commit(2);
    let shown = bench.disk.names().join(" ");
    assert_eq!(bench.disk.committed(), "a b");
    bench.commit(1);
    assert_eq!(bench.disk.names().join(" "), shown);
    bench.pre_commit(3);
    assert!(bench.pending.is_empty(), "nothing was written");
    bench.commit(3);
    bench.commit(3);
    assert!(bench.sink.is_committed(CheckpointId(3)));
    assert_eq!(bench.disk.names().join(" "), shown);
}

// Rules C6, C7.
#[test]
fn a_restore_commits_what_is_pending_and_may_be_repeated() {
    for committed_before in [false, true] {
        let mut bench = Bench::fresh();
        bench.write("a");
        bench.pre_commit(1);
        let pending = bench.pending.clone();
        if committed_before {
            bench.commit(1);
        }
        bench.write("lost because no checkpoint covers it");
        bench.serve();
        let (bench, said) = bench.restart(2, 1, pending.clone());
        assert_eq!((said.as_str(), bench.disk.committed().as_str()), ("", "a"));
        assert_eq!(bench.disk.names(), ["out/part-3-0-chk-1"], "hidden rests are gone");
        assert_eq!(bench.disk.synced.last().map(String::as_str), Some(FOLDER));
        let (mut bench, _) = bench.restart(3, 1, pending);
        assert_eq!(bench.disk.committed(), "a");
        bench.write("b");
        bench.pre_commit(2);
        bench.commit(2);
        assert_eq!(bench.disk.committed(), "a b");
    }
}

#[test]
fn a_restore_that_is_cut_short_anywhere_can_be_done_again() {
    for power in 0..20 {
        let mut bench = Bench::fresh();
        bench.write("a");
        bench.pre_commit(1);
        bench.write("b");
        bench.pre_commit(2);
        let pending = bench.pending.clone();
        bench.commit(1);
        bench.write("c");
        bench.pre_commit(3);
        bench.commit(3);
        bench.write("dropped");
        bench.pre_commit(4);
        let mut disk = bench.disk;
        disk.power = power;
        let first = new_sink(2).recover(Some(CheckpointId(2)), &pending, &mut disk);
        disk.power = usize::MAX;
        new_sink(3).recover(Some(CheckpointId(2)), &pending, &mut disk).unwrap();
        assert_eq!(disk.committed(), "a b", "{power} {first:?}");
        assert!(disk.names().iter().all(|name| !name.contains(".tmp")));
        assert_eq!(disk.files.len(), 3, "c is kept aside");
    }
}

#[test]
fn parts_of_checkpoints_that_were_passed_over_are_moved_aside_and_said_so() {
    let mut bench = Bench::fresh();
    bench.disk.files.insert("out/part-of-something-else".into(), b"mine\n".to_vec());
    bench.write("a");
    bench.pre_commit(1);
    let pending = bench.pending.clone();
    bench.commit(1);
    bench.write("b");
    bench.pre_commit(2);
    bench.commit(2);
    let (mut bench, said) = bench.restart(7, 1, pending);
    assert!(said.starts_with("moved 1 output part(s) aside to `out/.set-aside`"), "{said}");
    assert!(said.contains("after 1"), "{said}");
    let names = ["out/.set-aside/part-3-1-chk-2-7", "out/part-3-0-chk-1", "out/part-of-something-else"];
    assert_eq!(bench.disk.names(), names);
    // The same checkpoint id and part number may come again.
    bench.write("b");
    bench.pre_commit(2);
    bench.commit(2);
    let visible = bench.disk.names().into_iter().filter(|name| name.ends_with("chk-2")).count();
    assert_eq!(visible, 1);
}

#[test]
fn a_start_without_a_checkpoint_moves_all_earlier_parts_aside() {
    let mut bench = Bench::fresh();
    bench.write("a");
    bench.pre_commit(1);
    bench.commit(1);
    let (bench, said) = Bench::start(2, bench.disk, None, Vec::new());
    assert!(said.contains("this run starts without a checkpoint"), "{said}");
    assert_eq!(bench.disk.committed(), "");
}

#[test]
fn a_part_that_is_lost_damaged_or_in_the_way_is_an_error_and_changes_nothing() {
    let mut bench = Bench::fresh();
    bench.write("a");
    bench.pre_commit(1);
    let (pending, good) = (bench.pending, bench.disk);
    let hidden = "out/.part-3-1-0.tmp".to_owned();
    let visible = "out/part-3-0-chk-1".to_owned();

    let mut lost = good.clone();
    lost.files.remove(&hidden);
    let mut cut = good.clone();
    cut.files.insert(hidden, Vec::new());
    let mut taken = good;
    taken.files.insert(visible, b"b\n".to_vec());
    for (mut disk, words) in [(lost, "is lost"), (cut, "has 0 bytes instead of 2"), (taken, "another file")] {
        let before = disk.files.clone();
        let error = new_sink(2).recover(Some(CheckpointId(1)), &pending, &mut disk).unwrap_err().to_string();
        assert!(error.starts_with("output part `out/part-3-0-chk-1`") && error.contains(words), "{error}");
        assert_eq!(disk.files, before);
    }
}

#[test]
fn a_rename_of_which_both_names_are_left_is_done_to_the_end() {
    let mut bench = Bench::fresh();
    bench.write("a");
    bench.pre_commit(1);
    let (pending, mut disk) = (bench.pending, bench.disk);
    disk.files.insert("out/part-3-0-chk-1".to_owned(), b"a\n".to_vec());
    let (bench, said) = Bench::start(2, disk, Some(1), pending);
    assert_eq!((said.as_str(), bench.disk.names()), ("", vec!["out/part-3-0-chk-1"]));
}

#[test]
fn pending_parts_come_back_and_damaged_ones_are_refused() {
    let part = PendingPart {
        checkpoint: CheckpointId(9),
        len: 77,
        hidden_name: ".part-0-1-2.tmp".into(),
        final_name: "part-0-2-chk-9".into(),
    };
    let bytes = part.encode();
    assert_eq!(PendingPart::decode(&bytes), Ok(part));
    for len in 0..bytes.len() {
        PendingPart::decode(&bytes[..len]).unwrap_err();
    }
    let mut escaping = bytes;
    escaping.splice(17.., *b"../x/part-0-2-chk-9");
    PendingPart::decode(&escaping).unwrap_err();
}

/// Rules C1 to C8 together: cut the power at every request of a run with a lost notification and an aborted
/// checkpoint, restore the newest complete checkpoint, write the rest again: every line is there once.
#[test]
fn the_power_may_fail_at_any_request() {
    let lines = ["a b c d e f g h", "i", "", "j k l m n o p q r s t u v w x y z", "A"];
    for power in 0..60 {
        let mut bench = Bench::fresh();
        bench.disk.power = power;
        // What the newest complete checkpoint covers and lists.
        let mut restored: (Option<u64>, Vec<Vec<u8>>) = (None, Vec::new());
        for (id, text) in (1..).zip(lines) {
            bench.write(text);
            bench.pre_commit(id);
            let is_aborted = id == 2;
            if !bench.sink.is_sealed(CheckpointId(id)) {
                break;
            }
            if !is_aborted {
                restored = (Some(id), bench.pending.clone());
                let is_lost = id == 3;
                if !is_lost {
                    bench.commit(id);
                }
            }
        }
        let mut disk = bench.disk;
        disk.power = usize::MAX;
        let covered = usize::try_from(restored.0.unwrap_or(0)).unwrap();
        let (mut bench, _) = Bench::start(2, disk, restored.0, restored.1);
        for (id, text) in (1..).zip(lines).skip(covered) {
            bench.write(text);
            bench.pre_commit(id);
            bench.commit(id);
        }
        let mut expected: Vec<&str> = lines.iter().flat_map(|text| text.split(' ')).collect();
        expected.sort_unstable();
        assert_eq!(bench.disk.committed(), expected.join(" "), "power off after {power} requests");
    }
}
