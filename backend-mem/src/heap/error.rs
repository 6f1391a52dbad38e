use core::fmt;

use slackwater_core::format::segment::{STATE_KIND_HASH, STATE_KIND_ORDERED};
use slackwater_core::key_group::{KeyGroup, KeyGroupRange};

/// What a heap refuses. It is unchanged in what it holds, whatever the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeapError {
    /// The options make no heap.
    InvalidOptions {
        /// Which one, and what it must be.
        what: &'static str,
    },
    /// The system did not reserve the address space.
    Reservation {
        /// How much was asked for.
        bytes: u64,
        /// The system's error number.
        errno: i32,
    },
    /// A heap lives in the arena, or did.
    ArenaInUse,
    /// No frame is free. Room comes back when entries are removed.
    MemoryLimit {
        /// The limit.
        limit_bytes: u64,
    },
    /// No frame is free while snapshots are alive. The same call may go well when one of them has been released
    /// or has given up a key group ([`Snapshot::wanted_key_group`](crate::Snapshot::wanted_key_group)).
    SnapshotHolds {
        /// Bytes that only snapshots need.
        held_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// Four snapshots are alive; one must be released first.
    TooManySnapshots,
    /// All ids of states are taken.
    TooManyStates {
        /// How many there are.
        count_max: usize,
    },
    /// The name of an operator, a state or a codec is too long.
    NameTooLong {
        /// Its length in bytes.
        len: usize,
        /// The longest possible.
        len_max: usize,
    },
    /// The state exists with another codec.
    OtherCodec {
        /// The state.
        state: StateId,
        /// Whether the key's codec differs; otherwise the value's does.
        key: bool,
    },
    /// All keys and values of the state have the same lengths, but not these.
    OtherWidth {
        /// The state.
        state: StateId,
        /// Bytes of its keys and of its values.
        width: (usize, usize),
        /// Bytes of this key and of this value.
        len: (usize, usize),
    },
    /// The state's entries are found in another way: by hash or in order.
    OtherKind {
        /// The state.
        state: StateId,
        /// How they are.
        kind: StateKind,
    },
    /// The state exists, and other subtasks get its entries in a restore.
    OtherDistribution {
        /// The state.
        state: StateId,
    },
    /// No such state was registered with this heap.
    UnknownState {
        /// The state.
        state: StateId,
    },
    /// The key group belongs to another subtask.
    ForeignKeyGroup {
        /// The key group.
        key_group: KeyGroup,
        /// What this heap owns.
        owned: KeyGroupRange,
    },
    /// A restore that goes step by step has yet to bring the key group.
    NotRestored {
        /// The key group.
        key_group: KeyGroup,
    },
    /// The key is longer than the format allows.
    KeyTooLarge {
        /// Its length in bytes.
        len: usize,
        /// The longest possible.
        len_max: usize,
    },
    /// The value is longer than the format allows.
    ValueTooLarge {
        /// Its length in bytes.
        len: usize,
        /// The longest possible.
        len_max: usize,
    },
    /// All 2^32 epochs have been used.
    EpochsExhausted,
    /// An invariant of the heap does not hold: a defect in this crate.
    Broken {
        /// Which one.
        what: &'static str,
    },
}

/// A state of a heap, counted from zero in the order of registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateId(pub u16);

/// How the entries of a state are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKind {
    /// By the hash of their keys.
    Hash,
    /// In the order of their keys' bytes.
    Ordered,
}

impl StateKind {
    /// As the format numbers it.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Hash => STATE_KIND_HASH,
            Self::Ordered => STATE_KIND_ORDERED,
        }
    }

    /// The kind of that number; whoever reads files knows that there is one.
    pub(crate) const fn of_number(number: u8) -> Self {
        if number == STATE_KIND_ORDERED { Self::Ordered } else { Self::Hash }
    }
}

impl fmt::Display for HeapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::InvalidOptions { what } => write!(f, "invalid heap options: {what}"),
            Self::Reservation { bytes, errno } => {
                write!(f, "cannot reserve {bytes} bytes of address space for the state heap (error {errno})")
            }
            Self::ArenaInUse => f.write_str("the arena already holds a heap; give each heap its own"),
            Self::MemoryLimit { limit_bytes } => {
                write!(f, "the state outgrew its memory limit of {limit_bytes} bytes; raise the limit")
            }
            Self::SnapshotHolds { held_bytes, limit_bytes } => {
                write!(
                    f,
                    "snapshots hold {held_bytes} of the state's {limit_bytes} bytes; wait for one to go"
                )
            }
            Self::TooManySnapshots => f.write_str("four snapshots are alive; wait until one is written"),
            Self::TooManyStates { count_max } => {
                write!(f, "a heap holds {count_max} states; put some of the operators into another subtask")
            }
            Self::NameTooLong { len, len_max } => {
                write!(f, "a name has {len} bytes; operators, states and codecs may have {len_max}")
            }
            Self::OtherCodec { state, key } => {
                let part = if key { "keys" } else { "values" };
                write!(f, "state {} already has another codec for its {part}", state.0)
            }
            Self::OtherWidth { state, width, len } => {
                write!(
                    f,
                    "a key of {} and a value of {} bytes do not fit state {}, whose keys have {} and values {} \
                    bytes; use the codecs it was registered with",
                    len.0, len.1, state.0, width.0, width.1
                )
            }
            Self::OtherKind { state, kind } => {
                let kind = match kind {
                    StateKind::Hash => "by hash",
                    StateKind::Ordered => "in order",
                };
                write!(f, "state {} keeps its entries {kind}, and cannot be used otherwise", state.0)
            }
            Self::OtherDistribution { state } => write!(
                f,
                "state {} is already of another type (by key, split, union or broadcast); give the new one another name",
                state.0
            ),
            Self::UnknownState { state } => write!(f, "state {} was never registered", state.0),
            Self::ForeignKeyGroup { key_group, .. } if key_group == KeyGroup::NONE => {
                f.write_str("the state is kept by key: a key group must be named")
            }
            Self::ForeignKeyGroup { key_group, owned } if owned.first == KeyGroup::NONE => {
                write!(f, "the state is not kept by key: it has no key group {key_group}")
            }
            Self::ForeignKeyGroup { key_group, owned } => {
                write!(f, "key group {key_group} is not among those of this subtask ({owned})")
            }
            Self::NotRestored { key_group } => write!(f, "restore key group {key_group} before it is used"),
            Self::KeyTooLarge { len, len_max } => {
                write!(f, "a key has {len} bytes; at most {len_max} are possible")
            }
            Self::ValueTooLarge { len, len_max } => {
                write!(f, "a value has {len} bytes; at most {len_max} are possible")
            }
            Self::EpochsExhausted => {
                f.write_str("the heap has been frozen 2^32 times; restore it into a new one")
            }
            Self::Broken { what } => {
                write!(f, "the state heap is broken ({what}); this is a defect, please report it")
            }
        }
    }
}

impl core::error::Error for HeapError {}
