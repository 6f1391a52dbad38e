//! Bad input: one clear line, the right exit code, and nothing that a later run would trip over.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use slackwater::checkpoint::Manifest;
use slackwater::storage::FolderLock;

use crate::support::{Place, is_root, program, slackwater, stopped, told};

#[test]
fn a_missing_input_and_a_folder_are_named() {
    let place = Place::new(b"a b");
    let missing = place.path("missing.txt");
    for input in [&missing, &place.path("")] {
        let told = told(program().arg("wordcount").arg(input).arg("--dir").arg(place.dir()));
        told.refused(3, &["cannot read input", input.to_str().unwrap()]);
    }
}

#[test]
fn an_input_without_permission_is_named() {
    if is_root() {
        eprintln!("skipped: root may read everything");
        return;
    }
    let place = Place::new(b"a b");
    fs::set_permissions(place.input(), fs::Permissions::from_mode(0o000)).unwrap();
    place.wordcount(&[]).refused(3, &["cannot read input", "Permission denied"]);
}

#[test]
fn an_input_that_changed_since_the_checkpoint_is_refused() {
    let place = stopped();
    let mut changed = place.text.clone();
    changed[0] ^= 1;
    fs::write(place.input(), &changed).unwrap();
    place.wordcount(&["--emit", "updates"]).refused(3, &["has changed", "input.txt"]);
    fs::write(place.input(), &place.text[..place.text.len() - 1]).unwrap();
    place.wordcount(&["--emit", "updates"]).refused(3, &["has shrunk", "input.txt"]);
    let told = told(place.command(&["--emit", "updates", "--json"]).arg(place.input()));
    told.refused(3, &["inputs in the same order"]);
    // A refusal leaves the job as it was.
    fs::write(place.input(), &place.text).unwrap();
    place.wordcount(&["--emit", "updates"]).fine();
    place.assert_exact("updates");
}

#[test]
fn an_input_that_has_grown_is_read_on() {
    let mut place = stopped();
    place.text.extend_from_slice(b"\nsome more words, some more words\n");
    fs::write(place.input(), &place.text).unwrap();
    place.wordcount(&["--emit", "updates"]).fine();
    place.assert_exact("updates");
}

#[test]
fn a_folder_with_another_job_is_refused() {
    let place = stopped();
    let updates = ["--emit", "updates"];
    let mut command = program();
    command.arg("wordcount").arg(place.input()).arg("--dir").arg(place.path("dir/wordcount"));
    told(&mut command).refused(2, &["is the folder of one job"]);
    fs::rename(place.path("dir/wordcount"), place.path("dir/other")).unwrap();
    place.wordcount(&updates).refused(2, &["another job, other"]);
    fs::rename(place.path("dir/other"), place.path("dir/wordcount")).unwrap();
    for (_, checkpoint) in place.checkpoints() {
        let path = checkpoint.join("_metadata");
        let mut manifest = Manifest::decode(&fs::read(&path).unwrap()).unwrap();
        manifest.job_name = "other".to_owned();
        fs::write(&path, manifest.encode().unwrap()).unwrap();
    }
    place.wordcount(&updates).refused(2, &["is not of this job", "other", "another folder"]);
}

#[test]
fn what_a_job_was_started_with_it_goes_on_with() {
    let place = stopped();
    let elsewhere = place.path("elsewhere");
    place.wordcount(&["--emit", "updates", "--max-parallelism", "64"]).refused(2, &["max parallelism 128"]);
    place.wordcount(&["--emit", "final"]).refused(2, &["started with --emit updates"]);
    let elsewhere = ["--emit", "updates", "--output", elsewhere.to_str().unwrap()];
    place.wordcount(&elsewhere).refused(2, &["is not the output of the job"]);
}

