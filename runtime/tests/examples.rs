//! What the examples show.

#[expect(dead_code, reason = "what it shows is in `run`, its `main` only calls that")]
#[path = "../examples/master_hook.rs"]
mod master_hook;

#[test]
fn the_hook_of_the_example_brings_its_ledger_back() {
    let (before, after) = master_hook::run().unwrap();
    assert!(before > 1000 && (20..=before - 1000).contains(&after), "{before} and {after} entries");
}
