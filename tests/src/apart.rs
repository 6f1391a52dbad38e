//! Tests that mount: each runs in a process with mounts of its own, which go with it, however it ends.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// The folder that a process apart works in.
const PLACE: &str = "SLACKWATER_APART";

/// Runs the test of this name with mounts of its own, one at a time: `check` in another process, in a folder that is
/// in memory and gone with that process. Lines that it writes with a `#` in front are shown.
///
/// Where nothing can be mounted the test says so and passes, unless `REQUIRE_MOUNT` is set.
///
/// # Panics
/// With all that the other process said, if the test fails there.
pub fn with_mounts(test: &str, check: impl FnOnce(&Path)) {
    if let Some(place) = env::var_os(PLACE) {
        let place =
            enter(PathBuf::from(place)).unwrap_or_else(|error| panic!("no mounts of its own: {error}"));
        return check(&place);
    }
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    match can_mount() {
        Err(reason) => skip("REQUIRE_MOUNT", &reason),
        Ok(()) => {
            let said = run_apart(test).unwrap_or_else(|said| panic!("{said}"));
            said.lines().filter(|line| line.starts_with('#')).for_each(say);
        }
    }
}

/// Says that a test is skipped, and why.
///
/// # Panics
/// If the environment has this variable.
pub fn skip(unless: &str, reason: &str) {
    assert!(env::var_os(unless).is_none(), "{unless} is set: {reason}");
    say(&format!("# skipped: {reason}"));
}

/// Shows a line.
#[expect(clippy::print_stderr, reason = "what a test did is for whoever runs it to see")]
pub fn say(line: &str) {
    eprintln!("{line}");
}

/// Has this process killed when the one that started it dies.
///
/// # Errors
/// What the system said, or that it has died already.
pub fn die_with_parent() -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let is_orphan = getppid().is_none_or(|parent| parent.is_init());
    if is_orphan { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
}

fn enter(place: PathBuf) -> io::Result<PathBuf> {
    die_with_parent()?;
    rustix::mount::mount("apart", &place, "tmpfs", rustix::mount::MountFlags::empty(), None)?;
    Ok(place)
}

fn can_mount() -> Result<(), String> {
    if !fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0) {
        return Err("mounting needs root".to_owned());
    }
    let tried =
        own_mounts().arg("true").output().map_err(|error| format!("unshare does not run: {error}"))?;
    if tried.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&tried.stderr).trim().to_owned())
    }
}

/// What the other process said, by whether it went well.
fn run_apart(test: &str) -> Result<String, String> {
    let place = env::temp_dir().join(format!("slackwater-apart-{}", std::process::id()));
    let output = fs::create_dir_all(&place).and_then(|()| {
        let mut command = own_mounts();
        command.arg(env::current_exe()?).args(["--exact", test, "--nocapture", "--test-threads", "1"]);
        command.env(PLACE, &place).stdin(Stdio::null()).output()
    });
    fs::remove_dir(&place).ok();
    let output = output.map_err(|error| error.to_string())?;
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if output.status.success() { Ok(said.concat()) } else { Err(said.concat()) }
}

/// A command that is given mounts of its own.
fn own_mounts() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "--"]);
    command
}
