//! What the real disks ask of the system, in which order, as strace sees it.
//!
//! A copy of this test binary writes a segment and then a manifest; its system calls must come in the order
//! that makes a checkpoint durable. With one sync left out the same check must fail.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking and says what it skips"
)]

use std::path::Path;
use std::process::Command;

use slackwater_core::durable::{Disk, Names, Operation, OperationKind, Token, Wait, WriteFile, run_to_end};
use slackwater_mem::MmapDisk;
use slackwater_tests::leaving_out::{Choice, leaving_out};
use slackwater_uring::{UringDisk, UringOptions};

type Bytes = &'static [u8];

const CALLS: &str = "io_uring_enter,msync,fdatasync,fsync,renameat2,renameat,rename";

/// What the traced program is to do: `disk root leave_out nth`.
const ORDERS: &str = "SLACKWATER_TRACED";

/// One step towards a durable checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// Bytes went to the kernel.
    Data,
    SyncSegment,
    SyncManifest,
    SyncFolder,
    RenameManifest,
}

const DURABLE: [Call; 7] = [
    Call::Data,
    Call::SyncSegment,
    Call::SyncFolder,
    Call::Data,
    Call::SyncManifest,
    Call::RenameManifest,
    Call::SyncFolder,
];

/// The `nth` operation of a kind.
struct Nth {
    kind: Option<OperationKind>,
    nth: usize,
}

impl<D: Disk> Choice<D> for Nth {
    fn is_left_out(&mut self, _token: Token, operation: &Operation<'_, D::Block, D::Frozen>) -> bool {
        if Some(operation.kind()) != self.kind {
            return false;
        }
        let is_it = self.nth == 0;
        self.nth = self.nth.saturating_sub(1);
        if is_it {
            self.kind = None;
        }
        is_it
    }
}

/// The traced program.
fn write_a_checkpoint<D: Disk<Frozen = Bytes>>(disk: D, leave_out: &str, nth: usize) {
    let kind = match leave_out {
        "file" => Some(OperationKind::SyncFile),
        "folder" => Some(OperationKind::SyncFolder),
        _ => None,
    };
    let mut disk = leaving_out(disk, Nth { kind, nth });
    let folder = Operation::CreateFolder { path: "chk-1" };
    assert!(disk.submit(Token(0), folder).is_ok());
    disk.reap(Wait::ForOne, &mut heapless::Vec::<_, 1>::new());
    let mut segment = WriteFile::new(Names::Final { path: "chk-1/0-1.seg" }, vec![1; 300_001]);
    run_to_end(&mut disk, &mut segment).unwrap();
    assert_eq!(segment.result(), Some(Ok(300_001)));
    let names = Names::Renamed { temporary: "chk-1/._metadata", path: "chk-1/_metadata" };
    let mut manifest = WriteFile::new(names, vec![2; 100]);
    run_to_end(&mut disk, &mut manifest).unwrap();
    assert_eq!(manifest.result(), Some(Ok(100)));
}

#[test]
fn the_traced_program() {
    let Ok(orders) = std::env::var(ORDERS) else { return };
    let orders = orders.split(' ').collect::<Vec<_>>();
    let [disk, root, leave_out, nth] = orders[..] else { panic!("{orders:?}") };
    let (root, nth) = (Path::new(root), nth.parse().unwrap());
    if disk == "mmap" {
        write_a_checkpoint(MmapDisk::new(root).unwrap(), leave_out, nth);
    } else {
        write_a_checkpoint(UringDisk::new(root, UringOptions::default()).unwrap(), leave_out, nth);
    }
}

fn call_of(line: &str) -> Option<Call> {
    let is_of = |name: &str, suffix: &str| line.contains(name) && line.contains(suffix);
    // io_uring_enter(ring, entries submitted, ...)
    let submits = is_of("io_uring_enter(", ", ") && line.split(", ").nth(1) != Some("0");
    if submits || line.contains("msync(") {
        Some(Call::Data)
    } else if is_of("fdatasync(", "/chk-1/0-1.seg>") {
        Some(Call::SyncSegment)
    } else if is_of("fdatasync(", "/chk-1/._metadata>") {
        Some(Call::SyncManifest)
    } else if is_of("fsync(", "/chk-1>") {
        Some(Call::SyncFolder)
    } else if is_of("renameat2(", "RENAME_NOREPLACE") {
        Some(Call::RenameManifest)
    } else {
        None
    }
}

/// What is missing, if the calls are not those of a durable checkpoint in their order.
fn missing(calls: &[Call]) -> Option<Call> {
    let mut rest = calls.iter();
    DURABLE.into_iter().find(|expected| !rest.any(|call| call == expected))
}

fn trace(disk: &str, leave_out: &str, nth: usize) -> Option<Vec<Call>> {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("strace.log");
    let traced = Command::new("strace")
        .args(["-f", "-y", "-e", &format!("trace={CALLS}"), "-o", log.to_str().unwrap()])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "the_traced_program"])
        .env(ORDERS, format!("{disk} {} {leave_out} {nth}", folder.path().join("root").display()))
        .output();
    let trouble = match traced {
        Err(error) => format!("strace does not run: {error}"),
        Ok(output) if !log.is_file() => String::from_utf8_lossy(&output.stderr).into_owned(),
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            let log = std::fs::read_to_string(log).unwrap();
            let calls = log.lines().filter_map(call_of).collect::<Vec<_>>();
            assert!(!calls.is_empty(), "{log}");
            return Some(calls);
        }
    };
    assert!(std::env::var_os("REQUIRE_STRACE").is_none(), "{trouble}");
    eprintln!("skipped: {trouble}");
    None
}

fn check_order(disk: &str) {
    let Some(calls) = trace(disk, "none", 0) else { return };
    assert_eq!(missing(&calls), None, "{disk}: {calls:?}");
    for leave_out in ["file", "folder"] {
        for nth in [0, 1] {
            let calls = trace(disk, leave_out, nth).expect("strace ran before");
            assert!(missing(&calls).is_some(), "{disk} without {leave_out} sync {nth} passes: {calls:?}");
        }
    }
}

#[test]
fn mapped_files_are_synced_before_the_manifest_is_named() {
    check_order("mmap");
}

#[test]
fn a_ring_writes_and_syncs_before_the_manifest_is_named() {
    let root = tempfile::tempdir().unwrap();
    match UringDisk::<Bytes>::new(root.path(), UringOptions::default()) {
        Ok(_) => check_order("uring"),
        Err(reason) => {
            assert!(std::env::var_os("REQUIRE_URING").is_none(), "{reason}");
            eprintln!("skipped: {reason}");
        }
    }
}
