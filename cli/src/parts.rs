//! Reads the committed part files of a word count.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The committed parts in a folder.
pub(crate) fn list(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(folder).map_err(|error| Failure::reading(folder, &error))?;
    let mut parts = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| Failure::reading(folder, &error))?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| name.starts_with("part-")) {
            parts.push(path);
        }
    }
    Ok(parts)
}

/// Calls `each` with the word and the count of every line of every committed part.
pub(crate) fn for_each_line(folder: &Path, mut each: impl FnMut(&[u8], u64)) -> Result<(), Failure> {
    for path in list(folder)? {
        let bytes = fs::read(&path).map_err(|error| Failure::reading(&path, &error))?;
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let (word, count) = parse(line).ok_or_else(|| {
                Failure::answer(format!("{}: a line is not word, tab, count", path.display()))
            })?;
            each(word, count);
        }
    }
    Ok(())
}

fn parse(line: &[u8]) -> Option<(&[u8], u64)> {
    let tab = line.iter().rposition(|byte| *byte == b'\t')?;
    let (word, count) = line.split_at(tab);
    Some((word, std::str::from_utf8(count.get(1..)?).ok()?.parse().ok()?))
}
