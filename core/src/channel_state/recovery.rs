use crate::ids::CheckpointId;

/// Whether the records in flight of the checkpoint that is restored are replayed: unless the job was told to do
/// without those of exactly this one (rule U19; Flink: `recover-without-channel-state.checkpoint-id`).
#[must_use]
pub fn restores_in_flight(restored: CheckpointId, without: Option<CheckpointId>) -> bool {
    without != Some(restored)
}
