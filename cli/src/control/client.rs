//! The user's end: `savepoint` and `stop`.

use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::{Answer, LINE_LEN_MAX, Request, with_socket};
use crate::args::{SavepointArgs, StopArgs};
use crate::failure::Failure;
use crate::output;

/// Longer than a savepoint may take before the job gives it up.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// How long a job may take to end after it has said that it does.
const END_TIMEOUT: Duration = Duration::from_secs(60);

/// Takes a savepoint of the job that runs on a folder.
pub(crate) fn savepoint(args: &SavepointArgs) -> Result<bool, Failure> {
    let to = args.to.as_deref().map(absolute).transpose()?;
    let (savepoint, folder, _stream) = ask(&args.dir, &Request::Savepoint { to })?;
    tell("savepoint", savepoint, &folder, args.json);
    Ok(true)
}

/// Stops the job that runs on a folder.
pub(crate) fn stop(args: &StopArgs) -> Result<bool, Failure> {
    let to = args.to.as_deref().map(absolute).transpose()?;
    let (savepoint, folder, mut stream) = ask(&args.dir, &Request::Stop { to, drain: args.drain })?;
    // Its folder is free when the connection ends.
    let ended = stream.set_read_timeout(Some(END_TIMEOUT)).and_then(|()| stream.read(&mut [0]));
    tell("stopped with savepoint", savepoint, &folder, args.json);
    if ended.is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
        output::note("the job has stopped, but its process has not ended yet");
    }
    Ok(true)
}

fn tell(what: &str, savepoint: u64, folder: &str, as_json: bool) {
    if as_json {
        output::json(&json!({ "savepoint": savepoint, "folder": folder }));
    } else {
        output::line(format_args!("{what} {savepoint} in {folder}"));
    }
}

/// Asks the job and waits for its answer.
fn ask(dir: &Path, request: &Request) -> Result<(u64, String, UnixStream), Failure> {
    if !dir.is_dir() {
        return Err(Failure::environment(format!("{} is no folder", dir.display())));
    }
    let mut stream = with_socket(dir, |path| UnixStream::connect(path)).map_err(|error| {
        if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) {
            return Failure::answer(format!("no job runs on {}", dir.display()));
        }
        Failure::environment(format!("the job on {} cannot be reached: {error}", dir.display()))
    })?;
    let heard = converse(&mut stream, request).map_err(|error| {
        Failure::environment(format!("the job on {} does not answer: {error}", dir.display()))
    })?;
    match Answer::parse(&heard) {
        Some(Answer::Saved { savepoint, folder }) => Ok((savepoint, folder, stream)),
        Some(Answer::Refused { message }) => Err(Failure::answer(message)),
        None if heard.is_empty() => {
            Err(Failure::answer(format!("the job on {} ended before it had answered", dir.display())))
        }
        None => {
            Err(Failure::environment(format!("what listens on {} is no job of this version", dir.display())))
        }
    }
}

/// Says the request and hears one line, or less if the connection ends.
fn converse(stream: &mut UnixStream, request: &Request) -> std::io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(END_TIMEOUT))?;
    stream.write_all(request.line().as_bytes())?;
    let mut heard = Vec::new();
    let mut byte = [0];
    // A byte at a time, so that nothing behind the line is taken.
    while heard.len() < LINE_LEN_MAX {
        match stream.read(&mut byte) {
            Ok(0) => break,
            Ok(_) if byte == [b'\n'] => break,
            Ok(_) => heard.extend(byte),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => return Err(error),
        }
    }
    Ok(heard)
}

/// The whole path of a folder that need not exist yet, as the job sees it.
fn absolute(folder: &Path) -> Result<String, Failure> {
    let wrong = |what: &str| Failure::usage(format!("{}: {what}", folder.display()));
    let whole = std::path::absolute(folder).map_err(|error| wrong(&error.to_string()))?;
    let mut missing: Vec<OsString> = Vec::new();
    let mut there: PathBuf = whole;
    let there = loop {
        if let Ok(real) = there.canonicalize() {
            break real;
        }
        match there.components().next_back() {
            Some(Component::Normal(name)) => missing.push(name.to_owned()),
            _ => return Err(wrong("leads through a folder that is not there: write it without \"..\"")),
        }
        there.pop();
    };
    let whole = missing.into_iter().rev().fold(there, |folder, name| folder.join(name));
    whole.into_os_string().into_string().map_err(|_| wrong("its path is not UTF-8: use another folder"))
}
