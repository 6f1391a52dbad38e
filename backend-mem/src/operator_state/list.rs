use core::marker::PhantomData;

use slackwater_core::format::segment::Distribution;
use slackwater_core::key_group::KeyGroup;

use crate::arena::ArenaHandle;
use crate::codec::{Codec, Decode, Plain};
use crate::heap::{Heap, HeapError, StateId, Value};
use crate::state::{StateError, handle};

/// A list of which each subtask gets a part in a restore (Flink: `ListState` of `getListState`).
pub type SplitList<T> = OperatorList<T, false>;
/// A list of which each subtask gets all in a restore (Flink: `ListState` of `getUnionListState`).
pub type UnionList<T> = OperatorList<T, true>;

/// A list that belongs to a subtask. Elements keep their order, in restores too: a part of a list is a run of it,
/// and lists are joined in the order of the subtasks.
///
/// An element costs as much as an entry of a keyed state with a key of eight bytes.
/// Its entries are not to be changed through the state's id: a segment in which the places of a list have gaps does
/// not verify.
pub struct OperatorList<T: ?Sized, const IS_UNION: bool> {
    id: StateId,
    _codec: PhantomData<fn(&T)>,
}

handle!([T: ?Sized, const IS_UNION: bool] OperatorList[T, IS_UNION] id);

impl<T: Codec + ?Sized, const IS_UNION: bool> OperatorList<T, IS_UNION> {
    /// Makes the list known to the heap, or finds it there.
    ///
    /// # Errors
    /// As [`Heap::register`], or `OtherDistribution` (rule O1).
    pub fn register<A: ArenaHandle>(
        heap: &mut Heap<A>,
        operator: &str,
        name: &str,
    ) -> Result<Self, HeapError> {
        let distribution = if IS_UNION { Distribution::Union } else { Distribution::Split };
        let id = heap.register_distributed(distribution, (operator, name), Plain::<u64>::ID, T::ID)?;
        Ok(Self { id, _codec: PhantomData })
    }

    /// How many elements there are.
    #[must_use]
    pub fn len<A: ArenaHandle>(&self, heap: &Heap<A>) -> u64 {
        heap.len(self.id)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty<A: ArenaHandle>(&self, heap: &Heap<A>) -> bool {
        heap.is_empty(self.id)
    }

    /// Appends an element.
    ///
    /// # Errors
    /// As [`Heap::put`], or an element that cannot be encoded; the list is unchanged then.
    pub fn push<A: ArenaHandle>(&self, heap: &mut Heap<A>, item: &T::Item) -> Result<(), StateError> {
        self.put(heap, self.len(heap), item)
    }

    /// Puts another element in the place of the one at `index`, and says whether there was one.
    ///
    /// # Errors
    /// As [`Heap::put`], or an element that cannot be encoded; the list is unchanged then.
    pub fn set<A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        index: u64,
        item: &T::Item,
    ) -> Result<bool, StateError> {
        let is_there = index < self.len(heap);
        if is_there {
            self.put(heap, index, item)?;
        }
        Ok(is_there)
    }

    /// Puts other elements in the place of all.
    ///
    /// # Errors
    /// As [`Self::push`]; the first elements are then the new ones, the rest the old ones.
    pub fn update<'i, A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        items: impl IntoIterator<Item = &'i T::Item>,
    ) -> Result<(), StateError>
    where
        T::Item: 'i,
    {
        let mut len = 0;
        for item in items {
            self.put(heap, len, item)?;
            len += 1;
        }
        Ok(self.truncate(heap, len)?)
    }

    /// Removes all elements from `len` on, the last one first.
    ///
    /// # Errors
    /// As [`Heap::remove`]; some may be gone then.
    pub fn truncate<A: ArenaHandle>(&self, heap: &mut Heap<A>, len: u64) -> Result<(), HeapError> {
        for index in (len..self.len(heap)).rev() {
            heap.remove(self.id, KeyGroup::NONE, &index.to_le_bytes())?;
        }
        Ok(())
    }

    /// Removes all elements.
    ///
    /// # Errors
    /// As [`Self::truncate`].
    pub fn clear<A: ArenaHandle>(&self, heap: &mut Heap<A>) -> Result<(), HeapError> {
        self.truncate(heap, 0)
    }

    /// The bytes of an element.
    ///
    /// # Errors
    /// As [`Heap::get`].
    pub fn value<'h, A: ArenaHandle>(
        &self,
        heap: &'h Heap<A>,
        index: u64,
    ) -> Result<Option<Value<'h>>, HeapError> {
        heap.get(self.id, KeyGroup::NONE, &index.to_le_bytes())
    }

    fn put<A: ArenaHandle>(&self, heap: &mut Heap<A>, index: u64, item: &T::Item) -> Result<(), StateError> {
        Ok(T::encoded(item, |item| heap.put(self.id, KeyGroup::NONE, &index.to_le_bytes(), item))??)
    }
}

impl<T: Decode + ?Sized, const IS_UNION: bool> OperatorList<T, IS_UNION> {
    /// An element; none if there are fewer.
    ///
    /// # Errors
    /// As [`Heap::get`], or bytes that are not the codec's.
    pub fn get<A: ArenaHandle>(&self, heap: &Heap<A>, index: u64) -> Result<Option<T::Owned>, StateError> {
        let value = self.value(heap, index)?;
        Ok(value.map(|value| T::decode(&value)).transpose()?)
    }

    /// The elements in order. Each costs a look-up.
    pub fn iter<'h, A: ArenaHandle>(
        &self,
        heap: &'h Heap<A>,
    ) -> impl Iterator<Item = Result<T::Owned, StateError>> + use<'h, T, A, IS_UNION> {
        let list = *self;
        (0..self.len(heap)).filter_map(move |index| list.get(heap, index).transpose())
    }
}
