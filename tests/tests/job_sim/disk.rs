//! The disk of a run: simulated, with a bug over it if one is switched on, and slow at times.

use slackwater_core::durable::{Disk, Layered};
use slackwater_mem::FrozenRun;
use slackwater_tests::buggy_disk::{Bug, buggy};
use slackwater_tests::crash::Sim;

use crate::actors::{Slow, Weather};
use crate::plan::Mutant;

/// What a run's disk is made of.
pub(crate) struct Disks {
    pub(crate) disk: Sim,
    pub(crate) weather: Weather,
    pub(crate) mutant: Option<Mutant>,
}

/// Something to be done with a disk of any type.
pub(crate) trait OverDisk {
    type Output;

    fn on<D>(self, disk: Slow<D>) -> Self::Output
    where
        D: Disk<Frozen = FrozenRun, Block: Send> + Send + 'static;
}

impl Disks {
    pub(crate) fn over<W: OverDisk>(self, work: W) -> W::Output {
        let (disk, weather) = (self.disk, self.weather);
        let bug = match self.mutant {
            Some(Mutant::AcknowledgeBeforeSync) => Bug::AcknowledgedBeforeSync,
            Some(Mutant::CompleteBeforeRename) => Bug::CommittedBeforeComplete,
            Some(_) | None => return work.on(Layered { disk, layer: weather }),
        };
        work.on(Layered { disk: buggy(disk, bug), layer: weather })
    }
}
