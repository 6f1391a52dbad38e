//! A damaged checkpoint is passed over, said so and left in place, and the counts stay exact.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Place, slackwater, stopped};

fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

fn cut(path: &Path) {
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
}

fn manifest(checkpoint: &Path) -> PathBuf {
    checkpoint.join("_metadata")
}

fn segment(checkpoint: &Path) -> PathBuf {
    let mut files = fs::read_dir(checkpoint).unwrap().map(|entry| entry.unwrap().path());
    files.find(|path| path.extension().is_some_and(|end| end == "seg")).expect("there is a segment")
}

/// Damages the newest checkpoint and goes on.
fn goes_on_without(place: &Place, file: &Path, damage: fn(&Path)) {
    let (id, checkpoint) = place.newest();
    // None if the kill came before they got their names.
    let of_it = format!("-chk-{id}");
    let published: Vec<_> =
        names(&place.output()).into_iter().filter(|name| name.ends_with(&of_it)).collect();
    damage(file);
    let damaged = fs::read(file).unwrap();
    let verified = slackwater(["verify", checkpoint.to_str().unwrap()]);
    assert_eq!(verified.code, Some(1), "{verified:?}");
    assert!(verified.stdout.contains("damaged"), "{verified:?}");
    let told = place.wordcount(&["--emit", "updates"]);
    let report = told.fine().json();
    assert_eq!(report["passed_over"][0]["id"], id);
    assert!(report["resumed_from"].as_u64().is_some_and(|from| from < id), "{report}");
    let said = format!("checkpoint {id} is passed over and left in place: ");
    assert!(told.stderr.contains(&said), "{told:?}");
    assert_eq!(fs::read(file).unwrap(), damaged, "left in place");
    place.assert_exact("updates");
    let aside = names(&place.path("dir/output/.set-aside"));
    let is_aside = |name: &String| aside.iter().any(|aside| aside.starts_with(&format!("{name}-")));
    assert!(published.iter().all(is_aside), "{published:?} in {aside:?}");
    assert_eq!(aside.len(), published.len());
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_flipped_byte_in_the_newest_segment_is_passed_over() {
    let place = stopped();
    goes_on_without(&place, &segment(&place.newest().1), flip);
}

#[test]
fn a_newest_segment_cut_short_is_passed_over() {
    let place = stopped();
    goes_on_without(&place, &segment(&place.newest().1), cut);
}

#[test]
fn a_flipped_byte_in_the_newest_manifest_is_passed_over() {
    let place = stopped();
    goes_on_without(&place, &manifest(&place.newest().1), flip);
}

#[test]
fn a_newest_manifest_cut_short_is_passed_over() {
    let place = stopped();
    goes_on_without(&place, &manifest(&place.newest().1), cut);
}

#[test]
fn without_a_sound_checkpoint_the_job_starts_from_the_beginning() {
    let place = stopped();
    let checkpoints = place.checkpoints();
    checkpoints.iter().for_each(|(_, checkpoint)| flip(&segment(checkpoint)));
    let told = place.wordcount(&["--emit", "updates"]);
    let report = told.fine().json();
    assert!(report["resumed_from"].is_null());
    assert_eq!(report["passed_over"].as_array().unwrap().len(), checkpoints.len());
    assert!(told.stderr.contains("starting from the beginning"), "{told:?}");
    assert!(report["notes"][0].as_str().unwrap().contains("aside"), "{report}");
    assert!(!names(&place.path("dir/output/.set-aside")).is_empty());
    place.assert_exact("updates");
}
