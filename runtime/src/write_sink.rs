//! A sink that writes lines to whatever is [`Write`], standard output for example.
//!
//! Lines cannot be taken back once they are out, so this sink is [at least once](Guarantee::AtLeastOnce): after a
//! restart, lines behind the restored checkpoint come again. What a complete checkpoint covers has been written and
//! flushed; an output that fails ends the job.
//!
//! The output may block as long as it likes: it has a thread of its own, and no task waits for it. Lines of one subtask
//! stay in order and whole; those of several come as they come.
//!
//! ```no_run
//! # fn main() -> std::io::Result<()> {
//! use slackwater::write_sink::LineOutput;
//!
//! let output = LineOutput::stdout()?;
//! // job.source(...).sink("print", move |_| output.sink());
//! # Ok(())
//! # }
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::thread;

use slackwater_core::ids::CheckpointId;

use crate::actor::lock;
use crate::files::{BlockingFiles, FileEvent, Files};
use crate::operator::{Guarantee, OperatorError, Sink};

/// Bytes of lines that are handed to the output at once, unless a step or a checkpoint ends before.
const PIECE_LEN: usize = 64 << 10;
/// Bytes that a sink may have handed over before its task waits.
const UNWRITTEN_MAX: u64 = 1 << 20;

/// An output with its thread. Make a sink of it for each subtask; the thread ends with the last of them.
#[derive(Clone)]
pub struct LineOutput {
    name: Arc<str>,
    pieces: Sender<Piece>,
}

/// Lines on their way to the output.
struct Piece {
    lines: Vec<u8>,
    from: Arc<Progress>,
}

/// How far the output has come with the lines of one sink.
#[derive(Debug, Default)]
struct Progress {
    /// Bytes written and flushed.
    written: AtomicU64,
    failure: Mutex<Option<String>>,
    waker: Mutex<Option<Waker>>,
}

impl LineOutput {
    /// Standard output.
    ///
    /// # Errors
    /// There is no room for another thread.
    pub fn stdout() -> io::Result<Self> {
        Self::new("standard output", io::stdout())
    }

    /// Any output; `name` stands for it in errors.
    ///
    /// # Errors
    /// There is no room for another thread.
    pub fn new(name: &str, output: impl Write + Send + 'static) -> io::Result<Self> {
        let (pieces, received) = channel();
        thread::Builder::new().name(name.to_owned()).spawn(move || write_all(output, &received))?;
        Ok(Self { name: name.into(), pieces })
    }

    /// A sink of one subtask.
    #[must_use]
    pub fn sink(&self) -> WriteSink {
        WriteSink {
            output: self.clone(),
            progress: Arc::default(),
            buffer: Vec::new(),
            accepted: 0,
            checkpoints: VecDeque::new(),
        }
    }
}

impl fmt::Debug for LineOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LineOutput").field(&self.name).finish()
    }
}

/// The thread: writes and flushes piece by piece. After the first error nothing more is written, so that there are no gaps.
fn write_all(mut output: impl Write, pieces: &Receiver<Piece>) {
    let mut failure = None;
    for Piece { lines, from } in pieces {
        if failure.is_none() {
            failure = output.write_all(&lines).and_then(|()| output.flush()).err();
        }
        match &failure {
            None => {
                from.written.fetch_add(lines.len() as u64, Ordering::Release);
            }
            Some(error) => *lock(&from.failure) = Some(error.to_string()),
        }
        if let Some(waker) = &*lock(&from.waker) {
            waker.wake_by_ref();
        }
    }
}

/// Writes each record and a newline to a [`LineOutput`]; one instance per subtask.
#[derive(Debug)]
pub struct WriteSink {
    output: LineOutput,
    progress: Arc<Progress>,
    /// Lines not handed over yet.
    buffer: Vec<u8>,
    /// Bytes handed over or in the buffer.
    accepted: u64,
    /// Where each checkpoint that has to be sealed ends.
    checkpoints: VecDeque<(CheckpointId, u64)>,
}

impl WriteSink {
    fn hand_over(&mut self) -> Result<(), OperatorError> {
        if !self.buffer.is_empty() {
            let lines = std::mem::take(&mut self.buffer);
            let piece = Piece { lines, from: Arc::clone(&self.progress) };
            self.output.pieces.send(piece).map_err(|_| self.failed("its thread has ended"))?;
        }
        match &*lock(&self.progress.failure) {
            None => Ok(()),
            Some(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, why: &str) -> OperatorError {
        OperatorError::new(format!("{} cannot be written to: {why}", self.output.name))
    }

    fn written(&self) -> u64 {
        self.progress.written.load(Ordering::Acquire)
    }
}

impl Sink for WriteSink {
    type In = [u8];

    const GUARANTEE: Guarantee = Guarantee::AtLeastOnce;

    fn set_waker(&mut self, waker: Waker) {
        *lock(&self.progress.waker) = Some(waker);
    }

    fn poll(&mut self, _files: &mut Files) -> Result<(), OperatorError> {
        let written = self.written();
        while self.checkpoints.pop_front_if(|(_, end)| *end <= written).is_some() {}
        self.hand_over()
    }

    fn recover(
        &mut self,
        restored: Option<CheckpointId>,
        _pending: &[Vec<u8>],
        _files: &mut dyn BlockingFiles,
    ) -> Result<Vec<String>, OperatorError> {
        let output = &self.output.name;
        let again = |id| format!("{output} shows again what had been written behind checkpoint {id}");
        Ok(restored.map(again).into_iter().collect())
    }

    fn write(&mut self, record: &[u8], _files: &mut Files) -> Result<(), OperatorError> {
        self.buffer.extend_from_slice(record);
        self.buffer.push(b'\n');
        self.accepted += record.len() as u64 + 1;
        if self.buffer.len() >= PIECE_LEN { self.hand_over() } else { Ok(()) }
    }

    fn has_room(&self, _files: &Files) -> bool {
        self.accepted - self.written() < UNWRITTEN_MAX
    }

    fn pre_commit(
        &mut self,
        checkpoint: CheckpointId,
        _files: &mut Files,
    ) -> Result<Vec<Vec<u8>>, OperatorError> {
        self.hand_over()?;
        self.checkpoints.push_back((checkpoint, self.accepted));
        Ok(Vec::new())
    }

    fn is_sealed(&self, checkpoint: CheckpointId) -> bool {
        let written = self.written();
        self.checkpoints.iter().all(|(id, end)| *id > checkpoint || *end <= written)
    }

    fn commit(&mut self, _checkpoint: CheckpointId, _files: &mut Files) -> Result<(), OperatorError> {
        Ok(())
    }

    fn is_committed(&self, _checkpoint: CheckpointId) -> bool {
        true
    }

    fn on_file(&mut self, _event: FileEvent, _files: &mut Files) -> Result<(), OperatorError> {
        Ok(())
    }
}
