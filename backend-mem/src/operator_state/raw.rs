use slackwater_core::format::segment::Distribution;
use slackwater_core::key_group::{KeyGroup, hash_of_bytes};

use super::list::SplitList;
use crate::arena::ArenaHandle;
use crate::codec::{Bytes, Codec, CodecId, Unencodable};
use crate::heap::{Heap, HeapError, StateId, Value};

/// Bytes of which only the operator knows what they mean.
#[derive(Debug)]
pub struct Raw;

impl Codec for Raw {
    type Item = [u8];

    const ID: CodecId<'static> = CodecId::variable("raw", 1);

    fn encoded<R>(item: &[u8], with: impl FnOnce(&[u8]) -> R) -> Result<R, Unencodable> {
        Ok(with(item))
    }

    fn key_group_hash(item: &[u8]) -> i32 {
        hash_of_bytes(item)
    }
}

/// Partitions of bytes (Flink: raw operator state): [`SplitList::push`] writes one, [`SplitList::value`] reads one.
/// A partition is never divided; it may be as long as any value.
pub type RawOperatorState = SplitList<Raw>;

/// Bytes of an operator for each key group (Flink: raw keyed state).
///
/// They are written before a freeze and read after a restore. In between they take room in the heap unless they
/// are cleared: a snapshot keeps what it has frozen.
#[derive(Clone, Copy, Debug)]
pub struct RawKeyedState {
    id: StateId,
}

/// The parts of a key group's bytes, by place.
const PART: CodecId<'static> = CodecId::fixed("raw-part", 1, 4);

impl RawKeyedState {
    /// Makes the state known to the heap, or finds it there.
    ///
    /// # Errors
    /// As [`Heap::register`].
    pub fn register<A: ArenaHandle>(
        heap: &mut Heap<A>,
        operator: &str,
        name: &str,
    ) -> Result<Self, HeapError> {
        let id = heap.register_distributed(Distribution::ByKey, (operator, name), PART, Bytes::ID)?;
        Ok(Self { id })
    }

    /// The state's id in its heap.
    #[must_use]
    pub const fn id(&self) -> StateId {
        self.id
    }

    /// Appends bytes to those of a key group, as a part of their own: few long parts cost less than many short
    /// ones.
    ///
    /// # Errors
    /// As [`Heap::put`]; nothing is appended then.
    pub fn write<A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        group: KeyGroup,
        bytes: &[u8],
    ) -> Result<(), HeapError> {
        let part = heap.group_len(self.id, group)?;
        heap.put(self.id, group, &part.to_le_bytes(), bytes)
    }

    /// The bytes of a key group as a stream to write to; put a `BufWriter` before it for short writes.
    #[cfg(feature = "std")]
    pub const fn writer<'h, A: ArenaHandle>(
        &self,
        heap: &'h mut Heap<A>,
        group: KeyGroup,
    ) -> RawWriter<'h, A> {
        RawWriter { state: *self, heap, group }
    }

    /// The bytes of a key group, part by part. None for a key group that nothing was written to.
    ///
    /// # Errors
    /// `UnknownState`, `ForeignKeyGroup`.
    pub fn read<'h, A: ArenaHandle>(
        &self,
        heap: &'h Heap<A>,
        group: KeyGroup,
    ) -> Result<RawParts<'h, A>, HeapError> {
        let count = heap.group_len(self.id, group)?;
        Ok(RawParts { state: *self, heap, group, next: 0, count })
    }

    /// Removes the bytes of a key group, the last part first.
    ///
    /// # Errors
    /// As [`Heap::remove`]; some parts may be gone then.
    pub fn clear<A: ArenaHandle>(&self, heap: &mut Heap<A>, group: KeyGroup) -> Result<(), HeapError> {
        for part in (0..heap.group_len(self.id, group)?).rev() {
            heap.remove(self.id, group, &part.to_le_bytes())?;
        }
        Ok(())
    }
}

/// Iterator over the parts of a key group's bytes.
#[derive(Debug)]
pub struct RawParts<'h, A: ArenaHandle> {
    state: RawKeyedState,
    heap: &'h Heap<A>,
    group: KeyGroup,
    next: u32,
    count: u32,
}

impl<'h, A: ArenaHandle> Iterator for RawParts<'h, A> {
    type Item = Value<'h>;

    fn next(&mut self) -> Option<Value<'h>> {
        let part = Some(self.next).filter(|part| *part < self.count)?;
        self.next += 1;
        self.heap.get(self.state.id, self.group, &part.to_le_bytes()).ok()?
    }
}

/// Writes to the bytes of a key group; each write is a part.
#[cfg(feature = "std")]
#[derive(Debug)]
pub struct RawWriter<'h, A: ArenaHandle> {
    state: RawKeyedState,
    heap: &'h mut Heap<A>,
    group: KeyGroup,
}

#[cfg(feature = "std")]
impl<A: ArenaHandle> std::io::Write for RawWriter<'_, A> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.state.write(self.heap, self.group, bytes);
        written.map(|()| bytes.len()).map_err(std::io::Error::other)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
