//! The job's end: hears requests, passes them on, answers. Never waits: it is called again and again while the job runs.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use slackwater::ids::CheckpointId;
use slackwater::savepoint::{Controller, Savepoint, SavepointError};
use slackwater::stop::{Stop, StopMode};
use slackwater::time::{Millis, Now};

use super::signals::Signals;
use super::{Answer, FOLDER, LINE_LEN_MAX, Request, with_socket};
use crate::output;

/// Who calls while so many are served waits.
const CALLERS_MAX: usize = 16;
/// Whoever has not asked by then is sent away.
const PATIENCE: Millis = Millis(5000);

/// Where a job is asked things from outside: over its socket, and by signals. Closed at first.
///
/// Dropped after the locks of the job's folders: whoever has stopped the job waits until its connection ends, and may start
/// the job again then.
#[derive(Default)]
pub(crate) struct Desk {
    open: Option<Open>,
    callers: Vec<Caller>,
    /// The stop that a signal asked for, and its folder.
    signalled: Option<(Stop, PathBuf)>,
    stopped_in: Option<PathBuf>,
}

struct Open {
    /// The job's own folder, for savepoints that go nowhere else.
    job: PathBuf,
    listener: UnixListener,
    signals: Signals,
    controller: Controller,
    savepoints: u64,
}

/// Somebody who is being served.
struct Caller {
    stream: UnixStream,
    since: Millis,
    wants: Wants,
}

enum Wants {
    /// What has come of the request.
    Nothing(Vec<u8>),
    Savepoint(Savepoint, PathBuf),
    Stop(Stop, PathBuf),
    /// It has its answer, and waits for the end of the job.
    End,
    /// It is gone.
    Gone,
}

impl Desk {
    /// Opens it for a job whose folder lies in `dir`, which must be locked, and takes over SIGTERM and SIGINT. A job that
    /// cannot be reached, since the file system knows no sockets, say, runs all the same. Called again when the job has
    /// been started again, it passes on what is asked from then on to the new attempt.
    pub(crate) fn attend(&mut self, dir: &Path, job: &str, controller: Controller) {
        if let Some(open) = &mut self.open {
            open.controller = controller;
            return;
        }
        match Open::new(dir, job, controller) {
            Ok(open) => self.open = Some(open),
            Err(error) => {
                output::note(&format!("the job cannot be asked for savepoints, nor to stop: {error}"));
            }
        }
    }

    /// Does what can be done now.
    pub(crate) fn tick(&mut self, now: Now) {
        self.listen(now);
        self.heed_signals(now);
        self.answer();
    }

    /// Does what can be done while the job waits for its restart, when there is nothing to take a savepoint of: a signal
    /// breaks it off.
    pub(crate) fn wait(&mut self, now: Now) -> ControlFlow<()> {
        if self.open.as_ref().is_some_and(|open| open.signals.is_set()) {
            return ControlFlow::Break(());
        }
        self.listen(now);
        self.answer();
        ControlFlow::Continue(())
    }

    fn listen(&mut self, now: Now) {
        let Some(open) = &mut self.open else { return };
        while self.callers.len() < CALLERS_MAX
            && let Ok((stream, _)) = open.listener.accept()
        {
            if stream.set_nonblocking(true).is_ok() {
                self.callers.push(Caller { stream, since: now.monotonic, wants: Wants::Nothing(Vec::new()) });
            }
        }
        for caller in &mut self.callers {
            caller.hear(open, now);
        }
    }

    fn heed_signals(&mut self, now: Now) {
        let Some(open) = &mut self.open else { return };
        if self.signalled.is_none() && open.signals.is_set() {
            output::note("stopping with a savepoint; a second signal ends the job at once");
            let folder = open.folder(None, now);
            self.signalled = Some((open.controller.stop(&on_disk(&folder), StopMode::Suspend), folder));
        }
    }

    /// The job has ended: everybody gets an answer.
    pub(crate) fn settle(&mut self, now: Now) {
        self.listen(now);
        self.answer();
        if let Some(open) = self.open.take() {
            let socket = open.job.with_file_name(FOLDER).join(super::SOCKET);
            // One that is left behind is in nobody's way.
            drop(fs::remove_file(socket));
        }
    }

    /// The folder of the savepoint with which the job was stopped.
    pub(crate) fn stopped_in(&self) -> Option<&Path> {
        self.stopped_in.as_deref()
    }

    fn answer(&mut self) {
        for caller in &mut self.callers {
            if let Some(folder) = caller.answer() {
                self.stopped_in = Some(folder);
            }
        }
        self.callers.retain(|caller| !matches!(caller.wants, Wants::Gone));
        let Some((stop, folder)) = self.signalled.take_if(|(stop, _)| stop.result().is_some()) else {
            return;
        };
        match stop.result() {
            Some(Ok(_)) => self.stopped_in = Some(folder),
            // It has failed; if it starts again, the new attempt is asked.
            Some(Err(SavepointError::JobEnded)) => {}
            Some(Err(error)) => {
                output::note(&error.to_string());
                self.open.iter().for_each(|open| open.signals.rearm());
            }
            None => {}
        }
    }
}

