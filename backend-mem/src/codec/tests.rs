use std::string::String;
use std::vec;
use std::vec::Vec;

use slackwater_core::key_group::{hash_of_bytes, hash_of_i32, hash_of_i64, hash_of_str};

use super::*;

fn bytes_of<C: Codec>(item: &C::Item) -> Vec<u8> {
    C::encoded(item, <[u8]>::to_vec)
}

fn back<C: Decode>(bytes: &[u8]) -> Result<C::Owned, Malformed> {
    C::decode(&Value::inline(bytes))
}

#[test]
fn numbers_are_little_endian_and_come_back() {
    assert_eq!(bytes_of::<Plain<i64>>(&-2), [0xfe, 255, 255, 255, 255, 255, 255, 255]);
    assert_eq!(bytes_of::<Plain<u16>>(&0x1234), [0x34, 0x12]);
    assert_eq!(back::<Plain<i64>>(&bytes_of::<Plain<i64>>(&i64::MIN)), Ok(i64::MIN));
    assert_eq!(back::<Plain<f64>>(&bytes_of::<Plain<f64>>(&-0.5)), Ok(-0.5));
    assert_eq!(back::<Plain<u128>>(&bytes_of::<Plain<u128>>(&u128::MAX)), Ok(u128::MAX));
    assert_eq!(back::<Plain<()>>(&bytes_of::<Plain<()>>(&())), Ok(()));
}

#[test]
fn bytes_of_another_codec_are_malformed() {
    assert_eq!(back::<Plain<i32>>(&[1, 2, 3]), Err(Malformed { codec: Plain::<i32>::ID, len: 3 }));
    assert_eq!(back::<Plain<bool>>(&[2]), Err(Malformed { codec: Plain::<bool>::ID, len: 1 }));
    assert_eq!(back::<Utf8>(&[0xff]), Err(Malformed { codec: Utf8::ID, len: 1 }));
    assert_eq!(back::<Plain<bool>>(&[1]), Ok(true));
}

#[test]
fn strings_and_bytes_come_back_as_they_were() {
    assert_eq!(back::<Utf8>(&bytes_of::<Utf8>("w\u{f6}rter")), Ok(String::from("w\u{f6}rter")));
    assert_eq!(back::<Bytes>(&bytes_of::<Bytes>(&[0, 255, 7])), Ok(vec![0, 255, 7]));
}

#[test]
fn keys_hash_as_their_values_do_in_java() {
    assert_eq!(<Plain<i32>>::key_group_hash(&-7), hash_of_i32(-7));
    assert_eq!(<Plain<u32>>::key_group_hash(&u32::MAX), hash_of_i32(-1));
    assert_eq!(<Plain<i64>>::key_group_hash(&(1 << 40)), hash_of_i64(1 << 40));
    assert_eq!(<Plain<bool>>::key_group_hash(&true), 1231);
    assert_eq!(Utf8::key_group_hash("slack"), hash_of_str("slack"));
    assert_eq!(Bytes::key_group_hash(b"water"), hash_of_bytes(b"water"));
}
