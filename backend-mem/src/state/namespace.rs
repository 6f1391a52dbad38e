use crate::codec::parts::{framing, push, total_width};
use crate::codec::{Codec, CodecId, Decode, Malformed, Name, Scratch, Unencodable};
use crate::heap::Value;

/// What keeps entries of the same key apart, for windows for example: any codec, or `()` for nothing.
///
/// The stored key is the key and the namespace as a tuple of both is encoded, so no two pairs have the same
/// bytes; without a namespace it is the key alone. The key group is always that of the key alone.
pub trait Namespace: 'static {
    /// What names an entry: `&key`, or `(&key, &namespace)`.
    type Key<'a, K: Codec>: Copy;

    /// Names the encoding of stored keys.
    fn key_id<K: Codec>() -> CodecId<'static>;

    /// Lends the hash that picks the key group and the stored key to `with`.
    ///
    /// # Errors
    /// The key or the namespace has no encoding; `with` was not called.
    fn encoded<K: Codec, R>(
        key: Self::Key<'_, K>,
        with: impl FnOnce(i32, &[u8]) -> R,
    ) -> Result<R, Unencodable>;
}

/// A namespace that can be told, with its key, from what is stored.
pub trait DecodeNamespace: Namespace {
    /// The key, or the key and the namespace, owned.
    type Owned<K: Decode>;

    /// Decodes a stored key.
    ///
    /// # Errors
    /// The bytes are not what the codecs write.
    fn decode<K: Decode>(stored: Value<'_>) -> Result<Self::Owned<K>, Malformed>;
}

impl DecodeNamespace for () {
    type Owned<K: Decode> = K::Owned;

    #[inline]
    fn decode<K: Decode>(stored: Value<'_>) -> Result<K::Owned, Malformed> {
        K::decode(&stored)
    }
}

impl<N: Decode> DecodeNamespace for N {
    type Owned<K: Decode> = (K::Owned, N::Owned);

    #[inline]
    fn decode<K: Decode>(stored: Value<'_>) -> Result<Self::Owned<K>, Malformed> {
        let malformed = Malformed { codec: Self::key_id::<K>(), len: stored.len() };
        let mut rest = stored;
        let key = const { framing(&[K::ID, N::ID], 0) }.take(&mut rest).ok_or(malformed)?;
        let namespace = const { framing(&[K::ID, N::ID], 1) }.take(&mut rest).ok_or(malformed)?;
        if !rest.is_empty() {
            return Err(malformed);
        }
        Ok((K::decode(&key)?, <N as Decode>::decode(&namespace)?))
    }
}

/// No namespace.
impl Namespace for () {
    type Key<'a, K: Codec> = &'a K::Item;

    #[inline]
    fn key_id<K: Codec>() -> CodecId<'static> {
        K::ID
    }

    #[inline]
    fn encoded<K: Codec, R>(key: &K::Item, with: impl FnOnce(i32, &[u8]) -> R) -> Result<R, Unencodable> {
        K::encoded(key, |bytes| with(K::key_group_hash(key), bytes))
    }
}

impl<N: Codec> Namespace for N {
    type Key<'a, K: Codec> = (&'a K::Item, &'a N::Item);

    #[inline]
    fn key_id<K: Codec>() -> CodecId<'static> {
        CodecId {
            name: const { &Name::new("", &[K::ID, N::ID]) }.as_str(),
            version: 1,
            width: const { total_width(&[K::ID, N::ID], 0) },
        }
    }

    #[inline]
    fn encoded<K: Codec, R>(
        (key, namespace): (&K::Item, &N::Item),
        with: impl FnOnce(i32, &[u8]) -> R,
    ) -> Result<R, Unencodable> {
        let mut scratch = Scratch::new();
        push::<K>(&mut scratch, key, const { framing(&[K::ID, N::ID], 0) })?;
        push::<N>(&mut scratch, namespace, const { framing(&[K::ID, N::ID], 1) })?;
        Ok(with(K::key_group_hash(key), scratch.as_slice()))
    }
}
