//! The example of a slow sink shows what it says.
#![expect(unreachable_pub, reason = "the example is a program of its own")]

#[path = "../../runtime/examples/slow_sink.rs"]
mod slow_sink;

use slow_sink::{Taken, main, run};

#[test]
fn b24_an_unaligned_checkpoint_completes_in_the_time_of_its_writes() {
    let (aligned, unaligned) = (run(false, 3).unwrap(), run(true, 3).unwrap());
    let queue_ms = aligned.iter().map(|taken| taken.duration_ms).min();
    assert!(queue_ms > Some(2000), "thousands of records lie before each barrier: {aligned:?}");
    assert!(aligned.iter().all(|taken| taken.captured_bytes == 0), "{aligned:?}");
    let is_quick = |taken: &Taken| taken.duration_ms < 20 && taken.captured_bytes > 100_000;
    assert!(unaligned.iter().all(is_quick), "{unaligned:?}");
    main().unwrap();
}
