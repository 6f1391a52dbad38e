//! The names and codecs of a heap's states.

use slackwater_core::format::segment::{Distribution, WIDTH_ANY};

use super::group::BROKEN;
use super::page::Fixed;
use super::tables::{LIST_AT, NAMES_AT, ROW_LEN, StateRow, Walk, state_at};
use super::{Heap, HeapError, StateId, StateKind};
use crate::arena::{ArenaHandle, FrameId};
use crate::codec::CodecId;
use crate::snapshot::StateView;
use zerocopy::IntoBytes;

/// The longest name of an operator, a state or a codec, in bytes.
const NAME_LEN_MAX: usize = 1024;
/// As many as there are ids.
const STATES_MAX: usize = 1 << 16;

impl<'a> Walk<'a> {
    /// A registered state.
    pub(crate) fn state(self, id: StateId) -> Option<StateView<'a>> {
        let run = self.description(id);
        let number =
            |index: usize| self.frames.part(run, index * 2, 2).try_into().map_or(0, u16::from_le_bytes);
        let mut offset = NAMES_AT;
        let mut name = |len: u16| {
            let len = usize::from(len);
            let bytes = self.frames.part(run, offset, len);
            offset += len;
            core::str::from_utf8(bytes).ok()
        };
        let width = |width: u16| Some(width).filter(|width| *width != WIDTH_ANY);
        Some(StateView {
            id,
            distribution: Distribution::from_number(self.row(id).ok()?.distribution)?,
            operator: name(number(0))?,
            name: name(number(1))?,
            key: CodecId { name: name(number(2))?, version: number(3), width: width(number(6)) },
            value: CodecId { name: name(number(4))?, version: number(5), width: width(number(7)) },
            kind: self.row(id).ok()?.kind(),
            entries: self.entries(id),
        })
    }

    /// The state of that name.
    pub(super) fn state_named(self, operator: &str, name: &str) -> Option<StateView<'a>> {
        let lens = [operator.len(), name.len()].map(u16::try_from);
        let [Ok(operator_len), Ok(name_len)] = lens else { return None };
        let [operator_len, name_len] = [operator_len, name_len].map(u16::to_le_bytes);
        let is_named = |id: &StateId| {
            let run = self.description(*id);
            self.frames.part(run, 0, 4) == [operator_len, name_len].as_flattened()
                && self.frames.part(run, NAMES_AT, operator.len()) == operator.as_bytes()
                && self.frames.part(run, NAMES_AT + operator.len(), name.len()) == name.as_bytes()
        };
        self.state_ids().find(is_named).and_then(|id| self.state(id))
    }

    /// The ids of all registered states.
    pub(crate) fn state_ids(self) -> impl Iterator<Item = StateId> + Clone {
        (0..self.states()).map_while(|id| u16::try_from(id).ok().map(StateId))
    }

    /// All registered states.
    pub(crate) fn all_states(self) -> impl Iterator<Item = StateView<'a>> + Clone {
        self.state_ids().filter_map(move |id| self.state(id))
    }
}

impl<A: ArenaHandle> Heap<A> {
    /// As [`Heap::register`], for a state of another kind or one whose entries are given out in another way in a
    /// restore, named by operator and name. One that is not kept by key has all its entries in [`KeyGroup::NONE`]; a
    /// list has them under their places.
    ///
    /// # Errors
    /// As [`Heap::register`].
    ///
    /// [`KeyGroup::NONE`]: slackwater_core::key_group::KeyGroup::NONE
    pub(crate) fn register_as(
        &mut self,
        (kind, distribution): (StateKind, Distribution),
        (operator, state): (&str, &str),
        key: CodecId<'_>,
        value: CodecId<'_>,
    ) -> Result<StateId, HeapError> {
        let Some(known) = self.walk().state_named(operator, state) else {
            return self.add_state((kind, distribution), (operator, state), key, value);
        };
        let state = known.id;
        match known {
            known if known.kind != kind => Err(HeapError::OtherKind { state, kind: known.kind }),
            known if known.distribution != distribution => Err(HeapError::OtherDistribution { state }),
            known if known.key != key => Err(HeapError::OtherCodec { state, key: true }),
            known if known.value != value => Err(HeapError::OtherCodec { state, key: false }),
            _ => Ok(state),
        }
    }

    /// As [`Heap::register`], for a state that is not kept by key.
    ///
    /// # Errors
    /// As [`Heap::register`].
    pub(crate) fn register_distributed(
        &mut self,
        distribution: Distribution,
        name: (&str, &str),
        key: CodecId<'_>,
        value: CodecId<'_>,
    ) -> Result<StateId, HeapError> {
        self.register_as((StateKind::Hash, distribution), name, key, value)
    }

