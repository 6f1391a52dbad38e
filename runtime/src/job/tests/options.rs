//! The options of a job beside those of Flink.

use slackwater_mem::segment::Compression;

use super::*;
use crate::CheckpointingMode;
use crate::job::OnCancellation;

/// Each option that Flink has, too: its name here, Flink's key, and whether a job that says nothing gets what it would get
/// there.
type Row = (&'static str, &'static str, bool);

/// Names every option, so that a new one has to be given a place.
fn table() -> Vec<Row> {
    let JobOptions {
        // What Flink has no option for, or what it calls by the names of its own parts.
        attempt: _,
        hash_seed: _,
        memory_limit_bytes: _,
        frame_size: _,
        lazy_restore: _,
        folder,
        interval,
        timeout,
        min_pause,
        max_concurrent_checkpoints,
        mode,
        unaligned,
        aligned_checkpoint_timeout,
        buffer_timeout,
        tolerable_failed_checkpoints,
        restart,
        num_retained,
        on_cancellation,
        restore_from,
        allow_non_restored_state,
        compression,
    } = JobOptions::new(1);
    assert_eq!((interval, num_retained), (Some(Millis(1_000)), 3), "as the documentation says");
    assert_eq!(on_cancellation, OnCancellation::Keep, "as the documentation says");
    vec![
        ("folder", "execution.checkpointing.dir", folder.is_empty()),
        ("interval", "execution.checkpointing.interval", interval.is_none()),
        ("timeout", "execution.checkpointing.timeout", timeout == Millis(10 * 60 * 1_000)),
        ("min_pause", "execution.checkpointing.min-pause", min_pause == Millis(0)),
        (
            "max_concurrent_checkpoints",
            "execution.checkpointing.max-concurrent-checkpoints",
            max_concurrent_checkpoints == 1,
        ),
        ("mode", "execution.checkpointing.mode", mode == CheckpointingMode::ExactlyOnce),
        ("unaligned", "execution.checkpointing.unaligned.enabled", !unaligned),
        (
            "aligned_checkpoint_timeout",
            "execution.checkpointing.aligned-checkpoint-timeout",
            aligned_checkpoint_timeout == Millis(0),
        ),
        ("buffer_timeout", "execution.buffer-timeout.interval", buffer_timeout == Millis(100)),
        (
            "tolerable_failed_checkpoints",
            "execution.checkpointing.tolerable-failed-checkpoints",
            tolerable_failed_checkpoints == 0,
        ),
        ("restart", "restart-strategy.type", restart.is_none()),
        ("num_retained", "execution.checkpointing.num-retained", num_retained == 1),
        // Flink keeps none.
        ("on_cancellation", "execution.checkpointing.externalized-checkpoint-retention", false),
        ("restore_from", "execution.state-recovery.path", restore_from.is_none()),
        (
            "allow_non_restored_state",
            "execution.state-recovery.ignore-unclaimed-state",
            !allow_non_restored_state,
        ),
        ("compression", "execution.checkpointing.snapshot-compression", compression == Compression::None),
    ]
}

/// What is written beside an option.
fn documentation(option: &str) -> String {
    let lines: Vec<&str> = include_str!("../../job.rs").lines().map(str::trim).collect();
    let at = lines.iter().position(|line| line.starts_with(&format!("pub {option}:")));
    let before = lines[..at.expect("the option is there")].iter().rev();
    let mut sentences: Vec<&str> = before
        .take_while(|line| line.starts_with("///"))
        .map(|line| line.trim_start_matches("/// "))
        .collect();
    sentences.reverse();
    sentences.join(" ")
}

#[test]
fn options_that_flink_has_too_name_its_key_and_have_its_default_but_for_three() {
    let table = table();
    for (option, key, _) in &table {
        let documentation = documentation(option);
        assert!(documentation.contains(&format!("Flink: `{key}`")), "{option}: {documentation}");
    }
    let differ = table.iter().filter(|(_, _, is_same)| !is_same).map(|(option, ..)| *option);
    assert_eq!(differ.collect::<Vec<_>>(), ["interval", "num_retained", "on_cancellation"]);
}

#[test]
fn options_that_mean_the_same_as_a_key_of_flink_have_its_name() {
    let by_another_name = table().into_iter().filter(|(option, key, _)| {
        let name = key.rsplit_once("checkpointing.").map_or(*key, |(_, name)| name);
        name.trim_end_matches(".enabled").replace('-', "_") != *option
    });
    let by_another_name: Vec<&str> = by_another_name.map(|(option, ..)| option).collect();
    // Folders of jobs lie in it; another flag there has the name alone; stopping is no cancellation there; two options of Flink in one; its flag has this name;
    // it has one compression.
    let expected = [
        "folder",
        "buffer_timeout",
        "restart",
        "on_cancellation",
        "restore_from",
        "allow_non_restored_state",
        "compression",
    ];
    assert_eq!(by_another_name, expected);
}
