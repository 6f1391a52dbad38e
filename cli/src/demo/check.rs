//! Holds the committed output against a plain count.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use slackwater::word_count::plain::plain_count as count;

use crate::args::EmitArg;
use crate::failure::Failure;
use crate::parts;

/// Occurrences by word.
pub(crate) type Counts = BTreeMap<Vec<u8>, u64>;

/// Counts the words of a file without any of the machinery.
pub(crate) fn plain_count(input: &Path) -> Result<Counts, Failure> {
    fs::read(input).map(|bytes| count(&bytes)).map_err(|error| Failure::reading(input, &error))
}

/// The first difference, in words; none if the committed parts hold exactly what they should.
pub(crate) fn compare(output: &Path, expected: &Counts, emit: EmitArg) -> Result<Option<String>, Failure> {
    let mut emitted = emitted(output)?;
    for (word, count) in expected {
        let word_text = String::from_utf8_lossy(word);
        let Some(mut counts) = emitted.remove(word) else {
            return Ok(Some(format!("\"{word_text}\" is missing")));
        };
        counts.sort_unstable();
        let wanted = match emit {
            EmitArg::Final => *count..=*count,
            EmitArg::Updates => 1..=*count,
        };
        if !counts.iter().copied().eq(wanted) {
            return Ok(Some(format!(
                "\"{word_text}\" occurs {count} times; emitted were {}",
                summary(&counts)
            )));
        }
    }
    Ok(emitted.pop_first().map(|(word, _)| format!("\"{}\" does not occur", String::from_utf8_lossy(&word))))
}

/// Every count that the committed parts give for each word.
fn emitted(output: &Path) -> Result<BTreeMap<Vec<u8>, Vec<u64>>, Failure> {
    let mut emitted: BTreeMap<Vec<u8>, Vec<u64>> = BTreeMap::new();
    parts::for_each_line(output, |word, count| match emitted.get_mut(word) {
        Some(counts) => counts.push(count),
        None => drop(emitted.insert(word.to_vec(), vec![count])),
    })?;
    Ok(emitted)
}

fn summary(counts: &[u64]) -> String {
    match counts {
        [] => "none".to_owned(),
        [one] => one.to_string(),
        [first, .., last] => format!("{} counts from {first} to {last}", counts.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, compare};
    use crate::args::EmitArg;
    use std::fs;

    fn difference(parts: &[&str], emit: EmitArg) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        for (index, part) in parts.iter().enumerate() {
            fs::write(folder.path().join(format!("part-0-{index}-chk-{index}")), part).unwrap();
        }
        fs::write(folder.path().join(".part-hidden"), "the\t9\n").unwrap();
        let expected = Counts::from([(b"the".to_vec(), 2), (b"cat".to_vec(), 1)]);
        compare(folder.path(), &expected, emit).unwrap()
    }

    #[test]
    fn final_output_must_have_each_word_once() {
        assert_eq!(difference(&["the\t2\n", "cat\t1\n"], EmitArg::Final), None);
        for wrong in [&["the\t2\n"] as &[&str], &["the\t2\ncat\t1\n", "cat\t1\n"], &["the\t3\ncat\t1\n"]] {
            assert!(difference(wrong, EmitArg::Final).is_some(), "{wrong:?}");
        }
        assert!(difference(&["the\t2\ncat\t1\ndog\t1\n"], EmitArg::Final).is_some());
    }

    #[test]
    fn updates_must_run_from_one_to_the_count() {
        assert_eq!(difference(&["the\t1\ncat\t1\n", "the\t2\n"], EmitArg::Updates), None);
        for wrong in [&["the\t2\ncat\t1\n"] as &[&str], &["the\t1\nthe\t2\nthe\t2\ncat\t1\n"]] {
            assert!(difference(wrong, EmitArg::Updates).is_some(), "{wrong:?}");
        }
    }
}
