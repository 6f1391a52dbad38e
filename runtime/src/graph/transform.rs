//! Operators chained to a stream that may keep records back for a while.

use super::{Build, Stream};
use crate::chain::TransformStage;
use crate::operator::SubtaskInfo;
use crate::pre_aggregate::{Combine, PreAggregate, PreAggregateOptions};
use crate::record::Record;
use crate::transform::Transform;

impl<'j, R: Record + ?Sized> Stream<'j, R> {
    /// Chains an operator that may keep records back for a while; `make` makes the instance of each subtask.
    pub fn transform<T: Transform<In = R>>(
        mut self,
        name: impl Into<String>,
        mut make: impl FnMut(&SubtaskInfo) -> T + Send + 'static,
    ) -> Stream<'j, T::Out> {
        let name = name.into();
        self.vertex.operators.push(name.clone());
        let mut before = self.build;
        let build: Build<T::Out> = Box::new(move |info, next| {
            let here = SubtaskInfo { operator: name.clone(), ..info.clone() };
            before(info, Box::new(TransformStage::new(name.clone(), make(&here), next)))
        });
        Stream::new(self.job, self.vertex, build)
    }

    /// Makes one record of those with the same key, as far as they come one soon after the other in one subtask: fewer
    /// records then go through the exchange that follows. What is kept for that is emitted before each barrier, and after
    /// a time (see [`PreAggregateOptions`]).
    pub fn pre_aggregate<C: Combine<In = R> + Clone>(
        self,
        name: impl Into<String>,
        combine: C,
        options: PreAggregateOptions,
    ) -> Stream<'j, C::Out> {
        self.transform(name, move |_| PreAggregate::new(combine.clone(), options))
    }
}
