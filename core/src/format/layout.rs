/// A field of a structure on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Bytes from the start of the structure.
    pub offset: usize,
    /// Its size in bytes.
    pub size: usize,
}

/// A structure on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its name.
    pub name: &'static str,
    /// Its size in bytes.
    pub size: usize,
    /// Its fields in order, without gaps.
    pub fields: &'static [Field],
}

/// Declares a structure on disk: unaligned, little-endian, without padding, with its table of fields.
macro_rules! layout {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $kind:ty,)* }) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq,
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout, zerocopy::Unaligned,
        )]
        #[repr(C)]
        pub struct $name { $($(#[$field_meta])* pub $field: $kind,)* }

        impl $name {
            /// Size in bytes.
            pub const LEN: usize = size_of::<Self>();
            /// The fields and their places.
            pub const LAYOUT: $crate::format::Layout = $crate::format::Layout {
                name: stringify!($name),
                size: Self::LEN,
                fields: &[$($crate::format::Field {
                    name: stringify!($field),
                    offset: core::mem::offset_of!($name, $field),
                    size: size_of::<$kind>(),
                },)*],
            };
        }
    };
}
pub(crate) use layout;
