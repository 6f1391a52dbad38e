use std::borrow::ToOwned;
use std::collections::BTreeSet;
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, vec};

use slackwater_core::durable::{Completion, Data, Disk, DiskError, FileId, Operation, Outcome, Token, Wait};

use super::{Crash, Fault, Lies, Log, Lost, PowerCuts, Recorder, SimBlock, SimDisk, SimOptions, Tally, When};
use crate::disk::MemDisk;

type Sim = SimDisk<&'static [u8]>;

static ONES: [u8; 4096] = [1; 4096];
static TWOS: [u8; 4096] = [2; 4096];

/// Submits one operation and waits for its end.
fn run(disk: &mut Sim, operation: Operation<'_, SimBlock, &'static [u8]>) -> Outcome<SimBlock> {
    disk.submit(Token(0), operation).expect("nothing else is in flight");
    let mut out = heapless::Vec::<Completion<SimBlock>, 1>::new();
    assert_eq!(disk.reap(Wait::ForOne, &mut out), 1);
    out.pop().expect("one has ended").outcome
}

fn done(disk: &mut Sim, operation: Operation<'_, SimBlock, &'static [u8]>) -> bool {
    matches!(run(disk, operation), Outcome::Done)
}

fn create(disk: &mut Sim, path: &str) -> Option<FileId> {
    match run(disk, Operation::CreateFile { path, len_max: 4096 }) {
        Outcome::Opened { file, .. } => Some(file),
        Outcome::Done | Outcome::Read { .. } | Outcome::Failed(_) => None,
    }
}

fn write(disk: &mut Sim, file: FileId, bytes: &'static [u8]) -> bool {
    done(disk, Operation::Write { file, offset: 0, data: Data::Frozen(bytes) })
}

/// Publishes a file in the right order; each step can be left out. True once it may be announced.
fn publish(disk: &mut Sim, sync_file: bool, sync_folder: bool) -> bool {
    let Some(file) = create(disk, ".new") else { return false };
    write(disk, file, &ONES)
        && (!sync_file || done(disk, Operation::SyncFile { file }))
        && done(disk, Operation::Rename { from: ".new", to: "final" })
        && (!sync_folder || done(disk, Operation::SyncFolder { path: "" }))
}

/// All moments of `publish`; what it says when it is through is promised.
fn cuts_of_publishing(sync_file: bool, sync_folder: bool, lies: Lies) -> PowerCuts {
    let mut disk = Sim::new(SimOptions { lies, ..SimOptions::default() });
    let log = disk.log();
    assert!(publish(&mut disk, sync_file, sync_folder));
    log.promise(1);
    PowerCuts::of(&log).images(500)
}

/// Whether an image has lost an announced file, or shows a broken one.
fn try_publishing(sync_file: bool, sync_folder: bool, lies: Lies) -> Result<Tally, String> {
    let tried =
        cuts_of_publishing(sync_file, sync_folder, lies).check(|image| match image.read_file("final") {
            Some(bytes) if bytes != ONES => Err("it is broken"),
            None if image.promised() == Some(1) => Err("it is lost"),
            Some(_) | None => Ok(()),
        });
    tried.map_err(|failure| failure.message)
}

#[test]
fn the_right_order_loses_nothing_at_any_cut() {
    let tally = try_publishing(true, true, Lies::default()).expect("the order is right");
    assert_eq!(tally.images, 500);
    assert!(tally.lost_writes > 0 && tally.torn_writes > 0 && tally.vanished_names > 0, "{tally}");
    assert!(tally.reordered > 0 && tally.lost_lengths > 0, "{tally}");
    for kind in ["CreateFile", "Write", "SyncFile", "Rename", "SyncFolder"] {
        for when in [When::Before, When::During, When::After] {
            assert!(tally.cuts.contains_key(&(kind.to_owned(), when)), "{kind} {when:?}");
        }
        assert!(tally.cuts_at(kind) > 3);
    }
}