    pub(super) fn add_state(
        &mut self,
        (kind, distribution): (StateKind, Distribution),
        (operator, state): (&str, &str),
        key: CodecId<'_>,
        value: CodecId<'_>,
    ) -> Result<StateId, HeapError> {
        let count = self.walk().states();
        let Ok(id) = u16::try_from(count).map(StateId) else {
            return Err(HeapError::TooManyStates { count_max: STATES_MAX });
        };
        Self::check_names([operator, state, key.name, value.name])?;
        self.widen_root(count)?;
        let run = self.new_description([operator, state], key, value)?;
        self.set_row(id, (kind, distribution), (run, FrameId::NONE), (key.width, value.width))?;
        self.set_number(self.root, 0, count + 1)?;
        Ok(id)
    }

    /// Gives a state's values another codec. Its entries must be written anew.
    #[cfg(feature = "std")]
    pub(super) fn set_value_codec(&mut self, id: StateId, value: CodecId<'_>) -> Result<(), HeapError> {
        let known = self.walk().state(id).ok_or(HeapError::UnknownState { state: id })?;
        let (kept_as, key_width) = ((known.kind, known.distribution), known.key.width);
        let names = [known.operator, known.name, known.key.name].map(std::string::String::from);
        let [operator, name, key_name] = &names;
        let key = CodecId { name: key_name, version: known.key.version, width: key_width };
        Self::check_names([value.name; 4])?;
        self.root = self.frames.make_writable(self.root)?;
        let run = self.new_description([operator, name], key, value)?;
        let (old, table) = (self.walk().description(id), self.walk().table(id));
        self.set_row(id, kept_as, (run, table), (key_width, value.width))?;
        self.frames.retire(old);
        self.refresh_near(id);
        Ok(())
    }

    fn check_names(names: [&str; 4]) -> Result<(), HeapError> {
        match names.into_iter().find(|name| name.len() > NAME_LEN_MAX) {
            Some(name) => Err(HeapError::NameTooLong { len: name.len(), len_max: NAME_LEN_MAX }),
            None => Ok(()),
        }
    }

    /// Writes a description.
    fn new_description(
        &mut self,
        [operator, state]: [&str; 2],
        key: CodecId<'_>,
        value: CodecId<'_>,
    ) -> Result<FrameId, HeapError> {
        let names = [operator, state, key.name, value.name];
        let bytes = NAMES_AT + names.iter().map(|name| name.len()).sum::<usize>();
        let run = self.frames.take_zeroed(self.order_of_bytes(bytes))?;
        let lens = names.map(|name| u16::try_from(name.len()).unwrap_or(0));
        let [operator_len, state_len, key_len, value_len] = lens;
        let [key_width, value_width] = [key, value].map(|codec| codec.width.unwrap_or(WIDTH_ANY));
        let numbers =
            [operator_len, state_len, key_len, key.version, value_len, value.version, key_width, value_width];
        self.describe(run, numbers, names).ok_or(BROKEN)?;
        Ok(run)
    }

    /// Makes the root writable, with room for one more state than there are.
    fn widen_root(&mut self, count: u32) -> Result<(), HeapError> {
        let order = |states: u32| self.order_of_bytes(LIST_AT + ROW_LEN * states as usize);
        self.root = if order(count + 1) == order(count) {
            self.frames.make_writable(self.root)?
        } else {
            self.enlarge(self.root, order(count + 1))?
        };
        Ok(())
    }

    /// Writes the state's row into the writable root.
    fn set_row(
        &mut self,
        id: StateId,
        (kind, distribution): (StateKind, Distribution),
        (description, table): (FrameId, FrameId),
        (key_width, value_width): (Option<u16>, Option<u16>),
    ) -> Result<(), HeapError> {
        let frame_size = self.frames.geometry().frame_size();
        let fixed = match kind {
            StateKind::Hash => Fixed::of_widths(frame_size, key_width, value_width),
            StateKind::Ordered => None,
        };
        let width = |width: Option<u16>| width.filter(|_| fixed.is_some()).unwrap_or(0);
        let row = StateRow {
            description: description.0.into(),
            table: table.0.into(),
            kind: kind.number(),
            distribution: distribution.number(),
            slots: fixed.and_then(|fixed| u16::try_from(fixed.slots()).ok()).unwrap_or(0).into(),
            key_width: width(key_width).into(),
            value_width: width(value_width).into(),
        };
        let place = state_at(id)..state_at(id) + ROW_LEN;
        let root = self.frames.write(self.root).and_then(|root| root.get_mut(place)).ok_or(BROKEN)?;
        row.write_to(root).map_err(|_| BROKEN)
    }

    fn describe(&mut self, run: FrameId, numbers: [u16; 8], names: [&str; 4]) -> Option<()> {
        let (head, mut rest) = self.frames.write(run)?.split_at_mut_checked(NAMES_AT)?;
        for (place, number) in head.chunks_exact_mut(2).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        for name in names {
            let (place, behind) = rest.split_at_mut_checked(name.len())?;
            place.copy_from_slice(name.as_bytes());
            rest = behind;
        }
        Some(())
    }
}
