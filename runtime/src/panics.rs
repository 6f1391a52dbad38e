//! Panics of user code, as errors.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::JobError;
use crate::operator::OperatorError;

/// Calls what may panic; the panic's message if it does. Whoever calls never uses again what the call may have left half
/// done.
pub(crate) fn catch<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|cause| message(&*cause))
}

/// Calls an operator of a subtask.
///
/// # Errors
/// What it said, or that it panicked.
pub(crate) fn call_operator<T>(
    task: &str,
    operator: &str,
    call: impl FnOnce() -> Result<T, OperatorError>,
) -> Result<T, JobError> {
    let called = catch(call).map_err(|message| JobError::Panicked { task: task.to_owned(), message })?;
    called.map_err(|error| JobError::operator(task, operator, &error))
}

fn message(cause: &(dyn Any + Send)) -> String {
    let text = cause.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| cause.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::catch;

    #[test]
    fn a_panic_is_known_by_its_message() {
        assert_eq!(catch(|| 7), Ok(7));
        assert_eq!(catch(|| panic!("fixed")), Err::<(), _>("fixed".to_owned()));
        assert_eq!(catch(|| panic!("number {}", 7)), Err::<(), _>("number 7".to_owned()));
        assert_eq!(catch(|| std::panic::panic_any(7)), Err::<(), _>("no message".to_owned()));
    }
}