#[test]
fn an_order_without_a_sync_is_caught() {
    assert_eq!(try_publishing(true, false, Lies::default()), Err("it is lost".to_owned()));
    assert_eq!(try_publishing(false, true, Lies::default()), Err("it is broken".to_owned()));
}

#[test]
fn a_lying_sync_is_caught() {
    let lies = Lies { sync_file: true, ..Lies::default() };
    assert_eq!(try_publishing(true, true, lies), Err("it is broken".to_owned()));
    let lies = Lies { sync_folder: true, ..Lies::default() };
    assert_eq!(try_publishing(true, true, lies), Err("it is lost".to_owned()));
}

#[test]
fn a_failed_image_says_how_to_try_it_alone() {
    let cuts = cuts_of_publishing(true, true, Lies::default());
    let check = |image: &super::Image| if image.number() < 7 { Ok(()) } else { Err("no") };
    let failure = cuts.check(check).expect_err("most fail");
    assert_eq!(failure.number, 7, "the first one, whatever thread it was tried on");
    assert!(failure.to_string().ends_with("SLACKWATER_POWER_CUT=7"), "{failure}");
    assert!(failure.place.starts_with("image 7, power off during operation 3, SyncFile"), "{failure}");
    assert_eq!(cuts.clone().only(7).check(check), Err(failure));
    assert_eq!(cuts.only(3).check(check).map(|tally| tally.images), Ok(1));
}

#[test]
fn an_image_is_the_same_each_time_and_another_for_another_seed() {
    let cuts = || cuts_of_publishing(false, false, Lies::default());
    let shown = |cuts: PowerCuts| -> Vec<_> {
        let images = (0..cuts.len()).filter_map(|number| cuts.image(number));
        images.map(|image| (image.paths(), image.read_file("final"), image.lost())).collect()
    };
    assert_eq!(shown(cuts()), shown(cuts()));
    assert_ne!(shown(cuts()), shown(cuts().seed(1)));
}

#[test]
fn cuts_can_be_limited_to_some_operations() {
    let cuts = cuts_of_publishing(true, true, Lies::default()).operations(2..4);
    let seen: BTreeSet<_> = (0..cuts.len()).filter_map(|n| Some(cuts.image(n)?.operation())).collect();
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [2, 3]);
    assert!(cuts.operations(9..9).is_empty());
}

#[test]
fn an_unsynced_overwrite_is_torn_at_sectors() {
    let mut disk = Sim::new(SimOptions::default());
    let file = create(&mut disk, "f").expect("the disk works");
    assert!(write(&mut disk, file, &ONES) && done(&mut disk, Operation::SyncFile { file }));
    assert!(done(&mut disk, Operation::SyncFolder { path: "" }) && write(&mut disk, file, &TWOS));
    let mut torn = 0;
    for seed in 0..50 {
        let bytes = disk.image_after_power_cut(seed).read_file("f").expect("name and bytes are synced");
        assert_eq!(bytes.len(), 4096);
        for sector in bytes.chunks(512) {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is whole");
            assert!(matches!(sector[0], 1 | 2), "a sector is old or new");
        }
        torn += usize::from(bytes.contains(&1) && bytes.contains(&2));
    }
    assert!(torn > 0, "no write was torn in 50 seeds");
}

#[test]
fn a_sync_does_not_cover_a_write_that_nobody_knew_to_have_ended() {
    let lost = (0..50).any(|seed| {
        let mut disk = Sim::new(SimOptions { seed, ..SimOptions::default() });
        let file = create(&mut disk, "f").expect("the disk works");
        assert!(done(&mut disk, Operation::SyncFolder { path: "" }));
        let data = Data::Frozen(&ONES[..]);
        disk.submit(Token(1), Operation::Write { file, offset: 0, data }).expect("there is room");
        disk.submit(Token(2), Operation::SyncFile { file }).expect("there is room");
        let mut out = heapless::Vec::<_, 2>::new();
        while disk.in_flight() > 0 {
            disk.reap(Wait::ForOne, &mut out);
        }
        disk.image_after_power_cut(seed).read_file("f").expect("the name is synced") != ONES
    });
    assert!(lost);
}

