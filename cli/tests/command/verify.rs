//! Every one-byte change and every truncation of a checkpoint is found.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use slackwater::ids::CheckpointId;
use slackwater::mem::{FrozenRun, MmapDisk};
use slackwater::recovery::{find, read_manifest, verify_files};

use crate::support::{Place, is_root, slackwater, stopped};

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
        Some(Ok(manifest)) => verify_files(disk, "", &manifest).is_empty(),
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

/// CRC-32 as FORMAT.md has it, by the bit.
fn crc32(bytes: impl Iterator<Item = u8>) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(byte), |crc, _bit| step(crc)))
}

/// The segment says of itself that it is compressed so, and its header is sound.
fn recompress(segment: &mut [u8], compression: u8) {
    segment[14] = compression;
    let mut identity = [0; 40];
    identity[0] = 1;
    identity[16..24].copy_from_slice(&segment[56..64]);
    identity[24..].copy_from_slice(&segment[16..32]);
    let checksum = crc32(identity.into_iter().chain(segment[..124].iter().copied()));
    segment[124..128].copy_from_slice(&checksum.to_le_bytes());
}

/// Verifying fails for a reason that is not damage.
#[track_caller]
fn cannot_check(dir: &Path, id: u64, why: &str) {
    let told = slackwater(["verify".as_ref(), dir.as_os_str()]);
    assert_eq!(told.code, Some(3), "{told:?}");
    assert!(told.stdout.contains(&format!("checkpoint {id} of wordcount: unchecked\n")), "{told:?}");
    assert!(!told.stdout.contains("damaged") && !told.stderr.contains("damaged"), "{told:?}");
    let line = format!("checkpoint {id} of wordcount cannot be checked here: ");
    assert!(told.stderr.contains(&line) && told.stderr.contains(why), "{told:?}");
    assert_eq!(told.stderr.lines().count(), 1, "{told:?}");
    let json = slackwater(["verify".as_ref(), dir.as_os_str(), "--json".as_ref()]);
    let objects = json.stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let object = objects.into_iter().find(|object| object["id"] == id).unwrap();
    assert_eq!((json.code, object["state"].as_str()), (Some(3), Some("unchecked")));
    assert_eq!(object["damages"].as_array().unwrap().len(), 0);
    assert!(object["unchecked"][0].as_str().unwrap().contains(why), "{object:?}");
}

#[test]
fn what_this_build_cannot_read_is_not_called_damaged_and_no_job_passes_it_over() {
    let place = stopped();
    let (id, checkpoint) = place.newest();
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|end| end == "seg");
    let segment = files(&checkpoint).into_iter().find(is_segment).unwrap();
    let manifest = checkpoint.join("_metadata");
    let lz4 = if cfg!(feature = "lz4") { None } else { Some((1, "`lz4`")) };
    let zstd = if cfg!(feature = "zstd") { None } else { Some((2, "`zstd`")) };
    for (compression, why) in [Some((3, "compression 3")), lz4, zstd].into_iter().flatten() {
        let sound = fs::read(&segment).unwrap();
        let mut bytes = sound.clone();
        recompress(&mut bytes, compression);
        fs::write(&segment, bytes).unwrap();
        cannot_check(&place.dir(), id, why);
        place.wordcount(&["--emit", "updates"]).refused(3, &[".seg", why]);
        fs::write(&segment, sound).unwrap();
    }
    // A newer version has checksums of its own.
    for (path, checksum, why) in [(&segment, 124, "version of a segment 7"), (&manifest, 4088, "manifest 7")]
    {
        let sound = fs::read(path).unwrap();
        let mut bytes = sound.clone();
        let checksum = if path == &manifest { bytes.len() - 8 } else { checksum };
        (bytes[8], bytes[checksum]) = (7, !bytes[checksum]);
        fs::write(path, bytes).unwrap();
        cannot_check(&place.dir(), id, why);
        let name = path.file_name().unwrap().to_str().unwrap();
        place.wordcount(&["--emit", "updates"]).refused(3, &[name, why, "newer version"]);
        fs::write(path, sound).unwrap();
    }
    let listed = slackwater(["verify".as_ref(), place.dir().as_os_str()]);
    assert!(!listed.fine().stdout.contains("unchecked"), "{listed:?}");
    place.wordcount(&["--emit", "updates"]).fine();
    place.assert_exact("updates");
}

#[test]
fn a_rotten_version_is_damage() {
    let place = small();
    let (id, checkpoint) = place.newest();
    for path in files(&checkpoint) {
        let sound = fs::read(&path).unwrap();
        for bit in 1..8 {
            let mut bytes = sound.clone();
            bytes[8] ^= 1 << bit;
            fs::write(&path, &bytes).unwrap();
            says_no(&place.dir(), id);
        }
        fs::write(&path, &sound).unwrap();
    }
}

#[test]
fn a_checkpoint_that_cannot_be_opened_is_not_called_damaged() {
    if is_root() {
        eprintln!("skipped: root may read everything");
        return;
    }
    let place = small();
    let (id, checkpoint) = place.newest();
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|end| end == "seg");
    let segment = files(&checkpoint).into_iter().find(is_segment).unwrap();
    fs::set_permissions(&segment, fs::Permissions::from_mode(0o000)).unwrap();
    cannot_check(&place.dir(), id, "permission denied");
    fs::set_permissions(&segment, fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn what_is_no_checkpoint_or_of_another_is_named_and_passed_over() {
    let place = stopped();
    let (id, checkpoint) = place.newest();
    let (_, older) = place.checkpoints().swap_remove(0);
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|end| end == "seg");
    let segment_of = |folder: &Path| files(folder).into_iter().find(is_segment).unwrap();
    let manifest = checkpoint.join("_metadata");
    for (path, content, why) in [
        (
            &manifest,
            b"not a manifest at all, but more than 64 bytes of notes that somebody left here".to_vec(),
            "magic of a manifest",
        ),
        (&manifest, fs::read(older.join("_metadata")).unwrap(), "its manifest is that of checkpoint"),
        (
            &segment_of(&checkpoint),
            fs::read(segment_of(&older)).unwrap(),
            "not the file the checkpoint lists",
        ),
    ] {
        let sound = fs::read(path).unwrap();
        fs::write(path, content).unwrap();
        let told = slackwater(["verify".as_ref(), checkpoint.as_os_str()]);
        assert_eq!(told.code, Some(1), "{told:?}");
        let lines: Vec<&str> = told.stdout.lines().collect();
        assert_eq!(lines.len(), 2, "{told:?}");
        assert_eq!(lines[0], format!("checkpoint {id} of wordcount: damaged"));
        assert!(lines[1].contains(why), "{told:?}");
        fs::write(path, sound).unwrap();
    }
    fs::write(&manifest, b"notes").unwrap();
    let told = place.wordcount(&["--emit", "updates"]);
    assert!(told.fine().stderr.contains(&format!("checkpoint {id} is passed over")), "{told:?}");
    place.assert_exact("updates");
}
