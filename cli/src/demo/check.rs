//! Holds the committed output against a plain count.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use slackwater::CheckpointingMode;
use slackwater::word_count::plain::plain_count as count;

use crate::args::{DemoArgs, EmitArg};
use crate::failure::Failure;
use crate::parts;

/// Occurrences by word.
pub(crate) type Counts = BTreeMap<Vec<u8>, u64>;

/// Counts the words of a file without any of the machinery.
pub(crate) fn plain_count(input: &Path) -> Result<Counts, Failure> {
    fs::read(input).map(|bytes| count(&bytes)).map_err(|error| Failure::reading(input, &error))
}

/// What is wrong with an output, in words: the first that is missing, and the first that is too much.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) lost: Option<String>,
    pub(crate) surplus: Option<String>,
}

impl Found {
    /// What differs from the plain count, if anything.
    pub(crate) fn difference(&self) -> Option<&str> {
        self.lost.as_deref().or(self.surplus.as_deref())
    }

    /// Whether the output is what the job's mode promises.
    pub(crate) fn is_as_promised(&self, args: &DemoArgs) -> bool {
        match args.modes.guarantee() {
            CheckpointingMode::ExactlyOnce => self.difference().is_none(),
            CheckpointingMode::AtLeastOnce => self.lost.is_none(),
        }
    }
}

/// Holds what the committed parts have against what they should.
pub(crate) fn compare(output: &Path, expected: &Counts, emit: EmitArg) -> Result<Found, Failure> {
    let mut emitted = emitted(output)?;
    let mut found = Found::default();
    for (word, count) in expected {
        let mut counts = emitted.remove(word).unwrap_or_default();
        counts.sort_unstable();
        let wanted = match emit {
            EmitArg::Final => *count..=*count,
            EmitArg::Updates => 1..=*count,
        };
        if counts.iter().copied().eq(wanted) {
            continue;
        }
        let is_lost = match emit {
            EmitArg::Final => counts.last() < Some(count),
            EmitArg::Updates => !(1..=*count).all(|wanted| counts.binary_search(&wanted).is_ok()),
        };
        let word = String::from_utf8_lossy(word);
        let said = format!("\"{word}\" occurs {count} times; emitted were {}", summary(&counts));
        if is_lost { &mut found.lost } else { &mut found.surplus }.get_or_insert(said);
    }
    if let Some((word, _)) = emitted.pop_first() {
        let word = String::from_utf8_lossy(&word);
        found.surplus.get_or_insert_with(|| format!("\"{word}\" does not occur"));
    }
    Ok(found)
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
    use super::{Counts, Found, compare};
    use crate::args::EmitArg;
    use std::fs;

    fn difference(parts: &[&str], emit: EmitArg) -> Option<String> {
        found(parts, emit).difference().map(str::to_owned)
    }

    fn found(parts: &[&str], emit: EmitArg) -> Found {
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

    #[test]
    fn what_is_there_twice_is_told_from_what_is_missing() {
        let twice = found(&["the\t2\ncat\t1\n", "cat\t1\nthe\t3\n"], EmitArg::Final);
        assert!(twice.lost.is_none() && twice.surplus.is_some(), "{twice:?}");
        let both = found(&["the\t1\n", "cat\t1\ncat\t1\n"], EmitArg::Final);
        assert!(both.lost.is_some() && both.surplus.is_some(), "{both:?}");
        let again = found(&["the\t1\nthe\t2\nthe\t2\nthe\t3\ncat\t1\n"], EmitArg::Updates);
        assert!(again.lost.is_none() && again.surplus.is_some(), "{again:?}");
        assert!(found(&["the\t1\nthe\t3\ncat\t1\n"], EmitArg::Updates).lost.is_some());
    }
}