#[test]
fn a_rename_never_loses_both_names() {
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let mut disk = Sim::new(SimOptions::default());
        create(&mut disk, "old").expect("the disk works");
        assert!(done(&mut disk, Operation::SyncFolder { path: "" }));
        assert!(done(&mut disk, Operation::Rename { from: "old", to: "new" }));
        seen.insert(disk.image_after_power_cut(seed).names(""));
    }
    let name = |name: &str| name.to_owned();
    let all = [vec![name("new")], vec![name("new"), name("old")], vec![name("old")]];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), all);
}

#[test]
fn what_lies_in_an_unsynced_folder_can_go_with_it() {
    let mut disk = Sim::new(SimOptions::default());
    assert!(done(&mut disk, Operation::CreateFolder { path: "a" }));
    let file = create(&mut disk, "a/f").expect("the disk works");
    assert!(
        done(&mut disk, Operation::SyncFile { file }) && done(&mut disk, Operation::SyncFolder { path: "a" })
    );
    assert!((0..20).any(|seed| disk.image_after_power_cut(seed).names("").is_empty()));
    assert!(done(&mut disk, Operation::SyncFolder { path: "" }));
    assert!((0..20).all(|seed| disk.image_after_power_cut(seed).names("a") == ["f"]));
}

/// A write whose sync fails, then another sync: whether that goes well, and whether the bytes are durable.
fn sync_again(lies: Lies) -> (bool, bool) {
    let mut disk = Sim::new(SimOptions { lies, ..SimOptions::default() });
    let file = create(&mut disk, "f").expect("the disk works");
    assert!(done(&mut disk, Operation::SyncFolder { path: "" }) && write(&mut disk, file, &ONES));
    disk.inject(disk.operations() + 1, Fault::Error(DiskError::IO));
    assert!(!done(&mut disk, Operation::SyncFile { file }));
    let is_well = done(&mut disk, Operation::SyncFile { file });
    let is_there = |seed| disk.image_after_power_cut(seed).read_file("f").is_some_and(|bytes| bytes == ONES);
    (is_well, (0..20).all(is_there))
}

#[test]
fn a_failed_sync_is_final_and_not_made_up_for_by_a_later_one() {
    assert_eq!(sync_again(Lies::default()), (false, false));
    assert_eq!(sync_again(Lies { sync_again: true, ..Lies::default() }), (true, false));
}

#[test]
fn a_full_disk_refuses_at_creation() {
    let mut disk = Sim::new(SimOptions { capacity: 8192, ..SimOptions::default() });
    assert!(create(&mut disk, "a").is_some() && create(&mut disk, "b").is_some());
    let refused = run(&mut disk, Operation::CreateFile { path: "c", len_max: 1 });
    assert!(matches!(refused, Outcome::Failed(error) if error.errno == DiskError::NO_SPACE));
    assert!(done(&mut disk, Operation::Remove { path: "a" }));
    assert!(create(&mut disk, "c").is_some() && create(&mut disk, "d").is_none());
    disk.set_capacity(1 << 20);
    assert!(create(&mut disk, "d").is_some());
}

#[test]
fn a_kill_loses_nothing_that_took_effect_but_makes_nothing_durable() {
    let mut disk = Sim::new(SimOptions::default());
    let file = create(&mut disk, "f").expect("the disk works");
    assert!(write(&mut disk, file, &ONES));
    let killed = disk.image_after_kill(1);
    assert_eq!(killed.read_file("f").expect("the file is there"), ONES);
    assert!((0..20).any(|seed| killed.image_after_power_cut(seed).read_file("f").is_none()));
    let mut next = killed;
    assert!(done(&mut next, Operation::SyncFolder { path: "" }), "what the next process syncs is durable");
    assert!((0..20).all(|seed| next.image_after_power_cut(seed).read_file("f").is_some()));
}

