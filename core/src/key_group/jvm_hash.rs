//! `hashCode` of the JVM for the key types whose groups must equal Flink's (rule K4).

/// `Boolean.hashCode`.
#[must_use]
pub const fn hash_of_bool(key: bool) -> i32 {
    if key { 1231 } else { 1237 }
}

/// `Integer.hashCode`.
#[must_use]
pub const fn hash_of_i32(key: i32) -> i32 {
    key
}

/// `Long.hashCode`: the low half xor the high half.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "the low half is what is meant")]
pub const fn hash_of_i64(key: i64) -> i32 {
    (key ^ (key >> 32)) as i32
}

/// `String.hashCode`: over UTF-16 units, as the JVM holds strings.
#[must_use]
pub fn hash_of_str(key: &str) -> i32 {
    key.encode_utf16().fold(0, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// `java.util.Arrays.hashCode(byte[])`: over signed bytes, from 1.
#[must_use]
pub fn hash_of_bytes(key: &[u8]) -> i32 {
    key.iter().fold(1, |hash: i32, byte| hash.wrapping_mul(31).wrapping_add(i32::from(byte.cast_signed())))
}
