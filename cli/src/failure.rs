//! Why the command ends without having done what it was asked, and with which exit code.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// One line for the user, and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// The answer is no: damaged, different.
    pub(crate) fn answer(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 1 }
    }

    /// The command was used wrongly: other arguments are needed.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 2 }
    }

    /// The machine stands in the way: files, permissions, disk.
    pub(crate) fn environment(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 3 }
    }

    /// A file or folder that cannot be read.
    pub(crate) fn reading(path: &Path, error: &io::Error) -> Self {
        Self::environment(format!("{} cannot be read: {error}", path.display()))
    }

    /// The exit code of the process.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line: Vec<&str> = self.message.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        f.write_str(&line.join("; "))
    }
}
