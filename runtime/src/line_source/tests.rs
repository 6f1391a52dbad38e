use std::collections::BTreeMap;

use super::{LineOptions, LineSource, RecordedSplit};
use crate::inputs::Inputs;
use crate::operator::{Source, SourceStatus};
use crate::output::{Output, Receive};

/// Takes a few records per call, then is full.
struct Narrow<'a> {
    lines: &'a mut Vec<Vec<u8>>,
    room: usize,
}

impl Receive<[u8]> for Narrow<'_> {
    fn receive(&mut self, record: &[u8]) {
        self.lines.push(record.to_vec());
        self.room -= 1;
    }

    fn has_room(&self) -> bool {
        self.room > 0
    }
}

fn inputs(texts: &[&[u8]]) -> Inputs {
    let named = texts.iter().enumerate().map(|(n, text)| (n.to_string(), *text));
    Inputs::in_memory(named).expect("memory can be read")
}

fn small(chunk_len: usize, split_len_min: u64) -> LineOptions {
    LineOptions { chunk_len, split_len_min, ..LineOptions::default() }
}

fn read_once(source: &mut LineSource, lines: &mut Vec<Vec<u8>>, room: usize) -> Result<SourceStatus, String> {
    source.read(&mut Output::new(&mut Narrow { lines, room })).map_err(|error| error.to_string())
}

fn read_all(source: &mut LineSource, lines: &mut Vec<Vec<u8>>) -> Result<(), String> {
    while read_once(source, lines, 3)? == SourceStatus::More {}
    Ok(())
}

/// The lines of the text as a plain reader would give them, counted.
fn counted<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> BTreeMap<Vec<u8>, usize> {
    let mut counts = BTreeMap::new();
    for line in lines {
        *counts.entry(line.to_vec()).or_default() += 1;
    }
    counts
}

fn plain_lines(text: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    lines.pop_if(|last| last.is_empty());
    lines
}

/// A small generator with a fixed seed; texts with many newlines, NUL and bytes that are no UTF-8.
struct Texts(u64);

impl Texts {
    fn below(&mut self, bound: u64) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound).unwrap()
    }

    fn text(&mut self, len_max: u64) -> Vec<u8> {
        let alphabet = [b'\n', b'a', b' ', b'\n', 0, 0xff, b'\r'];
        let sparse = self.below(3) as u64;
        (0..self.below(len_max)).map(|_| alphabet[self.below(4 + sparse)]).collect()
    }
}

#[test]
fn every_line_is_read_once_whatever_the_splits_and_chunks() {
    let mut random = Texts(0x5eed);
    for round in 0..600 {
        let texts: Vec<Vec<u8>> = (0..=random.below(3)).map(|_| random.text(90)).collect();
        let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        let parallelism = u16::try_from(1 + random.below(5)).unwrap();
        let options = small(1 + random.below(20), 1 + random.below(30) as u64);
        let (mut lines, mut bytes_read) = (Vec::new(), 0);
        for index in 0..parallelism {
            let mut source = LineSource::new(inputs(&texts), options, index, parallelism);
            read_all(&mut source, &mut lines).unwrap();
            bytes_read += source.bytes_read();
        }
        let expected = counted(texts.iter().flat_map(|text| plain_lines(text)));
        assert_eq!(counted(lines.iter().map(Vec::as_slice)), expected, "round {round} {texts:?} {options:?}");
        assert_eq!(bytes_read, inputs(&texts).total_bytes());
    }
}

#[test]
fn a_restore_at_any_position_and_another_parallelism_loses_and_repeats_nothing() {
    let mut random = Texts(0xfeed);
    for round in 0..40 {
        let texts = [random.text(120), random.text(60)];
        let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        let options = small(1 + random.below(20), 1 + random.below(30) as u64);
        let expected = counted(texts.iter().flat_map(|text| plain_lines(text)));
        for stop_after in 0.. {
            let mut lines = Vec::new();
            let mut sources = [0, 1].map(|index| LineSource::new(inputs(&texts), options, index, 2));
            let mut more = false;
            for source in &mut sources {
                more |= (0..stop_after).all(|_| read_once(source, &mut lines, 1) == Ok(SourceStatus::More));
            }
            let partitions: Vec<Vec<u8>> = sources.iter_mut().flat_map(Source::snapshot).collect();
            for index in 0..3 {
                let mut source = LineSource::new(inputs(&texts), options, 2, 3);
                source.restore(partitions.iter().skip(index).step_by(3).cloned().collect()).unwrap();
                read_all(&mut source, &mut lines).unwrap();
            }
            assert_eq!(
                counted(lines.iter().map(Vec::as_slice)),
                expected,
                "round {round}, stop {stop_after}"
            );
            if !more {
                break;
            }
        }
    }
}

