//! Any file has words, whatever it holds.

use std::fs;

use crate::support::{Place, assert_exact, program, told};

/// Counts these texts, each a file of its own.
#[track_caller]
fn counted(texts: &[&[u8]]) {
    let place = Place::new(b"");
    let mut command = program();
    command.arg("wordcount").arg("--dir").arg(place.dir()).arg("--json");
    for (index, text) in texts.iter().enumerate() {
        let path = place.path(&format!("{index}.txt"));
        fs::write(&path, text).unwrap();
        command.arg(path);
    }
    let report = told(&mut command).fine().json();
    assert_exact(&place.output(), texts, "final");
    let mut expected = std::collections::BTreeMap::new();
    texts.iter().for_each(|text| slackwater::word_count::plain::add_counts(&mut expected, text));
    assert_eq!(report["words"], expected.values().sum::<u64>());
    assert_eq!(report["distinct"], expected.len());
}

#[test]
fn nul_bytes_and_invalid_utf8_are_words_like_others() {
    counted(&[b"a\0b \0 \0\0\n\xff\xfe \xc3( \xff\xfe a\0b\n", b"\0"]);
}

#[test]
fn words_of_a_megabyte_are_counted() {
    let long = vec![b'x'; 1 << 20];
    counted(&[&[&long[..], b" ", &long[..], b"y\n", &long[..]].concat()]);
}

#[test]
fn files_without_words_and_without_a_last_newline_are_fine() {
    counted(&[b""]);
    counted(&[b" \t\n\x0b\x0c\r  \n\n"]);
    counted(&[b"", b"one", b"   ", b"one two\r\n", b"\n"]);
}

#[test]
fn words_do_not_go_on_in_the_next_file() {
    counted(&[b"tide", b"water", b"tide water"]);
}

#[test]
fn an_input_given_twice_counts_twice() {
    let place = Place::new(b"the tide the moon");
    told(place.command(&["--json"]).arg(place.input())).fine();
    assert_exact(&place.output(), &[&place.text, &place.text], "final");
}

#[test]
fn a_word_longer_than_a_key_is_refused_with_its_place() {
    let mut text = b"short words first ".to_vec();
    text.resize(text.len() + (16 << 20) + 1, b'x');
    let place = Place::new(&text);
    place.wordcount(&[]).refused(3, &["input.txt", "byte 18", "16777216"]);
}
