//! The end of a simulated job: nothing is left open, and what is committed is right.

use slackwater_core::coordinator::CoordinatorEvent;
use slackwater_core::ids::CheckpointId;
use slackwater_core::retained::Verdict as Worth;

use crate::control::Control;
use crate::task::Verdict;
use crate::world::World;

impl World {
    /// The coordinator ends, every request was answered, and what was committed is compared.
    pub(crate) fn end(&mut self) -> Verdict {
        self.tell_coordinator(CoordinatorEvent::ShutDown)?;
        while !self.events.is_empty() || self.storage.files.is_busy() {
            self.drive_files()?;
            if let Some(((at, _), event)) = self.events.pop_first() {
                self.micros = self.micros.max(at);
                self.deliver(event)?;
                self.drive_coordinator()?;
            }
        }
        self.check_control()?;
        self.ledger.check_end()
    }

    /// What is left when the coordinator has ended and all that it ordered is done.
    fn check_control(&self) -> Verdict {
        let Control { machine, store, requests, .. } = &self.control;
        if !machine.is_idle() || !requests.is_empty() {
            return Err(format!("the coordinator has not ended: {requests:?} are not answered"));
        }
        let is_lost = |id: &CheckpointId| {
            self.storage.verdict(*id, true) != Ok(Worth::Sound) && !self.storage.damaged.contains(id)
        };
        match store.retained().map(|(id, _)| id).find(is_lost) {
            Some(id) => Err(format!("checkpoint {id} is retained, but not whole")),
            None => Ok(()),
        }
    }
}
