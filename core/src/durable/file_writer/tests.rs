//! The writer on a disk that notes operations, ends them in reverse order and fails one of them.

use std::boxed::Box;
use std::collections::BTreeMap;
use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec as StdVec;

use heapless::VecView;

use super::*;
use crate::durable::{DiskError, Entry, OperationKind, RunError, Wait, run_to_end};

const BLOCK: usize = 64 << 10;

/// Keeps the bytes of its only file; has `room` for operations and `blocks` to lend.
struct NotingDisk {
    room: usize,
    blocks: usize,
    fails: Option<usize>,
    log: StdVec<String>,
    bytes: BTreeMap<u64, StdVec<u8>>,
    len: u64,
    ended: StdVec<Completion<Box<[u8]>>>,
}

impl NotingDisk {
    fn new(room: usize, blocks: usize, fails: Option<usize>) -> Self {
        Self { room, blocks, fails, log: vec![], bytes: BTreeMap::new(), len: 0, ended: vec![] }
    }

    fn carry_out(&mut self, operation: Operation<'_, Box<[u8]>, &'static [u8]>) -> Outcome<Box<[u8]>> {
        match operation {
            Operation::CreateFile { len_max, .. } => {
                let len = len_max.next_multiple_of(4096);
                return Outcome::Opened { file: FileId(7), len };
            }
            Operation::Write { offset, data: Data::Block { block, len }, .. } => {
                self.bytes.insert(offset, block[..len].to_vec());
                self.blocks += 1;
            }
            Operation::Write { offset, data: Data::Frozen(run), .. } => {
                self.bytes.insert(offset, run.to_vec());
            }
            Operation::SetLength { len, .. } => self.len = len,
            Operation::CreateFolder { .. }
            | Operation::OpenFile { .. }
            | Operation::Read { .. }
            | Operation::SyncFile { .. }
            | Operation::CloseFile { .. }
            | Operation::SyncFolder { .. }
            | Operation::Rename { .. }
            | Operation::Remove { .. } => {}
        }
        Outcome::Done
    }

    fn content(&self) -> StdVec<u8> {
        let mut bytes = self.bytes.values().flatten().copied().collect::<StdVec<u8>>();
        bytes.truncate(usize::try_from(self.len).unwrap());
        bytes
    }

    /// The operations without the writes between the first and the last.
    fn steps(&self) -> String {
        let mut steps = self.log.clone();
        steps.dedup();
        steps.join(" ")
    }
}

fn note(operation: &Operation<'_, Box<[u8]>, &'static [u8]>) -> String {
    match operation {
        Operation::CreateFile { path, .. } => format!("create:{path}"),
        Operation::Write { .. } => "write".to_string(),
        Operation::SetLength { .. } => "cut".to_string(),
        Operation::SyncFile { .. } => "sync".to_string(),
        Operation::CloseFile { .. } => "close".to_string(),
        Operation::SyncFolder { path } => format!("folder:{path}"),
        Operation::Rename { from, to } => format!("rename:{from}>{to}"),
        Operation::Remove { path } => format!("remove:{path}"),
        Operation::CreateFolder { .. } | Operation::OpenFile { .. } | Operation::Read { .. } => {
            "?".to_string()
        }
    }
}

impl Disk for NotingDisk {
    type Block = Box<[u8]>;
    type Frozen = &'static [u8];

    fn block(&mut self) -> Option<Self::Block> {
        self.blocks = self.blocks.checked_sub(1)?;
        Some(vec![0xAA; BLOCK].into())
    }

    fn recycle(&mut self, _block: Self::Block) {
        self.blocks += 1;
    }

