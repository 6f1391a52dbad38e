use core::fmt;
use core::mem;
use std::string::String;
use std::vec::{IntoIter, Vec};

use slackwater_core::durable::{Completion, Disk, FileWriter, Names, Tokens, Work};
use slackwater_core::format::in_flight::{ChannelRow, InFlightEncoder, InFlightHeader, encoded_len};

use super::{CapturedChannel, InFlight, InFlightRef, WriteError, unfit};

/// What a file of captured records is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlightSpec {
    /// The job's folder on the disk; empty for the disk's root.
    pub folder: String,
    /// The file's path in it; its folder must exist, the file must not.
    pub file_name: String,
    /// Whose records they are, and the file's own id, never used before.
    pub header: InFlightHeader,
}

/// Writes captured records to a file and makes it durable. A batch is given up when its turn has come; besides
/// those that wait it takes twice the memory of the longest.
pub struct InFlightWriter<D: Disk> {
    file: FileWriter<D, String>,
    written: InFlightRef,
    /// None when the last byte has been encoded.
    encoder: Option<InFlightEncoder<Vec<u8>, Vec<ChannelRow>>>,
    channels: IntoIter<CapturedChannel>,
    /// Batches of the channel in work.
    batches: IntoIter<Vec<u8>>,
    /// Bytes to be written before the next batch.
    pending: Vec<u8>,
    pending_sent: usize,
    error: Option<WriteError>,
    result: Option<Result<InFlightRef, WriteError>>,
}

impl<D: Disk> InFlightWriter<D> {
    /// Will write `captured` as `spec` says; an error if there is nothing in it.
    #[must_use]
    pub fn new(captured: InFlight, spec: InFlightSpec) -> Self {
        let captured = captured.in_order();
        let rows = captured.rows();
        let len = encoded_len(&rows);
        let path = match spec.folder.as_str() {
            "" => spec.file_name.clone(),
            folder => [folder, "/", &spec.file_name].concat(),
        };
        let mut file = FileWriter::new(Names::Final { path }, len);
        let encoder = InFlightEncoder::new(Vec::new(), &spec.header, rows).map_err(unfit);
        let (encoder, error) = match encoder {
            Ok(encoder) => (Some(encoder), None),
            Err(error) => (None, Some(error)),
        };
        if error.is_some() {
            file.abandon();
        }
        let (file_name, file_id) = (spec.file_name, spec.header.file_id);
        Self {
            file,
            written: InFlightRef { file_name, file_id, len, checksum: 0 },
            encoder,
            channels: captured.channels.into_iter(),
            batches: Vec::new().into_iter(),
            pending: Vec::new(),
            pending_sent: 0,
            error,
            result: None,
        }
    }

    /// How it ended; none while it has not.
    pub const fn result(&self) -> Option<&Result<InFlightRef, WriteError>> {
        self.result.as_ref()
    }

    /// Nobody wants the file any more: what is there of it is removed.
    pub fn abandon(&mut self) {
        self.file.abandon();
        self.settle();
    }

    /// Submits bytes until the disk takes no more.
    fn pump(&mut self, disk: &mut D, tokens: &mut Tokens) {
        while self.file.takes_bytes() {
            let rest = self.pending.get(self.pending_sent..).unwrap_or_default();
            if rest.is_empty() {
                self.encode_next();
                continue;
            }
            let taken = self.file.append(rest, disk, tokens);
            self.pending_sent += taken;
            if taken == 0 {
                return;
            }
        }
    }

    /// Encodes the next batch, or the end; seals the file behind that.
    fn encode_next(&mut self) {
        self.pending.clear();
        self.pending_sent = 0;
        match self.try_encode_next() {
            Ok(true) => {}
            Ok(false) => self.file.seal(),
            Err(error) => {
                self.error = Some(error);
                self.file.abandon();
            }
        }
    }

    fn try_encode_next(&mut self) -> Result<bool, WriteError> {
        let next = self.next_batch();
        match (&mut self.encoder, next) {
            (Some(encoder), Some(batch)) => {
                encoder.batch(&batch).map_err(unfit)?;
                mem::swap(encoder.sink_mut(), &mut self.pending);
            }
            (encoder, None) => {
                let Some(encoder) = encoder.take() else { return Ok(false) };
                let (pending, checksum) = encoder.finish().map_err(unfit)?;
                (self.pending, self.written.checksum) = (pending, checksum);
            }
            (None, Some(_)) => return Ok(false),
        }
        Ok(true)
    }

    fn next_batch(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(batch) = self.batches.next() {
                return Some(batch);
            }
            self.batches = self.channels.next()?.batches.into_iter();
        }
    }

    fn settle(&mut self) {
        let Some(ended) = self.file.result().filter(|_| self.result.is_none()) else { return };
        self.result = Some(match (self.error, ended) {
            (Some(error), _) => Err(error),
            (None, Err(failure)) => Err(WriteError::File(failure)),
            (None, Ok(_)) => Ok(self.written.clone()),
        });
    }
}

impl<D: Disk> Work<D> for InFlightWriter<D> {
    fn advance(&mut self, disk: &mut D, tokens: &mut Tokens) {
        self.pump(disk, tokens);
        self.file.advance(disk, tokens);
        self.settle();
    }

    fn on_completion(&mut self, completion: Completion<D::Block>, disk: &mut D) {
        self.file.on_completion(completion, disk);
        self.settle();
    }

    fn is_done(&self) -> bool {
        self.result.is_some()
    }
}

impl<D: Disk> fmt::Debug for InFlightWriter<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlightWriter")
            .field("file", &self.file)
            .field("result", &self.result)
            .finish_non_exhaustive()
    }
}
