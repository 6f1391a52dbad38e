//! The example of a driver with tokio, run as it is.

#[path = "../examples/tokio_tasks.rs"]
mod tokio_tasks;

#[test]
fn tokio_brings_a_job_to_its_end_and_its_records_to_a_consumer() {
    tokio_tasks::main().unwrap();
    let (report, received) = tokio_tasks::run().unwrap();
    assert_eq!((report.source_records, received), (tokio_tasks::END, tokio_tasks::END));
    assert!(report.checkpoints_completed >= 1, "{report:?}");
}