impl Open {
    fn new(dir: &Path, job: &str, controller: Controller) -> io::Result<Self> {
        let dir = dir.canonicalize()?;
        let (listener, signals) = (listen(&dir)?, Signals::register()?);
        Ok(Self { job: dir.join(job), listener, signals, controller, savepoints: 0 })
    }

    /// Where a savepoint goes.
    fn folder(&mut self, wanted: Option<String>, now: Now) -> PathBuf {
        self.savepoints += 1;
        wanted.map_or_else(
            || self.job.join(format!("savepoint-{}-{}", now.wall.0, self.savepoints)),
            PathBuf::from,
        )
    }
}

impl Caller {
    /// Reads what has come, and asks the job when the request is whole.
    fn hear(&mut self, open: &mut Open, now: Now) {
        let Wants::Nothing(heard) = &mut self.wants else { return };
        let mut bytes = [0; 4096];
        // Without room nothing is read, as at the end of a connection.
        let room = (LINE_LEN_MAX - heard.len()).min(bytes.len());
        match self.stream.read(&mut bytes[..room]) {
            Ok(len) if len > 0 => heard.extend_from_slice(&bytes[..len]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                if now.monotonic > self.since.after(PATIENCE) {
                    self.wants = Wants::Gone;
                }
                return;
            }
            Ok(_) | Err(_) => {
                self.wants = Wants::Gone;
                return;
            }
        }
        let Some(end) = heard.iter().position(|byte| *byte == b'\n') else { return };
        self.wants = match Request::parse(&heard[..end]) {
            Some(Request::Savepoint { to }) => {
                let folder = open.folder(to, now);
                Wants::Savepoint(open.controller.savepoint(&on_disk(&folder)), folder)
            }
            Some(Request::Stop { to, drain }) => {
                let (folder, mode) =
                    (open.folder(to, now), if drain { StopMode::Drain } else { StopMode::Suspend });
                Wants::Stop(open.controller.stop(&on_disk(&folder), mode), folder)
            }
            None => {
                self.say(&Answer::Refused { message: "the job does not understand the request".to_owned() });
                Wants::Gone
            }
        };
    }

    /// Answers if the job has. Gives the folder of the savepoint with which it stops.
    fn answer(&mut self) -> Option<PathBuf> {
        let (result, folder, is_stop) = match &self.wants {
            Wants::Savepoint(savepoint, folder) => (savepoint.result()?, folder.clone(), false),
            Wants::Stop(stop, folder) => (stop.result()?, folder.clone(), true),
            Wants::Nothing(_) | Wants::End | Wants::Gone => return None,
        };
        self.say(&answer(result, &folder));
        let stopped = is_stop && result.is_ok();
        self.wants = if stopped { Wants::End } else { Wants::Gone };
        stopped.then_some(folder)
    }

    /// An answer fits into any socket; who does not wait for it does not get it.
    fn say(&mut self, answer: &Answer) {
        drop(self.stream.write_all(answer.line().as_bytes()));
    }
}

fn answer(result: Result<CheckpointId, SavepointError>, folder: &Path) -> Answer {
    match result {
        Ok(id) => Answer::Saved { savepoint: id.0, folder: folder.display().to_string() },
        Err(error) => Answer::Refused { message: error.to_string() },
    }
}

/// The same folder as a path on the job's disk, whose root is that of the file system.
fn on_disk(folder: &Path) -> String {
    folder.display().to_string().trim_start_matches('/').to_owned()
}

/// Makes the socket, for its owner alone.
fn listen(dir: &Path) -> io::Result<UnixListener> {
    let folder = dir.join(FOLDER);
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
        }
        made => made?,
    }
    let listener = with_socket(dir, |path| {
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        Ok(listener)
    })?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::{listen, with_socket};
    use std::fs;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_socket_is_made_anew_at_the_end_of_any_path() {
        let root = tempfile::tempdir().unwrap();
        for name in ["short".to_owned(), "long".repeat(50)] {
            let dir = root.path().join(name);
            fs::create_dir(&dir).unwrap();
            let gone = listen(&dir).unwrap();
            drop(gone);
            assert!(with_socket(&dir, |path| UnixStream::connect(path)).is_err(), "nobody listens");
            let listener = listen(&dir).unwrap();
            with_socket(&dir, |path| UnixStream::connect(path)).unwrap();
            assert!(listener.accept().is_ok());
        }
    }
}
