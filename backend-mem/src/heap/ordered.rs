//! States whose entries are found in the order of their keys' bytes.

use core::ops::Bound;

use slackwater_core::key_group::KeyGroup;

use super::tree::{Entries, Tree};
use super::{Heap, HeapError, StateId, StateKind, Value};
use crate::arena::ArenaHandle;
use crate::codec::CodecId;

impl<A: ArenaHandle> Heap<A> {
    /// As [`register`](Self::register), for a state whose entries are kept in order. A look-up takes a step for
    /// each level of a tree, a few times what a hash takes.
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub fn register_ordered(
        &mut self,
        operator: &str,
        state: &str,
        key: CodecId<'_>,
        value: CodecId<'_>,
    ) -> Result<StateId, HeapError> {
        self.register_kind(StateKind::Ordered, (operator, state), key, value)
    }

    #[inline]
    fn ordered(&self, state: StateId, group: KeyGroup) -> Result<Tree<'_>, HeapError> {
        let (row, head) = self.walk().row_and_head(state, group)?;
        row.expect(StateKind::Ordered, state)?;
        Ok(Tree::new(self.frames.view(), head))
    }

    /// The value of a key of an ordered state.
    ///
    /// # Errors
    /// `UnknownState`, `OtherKind`, `ForeignKeyGroup`.
    #[inline]
    pub fn ordered_get(
        &self,
        state: StateId,
        group: KeyGroup,
        key: &[u8],
    ) -> Result<Option<Value<'_>>, HeapError> {
        Ok(self.ordered(state, group)?.value(key))
    }

    /// Sets the value of a key of an ordered state and says whether the key is new.
    ///
    /// # Errors
    /// As [`put`](Self::put); the old value stays.
    pub fn ordered_put(
        &mut self,
        state: StateId,
        group: KeyGroup,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, HeapError> {
        Self::check_lengths(key, value)?;
        self.ordered(state, group)?;
        let at = self.open(state, group)?;
        self.tree_put(at, key, value)
    }

    /// Sets the value of a key of a state of any kind.
    #[cfg(feature = "std")]
    pub(crate) fn put_any(
        &mut self,
        state: StateId,
        group: KeyGroup,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), HeapError> {
        match self.walk().row(state)?.kind() {
            StateKind::Hash => self.put(state, group, key, value),
            StateKind::Ordered => self.ordered_put(state, group, key, value).map(|_is_new| ()),
        }
    }

    /// Removes a key of an ordered state and says whether it was there.
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    pub fn ordered_remove(&mut self, state: StateId, group: KeyGroup, key: &[u8]) -> Result<bool, HeapError> {
        if self.ordered(state, group)?.find(key).is_none() {
            return Ok(false);
        }
        let at = self.open(state, group)?;
        self.tree_remove(at, key)
    }

    /// The entries of a key group of an ordered state from a key on, in order. To write in between, drop the
    /// iterator and go on behind the last key.
    ///
    /// # Errors
    /// `UnknownState`, `OtherKind`, `ForeignKeyGroup`.
    pub fn ordered_from(
        &self,
        state: StateId,
        group: KeyGroup,
        from: Bound<&[u8]>,
    ) -> Result<Entries<'_>, HeapError> {
        let tree = self.ordered(state, group)?;
        Ok(match from {
            Bound::Unbounded => Entries::all(tree),
            Bound::Included(key) => Entries::from(tree, key, false),
            Bound::Excluded(key) => Entries::from(tree, key, true),
        })
    }

    /// The entries of a key group of an ordered state whose keys begin with `prefix`, in order.
    ///
    /// # Errors
    /// `UnknownState`, `OtherKind`, `ForeignKeyGroup`.
    #[inline]
    pub fn ordered_within(
        &self,
        state: StateId,
        group: KeyGroup,
        prefix: &[u8],
    ) -> Result<Entries<'_>, HeapError> {
        Ok(Entries::within(self.ordered(state, group)?, prefix))
    }

    /// Removes the first entry of a key group of an ordered state whose key begins with `prefix`, if `take` makes
    /// something of it; it gets the key and the value.
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    pub fn ordered_take_first<R>(
        &mut self,
        state: StateId,
        group: KeyGroup,
        prefix: &[u8],
        take: impl FnOnce(Value<'_>, Value<'_>) -> Option<R>,
    ) -> Result<Option<R>, HeapError> {
        self.ordered_take_first_of_two(state, group, prefix, |key, value, _| take(key, value))
    }

    /// The same, and shows the key behind as well if that lies in the same page.
    pub(crate) fn ordered_take_first_of_two<R>(
        &mut self,
        state: StateId,
        group: KeyGroup,
        prefix: &[u8],
        take: impl FnOnce(Value<'_>, Value<'_>, Option<Value<'_>>) -> Option<R>,
    ) -> Result<Option<R>, HeapError> {
        let tree = self.ordered(state, group)?;
        let mut entries =
            if prefix.is_empty() { Entries::all(tree) } else { Entries::from(tree, prefix, false) };
        let Some((position, (key, value))) = entries.peek_values() else { return Ok(None) };
        let taken = if key.begins_with(prefix) { take(key, value, entries.key_behind()) } else { None };
        if taken.is_some() {
            let path = entries.into_path();
            let at = self.open(state, group)?;
            self.tree_take_out(at, position, &path)?;
        }
        Ok(taken)
    }
}
