//! Who takes part in a checkpoint (Flink: `DefaultCheckpointPlanCalculator`, `DefaultCheckpointPlan`).

use super::checkpoint::{Checkpoint, Plan};
use super::{Coordinator, Graph};
use crate::ids::TaskIndex;
use crate::reason::FailureReason;

impl<const TASK_WORDS: usize, const PENDING: usize, const QUEUE: usize, G: Graph<TASK_WORDS>>
    Coordinator<TASK_WORDS, PENDING, QUEUE, G>
{
    /// Rules T33 to T37.
    pub(super) fn plan(&self) -> Result<Plan<TASK_WORDS>, FailureReason> {
        let (running, finished) = (self.tasks.running, self.tasks.finished);
        let may_plan = self.schedule.is_job_running()
            && !self.tasks.has_pending()
            && !running.is_empty()
            && (finished.is_empty() || self.options.checkpoints_after_tasks_finish);
        if !may_plan {
            return Err(FailureReason::NotAllRequiredTasksRunning);
        }
        let mut triggered = self.tasks.sources;
        if !finished.is_empty() {
            let is_first = |task: &u16| self.graph.predecessors(TaskIndex(*task)).is_disjoint(&running);
            triggered = running.iter().filter(is_first).collect();
        }
        Ok(Plan { triggered, taking_part: running, finished })
    }

    /// Whether tasks have finished in a way that a restore could not make up for (rule P36): list state that every
    /// subtask gets whole would come back without the share of those that have finished.
    pub(super) fn finishes_badly(&self, checkpoint: &Checkpoint<TASK_WORDS>) -> bool {
        let finished = &checkpoint.plan.finished;
        let ended = finished.union(&checkpoint.reported_finished);
        ended.iter().any(|task| {
            let vertex = self.graph.vertex(TaskIndex(task));
            let is_untouched = vertex.is_disjoint(finished);
            let is_partly = !is_untouched && !vertex.is_subset(finished);
            let is_uneven = is_untouched && !vertex.is_subset(&checkpoint.reported_finished);
            (is_partly || is_uneven) && !vertex.is_disjoint(&checkpoint.with_union_state)
        })
    }
}