    fn submit<'p>(
        &mut self,
        token: Token,
        operation: Operation<'p, Self::Block, Self::Frozen>,
    ) -> Result<(), Operation<'p, Self::Block, Self::Frozen>> {
        if self.ended.len() == self.room {
            return Err(operation);
        }
        let fails = self.fails == Some(self.log.len());
        self.log.push(note(&operation));
        let mut outcome = self.carry_out(operation);
        if fails {
            let error = DiskError { operation: OperationKind::Write, errno: DiskError::IO };
            outcome = Outcome::Failed(error);
        }
        self.ended.push(Completion { token, outcome });
        Ok(())
    }

    fn reap(&mut self, _wait: Wait, out: &mut VecView<Completion<Self::Block>>) -> usize {
        let before = out.len();
        while !out.is_full()
            && let Some(completion) = self.ended.pop()
        {
            out.push(completion).unwrap();
        }
        out.len() - before
    }

    fn in_flight(&self) -> usize {
        self.ended.len()
    }

    fn list(&mut self, _folder: &str, _each: &mut dyn FnMut(Entry<'_>)) -> Result<(), DiskError> {
        Ok(())
    }
}

fn some_bytes(len: usize) -> StdVec<u8> {
    (0..=250).cycle().take(len).collect()
}

const FINAL: Names<&str> = Names::Final { path: "job/part" };
const RENAMED: Names<&str> = Names::Renamed { temporary: "job/.tmp", path: "job/_metadata" };

#[test]
fn a_file_is_written_in_the_order_of_its_plan() {
    for (names, steps) in [
        (FINAL, "create:job/part write cut sync close folder:job"),
        (RENAMED, "create:job/.tmp write cut sync close rename:job/.tmp>job/_metadata folder:job"),
    ] {
        for (room, blocks) in [(1, 1), (1, 3), (8, 2)] {
            let mut disk = NotingDisk::new(room, blocks, None);
            let bytes = some_bytes(3 * BLOCK + 5);
            let mut work = WriteFile::new(names.clone(), bytes.clone());
            run_to_end(&mut disk, &mut work).unwrap();
            assert_eq!(work.result(), Some(Ok(bytes.len() as u64)));
            assert_eq!(disk.steps(), steps);
            assert_eq!(disk.content(), bytes);
            assert_eq!(disk.blocks, blocks);
        }
    }
}

#[test]
fn a_file_without_bytes_is_a_file() {
    let mut disk = NotingDisk::new(1, 1, None);
    let mut work = WriteFile::new(FINAL, []);
    run_to_end(&mut disk, &mut work).unwrap();
    assert_eq!(work.result(), Some(Ok(0)));
    assert_eq!(disk.steps(), "create:job/part sync close folder:job");
}

#[test]
fn a_failure_at_any_operation_ends_the_work_and_cleans_up() {
    for names in [FINAL, RENAMED] {
        let operations = 4 + 1 + 4 + usize::from(names == RENAMED);
        for fails in 0..operations {
            let mut disk = NotingDisk::new(8, 2, Some(fails));
            let mut work = WriteFile::new(names.clone(), some_bytes(3 * BLOCK + 5));
            run_to_end(&mut disk, &mut work).unwrap();
            let steps = disk.steps();
            let fails_at_close = steps.split(' ').count() > 5 && disk.log[fails] == "close";
            assert_eq!(work.result().unwrap().is_ok(), fails_at_close, "{fails}: {steps}");
            assert_eq!(
                disk.log.iter().filter(|name| *name == "sync").count(),
                usize::from(steps.contains("sync"))
            );
            assert_eq!(disk.blocks, 2, "{fails}: a block is lost");
        }
    }
}

#[test]
fn frozen_runs_go_between_copied_bytes() {
    static RUN: [u8; 8192] = [7; 8192];
    let mut disk = NotingDisk::new(8, 2, None);
    let mut writer = FileWriter::<NotingDisk, _>::new(FINAL, 3 * 4096);
    let mut tokens = Tokens::new(1);
    let mut ended = Vec::<_, 8>::new();
    assert!(writer.append_frozen(&RUN, &mut disk, &mut tokens).is_err(), "the file is not open yet");
    writer.advance(&mut disk, &mut tokens);
    disk.reap(Wait::ForOne, &mut ended);
    ended.into_iter().for_each(|completion| writer.on_completion(completion, &mut disk));
    assert_eq!(writer.append(&[1; 4095], &mut disk, &mut tokens), 4095);
    assert!(writer.append_frozen(&RUN, &mut disk, &mut tokens).is_err(), "not aligned");
    assert_eq!(writer.append(&[1; 1], &mut disk, &mut tokens), 1);
    assert!(writer.append_frozen(&RUN, &mut disk, &mut tokens).is_ok());
    assert_eq!(writer.position(), 3 * 4096);
    writer.seal();
    assert_eq!(disk.bytes[&4096], RUN);
}

