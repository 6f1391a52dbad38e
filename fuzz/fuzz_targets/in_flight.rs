//! Fuzzes [`slackwater_fuzz::in_flight`]; without a fuzzer, replays its corpus or the files that are named.
#![cfg_attr(fuzzing, no_main)]
#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| slackwater_fuzz::in_flight(data));
#[cfg(not(fuzzing))]
fn main() {
    slackwater_fuzz::corpus::main("in_flight");
}
