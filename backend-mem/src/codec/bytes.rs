use slackwater_core::key_group::{hash_of_bytes, hash_of_str};

use super::{Codec, CodecId, Unencodable};

/// Byte strings as they are.
#[derive(Debug)]
pub struct Bytes;

impl Codec for Bytes {
    type Item = [u8];

    const ID: CodecId<'static> = CodecId::variable("bytes", 1);

    #[inline]
    fn encoded<R>(item: &[u8], with: impl FnOnce(&[u8]) -> R) -> Result<R, Unencodable> {
        Ok(with(item))
    }

    fn key_group_hash(item: &[u8]) -> i32 {
        hash_of_bytes(item)
    }
}

/// Strings in UTF-8.
#[derive(Debug)]
pub struct Utf8;

impl Codec for Utf8 {
    type Item = str;

    const ID: CodecId<'static> = CodecId::variable("utf8", 1);

    #[inline]
    fn encoded<R>(item: &str, with: impl FnOnce(&[u8]) -> R) -> Result<R, Unencodable> {
        Ok(with(item.as_bytes()))
    }

    fn key_group_hash(item: &str) -> i32 {
        hash_of_str(item)
    }
}

#[cfg(feature = "std")]
mod owned {
    use std::string::String;
    use std::vec::Vec;

    use super::{Bytes, Utf8};
    use crate::codec::{Codec, Decode, Malformed};
    use crate::heap::Value;

    impl Decode for Bytes {
        type Owned = Vec<u8>;

        fn decode(value: &Value<'_>) -> Result<Vec<u8>, Malformed> {
            Ok(value.to_vec())
        }

        fn borrow(owned: &Vec<u8>) -> &[u8] {
            owned
        }
    }

    impl Decode for Utf8 {
        type Owned = String;

        fn decode(value: &Value<'_>) -> Result<String, Malformed> {
            String::from_utf8(Bytes::decode(value)?)
                .map_err(|_| Malformed { codec: Self::ID, len: value.len() })
        }

        fn borrow(owned: &String) -> &str {
            owned
        }
    }
}
