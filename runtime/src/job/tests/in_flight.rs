//! Checkpoints with records in flight: read back, and passed over if these are damaged.

use slackwater_core::durable::{Names, WriteFile, run_to_end};
use slackwater_mem::in_flight::{
    CapturedChannel, InFlight, InFlightHeader, InFlightSpec, InFlightWriter, StoredInFlight,
};

use super::keyed::{drive_rounds, flip, keyed_job};
use super::*;
use crate::checkpoint::{Manifest, RestoredStates};
use crate::recovery::{find, read_in_flight, verify_files};

fn captured() -> InFlight {
    let batches = vec![vec![1; 30_000], vec![2; 5]];
    InFlight { channels: vec![CapturedChannel { edge: 0, sender: 1, batches }] }
}

fn header(manifest: &Manifest) -> InFlightHeader {
    let (job_id, checkpoint) = (manifest.job_id, manifest.id.0);
    InFlightHeader { subtask: 2, file_id: 77, job_id, checkpoint, attempt: 1 }
}

/// A job's disk, the newest checkpoint of which holds records in flight; with its manifest, and the file of them.
fn disk_with_records(is_inline: bool) -> (Disk, Manifest, String) {
    let (mut disk, committed) = (Disk::new(), Committed::default());
    drive_rounds(&mut assemble_keyed(&disk, &committed, 1).unwrap(), 80);
    let mut newest = find(&mut disk, "tally").unwrap().newest.unwrap();
    let file_name = format!("chk-{}/2-1.inflight", newest.id);
    let spec = InFlightSpec { folder: "tally".into(), file_name: file_name.clone(), header: header(&newest) };
    let mut writer = InFlightWriter::new(captured(), spec);
    run_to_end(&mut disk, &mut writer).unwrap();
    let file = StoredInFlight::File(writer.result().unwrap().clone().unwrap());
    let inline = StoredInFlight::Inline(captured().encode(&header(&newest)).unwrap());
    newest.vertices[1].subtasks[0].in_flight = Some(if is_inline { inline } else { file });
    let path = format!("tally/chk-{}/_metadata", newest.id);
    crate::blocking::Blocking::new(&mut disk).remove(&path).unwrap();
    let names = Names::Final { path: path.as_str() };
    run_to_end(&mut disk, &mut WriteFile::new(names, newest.encode().unwrap())).unwrap();
    (disk, newest, format!("tally/{file_name}"))
}

fn assemble_keyed(disk: &Disk, committed: &Committed, attempt: u64) -> Result<AssembledJob, JobError> {
    let options = JobOptions { memory_limit_bytes: 64 << 20, ..options(attempt) };
    Job::assemble(keyed_job(committed, 2), disk.clone(), Now::default(), &options)
}

#[test]
fn records_in_flight_are_read_back_by_vertex_and_subtask() {
    for is_inline in [false, true] {
        let (mut disk, manifest, _) = disk_with_records(is_inline);
        assert_eq!(verify_files(&mut disk, "tally", &manifest), []);
        let read = read_in_flight(&mut disk, "tally", &manifest).unwrap();
        let states = RestoredStates::new(Some(&manifest), &read);
        assert_eq!(states.in_flight("tally"), [captured(), InFlight::default()]);
        assert_eq!(states.in_flight("source"), [InFlight::default(), InFlight::default()]);
        assert_eq!(states.in_flight("another"), []);
    }
}

#[test]
fn a_checkpoint_with_a_damaged_in_flight_file_is_passed_over() {
    for offset in [9, 100, 20_000] {
        let (mut disk, manifest, path) = disk_with_records(false);
        let sound = find(&mut disk, "tally").unwrap().newest;
        assert_eq!(sound.map(|newest| newest.id), Some(manifest.id), "it is sound so far");
        flip(&mut disk, &path, offset);
        let complaints = verify_files(&mut disk, "tally", &manifest);
        assert!(complaints[0].to_string().starts_with(&path), "{complaints:?}");
        let found = find(&mut disk, "tally").unwrap();
        assert_eq!(found.passed_over[0].id, manifest.id);
        let job = assemble_keyed(&disk, &Committed::default(), 3).unwrap();
        assert_eq!(job.resumed_from, Some(CheckpointId(manifest.id.0 - 1)));
        assert!(job.passed_over[0].reason.starts_with(&path), "{:?}", job.passed_over);
    }
    let (mut disk, manifest, path) = disk_with_records(false);
    crate::blocking::Blocking::new(&mut disk).remove(&path).unwrap();
    let job = assemble_keyed(&disk, &Committed::default(), 5).unwrap();
    assert_eq!(job.resumed_from, Some(CheckpointId(manifest.id.0 - 1)), "the file is missing");
}
