//! Names of part files; what does not parse as one is not ours and is left alone.

use std::fmt;

use slackwater_core::ids::CheckpointId;

/// The sub-folder into which a restore moves parts of checkpoints that it passed over.
pub const SET_ASIDE: &str = ".set-aside";

/// Name of a part that is not committed: `.part-<subtask>-<attempt>-<number>.tmp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HiddenName {
    pub(super) subtask: u16,
    pub(super) attempt: u64,
    pub(super) number: u64,
}

/// Name of a committed part: `part-<subtask>-<number>-chk-<checkpoint>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FinalName {
    pub(super) subtask: u16,
    pub(super) number: u64,
    pub(super) checkpoint: CheckpointId,
}

impl HiddenName {
    pub(super) fn parse(name: &str) -> Option<Self> {
        let mut numbers = name.strip_prefix(".part-")?.strip_suffix(".tmp")?.split('-');
        let subtask = numbers.next()?.parse().ok()?;
        let attempt = numbers.next()?.parse().ok()?;
        let number = numbers.next()?.parse().ok()?;
        let parsed = Self { subtask, attempt, number };
        // `+1` and `01` parse as numbers too.
        (parsed.to_string() == name).then_some(parsed)
    }
}

impl FinalName {
    pub(super) fn parse(name: &str) -> Option<Self> {
        let (part, checkpoint) = name.strip_prefix("part-")?.split_once("-chk-")?;
        let (subtask, number) = part.split_once('-')?;
        let checkpoint = CheckpointId(checkpoint.parse().ok()?);
        let parsed = Self { subtask: subtask.parse().ok()?, number: number.parse().ok()?, checkpoint };
        (parsed.to_string() == name).then_some(parsed)
    }
}

impl fmt::Display for HiddenName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ".part-{}-{}-{}.tmp", self.subtask, self.attempt, self.number)
    }
}

impl fmt::Display for FinalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "part-{}-{}-chk-{}", self.subtask, self.number, self.checkpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::{CheckpointId, FinalName, HiddenName};

    #[test]
    fn names_come_back_and_nothing_else_is_ours() {
        let hidden = HiddenName { subtask: 3, attempt: u64::MAX, number: 0 };
        assert_eq!(HiddenName::parse(".part-3-18446744073709551615-0.tmp"), Some(hidden));
        let visible = FinalName { subtask: 3, number: 7, checkpoint: CheckpointId(12) };
        assert_eq!(FinalName::parse("part-3-7-chk-12"), Some(visible));
        for foreign in
            ["part-3-7", "part-3-7-chk-", "part-3-7-chk-1.gz", "part-03-7-chk-1", "part-3-+7-chk-1"]
        {
            assert_eq!(FinalName::parse(foreign), None);
            assert_eq!(HiddenName::parse(foreign), None);
        }
        for foreign in [".part-1-2-3.tmp.bak", ".part-1-2.tmp", ".part-1-2-3-4.tmp", "part-1-2-3.tmp"] {
            assert_eq!(HiddenName::parse(foreign), None);
        }
    }
}
