use super::plain::plain_count;
use super::{for_each_word, is_space};

fn words(text: &[u8]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    for_each_word(text, |word| words.push(word.to_vec()));
    words
}

#[test]
fn a_word_is_a_longest_run_of_anything_but_the_six_spaces() {
    let spaces: Vec<u8> = (0..=u8::MAX).filter(|&byte| is_space(byte)).collect();
    assert_eq!(spaces, b"\t\n\x0b\x0c\r ");
    assert_eq!(words(b" a\x0bb\x0c\r\nc\td  "), [b"a", b"b", b"c", b"d"]);
    assert_eq!(words(b"\0 \xff\xfe\xc2\xa0 \x85"), [&b"\0"[..], b"\xff\xfe\xc2\xa0", b"\x85"]);
    assert_eq!(words(b""), Vec::<Vec<u8>>::new());
    assert_eq!(words(b" \n "), Vec::<Vec<u8>>::new());
}

#[test]
fn the_plain_count_finds_the_same_words() {
    let text = b"one two\x0btwo three\r\nthree \xff three";
    let mut counts = std::collections::BTreeMap::new();
    for_each_word(text, |word| *counts.entry(word.to_vec()).or_insert(0u64) += 1);
    assert_eq!(counts, plain_count(text));
    assert_eq!(counts[&b"three"[..]], 3);
}
