//! Where things lie.

use slackwater_core::ids::CheckpointId;

/// Name of a checkpoint's manifest.
pub(crate) const MANIFEST: &str = "_metadata";
/// Name under which a manifest is written before it commits the checkpoint.
pub(crate) const MANIFEST_UNFINISHED: &str = "_metadata.inprogress";

/// Name of the file in a checkpoint's folder that says to verify all of it before any of it is used.
pub(crate) const DISTRUSTED: &str = "_distrusted";
/// Says in a checkpoint's folder that a job went on without it.
pub(crate) const PASSED_OVER: &str = "_passed_over";

/// `name` in `folder`; the empty folder is the root.
pub(crate) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// The last part of a path.
pub(crate) fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The folders on the way to one, and itself, outermost first.
pub(crate) fn with_parents(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    ends.filter_map(|end| path.get(..end)).filter(|folder| !folder.is_empty())
}

/// Name of a checkpoint's folder.
pub(crate) fn checkpoint_name(id: CheckpointId) -> String {
    format!("chk-{id}")
}

/// The checkpoint whose folder has this name.
pub(crate) fn checkpoint_of(name: &str) -> Option<CheckpointId> {
    let digits = name.strip_prefix("chk-")?;
    let id = CheckpointId(digits.parse().ok()?);
    (checkpoint_name(id) == name).then_some(id)
}

/// The folder of a checkpoint of the job in `folder`.
pub(crate) fn checkpoint_folder(folder: &str, id: CheckpointId) -> String {
    join(folder, &checkpoint_name(id))
}

#[cfg(test)]
mod tests {
    use super::{MANIFEST, checkpoint_name, checkpoint_of, join};
    use slackwater_core::ids::CheckpointId;

    #[test]
    fn s27_a_checkpoint_lies_in_a_folder_of_its_number() {
        let folder = join("jobs/words", &checkpoint_name(CheckpointId(17)));
        assert_eq!(join(&folder, MANIFEST), "jobs/words/chk-17/_metadata");
        assert_eq!(join("", "chk-1"), "chk-1");
    }

    #[test]
    fn s27_only_a_checkpoints_own_name_is_one() {
        assert_eq!(checkpoint_of(&checkpoint_name(CheckpointId(17))), Some(CheckpointId(17)));
        for name in ["chk-", "chk-007", "chk-+7", "chk-1.old", "shared", "chk-99999999999999999999"] {
            assert_eq!(checkpoint_of(name), None, "{name}");
        }
    }
}
