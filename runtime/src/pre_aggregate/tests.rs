use std::collections::BTreeMap;

use slackwater_core::time::{Millis, Now};

use super::{Combine, PreAggregate, PreAggregateOptions};
use crate::keyed::Rest;
use crate::output::Output;
use crate::transform::Transform;

/// Sums numbers by their key, which is text.
#[derive(Clone, Debug)]
struct Sum;

impl Combine for Sum {
    type In = (String, i64);
    type Out = (String, i64);
    type Partial = i64;

    fn key(record: &(String, i64)) -> &[u8] {
        record.0.as_bytes()
    }

    fn add(partial: &mut i64, record: &(String, i64)) {
        *partial += record.1;
    }

    fn emit(&mut self, key: &[u8], partial: &i64, out: &mut Output<'_, (String, i64)>) {
        out.emit(&(String::from_utf8(key.to_vec()).unwrap(), *partial));
    }
}

struct Run {
    transform: PreAggregate<Sum>,
    out: Vec<(String, i64)>,
}

impl Run {
    fn new(keys: usize) -> Self {
        let options = PreAggregateOptions { keys, long_key_bytes: 64, delay: Millis(50) };
        Self { transform: PreAggregate::new(Sum, options), out: Vec::new() }
    }

    fn add(&mut self, key: &str, number: i64, now: u64) {
        let out = &mut Output::new(&mut self.out);
        self.transform.on_record(&(key.to_owned(), number), at(now), out).unwrap();
    }

    fn sums(&mut self) -> BTreeMap<String, i64> {
        let mut sums = BTreeMap::new();
        self.out.drain(..).for_each(|(key, number)| *sums.entry(key).or_default() += number);
        sums
    }
}

fn at(now: u64) -> Now {
    Now { monotonic: Millis(now), wall: Millis(now) }
}

#[test]
fn x9_everything_that_is_kept_is_emitted_before_a_barrier_once() {
    for keys in [1, 4, 64] {
        let mut run = Run::new(keys);
        let mut expected = BTreeMap::new();
        for number in 0..1000 {
            let key = format!("{}", (number * number) % 37);
            run.add(&key, number, 0);
            *expected.entry(key).or_default() += number;
        }
        let out = &mut Output::new(&mut run.out);
        assert_eq!(run.transform.before_barrier(out), Ok(Rest::Done));
        assert_eq!(run.sums(), expected, "{keys} keys");
        let out = &mut Output::new(&mut run.out);
        assert_eq!(run.transform.before_barrier(out), Ok(Rest::Done));
        assert_eq!(run.transform.on_end_of_data(out), Ok(Rest::Done));
        assert!(run.out.is_empty());
    }
}

#[test]
fn records_of_one_key_become_one() {
    let mut run = Run::new(64);
    (1..=100).for_each(|number| run.add("a key of more than sixteen bytes", number, 0));
    (1..=10).for_each(|number| run.add("short", number, 0));
    assert!(run.out.is_empty());
    let out = &mut Output::new(&mut run.out);
    assert_eq!(run.transform.on_end_of_data(out), Ok(Rest::Done));
    run.out.sort();
    assert_eq!(run.out, [("a key of more than sixteen bytes".to_owned(), 5050), ("short".to_owned(), 55)]);
}

#[test]
fn the_deadline_counts_from_the_first_record_that_is_kept() {
    let mut run = Run::new(64);
    assert_eq!(run.transform.next_deadline(), None);
    run.add("a", 1, 10);
    run.add("b", 2, 40);
    assert_eq!(run.transform.next_deadline(), Some(Millis(60)));
    let out = &mut Output::new(&mut run.out);
    run.transform.on_deadline(at(60), out).unwrap();
    assert_eq!(run.sums(), [("a".to_owned(), 1), ("b".to_owned(), 2)].into());
    assert_eq!(run.transform.next_deadline(), None);
    run.add("a", 3, 70);
    assert_eq!(run.transform.next_deadline(), Some(Millis(120)));
}
