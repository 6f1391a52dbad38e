//! What every disk does, operation by operation.

use heapless::Vec as FixedVec;
use slackwater_core::durable::{
    Completion, Data, Disk, DiskError, FileId, Names, Operation, Outcome, Token, Wait, WriteFile, run_to_end,
};

pub(crate) type Bytes = &'static [u8];

static ZEROS: [u8; 4096] = [0; 4096];
static ONES: [u8; 4096] = [1; 4096];
pub(crate) static TWOS: [u8; 8192] = [2; 8192];

pub(crate) fn run<D: Disk<Frozen = Bytes>>(
    disk: &mut D,
    operation: Operation<'_, D::Block, Bytes>,
) -> Outcome<D::Block> {
    disk.submit(Token(1), operation).expect("nothing else is in flight");
    let mut out = FixedVec::<Completion<D::Block>, 1>::new();
    assert_eq!(disk.reap(Wait::ForOne, &mut out), 1);
    out.pop().expect("one has ended").outcome
}

/// Zero, or the error number.
pub(crate) fn done<D: Disk<Frozen = Bytes>>(disk: &mut D, operation: Operation<'_, D::Block, Bytes>) -> i32 {
    match run(disk, operation) {
        Outcome::Done => 0,
        Outcome::Failed(error) => error.errno,
        outcome @ (Outcome::Opened { .. } | Outcome::Read { .. }) => panic!("{outcome:?}"),
    }
}

fn opened<B: std::fmt::Debug>(outcome: Outcome<B>) -> Result<(FileId, u64), i32> {
    match outcome {
        Outcome::Opened { file, len } => Ok((file, len)),
        Outcome::Failed(error) => Err(error.errno),
        outcome @ (Outcome::Done | Outcome::Read { .. }) => panic!("{outcome:?}"),
    }
}

pub(crate) fn create<D: Disk<Frozen = Bytes>>(
    disk: &mut D,
    path: &str,
    len_max: u64,
) -> Result<(FileId, u64), i32> {
    opened(run(disk, Operation::CreateFile { path, len_max }))
}

pub(crate) fn write<D: Disk<Frozen = Bytes>>(disk: &mut D, file: FileId, offset: u64, bytes: Bytes) -> i32 {
    done(disk, Operation::Write { file, offset, data: Data::Frozen(bytes) })
}

pub(crate) fn read<D: Disk<Frozen = Bytes>>(
    disk: &mut D,
    file: FileId,
    offset: u64,
    len: usize,
) -> Result<Vec<u8>, i32> {
    let block = disk.block().expect("a block is free");
    match run(disk, Operation::Read { file, offset, block, len }) {
        Outcome::Read { block, len } => {
            let bytes = block.as_ref()[..len].to_vec();
            disk.recycle(block);
            Ok(bytes)
        }
        Outcome::Failed(error) => Err(error.errno),
        outcome @ (Outcome::Done | Outcome::Opened { .. }) => panic!("{outcome:?}"),
    }
}

pub(crate) fn names<D: Disk<Frozen = Bytes>>(disk: &mut D, folder: &str) -> Vec<(String, bool, u64)> {
    let mut names = Vec::new();
    disk.list(folder, &mut |entry| names.push((entry.name.to_owned(), entry.is_folder, entry.len))).unwrap();
    names.sort();
    names
}

/// All of it.
pub(crate) fn conform<D: Disk<Frozen = Bytes>>(disk: &mut D) {
    conform_in_right_use(disk);
    refusals(disk);
    assert_eq!(disk.in_flight(), 0);
}

/// Without the operations that no program should try.
pub(crate) fn conform_in_right_use<D: Disk<Frozen = Bytes>>(disk: &mut D) {
    folders_and_names(disk);
    reads_and_writes(disk);
    many_in_flight(disk);
    whole_files(disk);
}