#[test]
fn an_output_that_another_job_took_is_refused() {
    let place = stopped();
    let taken = place.path("dir/output");
    let other = place.path("other");
    let mut command = program();
    command.arg("wordcount").arg(place.input()).arg("--dir").arg(&other).arg("--output").arg(&taken);
    told(command.args(["--emit", "updates"])).fine();
    place.assert_exact("updates");
    place.wordcount(&["--emit", "updates"]).refused(2, &["is not the output of the job"]);
    place.assert_exact("updates");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let place = Place::new(b"a b");
    let dir = place.dir();
    for (args, words) in [
        (&["--parallelism", "0"] as &[&str], "parallelism of lines is zero"),
        (&["--parallelism", "129"], "above the job's maximum of 128"),
        (&["--parallelism", "60000", "--max-parallelism", "32768"], "above the job's maximum"),
        (&["--parallelism", "20000", "--max-parallelism", "32768"], "do not fit"),
        (&["--parallelism", "70000"], "--parallelism"),
        (&["--max-parallelism", "0"], "not within 1 and 32768"),
        (&["--max-parallelism", "40000"], "not within 1 and 32768"),
        (&["--interval", "9ms"], "below 10 ms"),
        (&["--interval", "9"], "span of time"),
        (&["--retain", "1"], "--retain"),
        (&["--storage", "tape"], "[possible values: auto, uring, mmap, mem]"),
        (&["--memory-limit-mib", "0"], "--memory-limit-mib"),
        (&["--output", dir.to_str().unwrap()], "must be two folders"),
        (&["--no-such-option"], "--no-such-option"),
    ] {
        place.wordcount(args).refused(2, &[words]);
    }
    slackwater(["wordcount", "input.txt"]).refused(2, &["--dir"]);
    slackwater(["sail"]).refused(2, &["sail"]);
    place.wordcount(&[]).fine();
}

#[test]
fn folders_that_are_missing_or_empty_are_told_apart() {
    let place = Place::new(b"");
    let empty = place.path("");
    for verb in ["verify", "checkpoints"] {
        slackwater([verb, "/no/such/folder"]).refused(3, &["/no/such/folder", "cannot be read"]);
        let file = place.input();
        slackwater([verb, file.to_str().unwrap()]).refused(3, &["cannot be read"]);
    }
    slackwater(["verify", empty.to_str().unwrap()]).refused(1, &["no completed checkpoint"]);
    let told = slackwater(["checkpoints", empty.to_str().unwrap()]);
    assert!(told.fine().stdout.contains("no checkpoints"), "{told:?}");
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let place = Place::new(b"a b");
    let in_the_way = place.input();
    let mut command = program();
    command.arg("wordcount").arg(place.input()).arg("--dir").arg(&in_the_way).arg("--output");
    told(command.arg(place.path("output"))).refused(3, &["input.txt"]);
    place.wordcount(&["--output", in_the_way.to_str().unwrap()]).refused(3, &["input.txt"]);
    // Where the folder of the job should be lies a file.
    fs::create_dir_all(place.dir()).unwrap();
    fs::write(place.path("dir/wordcount"), b"in the way").unwrap();
    place.wordcount(&[]).refused(3, &["dir/wordcount"]);
    if is_root() {
        eprintln!("skipped: root may write everywhere");
        return;
    }
    let closed = place.path("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    let told = place.wordcount(&["--output", closed.to_str().unwrap()]);
    told.refused(3, &["closed", "Permission denied"]);
}

#[test]
fn a_second_process_on_a_folder_is_refused() {
    let place = stopped();
    // This process is the first one.
    let lock = FolderLock::take(&place.dir()).unwrap();
    let output = place.path("elsewhere");
    let told = place.wordcount(&["--emit", "updates", "--output", output.to_str().unwrap()]);
    told.refused(3, &["another process works on", "dir"]);
    drop(lock);
    let lock = FolderLock::take(&place.output()).unwrap();
    place.wordcount(&["--emit", "updates"]).refused(3, &["another process works on", "output"]);
    drop(lock);
    place.wordcount(&["--emit", "updates"]).fine();
    place.assert_exact("updates");
}

#[test]
fn a_job_that_had_finished_does_nothing_and_says_so() {
    let place = Place::new(b"the tide and the moon");
    assert_eq!(place.wordcount(&[]).fine().json()["already_finished"], false);
    let again = place.wordcount(&[]);
    assert_eq!(again.fine().json()["already_finished"], true);
    assert!(again.stderr.contains("had finished"), "{again:?}");
    place.assert_exact("final");
    // Nothing is left half done in the folder.
    let listed = slackwater(["checkpoints", place.dir().to_str().unwrap(), "--json"]);
    assert!(!listed.fine().stdout.contains("incomplete"), "{listed:?}");
}