/// Reads `then` to its end, then `now` from there on; gives what was read, or the refusal.
fn read_grown(then: &[u8], now: &[u8], options: LineOptions) -> Result<Vec<Vec<u8>>, String> {
    let mut lines = Vec::new();
    let mut partitions = Vec::new();
    for index in 0..2 {
        let mut source = LineSource::new(inputs(&[then]), options, index, 2);
        read_all(&mut source, &mut lines)?;
        partitions.extend(source.snapshot());
    }
    let mut source = LineSource::new(inputs(&[now]), options, 0, 1);
    source.restore(partitions).map_err(|error| error.to_string())?;
    read_all(&mut source, &mut lines)?;
    lines.sort();
    Ok(lines)
}

fn sorted(text: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = plain_lines(text).into_iter().map(<[u8]>::to_vec).collect();
    lines.sort();
    lines
}

#[test]
fn what_an_input_has_grown_by_is_read() {
    for split_len_min in [1, 3, 100] {
        let options = small(4, split_len_min);
        for (then, added) in [
            (&b""[..], &b"a\nb"[..]),
            (b"one\ntwo\n", b"three"),
            (b"one\ntwo\n", b"three\nfour\n\n"),
            (b"one\n\n\n", b"\n\n"),
            (b"one\ntwo", b"\nthree"),
            (b"one long line", b"\n"),
            (b"one long line", b"\nsecond\n"),
        ] {
            let now = [then, added].concat();
            assert_eq!(read_grown(then, &now, options), Ok(sorted(&now)), "{split_len_min} {then:?}");
        }
    }
}

#[test]
fn a_last_line_that_goes_on_after_it_was_read_is_refused() {
    for split_len_min in [1, 3, 100] {
        let error = read_grown(b"one\ntwo", b"one\ntwofold\n", small(4, split_len_min)).unwrap_err();
        assert!(
            error.starts_with("input `0` has grown in the middle of its last line, at byte 7"),
            "{error}"
        );
    }
}

#[test]
fn a_last_line_may_go_on_at_a_place_where_it_may_be_cut() {
    let options = LineOptions { cut_long_lines_at: Some(|byte| byte == b' '), ..small(4, 1) };
    for (then, now) in [(&b"one two"[..], &b"one two three"[..]), (b"one two ", b"one two three")] {
        let lines = read_grown(then, now, options).unwrap();
        let words = counted(lines.iter().flat_map(|line| line.split(|&byte| byte == b' ')));
        assert_eq!(words.get(&b"three"[..]), Some(&1));
        assert_eq!(words.get(&b"two"[..]), Some(&1));
    }
    read_grown(b"one two", b"one twofold", options).unwrap_err();
}

#[test]
fn an_input_changed_before_the_position_is_refused_by_the_digest_of_the_window() {
    // The change lies outside the head and the tail of the input, just before the position.
    let text = b"0123456\n".repeat(40_000);
    let mut source = LineSource::new(inputs(&[&text]), small(1 << 16, 1 << 30), 0, 1);
    let mut lines = Vec::new();
    for _ in 0..2 {
        read_once(&mut source, &mut lines, usize::MAX).unwrap();
    }
    let partitions = source.snapshot();
    assert_eq!(lines.len(), 2 << 13);
    let mut changed = text;
    changed[(2 << 16) - 5] ^= 1;
    let mut source = LineSource::new(inputs(&[&changed]), small(1 << 16, 1 << 30), 0, 1);
    let error = source.restore(partitions).unwrap_err().to_string();
    assert!(
        error.starts_with("input `0` has changed since the checkpoint, in bytes 65536 to 131072"),
        "{error}"
    );
}

