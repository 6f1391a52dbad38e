use std::collections::BTreeMap;
use std::string::String;
use std::vec;
use std::vec::Vec;

use slackwater_core::key_group::{hash_of_bytes, hash_of_i32, hash_of_i64, hash_of_str};

use super::*;

fn bytes_of<C: Codec>(item: &C::Item) -> Vec<u8> {
    C::encoded(item, <[u8]>::to_vec).unwrap()
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

type Pair = (Plain<i64>, Utf8);
type Names = (Utf8, Bytes, Plain<u16>);

#[test]
fn a_tuple_names_its_parts_and_their_versions() {
    assert_eq!(Pair::ID, CodecId::variable("(i64.1,utf8.1)", 1));
    assert_eq!(<(Plain<u8>, Plain<f64>)>::ID, CodecId::fixed("(u8.1,f64.1)", 1, 9));
    let nested = <(Plain<()>, (Plain<u8>, Plain<bool>), Option<Bytes>)>::ID;
    assert_eq!(nested, CodecId::variable("(unit.1,(u8.1,bool.1).1,option(bytes.1).1)", 1));
    struct Other;
    impl Codec for Other {
        type Item = ();
        const ID: CodecId<'static> = CodecId::variable("other", 65_535);
        fn encoded<R>((): &(), with: impl FnOnce(&[u8]) -> R) -> Result<R, Unencodable> {
            Ok(with(b"other"))
        }
        fn key_group_hash((): &()) -> i32 {
            0
        }
    }
    assert_eq!(Name::new("list", &[Other::ID]).as_str(), "list(other.65535)");
}

#[test]
fn a_tuple_needs_a_length_only_where_several_parts_have_any() {
    assert_eq!(bytes_of::<Pair>(&(1, "ab".into())), [1, 0, 0, 0, 0, 0, 0, 0, b'a', b'b']);
    assert_eq!(bytes_of::<(Utf8, Plain<u8>)>(&("ab".into(), 9)), [b'a', b'b', 9]);
    assert_eq!(bytes_of::<(Utf8, Plain<()>)>(&("ab".into(), ())), b"ab");
    assert_eq!(bytes_of::<Names>(&("ab".into(), vec![7], 3)), [2, b'a', b'b', 7, 3, 0]);
}

#[test]
fn tuples_come_back_whatever_their_length() {
    for len in [0, 1, 127, 128, 255, 256, 257, 70_000] {
        let item = ("x".repeat(len), vec![5; len], 65_535);
        assert_eq!(back::<Names>(&bytes_of::<Names>(&item)), Ok(item));
    }
    let nested = (Some(String::from("a")), (7_u8, vec![1, 2]));
    assert_eq!(
        back::<(Option<Utf8>, (Plain<u8>, Bytes))>(&bytes_of::<(Option<Utf8>, (Plain<u8>, Bytes))>(&nested)),
        Ok(nested)
    );
    assert_eq!(back::<Option<Plain<u8>>>(&bytes_of::<Option<Plain<u8>>>(&None)), Ok(None));
}

#[test]
fn different_tuples_have_different_bytes() {
    let texts = ["", "a", "ab", "b", "\u{1}", "\u{1}a", "\u{2}ab"];
    let mut seen = BTreeMap::new();
    for number in 0..343 {
        let [first, second, third] = [number % 7, number / 7 % 7, number / 49].map(|at| texts[at]);
        let bytes = bytes_of::<(Utf8, Utf8, Utf8)>(&(first.into(), second.into(), third.into()));
        assert_eq!(seen.insert(bytes, number), None, "{first:?} {second:?} {third:?}");
    }
}

#[test]
fn bytes_that_are_no_tuple_are_malformed() {
    let malformed = |len| Malformed { codec: Names::ID, len };
    assert_eq!(back::<Names>(&[]), Err(malformed(0)));
    assert_eq!(back::<Names>(&[3, b'a', b'b']), Err(malformed(3)));
    assert_eq!(back::<Names>(&[0, 1]), Err(malformed(2)));
    assert_eq!(back::<Names>(&[0x80, 0, 1, 2]), Err(malformed(4)));
    assert_eq!(back::<Names>(&[1, 0xff, 1, 2]), Err(Malformed { codec: Utf8::ID, len: 1 }));
    let too_long = back::<(Plain<u8>, Plain<u8>)>(&[1, 2, 3]);
    assert_eq!(too_long, Err(Malformed { codec: <(Plain<u8>, Plain<u8>)>::ID, len: 3 }));
    assert_eq!(back::<Option<Plain<u8>>>(&[2]), Err(Malformed { codec: Option::<Plain<u8>>::ID, len: 1 }));
    assert_eq!(back::<Option<Plain<u8>>>(&[0, 1]), Err(Malformed { codec: Option::<Plain<u8>>::ID, len: 2 }));
}

#[test]
fn tuples_hash_as_those_of_flink() {
    // Tuple2.hashCode: 31 * f0.hashCode() + f1.hashCode().
    assert_eq!(<(Plain<i32>, Utf8)>::key_group_hash(&(7, "a".into())), 31 * 7 + 97);
    assert_eq!(
        <(Utf8, Utf8, Plain<i64>)>::key_group_hash(&("a".into(), "b".into(), -1)),
        (97 * 31 + 98) * 31
    );
    assert_eq!(Option::<Utf8>::key_group_hash(&None), 0);
    assert_eq!(Option::<Utf8>::key_group_hash(&Some("a".into())), 97);
}

#[test]
fn a_codec_whose_items_have_not_its_width_is_refused_in_a_tuple() {
    struct Liar;
    impl Codec for Liar {
        type Item = u8;
        const ID: CodecId<'static> = CodecId::fixed("liar", 1, 2);
        fn encoded<R>(item: &u8, with: impl FnOnce(&[u8]) -> R) -> Result<R, Unencodable> {
            Ok(with(&[*item]))
        }
        fn key_group_hash(item: &u8) -> i32 {
            i32::from(*item)
        }
    }
    impl Decode for Liar {
        type Owned = u8;
        fn decode(value: &Value<'_>) -> Result<u8, Malformed> {
            Err(Malformed { codec: Self::ID, len: value.len() })
        }
        fn borrow(owned: &u8) -> &u8 {
            owned
        }
    }
    let refused = <(Liar, Plain<u8>)>::encoded(&(1, 2), |_| ()).unwrap_err();
    assert_eq!(
        std::string::ToString::to_string(&refused),
        "codec liar version 1 cannot encode an item: its length is not the width of its codec"
    );
}
