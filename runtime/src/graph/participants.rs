//! Those who take part in checkpoints beside the subtasks.

use super::{JobBuilder, Stream};
use crate::hook::{MasterHook, NamedHook};
use crate::operator::{Source, SubtaskInfo};
use crate::operator_coordinator::OperatorCoordinator;

impl JobBuilder {
    /// Registers a hook, called for every checkpoint in the order of registration. Its name ties its state in a checkpoint to
    /// it: no two hooks may have the same, and none a blank one (rule P31). At most 32.
    pub fn hook(&mut self, name: impl Into<String>, hook: impl MasterHook) {
        self.hooks.push(NamedHook { name: name.into(), hook: Box::new(hook) });
    }

    /// Adds a source with `parallelism` subtasks, which a coordinator tells what to read; `make` makes the instance of each.
    /// At most 32.
    pub fn coordinated_source<S: Source>(
        &mut self,
        name: impl Into<String>,
        parallelism: u16,
        coordinator: impl OperatorCoordinator,
        make: impl FnMut(&SubtaskInfo) -> S + Send + 'static,
    ) -> Stream<'_, S::Out> {
        let mut stream = self.source(name, parallelism, make);
        stream.vertex.coordinator = Some(Box::new(coordinator));
        stream
    }
}
