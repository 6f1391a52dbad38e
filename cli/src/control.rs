//! How a running job is reached: over a socket in its folder, with one request and one answer, a line of JSON each.
//!
//! The socket lies in a folder that only its owner may enter. Whoever holds the lock of the job's folder makes the socket
//! anew, so one that a killed process left behind is in nobody's way: nobody listens there.

mod client;
mod desk;
mod signals;

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

pub(crate) use client::{savepoint, stop};
pub(crate) use desk::Desk;

/// Longer lines are no request and no answer.
const LINE_LEN_MAX: usize = 64 << 10;
/// What a socket's path may take on any system, with its zero.
const SOCKET_PATH_LEN_MAX: usize = 100;
/// The folder with the socket.
const FOLDER: &str = ".control";
const SOCKET: &str = "socket";

/// What a job is asked for. Folders are absolute paths; without one the job chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Request {
    Savepoint { to: Option<String> },
    Stop { to: Option<String>, drain: bool },
}

/// What it says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Saved { savepoint: u64, folder: String },
    Refused { message: String },
}

impl Request {
    fn line(&self) -> String {
        let value = match self {
            Self::Savepoint { to } => json!({ "ask": "savepoint", "to": to }),
            Self::Stop { to, drain } => json!({ "ask": "stop", "to": to, "drain": drain }),
        };
        format!("{value}\n")
    }

    /// Takes any bytes; none if they are no request.
    fn parse(line: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(line).ok()?;
        let to = match value.get("to") {
            None | Some(Value::Null) => None,
            Some(to) => Some(to.as_str().filter(|to| to.starts_with('/'))?.to_owned()),
        };
        match value.get("ask")?.as_str()? {
            "savepoint" => Some(Self::Savepoint { to }),
            "stop" => Some(Self::Stop { to, drain: value.get("drain")?.as_bool()? }),
            _ => None,
        }
    }
}

impl Answer {
    fn line(&self) -> String {
        let value = match self {
            Self::Saved { savepoint, folder } => json!({ "savepoint": savepoint, "folder": folder }),
            Self::Refused { message } => json!({ "refused": message }),
        };
        format!("{value}\n")
    }

    /// Takes any bytes; none if they are no answer.
    fn parse(line: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(line).ok()?;
        if let Some(message) = value.get("refused") {
            return Some(Self::Refused { message: message.as_str()?.to_owned() });
        }
        let folder = value.get("folder")?.as_str()?.to_owned();
        Some(Self::Saved { savepoint: value.get("savepoint")?.as_u64()?, folder })
    }
}

/// Calls `call` with a path of the socket below `dir` that is short enough for the system.
fn with_socket<T>(dir: &Path, call: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let folder = dir.join(FOLDER);
    let path = folder.join(SOCKET);
    if path.as_os_str().as_bytes().len() < SOCKET_PATH_LEN_MAX {
        return call(&path);
    }
    let folder = File::open(folder)?;
    call(&PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(SOCKET))
}

#[cfg(test)]
mod tests {
    use super::{Answer, Request};

    #[test]
    fn requests_and_answers_come_back_as_they_were() {
        for to in [None, Some("/a \"b\"\n/c".to_owned())] {
            for request in [Request::Savepoint { to: to.clone() }, Request::Stop { to, drain: true }] {
                let line = request.line();
                assert_eq!(line.matches('\n').count(), 1);
                assert_eq!(Request::parse(line.as_bytes()), Some(request));
            }
        }
        let saved = Answer::Saved { savepoint: u64::MAX, folder: "/x".into() };
        for answer in [saved, Answer::Refused { message: "no\nway".into() }] {
            assert_eq!(Answer::parse(answer.line().as_bytes()), Some(answer));
        }
    }

    #[test]
    fn what_is_no_request_is_none() {
        for line in [
            "",
            "{",
            "null",
            "[]",
            "7",
            "\u{0}\u{ff}",
            r#"{"ask":"savepoint","to":7}"#,
            r#"{"ask":"savepoint","to":"relative"}"#,
            r#"{"ask":"stop"}"#,
            r#"{"ask":"stop","drain":"yes"}"#,
            r#"{"ask":"dance"}"#,
            r#"{"ask":["stop"]}"#,
        ] {
            assert_eq!(Request::parse(line.as_bytes()), None, "{line}");
            assert_eq!(Answer::parse(line.as_bytes()), None, "{line}");
        }
        assert_eq!(Request::parse(&[0xff, 0xfe]), None);
    }
}