fn folders_and_names<D: Disk<Frozen = Bytes>>(disk: &mut D) {
    assert_eq!(done(disk, Operation::CreateFolder { path: "job" }), 0);
    assert_eq!(done(disk, Operation::CreateFolder { path: "job" }), 0, "already there is fine");
    assert_eq!(done(disk, Operation::CreateFolder { path: "none/job" }), DiskError::NOT_FOUND);
    assert_eq!(done(disk, Operation::SyncFolder { path: "" }), 0);
    assert_eq!(create(disk, "none/a", 0), Err(DiskError::NOT_FOUND));
    let (file, len) = create(disk, "job/a", 5000).unwrap();
    assert!(len == 8192 || len == 0, "room is set aside in whole steps, behind the end or before it");
    assert_eq!(create(disk, "job/a", 0), Err(DiskError::EXISTS));
    assert_eq!(done(disk, Operation::SetLength { file, len: 5000 }), 0);
    assert_eq!(done(disk, Operation::CloseFile { file }), 0);
    let (file, _len) = create(disk, "job/b", 0).unwrap();
    assert_eq!(done(disk, Operation::CloseFile { file }), 0);
    assert_eq!(done(disk, Operation::Rename { from: "job/b", to: "job/a" }), DiskError::EXISTS);
    assert_eq!(done(disk, Operation::Rename { from: "job/none", to: "job/c" }), DiskError::NOT_FOUND);
    assert_eq!(done(disk, Operation::Rename { from: "job/b", to: "job/c" }), 0);
    assert_eq!(done(disk, Operation::CreateFolder { path: "other" }), 0);
    assert_eq!(done(disk, Operation::Rename { from: "job", to: "other" }), DiskError::EXISTS);
    // A folder takes what is in it along.
    assert_eq!(done(disk, Operation::Rename { from: "job", to: "other/moved" }), 0);
    assert_eq!(opened(run(disk, Operation::OpenFile { path: "job/c" })), Err(DiskError::NOT_FOUND));
    assert!(opened(run(disk, Operation::OpenFile { path: "other/moved/c" })).is_ok());
    assert_eq!(done(disk, Operation::Rename { from: "other/moved", to: "job" }), 0);
    assert_eq!(done(disk, Operation::Remove { path: "other" }), 0);
    assert_eq!(done(disk, Operation::SyncFolder { path: "job" }), 0);
    assert_eq!(names(disk, "job"), [("a".to_owned(), false, 5000), ("c".to_owned(), false, 0)]);
    assert_eq!(
        names(disk, "").iter().filter(|(name, is_folder, _len)| name == "job" && *is_folder).count(),
        1
    );
    assert_eq!(done(disk, Operation::Remove { path: "job" }), 39, "not empty");
    assert_eq!(done(disk, Operation::Remove { path: "job/c" }), 0);
    assert_eq!(done(disk, Operation::Remove { path: "job/c" }), DiskError::NOT_FOUND);
    assert_eq!(done(disk, Operation::CreateFolder { path: "job/empty" }), 0);
    assert_eq!(done(disk, Operation::Remove { path: "job/empty" }), 0);
    assert_eq!(disk.list("none", &mut |_entry| {}).unwrap_err().errno, DiskError::NOT_FOUND);
}

fn reads_and_writes<D: Disk<Frozen = Bytes>>(disk: &mut D) {
    let (file, _len) = create(disk, "data", 16384).unwrap();
    assert_eq!(write(disk, file, 8192, &TWOS), 0);
    let mut block = disk.block().unwrap();
    assert!(block.as_ref().len() >= 64 << 10 && block.as_ref().len().is_multiple_of(D::ALIGNMENT));
    block.as_mut()[..4096].copy_from_slice(&ONES);
    assert_eq!(done(disk, Operation::Write { file, offset: 0, data: Data::Block { block, len: 4096 } }), 0);
    assert_eq!(read(disk, file, 0, 16384), Ok([&ONES[..], &ZEROS, &TWOS].concat()));
    assert_eq!(done(disk, Operation::SetLength { file, len: 9000 }), 0);
    assert_eq!(done(disk, Operation::SyncFile { file }), 0);
    assert_eq!(read(disk, file, 8192, 8192), Ok(vec![2; 808]));
    assert_eq!(done(disk, Operation::CloseFile { file }), 0);
    assert_eq!(opened(run(disk, Operation::OpenFile { path: "none" })), Err(DiskError::NOT_FOUND));
    let (file, len) = opened(run(disk, Operation::OpenFile { path: "data" })).unwrap();
    assert_eq!(len, 9000);
    assert_eq!(read(disk, file, 0, 65536).map(|bytes| bytes.len()), Ok(9000));
    assert_eq!(read(disk, file, 12288, 4096), Ok(vec![]), "past the end");
    assert_eq!(read(disk, file, 1 << 40, 4096), Ok(vec![]), "far past the end");
    assert_eq!(done(disk, Operation::CloseFile { file }), 0);
}

fn refusals<D: Disk<Frozen = Bytes>>(disk: &mut D) {
    for path in ["/tmp", "..", "job/../job", "job/", "./job"] {
        assert_eq!(done(disk, Operation::CreateFolder { path }), DiskError::INVALID, "{path}");
    }
    let (file, _len) = create(disk, "refused", 4096).unwrap();
    assert_eq!(write(disk, file, 1, &ONES), DiskError::INVALID, "offset");
    assert_eq!(write(disk, file, 512, &ONES), DiskError::INVALID, "offset");
    assert_eq!(write(disk, file, 0, &ONES[..100]), DiskError::INVALID, "length");
    assert_eq!(write(disk, file, 0, &TWOS), DiskError::INVALID, "beyond the room set aside");
    assert_eq!(write(disk, file, u64::MAX - 4095, &ONES), DiskError::INVALID, "beyond any file");
    assert_eq!(read(disk, file, 7, 4096), Err(DiskError::INVALID));
    assert_eq!(read(disk, file, 0, 7), Err(DiskError::INVALID));
    let block = disk.block().unwrap();
    let len = block.as_ref().len() + 4096;
    assert_eq!(
        done(disk, Operation::Write { file, offset: 0, data: Data::Block { block, len } }),
        DiskError::INVALID
    );
    assert_eq!(done(disk, Operation::CloseFile { file }), 0);
    assert_eq!(done(disk, Operation::CloseFile { file }), DiskError::INVALID, "closed already");
    assert_eq!(done(disk, Operation::SyncFile { file }), DiskError::INVALID);
    assert_eq!(write(disk, file, 0, &ONES), DiskError::INVALID);
    assert_eq!(read(disk, file, 0, 4096), Err(DiskError::INVALID));
}

