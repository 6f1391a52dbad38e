use core::ops::Deref;

use super::walk::{Element, split};
use super::{InFlight, InlineState, Participant, SegmentRef, Subtask, Vertex};

/// The elements that belong to one element, and what lies behind them: everything up to an element that is
/// not deeper than `depth`.
const fn children(bytes: &[u8]) -> Children<'_> {
    Children { rest: bytes }
}

#[derive(Clone, Copy, Debug)]
struct Children<'a> {
    rest: &'a [u8],
}

impl<'a> Children<'a> {
    /// The next element of just this depth, with the bytes behind it; none at the first of a lower one.
    fn next_at(&mut self, depth: u8) -> Option<(Element<'a>, &'a [u8])> {
        loop {
            let (element, behind) = split(self.rest, 0).ok()?;
            if matches!(element, Element::End) || element.depth() < depth {
                return None;
            }
            self.rest = behind;
            if element.depth() == depth {
                return Some((element, behind));
            }
        }
    }
}

/// A vertex and its subtasks.
#[derive(Clone, Copy, Debug)]
pub struct VertexView<'a> {
    vertex: Vertex<'a>,
    behind: &'a [u8],
}

/// A subtask and its state.
#[derive(Clone, Copy, Debug)]
pub struct SubtaskView<'a> {
    subtask: Subtask,
    behind: &'a [u8],
}

/// A state that lies in the manifest.
#[derive(Clone, Copy, Debug)]
pub struct StateView<'a> {
    state: InlineState<'a>,
    behind: &'a [u8],
}

macro_rules! view {
    ($view:ident -> $field:ident: $target:ty, $($iterator:ident by $method:ident: $doc:literal),*) => {
        impl<'a> Deref for $view<'a> {
            type Target = $target;

            fn deref(&self) -> &Self::Target {
                &self.$field
            }
        }

        impl<'a> $view<'a> {
            $(#[doc = $doc]
            #[must_use]
            pub const fn $method(&self) -> $iterator<'a> {
                $iterator::new(self.behind)
            })*
        }
    };
}

view!(VertexView -> vertex: Vertex<'a>, Subtasks by subtasks: "Its subtasks, ascending by index.");
view!(SubtaskView -> subtask: Subtask,
    Segments by segments: "The files its keyed state lies in, its own segment first.",
    States by states: "Its states that lie in the manifest.");
view!(StateView -> state: InlineState<'a>, Partitions by partitions: "Its partitions.");

impl<'a> SubtaskView<'a> {
    /// What was in flight to it, if anything was captured.
    #[must_use]
    pub fn in_flight(&self) -> Option<InFlight<'a>> {
        let mut children = children(self.behind);
        loop {
            if let (Element::InFlight(in_flight), _) = children.next_at(2)? {
                return Some(in_flight);
            }
        }
    }
}

macro_rules! iterator {
    ($(#[$meta:meta])* $name:ident at $depth:literal -> $item:ty, $element:pat, $behind:ident => $value:expr) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub struct $name<'a>(Children<'a>);

        impl<'a> $name<'a> {
            pub(super) const fn new(bytes: &'a [u8]) -> Self {
                Self(children(bytes))
            }
        }

        impl<'a> Iterator for $name<'a> {
            type Item = $item;

            fn next(&mut self) -> Option<Self::Item> {
                loop {
                    if let ($element, $behind) = self.0.next_at($depth)? {
                        return Some($value);
                    }
                }
            }
        }
    };
}

iterator!(
    /// Iterator over those who take part in a checkpoint beside the subtasks.
    Participants at 0 -> Participant<'a>, Element::Participant(participant), _behind => participant
);
iterator!(
    /// Iterator over the vertices of a manifest.
    Vertices at 0 -> VertexView<'a>, Element::Vertex(vertex), behind => VertexView { vertex, behind }
);
iterator!(
    /// Iterator over the subtasks of a vertex.
    Subtasks at 1 -> SubtaskView<'a>, Element::Subtask(subtask), behind => SubtaskView { subtask, behind }
);
iterator!(
    /// Iterator over the files of a subtask.
    Segments at 2 -> SegmentRef<'a>, Element::Segment(segment), _behind => segment
);
iterator!(
    /// Iterator over the states of a subtask that lie in the manifest.
    States at 2 -> StateView<'a>, Element::State(state), behind => StateView { state, behind }
);
iterator!(
    /// Iterator over the partitions of a state.
    Partitions at 3 -> &'a [u8], Element::Partition(bytes), _behind => bytes
);
