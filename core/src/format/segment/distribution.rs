use super::super::manifest::StateMode;

/// Who gets the entries of a state when a job is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Whoever owns their key groups.
    ByKey,
    /// A list of which each subtask gets a part.
    Split,
    /// A list of which each subtask gets all.
    Union,
    /// Every subtask holds the same and gets it again.
    Broadcast,
}

impl Distribution {
    /// Its number on disk: that of its mode, 0 if it has none.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self.mode() {
            None => 0,
            Some(mode) => mode.number(),
        }
    }

    /// The one with this number.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::ByKey),
            1 => Some(Self::Split),
            2 => Some(Self::Union),
            3 => Some(Self::Broadcast),
            _ => None,
        }
    }

    /// How partitions are given out; none for a state kept by key.
    #[must_use]
    pub const fn mode(self) -> Option<StateMode> {
        match self {
            Self::ByKey => None,
            Self::Split => Some(StateMode::Split),
            Self::Union => Some(StateMode::Union),
            Self::Broadcast => Some(StateMode::Broadcast),
        }
    }

    /// Whether it is a list: keys are the places of the entries, 0 and up, as `u64` in little-endian order.
    #[must_use]
    pub const fn is_list(self) -> bool {
        matches!(self, Self::Split | Self::Union)
    }
}
