//! Every one-byte change and every truncation of a checkpoint is found.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use slackwater::ids::CheckpointId;
use slackwater::mem::{FrozenRun, MmapDisk};
use slackwater::recovery::{find, read_manifest, verify_segments};

use crate::support::{Place, slackwater};

/// A finished job over a few words, with one segment.
fn small() -> Place {
    let place = Place::new(b"slack water is the moment between tides");
    place.wordcount(&["--parallelism", "1", "--max-parallelism", "1"]).fine();
    place
}

fn files(checkpoint: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(checkpoint).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// What the command does, without a process for each try.
fn is_sound(disk: &mut MmapDisk<FrozenRun>, id: CheckpointId) -> bool {
    match read_manifest(disk, "", id).unwrap() {
        Some(Ok(manifest)) => verify_segments(disk, "", &manifest).is_empty(),
        Some(Err(_)) | None => false,
    }
}

#[test]
fn every_changed_byte_and_every_truncation_is_detected() {
    let place = small();
    let (id, checkpoint) = place.newest();
    let id = CheckpointId(id);
    let mut disk = MmapDisk::<FrozenRun>::new(checkpoint.parent().unwrap()).unwrap();
    assert!(is_sound(&mut disk, id));
    let names = files(&checkpoint);
    assert_eq!(names.len(), 2, "a manifest and a segment: {names:?}");
    for path in names {
        let sound = fs::read(&path).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        for (at, byte) in (0..).zip(&sound) {
            file.write_all_at(&[!byte], at).unwrap();
            assert!(!is_sound(&mut disk, id), "{}: byte {at} changed", path.display());
            file.write_all_at(&[*byte], at).unwrap();
        }
        for len in (0..sound.len() as u64).rev() {
            file.set_len(len).unwrap();
            assert!(!is_sound(&mut disk, id), "{} cut to {len}", path.display());
        }
        fs::write(&path, [&sound[..], &[0]].concat()).unwrap();
        assert!(!is_sound(&mut disk, id), "{} with a byte more", path.display());
        fs::write(&path, &sound).unwrap();
    }
    assert!(is_sound(&mut disk, id));
    let found = find(&mut disk, "").unwrap();
    assert_eq!(found.newest.map(|manifest| manifest.id), Some(id));
}

#[test]
fn a_flipped_bit_of_a_compressed_checkpoint_is_detected() {
    for compression in ["lz4", "zstd"] {
        let place = Place::new(b"slack water is the moment between tides");
        let args = ["--parallelism", "1", "--max-parallelism", "1", "--compression", compression];
        place.wordcount(&args).fine();
        slackwater(["verify".as_ref(), place.dir().as_os_str()]).fine();
        let (id, checkpoint) = place.newest();
        let is_segment = |path: &PathBuf| path.extension().is_some_and(|end| end == "seg");
        let path = files(&checkpoint).into_iter().find(is_segment).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        let stored_len = u32::from_le_bytes(bytes[4100..4104].try_into().unwrap());
        assert!(bytes[14] != 0 && stored_len > 20, "a chunk lies behind the header");
        bytes[4096 + 12 + 20] ^= 1;
        fs::write(&path, &bytes).unwrap();
        says_no(&place.dir(), id);
    }
}

#[test]
fn the_command_lists_what_is_damaged_and_says_no() {
    let place = small();
    let (id, checkpoint) = place.newest();
    let dir = place.dir();
    for folder in [&dir, &place.path("dir/wordcount"), &checkpoint] {
        let told = slackwater(["verify".as_ref(), folder.as_os_str()]);
        assert_eq!(told.fine().stdout, format!("checkpoint {id} of wordcount: sound\n"));
    }
    for path in files(&checkpoint) {
        let sound = fs::read(&path).unwrap();
        for at in [0, sound.len() / 2, sound.len() - 1] {
            let mut bytes = sound.clone();
            bytes[at] ^= 1;
            fs::write(&path, &bytes).unwrap();
            says_no(&dir, id);
        }
        fs::write(&path, &sound[..sound.len() / 2]).unwrap();
        says_no(&dir, id);
        fs::write(&path, b"").unwrap();
        says_no(&dir, id);
        fs::write(&path, &sound).unwrap();
    }
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|end| end == "seg");
    fs::remove_file(files(&checkpoint).into_iter().find(is_segment).unwrap()).unwrap();
    says_no(&dir, id);
}

#[track_caller]
fn says_no(dir: &Path, id: u64) {
    let told = slackwater(["verify".as_ref(), dir.as_os_str()]);
    assert_eq!(told.code, Some(1), "{told:?}");
    assert!(told.stdout.contains(&format!("checkpoint {id} of wordcount: damaged\n  ")), "{told:?}");
    let json = slackwater(["verify".as_ref(), dir.as_os_str(), "--json".as_ref()]);
    assert_eq!((json.code, json.json()["state"].as_str()), (Some(1), Some("damaged")));
    assert_eq!(json.json()["damages"].as_array().unwrap().len(), 1);
}
