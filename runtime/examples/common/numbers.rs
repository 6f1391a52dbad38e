//! What the examples have to do.

use slackwater::operator::{OperatorError, Source, SourceStatus};
use slackwater::output::Output;

/// How many numbers there are.
pub(crate) const END: u64 = 100_000;

/// Emits numbers as text; its position is the next one.
#[derive(Default)]
pub(crate) struct Numbers(u64);

impl Source for Numbers {
    type Out = [u8];

    fn restore(&mut self, splits: Vec<Vec<u8>>) -> Result<(), OperatorError> {
        let position = splits.first().and_then(|split| split.as_slice().try_into().ok());
        self.0 = position.map(u64::from_le_bytes).ok_or_else(|| OperatorError::new("no position"))?;
        Ok(())
    }

    fn read(&mut self, out: &mut Output<'_, [u8]>) -> Result<SourceStatus, OperatorError> {
        for _ in 0..100 {
            out.emit(self.0.to_string().as_bytes());
            self.0 += 1;
        }
        Ok(if self.0 < END { SourceStatus::More } else { SourceStatus::Ended })
    }

    fn snapshot(&mut self) -> Vec<Vec<u8>> {
        vec![self.0.to_le_bytes().to_vec()]
    }
}
