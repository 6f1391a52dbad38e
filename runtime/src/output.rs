//! Where an operator puts what it emits.

use crate::record::Record;

/// Where an operator puts what it emits. Emitting never fails and never waits; whoever emits much looks at
/// [`Output::has_room`] and goes on at the next call.
pub struct Output<'a, R: Record + ?Sized> {
    next: &'a mut dyn Receive<R>,
}

impl<R: Record + ?Sized> Output<'_, R> {
    /// Passes a record on.
    #[inline]
    pub fn emit(&mut self, record: &R) {
        self.next.receive(record);
    }

    /// Whether everything behind has room for another record.
    #[inline]
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.next.has_room()
    }
}

impl<'a, R: Record + ?Sized> Output<'a, R> {
    /// Into this receiver: a chain of operators, or a `Vec` in tests.
    pub fn new(next: &'a mut dyn Receive<R>) -> Self {
        Self { next }
    }
}

impl<R: Record + ?Sized> std::fmt::Debug for Output<'_, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Output")
    }
}

/// What takes emitted records.
pub trait Receive<R: Record + ?Sized> {
    /// Takes a record.
    fn receive(&mut self, record: &R);

    /// Whether there is room for another one.
    fn has_room(&self) -> bool {
        true
    }
}

/// Collects owned copies; for tests of sources and functions.
impl<R: Record + ToOwned + ?Sized> Receive<R> for Vec<R::Owned> {
    fn receive(&mut self, record: &R) {
        self.push(record.to_owned());
    }
}
