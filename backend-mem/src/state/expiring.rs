use slackwater_core::key_group::KeyGroup;
use slackwater_core::time::{Millis, Now};

use super::StateError;
use super::expiry::{At, TimeToLive};
use crate::arena::ArenaHandle;
use crate::codec::parts::take_framed;
use crate::codec::{Full, Scratch};
use crate::heap::{Heap, ScanCursor, StateId, Value};

/// A state whose entries expire. What can be done with it needs the time: see [`Expiring::at`].
#[derive(Clone, Copy, Debug)]
pub struct Expiring<S> {
    state: S,
    ttl: TimeToLive,
    /// The latest time it was told.
    latest: Millis,
    cursor: ScanCursor,
}

/// What a cleaning did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Entries looked at.
    pub visited: u64,
    /// Entries removed, and elements of lists.
    pub removed: u64,
    /// Whether the end of the state was reached; the next cleaning begins at its start.
    pub at_end: bool,
}

/// A state that can expire.
pub trait CanExpire {
    /// The state with a time.
    type At;
    /// What cleans it.
    #[doc(hidden)]
    type Sweep: Sweep;

    /// The state at a time.
    #[doc(hidden)]
    fn at(&self, at: At) -> Self::At;

    /// What cleans it at a time.
    #[doc(hidden)]
    fn sweep(&self, at: At) -> Self::Sweep;
}

/// A state with a time, for cleaning.
#[doc(hidden)]
pub trait Sweep {
    /// The state's id in its heap.
    fn id(&self) -> StateId;

    /// Whether some of a stored value has expired.
    fn has_expired(&self, stored: Value<'_>) -> Result<bool, StateError>;

    /// Removes what has expired and says how much that was.
    fn sweep<A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        group: KeyGroup,
        key: &[u8],
    ) -> Result<u64, StateError>;
}

impl<S: CanExpire> Expiring<S> {
    pub(super) fn new(state: S, ttl: TimeToLive, now: Now) -> Self {
        Self { state, ttl, latest: now.wall, cursor: ScanCursor::default() }
    }

    /// The state as it is now by the wall clock, or at the latest time this handle was told, if that is later.
    ///
    /// That memory begins anew in each program. To keep a clock that was set back in between from showing what
    /// had expired before a checkpoint, tell the time of the checkpoint first.
    pub fn at(&mut self, now: Now) -> S::At {
        let at = self.observe(now);
        self.state.at(at)
    }

    fn observe(&mut self, now: Now) -> At {
        self.latest = self.latest.max(now.wall);
        At { now: self.latest, ttl: self.ttl }
    }

    /// Removes what has expired from the next entries, page by page, until `entries_max` or more were looked at:
    /// call it now and then, and memory comes back. Takes time for that many entries and one page.
    ///
    /// Without `std`, an entry whose key has more than 250 bytes is left; it is not seen, but stays.
    ///
    /// # Errors
    /// As [`Heap::remove`], or bytes that are not the codec's.
    pub fn clean<A: ArenaHandle>(
        &mut self,
        heap: &mut Heap<A>,
        now: Now,
        entries_max: u64,
    ) -> Result<Cleaned, StateError> {
        let at = self.observe(now);
        let state = self.state.sweep(at);
        let mut cleaned = Cleaned::default();
        while cleaned.visited < entries_max && !cleaned.at_end {
            clean_page(&state, heap, &mut self.cursor, &mut cleaned)?;
        }
        Ok(cleaned)
    }
}

/// Cleans one page and moves the cursor behind it.
fn clean_page<S: Sweep, A: ArenaHandle>(
    state: &S,
    heap: &mut Heap<A>,
    cursor: &mut ScanCursor,
    cleaned: &mut Cleaned,
) -> Result<(), StateError> {
    loop {
        let mut next = *cursor;
        let mut found = Expired::default();
        let more = heap.scan_groups(state.id(), &mut next, &mut |group, key, value| {
            found.visit(group, key, state.has_expired(value));
        })?;
        let removed = found.sweep(state, heap)?;
        cleaned.removed += removed;
        if removed == 0 || !found.has_more {
            cleaned.visited += found.visited;
            cleaned.at_end = !more;
            *cursor = if more { next } else { ScanCursor::default() };
            return Ok(());
        }
    }
}

/// Keys of entries of a page of which something has expired.
#[derive(Default)]
struct Expired {
    /// Key group and key, framed.
    keys: Scratch,
    visited: u64,
    /// Whether some had no room in `keys`.
    has_more: bool,
    failure: Option<StateError>,
}

impl Expired {
    fn visit(&mut self, group: KeyGroup, key: Value<'_>, has_expired: Result<bool, StateError>) {
        self.visited += 1;
        match has_expired {
            Ok(false) => {}
            Ok(true) => self.has_more |= self.push(group, key).is_err(),
            Err(error) => self.failure = Some(error),
        }
    }

    fn push(&mut self, group: KeyGroup, key: Value<'_>) -> Result<(), Full> {
        let mut entry = Scratch::new();
        entry.push(&group.0.to_le_bytes())?;
        key.chunks().try_for_each(|chunk| entry.push(chunk))?;
        self.keys.push_framed(entry.as_slice())
    }

    fn sweep<S: Sweep, A: ArenaHandle>(&self, state: &S, heap: &mut Heap<A>) -> Result<u64, StateError> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        let mut rest = Value::inline(self.keys.as_slice());
        let mut removed = 0;
        while let Some(entry) = take_framed(&mut rest) {
            if let Some((group, key)) = entry.as_slice().and_then(<[u8]>::split_first_chunk) {
                removed += state.sweep(heap, KeyGroup(u16::from_le_bytes(*group)), key)?;
            }
        }
        Ok(removed)
    }
}
