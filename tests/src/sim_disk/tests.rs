use slackwater_core::durable::{Completion, Data, Disk, DiskError, FileId, Operation, Outcome, Token, Wait};

use super::{Cut, Lies, SimBlock, SimDisk, SimOptions};

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

/// How many of the images after every cut of `publish` have lost an announced file, or show a broken one.
fn losses(sync_file: bool, sync_folder: bool, lies: Lies) -> usize {
    let cuts = (1..=6).flat_map(|k| [Cut::Before(k), Cut::After(k)]);
    let trials = cuts.flat_map(|cut| (0..20).map(move |seed| (cut, seed)));
    trials
        .filter(|(cut, seed)| {
            let mut disk = Sim::new(SimOptions { seed: *seed, lies, ..SimOptions::default() });
            disk.cut_power(*cut);
            let announced = publish(&mut disk, sync_file, sync_folder);
            match disk.image_after_power_cut(*seed).read_file("final") {
                Some(bytes) => bytes != ONES,
                None => announced,
            }
        })
        .count()
}

#[test]
fn the_right_order_loses_nothing_at_any_cut() {
    assert_eq!(losses(true, true, Lies::default()), 0);
}

#[test]
fn an_order_without_a_sync_is_caught() {
    assert!(losses(true, false, Lies::default()) > 0, "without the folder's sync");
    assert!(losses(false, true, Lies::default()) > 0, "without the file's sync");
}

#[test]
fn a_lying_sync_is_caught() {
    assert!(losses(true, true, Lies { sync_file: true, sync_folder: false }) > 0);
    assert!(losses(true, true, Lies { sync_file: false, sync_folder: true }) > 0);
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
    let mut seen = std::collections::BTreeSet::new();
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

#[test]
fn a_failed_sync_is_not_made_up_for_by_a_later_one() {
    let mut disk = Sim::new(SimOptions::default());
    let file = create(&mut disk, "f").expect("the disk works");
    assert!(done(&mut disk, Operation::SyncFolder { path: "" }) && write(&mut disk, file, &ONES));
    disk.fail(disk.operations() + 1, DiskError::IO);
    assert!(!done(&mut disk, Operation::SyncFile { file }));
    assert!(done(&mut disk, Operation::SyncFile { file }));
    assert!(
        (0..20).any(|seed| disk.image_after_power_cut(seed).read_file("f").is_none_or(|bytes| bytes != ONES))
    );
}

#[test]
fn a_full_disk_refuses_at_creation() {
    let mut disk = Sim::new(SimOptions { capacity: 8192, ..SimOptions::default() });
    assert!(create(&mut disk, "a").is_some() && create(&mut disk, "b").is_some());
    let refused = run(&mut disk, Operation::CreateFile { path: "c", len_max: 1 });
    assert!(matches!(refused, Outcome::Failed(error) if error.errno == DiskError::NO_SPACE));
    assert!(done(&mut disk, Operation::Remove { path: "a" }));
    assert!(create(&mut disk, "c").is_some());
}

#[test]
fn a_kill_loses_nothing_that_took_effect_but_makes_nothing_durable() {
    let mut disk = Sim::new(SimOptions::default());
    let file = create(&mut disk, "f").expect("the disk works");
    assert!(write(&mut disk, file, &ONES));
    let killed = disk.image_after_kill(1);
    assert_eq!(killed.read_file("f").expect("the file is there"), ONES);
    assert!((0..20).any(|seed| killed.image_after_power_cut(seed).read_file("f").is_none()));
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