#[test]
fn equal_seeds_give_equal_runs() {
    let trace = |seed| {
        let mut disk = Sim::new(SimOptions { seed, ..SimOptions::default() });
        let file = create(&mut disk, "f").expect("the disk works");
        for token in 0..6 {
            let data = Data::Frozen(if token % 2 == 0 { &ONES[..] } else { &TWOS[..] });
            disk.submit(Token(token), Operation::Write { file, offset: 0, data }).expect("there is room");
        }
        let mut order = Vec::new();
        while disk.in_flight() > 0 {
            let mut out = heapless::Vec::<_, 2>::new();
            disk.reap(Wait::No, &mut out);
            order.extend(out.iter().map(|completion| completion.token));
        }
        (order, disk.image_after_power_cut(seed).read_file("f"))
    };
    assert_eq!(trace(3), trace(3));
    assert!((0..9).any(|seed| trace(seed).0 != trace(0).0), "seeds make no difference");
}

/// Two files of ones in a folder, and what a write of twos to the first leaves when this goes wrong with it.
fn write_with(fault: Fault, seed: u64) -> [Vec<u8>; 2] {
    let mut disk = Sim::new(SimOptions { seed, ..SimOptions::default() });
    assert!(done(&mut disk, Operation::CreateFolder { path: "top" }));
    let mut file_of_ones = |path| {
        let Outcome::Opened { file, .. } = run(&mut disk, Operation::CreateFile { path, len_max: 8192 })
        else {
            panic!("the disk works")
        };
        let write = |offset| Operation::Write { file, offset, data: Data::Frozen(&ONES[..]) };
        assert!(done(&mut disk, write(0)) && done(&mut disk, write(4096)));
        file
    };
    let file = file_of_ones("top/one");
    file_of_ones("top/two");
    file_of_ones("elsewhere");
    disk.inject(disk.operations() + 1, fault);
    write(&mut disk, file, &TWOS);
    assert_eq!(disk.injected().len(), 1);
    assert_eq!(disk.read_file("elsewhere").expect("it is there"), vec![1; 8192]);
    ["top/one", "top/two"].map(|path| disk.read_file(path).expect("it is there"))
}

#[test]
fn a_short_write_leaves_its_front_part() {
    for seed in 0..20 {
        let [one, two] = write_with(Fault::ShortWrite, seed);
        let written = one.iter().filter(|byte| **byte == 2).count();
        assert!(written < 4096 && written.is_multiple_of(512), "{written}");
        assert!(one[..written].iter().all(|byte| *byte == 2) && two == vec![1; 8192]);
    }
}

#[test]
fn a_misdirected_write_lands_elsewhere() {
    for seed in 0..20 {
        let [one, two] = write_with(Fault::MisdirectedInFile, seed);
        assert_eq!((one, two), ([ONES, TWOS].concat(), vec![1; 8192]));
        let [one, two] = write_with(Fault::MisdirectedToFile, seed);
        assert_eq!(one, vec![1; 8192]);
        assert!(two == [ONES, TWOS].concat() || two == [TWOS, ONES].concat());
    }
}

#[test]
fn a_rotten_bit_stays() {
    let mut disk = Sim::new(SimOptions::default());
    assert!(publish(&mut disk, true, true));
    disk.flip_bit("final", 8 * 100 + 3).expect("the file is there");
    disk.flip_bit("final", usize::MAX).expect("beyond the end there is nothing");
    assert_eq!(disk.flip_bit("none", 0).map_err(|error| error.errno), Err(DiskError::NOT_FOUND));
    let rotten = disk.image_after_power_cut(1).read_file("final").expect("the name is durable");
    let mut expected = ONES;
    expected[100] ^= 8;
    assert_eq!(rotten, expected);
}