#[test]
fn other_inputs_and_damaged_positions_are_refused() {
    let mut source = LineSource::new(inputs(&[b"a\n", b"b\n"]), LineOptions::default(), 0, 1);
    let partitions = source.snapshot();
    let mut fewer = LineSource::new(inputs(&[b"a\n"]), LineOptions::default(), 0, 1);
    let error = fewer.restore(partitions.clone()).unwrap_err().to_string();
    assert!(error.starts_with("the checkpoint was taken over 2 input(s), now 1 are given"), "{error}");
    let mut swapped = LineSource::new(inputs(&[b"b\n", b"a\n"]), LineOptions::default(), 0, 1);
    assert!(swapped.restore(partitions.clone()).unwrap_err().to_string().contains("`0` has changed"));

    let good = &partitions[0];
    assert_eq!(RecordedSplit::decode(good).unwrap().encode(), *good);
    for len in 0..good.len() {
        RecordedSplit::decode(&good[..len]).unwrap_err();
    }
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] = 0xee;
        source
            .restore(vec![bad])
            .map_or_else(|_refused| (), |()| drop(read_all(&mut source, &mut Vec::new())));
    }
}

#[test]
fn a_long_line_is_held_only_up_to_its_next_break_if_it_may_be_cut() {
    let text = [b"word ".repeat(50_000), b"\nend".to_vec()].concat();
    let options = LineOptions { cut_long_lines_at: Some(|byte| byte == b' '), ..small(1000, 1 << 30) };
    let mut source = LineSource::new(inputs(&[&text]), options, 0, 1);
    let mut lines = Vec::new();
    read_all(&mut source, &mut lines).unwrap();
    assert!(lines.iter().all(|line| line.len() <= 2000));
    let words = counted(lines.iter().flat_map(|line| line.split(|&byte| byte == b' ')));
    assert_eq!((words[&b"word"[..]], words[&b"end"[..]]), (50_000, 1));
}

#[test]
fn a_long_line_comes_whole_if_it_may_not_be_cut() {
    let text = [vec![0xffu8; 3 << 20], b"\nshort".to_vec()].concat();
    let mut lines = Vec::new();
    for index in 0..2 {
        let mut source = LineSource::new(inputs(&[&text]), LineOptions::default(), index, 2);
        read_all(&mut source, &mut lines).unwrap();
    }
    assert_eq!(lines.iter().map(Vec::len).collect::<Vec<_>>(), [3 << 20, 5]);
}

#[test]
fn a_line_over_the_limit_is_refused_with_its_place() {
    let text = [b"ok\n".to_vec(), vec![b'x'; 1001], b"\nok\n".to_vec()].concat();
    for (chunk_len, len_max) in [(100, 1000), (7, 1000), (5000, 1000), (100, 1001), (5000, 1001)] {
        let options = LineOptions { line_len_max: len_max, ..small(chunk_len, 1 << 30) };
        let mut source = LineSource::new(inputs(&[&text]), options, 0, 1);
        let read = read_all(&mut source, &mut Vec::new());
        let refused = "input `0` has more than 1000 bytes without a break from byte 3 on";
        assert!(if len_max == 1001 { read.is_ok() } else { read.unwrap_err().starts_with(refused) });
    }
}

#[test]
fn a_line_that_may_be_cut_is_refused_for_what_lies_between_two_breaks() {
    let text = [b"word ".repeat(100), vec![b'x'; 101], b" word".repeat(100)].concat();
    for (chunk_len, len_max) in [(10, 100), (1000, 100), (99, 100), (10, 101), (1000, 101)] {
        let cut = LineOptions { cut_long_lines_at: Some(|byte| byte == b' '), ..small(chunk_len, 1 << 30) };
        let options = LineOptions { line_len_max: len_max, ..cut };
        let mut source = LineSource::new(inputs(&[&text]), options, 0, 1);
        let read = read_all(&mut source, &mut Vec::new());
        let refused = "input `0` has more than 100 bytes without a break from byte 500 on";
        assert!(if len_max == 101 { read.is_ok() } else { read.unwrap_err().starts_with(refused) });
    }
}
