//! What a completion means, case by case, and a ring whose kernel says no.

use std::io::Write;

use super::*;

fn transfer(buffer: Buffer<&'static [u8]>, len: usize, step: usize) -> Transfer<&'static [u8]> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[5; 9000]).unwrap();
    let file = Arc::new(file);
    Transfer { token: Token(3), file, offset: 0, len, done: 0, step, stalls: 0, buffer }
}

fn a_write(step: usize) -> Transfer<&'static [u8]> {
    transfer(Buffer::Frozen(&[7; 16384]), 16384, step)
}

fn a_read() -> Transfer<&'static [u8]> {
    transfer(Buffer::Read(Block::copy_of(&[0; 16384]).unwrap()), 16384, 4096)
}

#[test]
fn i02_a_short_write_goes_on_behind_the_last_whole_step() {
    let mut write = a_write(4096);
    assert_eq!(write.advance(5000), Progress::More);
    assert_eq!(write.done, 4096);
    assert_eq!(write.advance(4096), Progress::More);
    assert_eq!(write.advance(8192), Progress::Ended(Ok(16384)));
    let mut buffered = a_write(1);
    assert_eq!(buffered.advance(5001), Progress::More);
    assert_eq!(buffered.done, 5001);
}

#[test]
fn i01_i02_interruptions_are_repeated_and_errors_are_not() {
    let mut write = a_write(4096);
    assert_eq!(write.advance(-libc::EINTR), Progress::More);
    assert_eq!(write.advance(-libc::EAGAIN), Progress::More);
    assert_eq!(write.done, 0);
    assert_eq!(write.advance(-libc::ENOSPC), Progress::Ended(Err(libc::ENOSPC)));
}

#[test]
fn i02_a_write_that_gets_nowhere_fails() {
    let mut write = a_write(4096);
    let completions = (0..1000).take_while(|_index| write.advance(100) == Progress::More).count();
    assert!(completions < usize::from(STALLS_MAX), "{completions}");
}

#[test]
fn i07_a_read_is_short_only_at_the_end_of_the_file() {
    let mut read = a_read();
    assert_eq!(read.advance(4096), Progress::More);
    assert_eq!(read.done, 4096);
    assert_eq!(read.advance(9000 - 4096), Progress::Ended(Ok(9000)));
    assert_eq!(a_read().advance(0), Progress::Ended(Ok(0)));
    assert_eq!(a_read().advance(-libc::EIO), Progress::Ended(Err(libc::EIO)));
}

fn a_ring() -> Option<Ring<&'static [u8]>> {
    Ring::new(4)
        .inspect_err(|reason| {
            assert!(std::env::var_os("REQUIRE_URING").is_none(), "{reason}");
            eprintln!("skipped: {reason}");
        })
        .ok()
}

#[test]
fn a_late_completion_finds_nobody() {
    let Some(mut ring) = a_ring() else { return };
    ring.start(a_write(1));
    while ring.ended_len() == 0 {
        ring.reap(true);
    }
    let late = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| ring.complete(3, 16384)));
    assert_eq!(late.is_err(), cfg!(debug_assertions), "it is an error of the program, and says so in tests");
    assert_eq!(ring.ended_len(), 1);
    assert_eq!(ring.in_flight(), 0);
}

#[test]
fn a_ring_that_is_given_up_ends_what_it_has_and_refuses_the_rest() {
    let Some(mut ring) = a_ring() else { return };
    ring.start(a_write(1));
    ring.give_up(libc::EIO);
    ring.start(a_write(1));
    while ring.in_flight() > 0 {
        ring.reap(true);
    }
    let mut results: Vec<_> = std::iter::from_fn(|| ring.pop_ended()).map(|ended| ended.result).collect();
    results.sort_unstable();
    assert_eq!(results, [Ok(16384), Err(libc::EIO)]);
}

#[test]
fn a_ring_that_cannot_wait_gives_no_buffer_back() {
    let Some(mut ring) = a_ring() else { return };
    let index = ring.free.pop().unwrap();
    ring.slots[index as usize].transfer = Some(a_write(1));
    ring.queue(index);
    ring.lose_all(libc::EIO);
    assert_eq!(ring.in_flight(), 0);
    let lost = ring.pop_ended().unwrap();
    assert_eq!((lost.token, lost.result), (Token(3), Err(libc::EIO)));
    assert!(lost.buffer.is_none());
}