/// Runs `publish` on a recorder over memory, and tries every cut.
fn try_recorded(sync_folder: bool) -> Result<Tally, String> {
    let mut disk = Recorder::new(MemDisk::new());
    let log = disk.log();
    let created = carry_out(&mut disk, Operation::CreateFile { path: ".new", len_max: 4096 });
    let Outcome::Opened { file, .. } = created else { panic!("{created:?}") };
    carry_out(&mut disk, Operation::Write { file, offset: 0, data: Data::Frozen(&ONES[..]) });
    carry_out(&mut disk, Operation::SyncFile { file });
    carry_out(&mut disk, Operation::CloseFile { file });
    carry_out(&mut disk, Operation::Rename { from: ".new", to: "final" });
    if sync_folder {
        carry_out(&mut disk, Operation::SyncFolder { path: "" });
    }
    log.promise(1);
    let tried = PowerCuts::of(&log).images(300).check(|image| {
        let mut disk = MemDisk::<&'static [u8]>::new();
        image.load(&mut disk).map_err(|error| error.to_string())?;
        match (carry_out(&mut disk, Operation::OpenFile { path: "final" }), image.promised()) {
            (Outcome::Opened { len: 4096, .. }, _) | (Outcome::Failed(_), None) => Ok(()),
            (outcome, promised) => Err(format!("{outcome:?}, {promised:?} was promised")),
        }
    });
    tried.map_err(|failure| failure.to_string())
}

fn carry_out<D: Disk<Frozen = &'static [u8]>>(
    disk: &mut D,
    operation: Operation<'_, D::Block, &'static [u8]>,
) -> Outcome<D::Block> {
    disk.submit(Token(7), operation).expect("nothing else is in flight");
    let mut out = heapless::Vec::<Completion<D::Block>, 1>::new();
    assert_eq!(disk.reap(Wait::ForOne, &mut out), 1);
    out.pop().expect("one has ended").outcome
}

#[test]
fn any_disk_can_be_recorded_and_its_images_put_on_another() {
    let tally = try_recorded(true).expect("the order is right");
    assert!(tally.lost_writes > 0 && tally.vanished_names > 0, "{tally}");
    assert!(try_recorded(false).is_err(), "without the folder's sync");
}

#[test]
fn what_was_in_flight_when_a_recorded_disk_lost_power_may_or_may_not_be_there() {
    let mut disk = Recorder::new(Sim::new(SimOptions::default()));
    carry_out(&mut disk, Operation::CreateFolder { path: "a" });
    carry_out(&mut disk, Operation::SyncFolder { path: "" });
    disk.submit(Token(1), Operation::Remove { path: "a" }).expect("there is room");
    let cuts = PowerCuts::of(&disk.log()).images(50);
    let of_seed = |seed| cuts.clone().seed(seed).image(6).expect("the end is the last");
    let gone = (0..50)
        .filter(|seed| of_seed(*seed).disk::<&'static [u8]>(SimOptions::default()).names("").is_empty());
    assert!((1..50).contains(&gone.count()));
}

#[test]
fn a_log_goes_on_from_an_image() {
    let cuts = cuts_of_publishing(true, true, Lies::default());
    let image = cuts.image(0).expect("there is one");
    let mut disk = MemDisk::new();
    image.load(&mut disk).expect("memory takes everything");
    let mut disk = Recorder::after(disk, &image);
    carry_out(&mut disk, Operation::CreateFolder { path: "b" });
    assert_eq!(disk.log().len(), 1);
    assert!(format!("{disk:?}").contains("operations: 1"));
}

#[test]
fn a_killed_process_leaves_everything_that_took_effect() {
    let cuts = cuts_of_publishing(false, false, Lies::default()).crash(Crash::Process);
    let mut images = (0..cuts.len()).filter_map(|number| cuts.image(number));
    let end = images.find(|image| image.when() == When::AtTheEnd).expect("there is an end");
    assert_eq!(end.read_file("final").expect("it is there"), ONES);
    assert_eq!(end.lost(), Lost::default());
}

#[test]
fn promises_only_grow() {
    let log: Log = Sim::new(SimOptions::default()).log();
    assert!(log.is_empty() && log.promised().is_none());
    log.promise(5);
    log.promise(3);
    assert_eq!(log.promised(), Some(5));
}
