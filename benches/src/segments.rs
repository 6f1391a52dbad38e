//! Snapshots to segments and back.

use std::hint::black_box;
use std::time::Duration;

use slackwater::blocking::Blocking;
use slackwater::files::BlockingFiles;
use slackwater_core::durable::{Disk, run_to_end};
use slackwater_core::ids::CheckpointId;
use slackwater_mem::segment::{
    Compression, SegmentRef, SegmentRestore, SegmentSpec, SegmentWriter, restore_segment, verify_segment,
};
use slackwater_mem::{FrozenRun, Snapshot};

use crate::Failed;
use crate::stopwatch::Stopwatch;
use crate::subject::{SampleValue, Shape, Subject, key_group, max_parallelism};

/// Segments in the root of a disk.
#[derive(Debug)]
pub struct Segments<D> {
    disk: D,
    /// How many have been written; names the next one.
    count: u32,
}

impl<D: Disk<Frozen = FrozenRun>> Segments<D> {
    /// None yet, on a disk of their own.
    pub const fn new(disk: D) -> Self {
        Self { disk, count: 0 }
    }

    /// The disk, with what is on it.
    pub fn into_disk(self) -> D {
        self.disk
    }

    /// Writes a snapshot and makes it durable.
    ///
    /// # Errors
    /// It did not become durable.
    pub fn write(&mut self, snapshot: Snapshot) -> Result<SegmentRef, Failed> {
        self.write_with(snapshot, Compression::None)
    }

    /// The same, compressed.
    ///
    /// # Errors
    /// It did not become durable.
    pub fn write_with(&mut self, snapshot: Snapshot, compression: Compression) -> Result<SegmentRef, Failed> {
        self.count += 1;
        let spec = SegmentSpec {
            folder: String::new(),
            file_name: format!("{}.seg", self.count),
            file_id: self.count.into(),
            job_id: 1,
            checkpoint: CheckpointId(self.count.into()),
            subtask: 0,
            attempt: 0,
            max_parallelism: max_parallelism(),
            compression,
        };
        let mut writer = SegmentWriter::new(snapshot, spec);
        run_to_end(&mut self.disk, &mut writer)?;
        match writer.result() {
            Some(Ok(segment)) => Ok(segment.clone()),
            Some(Err(error)) => Err((*error).into()),
            None => Err("the segment was not written to its end".into()),
        }
    }

    /// Restores a segment into a new heap with the room for `shape`.
    ///
    /// # Errors
    /// The segment is damaged, or the heap's memory cannot be reserved.
    pub fn restore<V: SampleValue>(
        &mut self,
        segment: &SegmentRef,
        shape: Shape,
    ) -> Result<Subject<V>, Failed> {
        let mut subject = Subject::empty(shape)?;
        let groups = max_parallelism().all_key_groups();
        restore_segment(&mut self.disk, &segment.file_name, segment, groups, &mut subject.heap)?;
        Ok(subject)
    }

    /// Restores a segment into a new heap, first the key group of one key, of which some of the value is read, then the
    /// rest. Gives the time to that look-up, and the time to the end.
    ///
    /// # Errors
    /// As [`Segments::restore`], or what is restored cannot be read.
    pub fn restore_and_look_up<V: SampleValue>(
        &mut self,
        segment: &SegmentRef,
        shape: Shape,
        number: u32,
    ) -> Result<(Duration, Duration), Failed> {
        let stopwatch = Stopwatch::start();
        let mut subject = Subject::<V>::empty(shape)?;
        let (path, groups) = (&segment.file_name, max_parallelism().all_key_groups());
        let mut restore = SegmentRestore::open(&mut self.disk, path, segment, groups, &mut subject.heap)?;
        restore.key_group_now(&mut self.disk, &mut subject.heap, key_group(number))?;
        black_box(subject.read(number)?);
        let first_lookup = stopwatch.elapsed();
        restore.finish(&mut self.disk, &mut subject.heap)?;
        Ok((first_lookup, stopwatch.elapsed()))
    }

    /// Reads and checks every byte of a segment.
    ///
    /// # Errors
    /// It is damaged, or cannot be read.
    pub fn verify(&mut self, segment: &SegmentRef) -> Result<(), Failed> {
        verify_segment(&mut self.disk, &segment.file_name, segment)?;
        Ok(())
    }

    /// Removes a segment, so that the next one finds the disk as this one did.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&mut self, segment: &SegmentRef) -> Result<(), Failed> {
        Ok(Blocking::new(&mut self.disk).remove(&segment.file_name)?)
    }
}
