//! Version 1 of the files and pages: layouts, total decoders, encoders that stream.
//!
//! Nothing here panics or allocates: any bytes give a value or a [`FormatError`]. Every number is
//! little-endian and of a fixed width; there is no pointer, no `usize` and no unnamed padding. FORMAT.md
//! says the same in prose, and a test holds the two together by [`LAYOUTS`].
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used
    )
)]
#![expect(
    unnameable_types,
    missing_debug_implementations,
    reason = "zerocopy's derives make a type for each field"
)]

pub mod checksum;
mod error;
pub mod in_flight;
mod layout;
pub mod manifest;
pub mod page;
pub mod segment;
mod sink;

pub use error::FormatError;
pub use layout::{Field, Layout};
pub use segment::EncodeError;
pub use sink::{Full, Sink};

/// The version of the format this crate writes and the newest it reads.
pub const VERSION: u16 = 1;
/// The oldest version that it reads.
pub const VERSION_MIN: u16 = 1;

/// Every structure of the format with its fields, for tools that describe the files.
pub const LAYOUTS: &[Layout] = &[
    checksum::Identity::LAYOUT,
    page::PageHeader::LAYOUT,
    page::RecordHead::LAYOUT,
    page::OverflowRef::LAYOUT,
    page::OverflowHead::LAYOUT,
    page::TreeSlot::LAYOUT,
    page::TreeRecordHead::LAYOUT,
    segment::SegmentHeaderLayout::LAYOUT,
    segment::SectionHead::LAYOUT,
    segment::IndexRow::LAYOUT,
    segment::ChunkHead::LAYOUT,
    segment::FooterHead::LAYOUT,
    segment::KeyGroupRow::LAYOUT,
    segment::StateHead::LAYOUT,
    segment::SegmentTrailerLayout::LAYOUT,
    manifest::ManifestHeaderLayout::LAYOUT,
    manifest::ElementHead::LAYOUT,
    manifest::ParticipantElement::LAYOUT,
    manifest::VertexElement::LAYOUT,
    manifest::SubtaskElement::LAYOUT,
    manifest::SegmentElement::LAYOUT,
    manifest::InFlightElement::LAYOUT,
    manifest::StateElement::LAYOUT,
    manifest::ManifestTail::LAYOUT,
    in_flight::InFlightHeaderLayout::LAYOUT,
    in_flight::ChannelRow::LAYOUT,
    in_flight::BatchHead::LAYOUT,
    in_flight::InFlightTail::LAYOUT,
];
