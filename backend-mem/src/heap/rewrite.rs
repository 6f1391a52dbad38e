//! Giving a state's values another codec.

use core::ops::Bound;
use std::vec::Vec;

use slackwater_core::key_group::KeyGroup;

use super::{Heap, HeapError, ScanCursor, StateId, StateKind, Value};
use crate::arena::ArenaHandle;
use crate::codec::CodecId;

#[cfg(test)]
mod tests;

/// What the values are said to be while some of them are rewritten. Nobody can register that.
const HALF_REWRITTEN: &str = "half rewritten";

/// Gets a value and lends what takes its place.
pub type Rewriting<'r, E> = dyn FnMut(Value<'_>, &mut dyn FnMut(&[u8])) -> Result<(), E> + 'r;

/// Keys and rewritten values of a key group.
type Rewritten = Vec<(Vec<u8>, Vec<u8>)>;

impl<A: ArenaHandle> Heap<A> {
    /// Rewrites all values of a state, for another codec, and gives their number. `rewrite` lends the new value of
    /// each.
    ///
    /// For a heap that was just restored, all of it. Work: every entry is read and put once. Memory: the entries
    /// of one key group, a second time.
    ///
    /// # Errors
    /// `NotRestored` while a restore has yet to bring a key group; nothing has changed then. `UnknownState`, `NameTooLong`,
    /// `MemoryLimit`, or what `rewrite` says: the state then holds values of both codecs and is no use any more, its
    /// values' codec has the name "half rewritten".
    pub fn rewrite_values<E: From<HeapError>>(
        &mut self,
        state: StateId,
        codec: CodecId<'_>,
        rewrite: &mut Rewriting<'_, E>,
    ) -> Result<u64, E> {
        let kind = self.walk().row(state)?.kind();
        self.check_all_are_there()?;
        // The width is the new one from the start: pages say themselves how wide the old values are.
        self.set_value_codec(state, CodecId { name: HALF_REWRITTEN, version: 0, width: codec.width })?;
        let mut count = 0;
        for group in self.walk().groups_of(state).iter() {
            if self.walk().head(state, group)?.entries.get() == 0 {
                continue;
            }
            let entries = match kind {
                StateKind::Hash => self.take_rewritten(state, group, rewrite)?,
                StateKind::Ordered => self.rewritten_in_order(state, group, rewrite)?,
            };
            for (key, value) in &entries {
                match kind {
                    StateKind::Hash => self.put(state, group, key, value)?,
                    StateKind::Ordered => self.ordered_put(state, group, key, value).map(|_| ())?,
                }
            }
            count += entries.len() as u64;
        }
        self.set_value_codec(state, codec)?;
        Ok(count)
    }

    /// Takes the entries out, since their pages may have no room for the new ones.
    fn take_rewritten<E: From<HeapError>>(
        &mut self,
        state: StateId,
        group: KeyGroup,
        rewrite: &mut Rewriting<'_, E>,
    ) -> Result<Rewritten, E> {
        let (mut entries, mut failure) = (Rewritten::new(), None);
        let groups_done = group.0.wrapping_sub(self.walk().groups_of(state).first.0);
        let mut cursor = ScanCursor { groups_done, position: 0 };
        while cursor.groups_done == groups_done && failure.is_none() {
            self.scan(state, &mut cursor, &mut |key, value| match rewritten(key, value, rewrite) {
                Ok(entry) => entries.push(entry),
                Err(error) => failure = Some(error),
            })?;
        }
        if let Some(error) = failure {
            return Err(error);
        }
        let at = self.open(state, group)?;
        let count = i64::from(self.head(at).entries.get());
        self.count_many(at, -count)?;
        self.clear(at)?;
        Ok(entries)
    }

    fn rewritten_in_order<E: From<HeapError>>(
        &self,
        state: StateId,
        group: KeyGroup,
        rewrite: &mut Rewriting<'_, E>,
    ) -> Result<Rewritten, E> {
        let entries = self.ordered_from(state, group, Bound::Unbounded)?;
        entries.map(|(key, value)| rewritten(key, value, rewrite)).collect()
    }
}

fn rewritten<E>(
    key: Value<'_>,
    value: Value<'_>,
    rewrite: &mut Rewriting<'_, E>,
) -> Result<(Vec<u8>, Vec<u8>), E> {
    let mut new = Vec::new();
    rewrite(value, &mut |bytes| new = bytes.to_vec())?;
    Ok((key.to_vec(), new))
}
