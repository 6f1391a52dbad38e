//! What a firmware would link: every machine of `core` and a state heap in its own memory, driven by data that no compiler can foresee.
//!
//! Built for a microcontroller and linked by `.ci/nostd`, which fails if anything in here can panic. On other
//! targets this crate is empty, so that it does no harm among crates with `std`.
#![cfg(target_os = "none")]
#![no_std]
#![expect(unsafe_code, reason = "functions that the linker finds by name")]

mod channels;
mod coordinators;
mod data;
mod decoders;
mod encoders;
mod files;
mod heaps;
mod machines;
mod queues;
mod stores;

use core::panic::PanicInfo;

use data::Data;

/// Gives each part of `core` a name for the linker; the number that comes back depends on all that was done.
macro_rules! firmware {
    ($($name:ident => $part:path),+ $(,)?) => { $(
        #[doc = concat!("Runs [`", stringify!($part), "`] on data made from the seed.")]
        // SAFETY: no other function of a firmware has this name.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(seed: u32) -> u32 {
            $part(&mut Data::new(seed))
        }
    )+ };
}

#[panic_handler]
fn panicked(_: &PanicInfo<'_>) -> ! {
    panic_reached()
}

/// The linker keeps this only if something that a firmware calls can panic.
// SAFETY: no other function of a firmware has this name.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn panic_reached() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// A function that can panic, to see that the check finds one.
#[cfg(feature = "canary")]
fn canary(data: &mut Data) -> u32 {
    let words = [data.word(), data.word()];
    words[usize::from(data.short())]
}

#[cfg(feature = "canary")]
firmware! { firmware_canary => canary }

firmware! {
    firmware_heap => heaps::small,
    firmware_keyed_states => heaps::keyed_states,
    firmware_operator_state => heaps::operator_state,
    firmware_gate => machines::gate,
    firmware_stash => machines::stash,
    firmware_subtask => machines::subtask,
    firmware_two_phase => machines::two_phase,
    firmware_notified => machines::notified,
    firmware_restarts => machines::restarts,
    firmware_capture => channels::capture,
    firmware_edges => channels::edges,
    firmware_replay => channels::replay,
    firmware_coordinator => coordinators::coordinator,
    firmware_gateways => coordinators::gateways,
    firmware_hooks => coordinators::hooks,
    firmware_statistics => coordinators::statistics,
    firmware_small => coordinators::small,
    firmware_key_groups => machines::key_groups,
    firmware_assignment => machines::assignment,
    firmware_matching => stores::matching,
    firmware_retained => stores::retained,
    firmware_recovery => stores::recovery,
    firmware_file_order => files::order,
    firmware_file_writer => files::writer,
    firmware_queue => queues::ring,
    firmware_page => decoders::page,
    firmware_manifest => decoders::manifest,
    firmware_in_flight => decoders::in_flight,
    firmware_segment => decoders::segment,
    firmware_encode_manifest => encoders::manifest,
    firmware_encode_in_flight => encoders::in_flight,
    firmware_encode_segment => encoders::segment,
}
