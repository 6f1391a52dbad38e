//! Disks on file systems of their own: a full one, and one that takes neither `O_DIRECT` nor allocation.
//!
//! Mounting needs root; without it the tests say so and pass, unless `REQUIRE_MOUNT` is set.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use slackwater_core::durable::{Disk, DiskError, Failure, Names, Operation, WriteFile, run_to_end};
use slackwater_mem::MmapDisk;
use slackwater_uring::{Fallback, UringOptions};

use crate::suite::{Bytes, conform, create, done, names, write};
use crate::uring;

/// A mounted file system, unmounted when dropped.
struct Mount {
    at: PathBuf,
    _folder: tempfile::TempDir,
}

impl Mount {
    /// 16 MiB of ext4 in a file.
    fn small_ext4() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
        run("mkfs.ext4", &["-q", "-F", "-m", "0", image.to_str().unwrap()])?;
        Self::mounted(folder, &["-o", "loop", image.to_str().unwrap()])
    }

    fn ramfs() -> Option<Self> {
        Self::mounted(tempfile::tempdir().unwrap(), &["-t", "ramfs", "ramfs"])
    }

    fn mounted(folder: tempfile::TempDir, arguments: &[&str]) -> Option<Self> {
        let at = folder.path().join("mounted");
        fs::create_dir(&at).unwrap();
        run("mount", &[arguments, &[at.to_str().unwrap()]].concat())?;
        Some(Self { at, _folder: folder })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        run("umount", &[self.at.to_str().unwrap()]);
    }
}

fn run(program: &str, arguments: &[&str]) -> Option<()> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0);
    let went_well =
        is_root && Command::new(program).args(arguments).status().is_ok_and(|status| status.success());
    if !went_well {
        assert!(std::env::var_os("REQUIRE_MOUNT").is_none(), "{program} does not work (root: {is_root})");
        eprintln!("skipped: {program} does not work (root: {is_root})");
    }
    went_well.then_some(())
}

/// What a full disk must do, with the disk's root at `root`.
fn a_full_disk_is_an_error_and_nothing_more<D: Disk<Frozen = Bytes>>(disk: &mut D, root: &Path) {
    static PAGES: [u8; 1 << 20] = [3; 1 << 20];
    let before = names(disk, "");
    let mut work = WriteFile::new(Names::Final { path: "large" }, vec![1; 32 << 20]);
    run_to_end(disk, &mut work).unwrap();
    match work.result() {
        Some(Err(Failure::Disk { error, name_may_exist: false })) => {
            assert_eq!(error.errno, DiskError::NO_SPACE);
        }
        result => panic!("{result:?}"),
    }
    assert_eq!(names(disk, ""), before, "a file that did not fit is left");

    // A file that was created keeps its room, whatever happens to the rest of the disk.
    let (file, _len) = create(disk, "kept", 1 << 20).unwrap();
    let filled = fs::write(root.join("filler"), vec![1; 32 << 20]);
    assert_eq!(filled.unwrap_err().raw_os_error(), Some(DiskError::NO_SPACE));
    assert_eq!(create(disk, "late", 1 << 20).unwrap_err(), DiskError::NO_SPACE);
    assert_eq!(write(disk, file, 0, &PAGES), 0);
    assert_eq!(done(disk, Operation::SyncFile { file }), 0);
    assert_eq!(done(disk, Operation::CloseFile { file }), 0);
    assert!(fs::read(root.join("kept")).unwrap() == PAGES);
    fs::remove_file(root.join("filler")).unwrap();
    fs::remove_file(root.join("kept")).unwrap();
}

#[test]
fn a_full_disk_is_an_error_when_a_file_is_created() {
    let Some(mount) = Mount::small_ext4() else { return };
    a_full_disk_is_an_error_and_nothing_more(&mut MmapDisk::new(&mount.at).unwrap(), &mount.at);
    if let Some(mut disk) = uring(&mount.at, UringOptions::default()) {
        a_full_disk_is_an_error_and_nothing_more(&mut disk, &mount.at);
        assert!(!disk.fallbacks().iter().any(|fallback| matches!(fallback, Fallback::Buffered { .. })));
    }
}

#[test]
fn a_plain_file_system_is_a_disk_and_the_fallback_is_reported() {
    let Some(mount) = Mount::ramfs() else { return };
    conform(&mut MmapDisk::new(&mount.at.join("mmap")).unwrap());
    if let Some(mut disk) = uring(&mount.at.join("uring"), UringOptions::default()) {
        conform(&mut disk);
        assert!(disk.fallbacks().iter().any(|fallback| matches!(fallback, Fallback::Buffered { .. })));
        assert!(disk.fallbacks().contains(&Fallback::NotAllocated));
    }
}