#[test]
fn an_abandoned_file_is_removed() {
    let mut disk = NotingDisk::new(8, 2, None);
    let mut writer = FileWriter::<NotingDisk, _>::new(FINAL, 4096);
    writer.abandon();
    run_to_end(&mut disk, &mut writer).unwrap();
    assert_eq!(writer.result(), Some(Err(Failure::Abandoned)));
    assert_eq!(disk.steps(), "create:job/part close remove:job/part");
}

#[test]
fn a_work_that_gets_no_block_is_stalled() {
    let mut disk = NotingDisk::new(8, 0, None);
    let mut work = WriteFile::new(FINAL, some_bytes(1));
    assert_eq!(run_to_end(&mut disk, &mut work), Err(RunError::Stalled));
}

/// A writer whose file is open, its disk and its tokens.
fn opened(blocks: usize) -> (FileWriter<NotingDisk, &'static str>, NotingDisk, Tokens) {
    let mut disk = NotingDisk::new(8, blocks, None);
    let (mut writer, mut tokens) = (FileWriter::new(FINAL, 1 << 20), Tokens::new(1));
    assert!(!writer.takes_bytes());
    writer.advance(&mut disk, &mut tokens);
    complete(&mut writer, &mut disk);
    (writer, disk, tokens)
}

fn complete(writer: &mut FileWriter<NotingDisk, &'static str>, disk: &mut NotingDisk) {
    let mut ended = Vec::<_, 8>::new();
    disk.reap(Wait::ForOne, &mut ended);
    ended.into_iter().for_each(|completion| writer.on_completion(completion, disk));
}

#[test]
fn bytes_are_taken_while_the_file_is_open_and_not_sealed() {
    let (mut writer, mut disk, mut tokens) = opened(1);
    assert!(writer.takes_bytes());
    writer.seal();
    assert!(!writer.takes_bytes());
    assert_eq!(writer.append(&[1], &mut disk, &mut tokens), 0);
}

#[test]
fn many_blocks_are_taken_at_once_while_the_disk_lends_them() {
    let (mut writer, mut disk, mut tokens) = opened(3);
    assert_eq!(writer.append(&some_bytes(2 * BLOCK + 1), &mut disk, &mut tokens), 2 * BLOCK + 1);
    assert_eq!(disk.steps(), "create:job/part write");
    assert_eq!(disk.log.len(), 3);
}

#[test]
fn a_full_block_goes_out_at_once_and_another_waits() {
    for (len, writes) in [(BLOCK, 1), (BLOCK - 1, 0)] {
        let (mut writer, mut disk, mut tokens) = opened(1);
        assert_eq!(writer.append(&some_bytes(len), &mut disk, &mut tokens), len);
        writer.advance(&mut disk, &mut tokens);
        assert_eq!(disk.log.len(), 1 + writes, "{len}");
    }
}

#[test]
fn spare_bytes_are_filled_in_between_those_that_are_copied() {
    let (mut writer, mut disk, mut tokens) = opened(2);
    assert_eq!(writer.append(&[1; 10], &mut disk, &mut tokens), 10);
    writer.spare(100, &mut disk, &mut tokens).unwrap()[..5].fill(2);
    writer.commit(5);
    assert_eq!(writer.append(&[3; 10], &mut disk, &mut tokens), 10);
    assert!(writer.spare(BLOCK, &mut disk, &mut tokens).is_none(), "not in one block");
    assert_eq!(writer.position(), 25);
    writer.seal();
    assert!(writer.spare(1, &mut disk, &mut tokens).is_none(), "the file is complete");
    run_to_end(&mut disk, &mut writer).unwrap();
    assert_eq!(disk.content(), [&[1; 10][..], &[2; 5], &[3; 10]].concat());
}

