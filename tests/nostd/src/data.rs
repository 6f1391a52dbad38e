//! Numbers and bytes that depend on a seed nobody knows at compile time.

use core::hint::black_box;

use slackwater_core::ids::{Alignment, Barrier, CheckpointId, SnapshotKind};
use slackwater_core::time::{Millis, Now};

pub(crate) struct Data(u32);

impl Data {
    pub(crate) const fn new(seed: u32) -> Self {
        Self(seed)
    }

    pub(crate) fn word(&mut self) -> u32 {
        self.0 = black_box(self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
        self.0
    }

    pub(crate) fn short(&mut self) -> u16 {
        let [low, high, ..] = self.word().to_le_bytes();
        u16::from_le_bytes([low, high])
    }

    pub(crate) fn long(&mut self) -> u64 {
        u64::from(self.word()) << 32 | u64::from(self.word())
    }

    pub(crate) fn bit(&mut self) -> bool {
        self.word() & 1 == 1
    }

    pub(crate) fn id(&mut self) -> CheckpointId {
        CheckpointId(self.long())
    }

    pub(crate) fn now(&mut self) -> Now {
        Now { monotonic: Millis(self.long()), wall: Millis(self.long()) }
    }

    pub(crate) fn barrier(&mut self) -> Barrier {
        Barrier {
            id: self.id(),
            triggered_at: Millis(self.long()),
            kind: SnapshotKind::Checkpoint,
            alignment: self.alignment(),
        }
    }

    fn alignment(&mut self) -> Alignment {
        let timeout = Millis(self.long());
        match self.word() & 7 {
            0 => Alignment::Unaligned,
            1 | 2 => Alignment::AlignedFor(timeout),
            3 => Alignment::ForcedAligned { timeout: Some(timeout) },
            4 => Alignment::AtLeastOnce,
            _ => Alignment::Aligned,
        }
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            [*byte, ..] = self.word().to_le_bytes();
        }
    }
}

/// Something of a value that the compiler has to make for it.
pub(crate) fn used<T>(value: &T) -> u32 {
    black_box(value);
    1
}
