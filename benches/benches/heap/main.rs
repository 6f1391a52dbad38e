//! What the state heap costs: per key, per freeze, per page that is touched first after one, as it
//! grows, and in maps and timers.

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on fails, as a test does")]

use std::sync::LazyLock;

use criterion::Criterion;
use slackwater_benches::hash_map::{self, HashMap};
use slackwater_benches::resident::heap_has_huge_pages;
use slackwater_benches::scale::{is_measuring, sized};
use slackwater_benches::stream::KeyStream;
use slackwater_benches::subject::{Shape, Subject};
use slackwater_mem::Plain;

mod access;
mod after_freeze;
mod freeze;
mod growth;
mod map;
mod timers;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    access::bench(&mut criterion);
    freeze::bench(&mut criterion);
    after_freeze::bench(&mut criterion);
    growth::bench(&mut criterion);
    map::bench(&mut criterion);
    timers::bench(&mut criterion);
    criterion.final_summary();
}

type Counts = Subject<Plain<u64>>;

/// Numbers of keys, with the names that stay the same however small the input is.
fn sizes() -> [(&'static str, u32); 2] {
    [("10k_keys", sized(10_000, 200)), ("1M_keys", sized(1_000_000, 2_000))]
}

const fn shape(keys: u32) -> Shape {
    Shape { keys, value_len: 8 }
}

fn counts(keys: u32) -> Counts {
    Subject::filled(shape(keys)).unwrap()
}

/// Whether the heap lies in huge pages; what it is compared with then does too.
static HUGE_PAGES: LazyLock<bool> = LazyLock::new(|| is_measuring() && heap_has_huge_pages().unwrap());

/// The same in a hash map.
fn map(keys: u32) -> HashMap {
    hash_map::filled(keys, *HUGE_PAGES)
}

fn key_stream(keys: u32) -> KeyStream {
    KeyStream::new(keys, sized(1 << 20, 64))
}
