//! How much memory of the machine the process has.

use std::fs;

use slackwater_mem::Plain;

use crate::Failed;
use crate::subject::{Shape, Subject};

/// Memory that the system has given to the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// Bytes of it.
    pub bytes: u64,
    /// Bytes of it in huge pages, files left out.
    pub huge_bytes: u64,
}

impl Resident {
    /// What it is now.
    ///
    /// # Errors
    /// The system does not say: it is not Linux.
    pub fn now() -> Result<Self, Failed> {
        let path = "/proc/self/smaps_rollup";
        let text = fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
        let bytes = |name: &str| kibibytes(&text, name).map(|count| count * 1024);
        Ok(Self { bytes: bytes("Rss:")?, huge_bytes: bytes("AnonHugePages:")? })
    }

    /// What has come to it since `earlier`; what has gone is not counted.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(earlier.bytes),
            huge_bytes: self.huge_bytes.saturating_sub(earlier.huge_bytes),
        }
    }
}

/// The most bytes that the system has ever given to the process.
///
/// # Errors
/// The system does not say: it is not Linux.
pub fn resident_bytes_max() -> Result<u64, Failed> {
    let path = "/proc/self/status";
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    Ok(kibibytes(&text, "VmHWM:")? * 1024)
}

/// Keys that take more than a few huge pages.
const KEYS_OF_PROBE: u32 = 400_000;

/// Whether most of a heap lies in huge pages.
///
/// # Errors
/// As [`Resident::now`], or a heap that cannot be made.
pub fn heap_has_huge_pages() -> Result<bool, Failed> {
    let before = Resident::now()?;
    let counts = Subject::<Plain<u64>>::filled(Shape { keys: KEYS_OF_PROBE, value_len: 8 })?;
    let grown = Resident::now()?.since(before);
    drop(counts);
    Ok(grown.huge_bytes * 2 > grown.bytes)
}

fn kibibytes(text: &str, name: &str) -> Result<u64, Failed> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
    Ok(number.ok_or_else(|| format!("the system does not say how much memory is {name}"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_names() {
        let text = "Rss:            1408 kB\nPss:  3 kB\n";
        assert_eq!(kibibytes(text, "Rss:").unwrap(), 1408);
        assert!(kibibytes(text, "AnonHugePages:").is_err());
    }

    #[test]
    fn memory_that_is_written_becomes_resident() {
        let before = Resident::now().unwrap();
        let written = std::hint::black_box(vec![1_u8; 64 << 20]);
        let grown = Resident::now().unwrap().since(before);
        assert!(grown.bytes >= 60 << 20, "{grown:?} after {} bytes", written.len());
        assert!(resident_bytes_max().unwrap() >= written.len() as u64);
    }
}
