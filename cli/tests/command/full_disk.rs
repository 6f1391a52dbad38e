//! A full disk: one clear line, and an exact count once there is room again.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Place, has_uring, is_root, stopped, text};

/// A file system of its own, taken down at the end.
pub(crate) struct Mount(PathBuf);

impl Mount {
    /// 16 MiB of ext4. None where that is not possible; says so.
    fn new(place: &Place, options: &str) -> Option<Self> {
        Self::made(place, &["mkfs.ext4", "-q", "-F"], 16 << 20, &place.path("mount"), options)
    }

    /// One that a program makes in so many bytes, on a folder which is made. None where that is not possible; says
    /// so, and fails if `REQUIRE_MOUNT` is set.
    pub(crate) fn made(place: &Place, make: &[&str], len: u64, folder: &Path, options: &str) -> Option<Self> {
        let image = place.path("image");
        File::create(&image).unwrap().set_len(len).unwrap();
        fs::create_dir(folder).unwrap();
        let run = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
        let is_up = is_root()
            && run(Command::new(make[0]).args(&make[1..]).arg(&image))
            && run(Command::new("mount").args(["-o", options]).arg(&image).arg(folder));
        if !is_up {
            assert!(std::env::var_os("REQUIRE_MOUNT").is_none(), "{} or the mount does not work", make[0]);
            eprintln!("skipped: {} or the mount does not work", make[0]);
        }
        is_up.then(|| Self(folder.to_owned()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        Command::new("umount").arg(&self.0).status().ok();
    }
}

/// Fills the disk but for some room.
fn fill(folder: &Path, room: u64) -> PathBuf {
    let path = folder.join("filler");
    let mut file = File::create(&path).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    let len = file.metadata().unwrap().len();
    file.set_len(len.saturating_sub(room)).unwrap();
    file.sync_all().unwrap();
    path
}

fn a_full_disk_stops_the_job_and_no_more(storage: &str) {
    let place = Place::new(&text(256 << 10));
    let Some(mount) = Mount::new(&place, "loop") else { return };
    let dir = mount.0.join("dir");
    let run = || {
        let mut command = crate::support::program();
        command.arg("wordcount").arg(place.input()).arg("--dir").arg(&dir);
        command.args(["--emit", "updates", "--interval", "10ms", "--json", "--storage", storage]);
        command.args(["--restart", "none"]);
        crate::support::told(&mut command)
    };
    for room in [0, 64 << 10, 512 << 10] {
        let filler = fill(&mount.0, room);
        let told = run();
        let notes =
            told.stderr.lines().filter(|line| line.contains("io_uring with") || line.contains("going on"));
        assert_eq!(told.stderr.lines().count() - notes.count(), 1, "room {room}: {told:?}");
        assert_eq!(told.code, Some(3), "room {room}: {told:?}");
        assert!(told.stderr.to_lowercase().contains("no space left"), "room {room}: {told:?}");
        fs::remove_file(filler).unwrap();
    }
    run().fine();
    crate::support::assert_exact(&dir.join("output"), &[&place.text], "updates");
}

#[test]
fn on_mapped_files() {
    a_full_disk_stops_the_job_and_no_more("mmap");
}

#[test]
fn on_io_uring() {
    if has_uring() {
        a_full_disk_stops_the_job_and_no_more("uring");
    }
}

#[test]
fn a_read_only_file_system_is_named() {
    let place = Place::new(b"a b");
    let Some(mount) = Mount::new(&place, "loop,ro") else { return };
    let inside = mount.0.join("dir");
    place.wordcount(&["--output", inside.to_str().unwrap()]).refused(3, &["Read-only file system"]);
    let stopped = stopped();
    let mut command = crate::support::program();
    command.arg("wordcount").arg(stopped.input()).arg("--dir").arg(&mount.0);
    command.arg("--output").arg(stopped.output()).args(["--restart", "none"]);
    crate::support::told(&mut command).refused(3, &["Read-only file system"]);
}
