//! A sink that has a file open at any time, the end of the job included.

use super::*;
use crate::files::FileTicket;

/// Begins the next transaction's file with the commit of the last one, as a sink may.
#[derive(Default)]
struct Eager {
    open: Option<(FileTicket, String)>,
    files_made: u32,
    sealed: Vec<(CheckpointId, FileTicket, bool)>,
}

impl Eager {
    fn begin(&mut self, files: &mut Files) {
        self.files_made += 1;
        let path = format!("eager-{}", self.files_made);
        self.open = Some((files.create(&path, 1 << 20), path));
    }
}

impl Sink for Eager {
    type In = u64;

    fn recover(
        &mut self,
        _restored: Option<CheckpointId>,
        _pending: &[Vec<u8>],
        _files: &mut dyn BlockingFiles,
    ) -> Result<Vec<String>, OperatorError> {
        Ok(Vec::new())
    }

    fn write(&mut self, record: &u64, files: &mut Files) -> Result<(), OperatorError> {
        if self.open.is_none() {
            self.begin(files);
        }
        let (ticket, _) = self.open.as_ref().unwrap();
        files.append(*ticket, record.to_le_bytes().to_vec());
        Ok(())
    }

    fn pre_commit(&mut self, id: CheckpointId, files: &mut Files) -> Result<Vec<Vec<u8>>, OperatorError> {
        if let Some((ticket, _)) = self.open.take() {
            files.seal(ticket);
            self.sealed.push((id, ticket, false));
        }
        self.begin(files);
        Ok(Vec::new())
    }

    fn is_sealed(&self, checkpoint: CheckpointId) -> bool {
        self.sealed.iter().all(|(id, _, is_sealed)| *id > checkpoint || *is_sealed)
    }

    fn commit(&mut self, _checkpoint: CheckpointId, _files: &mut Files) -> Result<(), OperatorError> {
        Ok(())
    }

    fn is_committed(&self, _checkpoint: CheckpointId) -> bool {
        true
    }

    fn on_file(&mut self, event: FileEvent, _files: &mut Files) -> Result<(), OperatorError> {
        for (_, ticket, is_sealed) in &mut self.sealed {
            *is_sealed |= event == FileEvent::Sealed(*ticket);
        }
        Ok(())
    }
}

#[test]
fn a_file_that_a_sink_has_not_sealed_does_not_hold_up_the_end() {
    let disk = Disk::new();
    let mut builder = JobBuilder::new("eager", 128);
    builder
        .source("source", 1, |_| Numbers { next: 0, end: 1000, step: 1 })
        .sink("eager", |_| Eager::default());
    let report = run(Job::assemble(builder, disk.clone(), Now::default(), &options(1)).unwrap()).unwrap();
    assert_eq!(report.source_records, 1000);
    let mut disk = disk;
    let files = crate::blocking::Blocking::new(&mut disk).list("").unwrap();
    let eager: Vec<u64> = files.iter().filter(|file| !file.is_folder).map(|file| file.len).collect();
    assert_eq!(eager.iter().sum::<u64>(), 8000, "sealed files stay");
    assert!(eager.iter().filter(|len| **len == 1 << 20).count() == 0, "the open one goes: {eager:?}");
}
