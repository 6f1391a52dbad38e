//! Several files in one input: for each its path and its bytes, each behind its length.

use slackwater::blocking::Blocking;
use slackwater::files::BlockingFiles;
use slackwater_core::durable::{Names, WriteFile, folder_of, run_to_end};
use slackwater_mem::{FrozenRun, MemDisk};

/// A path, from the root of the disk, and bytes.
pub(crate) type File = (String, Vec<u8>);

/// More files than this are left out.
const FILES_MAX: usize = 32;

pub(crate) fn pack(files: &[File]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (path, content) in files {
        bytes.push(u8::try_from(path.len()).expect("a short path"));
        bytes.extend(path.as_bytes());
        bytes.extend(u32::try_from(content.len()).expect("a small file").to_le_bytes());
        bytes.extend(content);
    }
    bytes
}

/// Any bytes: a file that is cut short ends where they do.
pub(crate) fn unpack(mut bytes: &[u8]) -> Vec<File> {
    let mut files = Vec::new();
    while let Some(file) = unpack_one(&mut bytes)
        && files.len() < FILES_MAX
    {
        files.push(file);
    }
    files
}

fn unpack_one(bytes: &mut &[u8]) -> Option<File> {
    let (path_len, rest) = bytes.split_first()?;
    let (path, rest) = rest.split_at_checked(usize::from(*path_len))?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let len = usize::try_from(u32::from_le_bytes(*len)).unwrap_or(usize::MAX).min(rest.len());
    let (content, rest) = rest.split_at(len);
    *bytes = rest;
    Some((String::from_utf8_lossy(path).into_owned(), content.to_vec()))
}

/// A disk with these files, and the folders that they lie in; without those that a disk refuses.
pub(crate) fn disk_with(files: &[File]) -> MemDisk<FrozenRun> {
    let mut disk = MemDisk::new();
    for (path, content) in files {
        make_folders(&mut Blocking::new(&mut disk), folder_of(path));
        let mut file = WriteFile::<MemDisk<FrozenRun>, _, _>::new(Names::Final { path }, content.as_slice());
        // What has a path that was taken, or that leads through a file, is not there.
        let _is_there = run_to_end(&mut disk, &mut file).is_ok();
    }
    disk
}

fn make_folders(files: &mut Blocking<'_, MemDisk<FrozenRun>>, folder: &str) {
    if !folder.is_empty() {
        make_folders(files, folder_of(folder));
        let _is_there = files.create_folder(folder).is_ok();
    }
}

/// All files of a disk, as [`disk_with`] takes them.
pub(crate) fn files_of(disk: &mut MemDisk<FrozenRun>, folder: &str) -> Vec<File> {
    let mut found = Vec::new();
    for entry in Blocking::new(disk).list(folder).expect("a disk in memory") {
        let path = if folder.is_empty() { entry.name } else { format!("{folder}/{}", entry.name) };
        if entry.is_folder {
            found.extend(files_of(disk, &path));
        } else {
            let content = Blocking::new(disk).read(&path, u64::MAX).expect("a disk in memory");
            found.push((path, content));
        }
    }
    found
}
