//! Why there is no ring.

use std::fmt;
use std::io;

/// Why io_uring cannot be used here, and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UringUnavailable {
    /// The kernel has no io_uring (ENOSYS).
    NotBuiltIn,
    /// The kernel has io_uring but lacks what is needed of it.
    TooOld {
        /// What it lacks.
        missing: &'static str,
    },
    /// This process may not use it (EPERM, EACCES).
    Forbidden {
        /// What `kernel.io_uring_disabled` says: 1 privileged processes only, 2 nobody.
        disabled: Option<u8>,
    },
    /// No memory, or none that may be locked (ENOMEM).
    NoMemory,
    /// No file descriptor is left (EMFILE, ENFILE).
    NoDescriptor,
    /// The root folder cannot be used.
    Root {
        /// The system's error number.
        errno: i32,
    },
    /// Something else.
    Other {
        /// The system's error number.
        errno: i32,
    },
}

impl UringUnavailable {
    pub(crate) fn from_setup(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOSYS) => Self::NotBuiltIn,
            Some(libc::EPERM | libc::EACCES) => Self::Forbidden { disabled: io_uring_disabled() },
            Some(libc::ENOMEM) => Self::NoMemory,
            Some(libc::EMFILE | libc::ENFILE) => Self::NoDescriptor,
            errno => Self::Other { errno: errno.unwrap_or(libc::EIO) },
        }
    }

    pub(crate) fn from_root(error: &io::Error) -> Self {
        Self::Root { errno: error.raw_os_error().unwrap_or(libc::EIO) }
    }
}

fn io_uring_disabled() -> Option<u8> {
    std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok()?.trim().parse().ok()
}

impl fmt::Display for UringUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("io_uring is not available: ")?;
        match self {
            Self::NotBuiltIn => f.write_str("the kernel has none; use mmap storage, or Linux 5.6 or later"),
            Self::TooOld { missing } => {
                write!(f, "the kernel lacks {missing}; use mmap storage, or Linux 5.6 or later")
            }
            Self::Forbidden { disabled: Some(level @ 1..) } => {
                write!(f, "kernel.io_uring_disabled is {level}; set it to 0, or use mmap storage")
            }
            Self::Forbidden { .. } => f.write_str(
                "this process may not use it (a container's seccomp filter, as a rule); \
                 allow io_uring_setup and io_uring_enter, or use mmap storage",
            ),
            Self::NoMemory => f.write_str(
                "not enough memory that may be locked; raise the memlock limit (ulimit -l), or use mmap storage",
            ),
            Self::NoDescriptor => {
                f.write_str("no file descriptor is left; raise the limit (ulimit -n), or use mmap storage")
            }
            Self::Root { errno } => {
                write!(f, "the storage folder: {}", io::Error::from_raw_os_error(*errno))
            }
            Self::Other { errno } => {
                write!(f, "{}; use mmap storage", io::Error::from_raw_os_error(*errno))
            }
        }
    }
}

impl std::error::Error for UringUnavailable {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_of_the_kernel_has_its_reason() {
        let reason = |errno| UringUnavailable::from_setup(&io::Error::from_raw_os_error(errno));
        assert_eq!(reason(libc::ENOSYS), UringUnavailable::NotBuiltIn);
        assert!(matches!(reason(libc::EPERM), UringUnavailable::Forbidden { .. }));
        assert_eq!(reason(libc::ENOMEM), UringUnavailable::NoMemory);
        assert_eq!(reason(libc::EMFILE), UringUnavailable::NoDescriptor);
        assert_eq!(reason(libc::EINVAL), UringUnavailable::Other { errno: libc::EINVAL });
        assert!(reason(libc::ENOSYS).to_string().contains("use mmap storage"));
        let disabled = UringUnavailable::Forbidden { disabled: Some(2) };
        assert!(disabled.to_string().contains("io_uring_disabled is 2"));
    }
}
