//! How large the inputs of a bench are.

/// `full` when the bench was started to measure (`cargo bench`), `tiny` when a test run only wants to know that
/// it still works.
#[must_use]
pub fn sized<T>(full: T, tiny: T) -> T {
    if is_measuring() { full } else { tiny }
}

/// Whether the bench was started to measure: cargo passes `--bench` then, and only then.
#[must_use]
pub fn is_measuring() -> bool {
    std::env::args().any(|argument| argument == "--bench")
}