/// All the blocks and many frozen runs at once, until the disk has no more room; each ends exactly once.
fn many_in_flight<D: Disk<Frozen = Bytes>>(disk: &mut D) {
    const WRITES: u64 = 200;
    let (file, _len) = create(disk, "many", WRITES * 4096).unwrap();
    let mut ends = vec![0; usize::try_from(WRITES).unwrap()];
    let mut out = FixedVec::<Completion<D::Block>, 3>::new();
    let (mut next, mut most) = (0, 0);
    while next < WRITES || disk.in_flight() > 0 {
        while next < WRITES {
            let data = if next % 2 == 0 { disk.block() } else { None }.map_or(
                Data::Frozen(if next % 2 == 0 { &ONES[..] } else { &TWOS[..4096] }),
                |mut block| {
                    block.as_mut()[..4096].fill(1);
                    Data::Block { block, len: 4096 }
                },
            );
            match disk.submit(Token(next), Operation::Write { file, offset: next * 4096, data }) {
                Ok(()) => next += 1,
                Err(Operation::Write { data: Data::Block { block, .. }, .. }) => {
                    disk.recycle(block);
                    break;
                }
                Err(_) => break,
            }
        }
        most = most.max(disk.in_flight());
        assert!(disk.reap(Wait::ForOne, &mut out) > 0);
        for Completion { token, outcome } in std::mem::take(&mut out) {
            assert!(matches!(outcome, Outcome::Done), "{outcome:?}");
            ends[usize::try_from(token.0).unwrap()] += 1;
        }
    }
    assert!(ends.iter().all(|count| *count == 1));
    assert!(most >= 8, "only {most} at a time");
    assert_eq!(disk.reap(Wait::ForOne, &mut out), 0, "nothing is left to wait for");
    assert_eq!(read(disk, file, 0, 8192), Ok([ONES, [2; 4096]].concat()));
    assert_eq!(read(disk, file, (WRITES - 1) * 4096, 8192), Ok(TWOS[..4096].to_vec()));
    assert_eq!(done(disk, Operation::CloseFile { file }), 0);
    let blocks = std::iter::from_fn(|| disk.block()).collect::<Vec<_>>();
    assert!(blocks.len() >= 4, "blocks come back");
    blocks.into_iter().for_each(|block| disk.recycle(block));
}

fn whole_files<D: Disk<Frozen = Bytes>>(disk: &mut D) {
    let bytes = (0..=250).cycle().take(10_000_001).collect::<Vec<u8>>();
    let mut work = WriteFile::new(Names::Final { path: "job/part" }, &bytes);
    run_to_end(disk, &mut work).unwrap();
    assert_eq!(work.result(), Some(Ok(10_000_001)));
    let (file, len) = opened(run(disk, Operation::OpenFile { path: "job/part" })).unwrap();
    assert_eq!(len, 10_000_001);
    let mut back = Vec::new();
    while let Some(more) =
        Some(read(disk, file, back.len() as u64, 65536).unwrap()).filter(|more| !more.is_empty())
    {
        back.extend(more);
        if !back.len().is_multiple_of(4096) {
            break;
        }
    }
    assert!(back == bytes);
    assert_eq!(done(disk, Operation::CloseFile { file }), 0);

    let manifest = || Names::Renamed { temporary: "job/.tmp", path: "job/_metadata" };
    let mut work = WriteFile::new(manifest(), b"first");
    run_to_end(disk, &mut work).unwrap();
    assert_eq!(work.result(), Some(Ok(5)));
    let mut work = WriteFile::new(manifest(), b"second");
    run_to_end(disk, &mut work).unwrap();
    assert!(work.result().unwrap().is_err(), "a manifest is never replaced");
    let (file, _len) = opened(run(disk, Operation::OpenFile { path: "job/_metadata" })).unwrap();
    assert_eq!(read(disk, file, 0, 4096), Ok(b"first".to_vec()));
    assert_eq!(done(disk, Operation::CloseFile { file }), 0);
    assert!(names(disk, "job").iter().all(|(name, ..)| name != ".tmp"));
}
