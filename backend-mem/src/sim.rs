//! A disk that loses power, and a harness that tries what is left at every moment, for programs and disks of
//! your own.
//!
//! Data survives a loss of power only if every write, every length and every *name* was made durable by a sync
//! before anybody relied on it. A missing sync shows in no test that does not cut the power, and never on the
//! machine of the person who wrote it. This module cuts it, at every operation, thousands of times a second.
//!
//! # How to use it
//!
//! 1. Run your program once on a disk that keeps a [`Log`]: a [`SimDisk`], or any [`Disk`] of yours with a
//!    [`Recorder`] below it. Say with [`Log::promise`] what somebody relies on from then on.
//! 2. Make [`PowerCuts`] of the log, and give them a check. It gets an [`Image`]: what the power may have left at
//!    one moment, and what had been promised by then. Start your program on it ([`Image::disk`], or
//!    [`Image::load`] onto another disk), let it recover, and compare with the promise.
//! 3. A failure names the image and the variable that tries it alone. `SLACKWATER_POWER_CUTS` sets how many are
//!    tried, if the cuts were made [`from_env`](PowerCuts::from_env).
//!
//! The program runs once, not once for each image: the files are kept at each operation and share what is equal.
//! To cut the power a second time, during the recovery, keep a log of that as well and make cuts of it.
//!
//! # Example
//!
//! A layer of one's own over a disk, with a mistake in it: it thinks that a folder which is there already
//! needs no sync. A published file then has durable bytes, but no durable name.
//!
//! ```
//! use slackwater_core::durable::{Disk, Layer, Layered, Names, Operation, Token, Wait, WriteFile, run_to_end};
//! use slackwater_mem::MemDisk;
//! use slackwater_mem::sim::{Log, PowerCuts, Recorder, SimOptions};
//!
//! struct Mine {
//!     is_hasty: bool,
//! }
//!
//! impl<D: Disk> Layer<D> for Mine {
//!     fn submit<'p>(
//!         &mut self,
//!         disk: &mut D,
//!         token: Token,
//!         operation: Operation<'p, D::Block, D::Frozen>,
//!     ) -> Result<(), Operation<'p, D::Block, D::Frozen>> {
//!         match operation {
//!             Operation::SyncFolder { path } if self.is_hasty => {
//!                 disk.submit(token, Operation::CreateFolder { path })
//!             }
//!             operation => disk.submit(token, operation),
//!         }
//!     }
//! }
//!
//! /// The program: publishes two files, one after the other, and says so.
//! fn publish<D: Disk>(disk: &mut D, log: &Log) {
//!     for (number, path) in [(1, "store/one"), (2, "store/two")] {
//!         let names = Names::Renamed { temporary: "store/.new", path };
//!         let mut file = WriteFile::new(names, vec![7; 5000]);
//!         run_to_end(disk, &mut file).expect("nobody else uses the disk");
//!         assert_eq!(file.result(), Some(Ok(5000)));
//!         log.promise(number);
//!     }
//! }
//!
//! # fn in_order<D: Disk>(disk: &mut D, path: &str) {
//! #     for operation in [Operation::CreateFolder { path }, Operation::SyncFolder { path: "" }] {
//! #         disk.submit(Token(0), operation).expect("the disk is idle");
//! #         disk.reap(Wait::ForOne, &mut heapless::Vec::<_, 1>::new());
//! #     }
//! # }
//! /// Runs the program, then cuts the power everywhere.
//! fn try_all(is_hasty: bool) -> Result<(), String> {
//!     let mut recorder = Recorder::new(MemDisk::<&'static [u8]>::new());
//!     in_order(&mut recorder, "store"); // The folder itself, durably.
//!     let log = recorder.log();
//!     publish(&mut Layered { disk: recorder, layer: Mine { is_hasty } }, &log);
//!     let tried = PowerCuts::of(&log).images(2000).check(|image| {
//!         for (number, path) in [(1, "store/one"), (2, "store/two")] {
//!             match image.read_file(path) {
//!                 Some(bytes) if bytes != [7; 5000] => return Err(format!("{path} is half there")),
//!                 None if image.promised() >= Some(number) => return Err(format!("{path} is lost")),
//!                 Some(_) | None => {}
//!             }
//!         }
//!         Ok(())
//!     });
//!     let tally = tried.map_err(|failure| failure.to_string())?;
//!     assert!(tally.torn_writes > 0 && tally.vanished_names > 0, "{tally}");
//!     Ok(())
//! }
//!
//! assert_eq!(try_all(false), Ok(()));
//! let failure = try_all(true).expect_err("a missing sync is caught");
//! assert!(failure.contains("store/one is lost"), "{failure}");
//! ```
//!
//! # What the simulated disk does
//!
//! - Operations are numbered from 1 in the order of their submission. They take effect in an order chosen by
//!   the seed, and their completions are delivered later still.
//! - A power cut leaves everything synced, and of the rest a part that the seed chooses. Each unsynced sector of 512
//!   bytes is as it was after any one of the writes that touched it since the sync, or before them all; a write is
//!   thereby torn, and writes are kept or lost in any order. A file's length likewise, independently of its bytes. Names
//!   (made, removed, renamed) since the sync of their folder survive one without the other; only changes of the same
//!   name keep their order, and a rename's old name does not go before its new name is there.
//! - A sync covers the operations whose completions were reaped before it was submitted, and no others.
//!   Syncing a file does not make its name durable, syncing a folder does not make its files' bytes durable.
//! - With [`SimDisk::inject`] operations fail, writes end early without saying so, or land elsewhere. What a failed
//!   sync should have covered is never made durable by a later one; the file takes no more writes or syncs.
//! - The disk can be full ([`SimOptions::capacity`]), a bit can rot ([`SimDisk::flip_bit`]), and it can lie about
//!   syncs ([`Lies`]): with a lying disk, a harness that finds nothing is broken.
//! - Not modelled: synced things that go by themselves, and a controller that mixes up files of different disks.
//!
//! [`Disk`]: slackwater_core::durable::Disk

mod disk;
mod file_system;
mod image;
mod log;
mod power_cuts;
mod recorder;
pub mod rng;
mod tally;

pub use disk::{Fault, Lies, SimBlock, SimDisk, SimOptions, Submitted};
pub use file_system::Lost;
pub use image::{Image, LoadError, When};
pub use log::Log;
pub use power_cuts::{Crash, FailedImage, PowerCuts};
pub use recorder::Recorder;
pub use tally::Tally;

#[cfg(test)]
mod tests;
