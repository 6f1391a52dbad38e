//! The example of a bare loop, run as it is.

#[path = "../examples/bare_loop.rs"]
mod bare_loop;

#[test]
fn a_bare_loop_brings_a_job_to_its_end() {
    bare_loop::main().unwrap();
    let report = bare_loop::run().unwrap();
    assert_eq!((report.source_records, report.records), (bare_loop::END, bare_loop::END));
    assert!(report.checkpoints_completed >= 1, "{report:?}");
}