#[test]
fn no_more_spare_bytes_are_taken_than_there_are() {
    let (mut writer, mut disk, mut tokens) = opened(1);
    writer.commit(1);
    assert_eq!(writer.position(), 0, "nothing was spare");
    assert!(writer.spare(BLOCK, &mut disk, &mut tokens).is_some());
    writer.commit(BLOCK + 1);
    assert_eq!(writer.position(), 64 << 10);
}

#[test]
fn an_abandoned_file_gives_its_block_back() {
    let (mut writer, mut disk, mut tokens) = opened(1);
    assert_eq!(writer.append(&[1; 10], &mut disk, &mut tokens), 10);
    assert_eq!(disk.blocks, 0);
    writer.abandon();
    writer.advance(&mut disk, &mut tokens);
    complete(&mut writer, &mut disk);
    assert_eq!(disk.blocks, 1);
    assert!(format!("{writer:?}").starts_with("FileWriter { names: Final { path: \"job/part\" }"));
}

#[test]
fn an_abandoned_file_is_not_written_to_behind_its_close() {
    let (mut writer, mut disk, mut tokens) = opened(1);
    disk.room = 0;
    assert_eq!(writer.append(&some_bytes(BLOCK), &mut disk, &mut tokens), BLOCK);
    disk.room = 8;
    writer.abandon();
    writer.advance(&mut disk, &mut tokens);
    assert_eq!((disk.steps().as_str(), disk.blocks), ("create:job/part close", 1));
}

#[test]
fn an_abandoned_work_is_removed() {
    let mut disk = NotingDisk::new(8, 2, None);
    let mut work = WriteFile::new(RENAMED, some_bytes(5));
    work.abandon();
    run_to_end(&mut disk, &mut work).unwrap();
    assert_eq!(work.result(), Some(Err(Failure::Abandoned)));
    assert_eq!(disk.steps(), "create:job/.tmp close remove:job/.tmp");
}

#[test]
fn a_disk_that_somebody_uses_is_refused() {
    let (mut writer, mut disk, mut tokens) = opened(1);
    assert_eq!(writer.append(&some_bytes(BLOCK), &mut disk, &mut tokens), BLOCK);
    writer.advance(&mut disk, &mut tokens);
    let mut work = WriteFile::new(FINAL, some_bytes(1));
    let busy = RunError::Busy { in_flight: 1 };
    assert_eq!(run_to_end(&mut disk, &mut work), Err(busy));
    assert_eq!(busy.to_string(), "the disk has 1 operations of other work in flight: reap them first");
    let stalled = "the work waits for nothing: give the disk's blocks back to it";
    assert_eq!(RunError::Stalled.to_string(), stalled);
}

#[test]
fn a_token_names_its_job() {
    let mut tokens = Tokens::new(3);
    assert_eq!(tokens.job(), 3);
    assert_eq!([tokens.draw(), tokens.draw()], [Token(3 << 32), Token((3 << 32) + 1)]);
    assert_eq!(Tokens::new(u32::MAX).draw().job(), u32::MAX);
    // A number that has bits in common with the job's.
    assert_eq!([Token((5 << 32) | 5).job(), Token(7).job()], [5, 0]);
}

#[test]
fn a_disk_error_says_what_failed_and_why() {
    let said = |errno| DiskError { operation: OperationKind::Rename, errno }.to_string();
    for (errno, why) in [
        (DiskError::NOT_FOUND, "not found"),
        (DiskError::IO, "input/output error"),
        (DiskError::ACCESS, "permission denied"),
        (DiskError::EXISTS, "exists already"),
        (DiskError::NO_SPACE, "no space left on the disk"),
        (DiskError::READ_ONLY, "file system is read-only"),
    ] {
        assert_eq!(said(errno), format!("Rename failed: {why}"));
    }
    assert_eq!(said(99), "Rename failed with error 99");
}
