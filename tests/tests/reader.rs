//! A golden checkpoint, its listing, and a reader of another language that knows FORMAT.md alone.
//!
//! The folder holds what a job with two counting subtasks left behind: one segment as it is, one compressed with LZ4;
//! records in flight to one of them in the manifest, to the other in a file.
//! With `SLACKWATER_WRITE_GOLDEN` set, it and its listing are written anew first.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking and says what it skips"
)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use slackwater::checkpoint::{
    InlineState, Manifest, ParticipantKind, ParticipantPart, Redistribution, SubtaskPart, VertexPart,
};
use slackwater::file_sink::PendingPart;
use slackwater::inputs::Inputs;
use slackwater::line_source::{LineOptions, LineSource};
use slackwater::operator::Source;
use slackwater::recovery::{find, verify_files};
use slackwater_core::assign::Rescaling;
use slackwater_core::durable::run_to_end;
use slackwater_core::ids::CheckpointId;
use slackwater_core::key_group::{KeyGroup, KeyGroupRange, MaxParallelism};
use slackwater_core::time::Millis;
use slackwater_mem::in_flight::{
    self, CapturedChannel, InFlight, InFlightHeader, InFlightRef, InFlightSpec, InFlightWriter,
    StoredInFlight,
};
use slackwater_mem::segment::{
    Compression, OldSegment, SegmentRef, SegmentSpec, SegmentWriter, restore_operator_state, restore_segment,
};
use slackwater_mem::{
    Broadcast, Bytes, CodecId, FrozenRun, Heap, HeapOptions, MmapDisk, Plain, RawKeyedState,
    RawOperatorState, Snapshot, SplitList, UnionList, Value,
};

type Disk = MmapDisk<FrozenRun>;

const CHECKPOINT: CheckpointId = CheckpointId(7);
const HASH_SEED: u64 = 11;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../backend-mem/golden")
}

fn listing() -> String {
    fs::read_to_string(golden().join("job.txt")).unwrap()
}

fn max_parallelism() -> MaxParallelism {
    MaxParallelism::new(4).unwrap()
}

/// The heap of a subtask, which has two of the four key groups.
fn heap(subtask: u16) -> Heap {
    let key_groups = KeyGroupRange { first: KeyGroup(subtask * 2), last: KeyGroup(subtask * 2 + 1) };
    let frame_size = if subtask == 0 { 256 } else { 1024 };
    let options = HeapOptions { frame_size, memory_limit_bytes: 8 << 20, key_groups, hash_seed: HASH_SEED };
    Heap::new(options).unwrap()
}

/// Every kind of state and of page: by hash with records of any size, of one size, and in chains; ordered; raw; and
/// what is not kept by key.
fn filled(subtask: u16) -> Heap {
    let mut heap = heap(subtask);
    let (bytes, number) = (CodecId::variable("bytes", 1), CodecId::fixed("u64", 1, 8));
    let words = heap.register("count", "words", bytes, bytes).unwrap();
    let totals = heap.register("count", "totals", number, number).unwrap();
    let index = heap.register_ordered("count", "index", bytes, bytes).unwrap();
    let raw = RawKeyedState::register(&mut heap, "count", "raw").unwrap();
    for at in 0..40_u16 {
        let [low, ..] = at.to_le_bytes();
        let group = KeyGroup(subtask * 2 + at % 2);
        // Some keys and values are long enough for chains of pages.
        let word = vec![low; if at % 13 == 5 { 600 } else { 1 + usize::from(low) / 4 }];
        heap.put(words, group, &word, &vec![low; if at % 17 == 3 { 1500 } else { 3 }]).unwrap();
        heap.put(totals, group, &u64::from(at).to_le_bytes(), &[low; 8]).unwrap();
        let key = [b"all begin so ".as_slice(), &[low], &vec![b'.'; usize::from(at % 11) * 90]].concat();
        heap.ordered_put(index, group, &key, &vec![low; usize::from(at % 7) * 50]).unwrap();
    }
    raw.write(&mut heap, KeyGroup(subtask * 2), b"bytes of an operator's own").unwrap();
    fill_without_keys(&mut heap);
    heap
}

fn fill_without_keys(heap: &mut Heap) {
    let split = SplitList::<Bytes>::register(heap, "count", "split").unwrap();
    let union = UnionList::<Bytes>::register(heap, "count", "union").unwrap();
    let rules = Broadcast::<Plain<u32>, Bytes>::register(heap, "count", "rules").unwrap();
    let raw = RawOperatorState::register(heap, "count", "streams").unwrap();
    for at in 0..5_u32 {
        split.push(heap, format!("element {at}").as_bytes()).unwrap();
        union.push(heap, format!("of all {at}").as_bytes()).unwrap();
        rules.put(heap, &at, b"the same everywhere").unwrap();
        raw.push(heap, &vec![7; 100 * at as usize]).unwrap();
    }
}

/// Where a subtask's segment lies, and how it is stored.
fn spec(subtask: u16) -> SegmentSpec {
    SegmentSpec {
        folder: "job".into(),
        file_name: format!("chk-{CHECKPOINT}/{subtask}-1.seg"),
        file_id: 0xf11e_0000 + u128::from(subtask),
        job_id: 0x10b,
        checkpoint: CHECKPOINT,
        subtask: subtask.into(),
        attempt: 1,
        max_parallelism: max_parallelism(),
        compression: if subtask == 0 { Compression::None } else { Compression::Lz4 },
    }
}

/// What was in flight to a subtask: little to the first, more than a manifest takes to the second.
fn captured(subtask: u16) -> InFlight {
    let long: Vec<u8> = (0..20_u32 << 10).map(|at| (at >> 4).to_le_bytes()[0]).collect();
    let batches = if subtask == 0 { vec![b"one".to_vec(), Vec::new()] } else { vec![b"two".to_vec(), long] };
    let channel = |edge, sender, batches| CapturedChannel { edge, sender, batches };
    InFlight { channels: vec![channel(0, 0, batches), channel(1, subtask, vec![b"three".to_vec()])] }
}

fn in_flight_header(subtask: u16) -> InFlightHeader {
    let file_id = 0xf11e_0100 + u128::from(subtask);
    InFlightHeader { subtask: subtask.into(), file_id, job_id: 0x10b, checkpoint: CHECKPOINT.0, attempt: 1 }
}

/// Writes what was in flight, as a job does.
fn write_in_flight(disk: &mut Disk) -> [StoredInFlight; 2] {
    let spec = InFlightSpec {
        folder: "job".into(),
        file_name: format!("chk-{CHECKPOINT}/1-1.inflight"),
        header: in_flight_header(1),
    };
    let mut writer = InFlightWriter::<Disk>::new(captured(1), spec);
    run_to_end(disk, &mut writer).unwrap();
    let inline = captured(0).encode(&in_flight_header(0)).unwrap();
    [StoredInFlight::Inline(inline), StoredInFlight::File(writer.result().unwrap().clone().unwrap())]
}

fn manifest(segments: [SegmentRef; 2], in_flight: [StoredInFlight; 2]) -> Manifest {
    let inputs = Inputs::in_memory([("text", b"one line\nand another\n".as_slice())]).unwrap();
    let positions = LineSource::new(inputs, LineOptions::default(), 0, 1).snapshot();
    let part = PendingPart {
        checkpoint: CHECKPOINT,
        len: 12,
        hidden_name: ".part-0-1-3.tmp".into(),
        final_name: format!("part-0-3-chk-{CHECKPOINT}"),
    };
    let state = |operator: &str, name: &str, partitions| InlineState {
        operator: operator.into(),
        name: name.into(),
        redistribution: Redistribution::Split,
        partitions,
    };
    let inline = vec![state("lines", "splits", positions)];
    let source = SubtaskPart { is_drained: true, inline, ..Default::default() };
    let pending = state("output", "pending", vec![part.encode(), Vec::new()]);
    let mut in_flight = in_flight.into_iter();
    let [first, second] = segments.map(|segment| SubtaskPart {
        segment: Some(segment),
        in_flight: in_flight.next(),
        ..Default::default()
    });
    let second = SubtaskPart { inline: vec![pending], ..second };
    Manifest {
        id: CHECKPOINT,
        job_id: 0x10b,
        job_name: "job".into(),
        triggered_at: Millis(1_700_000_000_000),
        max_parallelism: max_parallelism().get(),
        hash_seed: HASH_SEED,
        is_finished: false,
        participants: vec![
            participant(ParticipantKind::OperatorCoordinator, "lines", b"handed out"),
            participant(ParticipantKind::Hook, "elsewhere", &[0, 255]),
            participant(ParticipantKind::Hook, "nothing", b""),
        ],
        vertices: vec![
            VertexPart { name: "lines".into(), subtasks: vec![source] },
            VertexPart { name: "count".into(), subtasks: vec![first, second] },
        ],
    }
}

fn participant(kind: ParticipantKind, name: &str, state: &[u8]) -> ParticipantPart {
    ParticipantPart { kind, name: name.into(), state: state.to_vec() }
}

/// Writes the checkpoint into a folder, and gives its manifest.
fn write(root: &Path) -> Manifest {
    fs::create_dir_all(root.join(format!("job/chk-{CHECKPOINT}"))).unwrap();
    let mut disk = Disk::new(root).unwrap();
    let segments = [0, 1].map(|subtask| {
        let mut writer = SegmentWriter::<Disk>::new(filled(subtask).freeze().unwrap(), spec(subtask));
        run_to_end(&mut disk, &mut writer).unwrap();
        writer.result().unwrap().clone().unwrap()
    });
    let manifest = manifest(segments, write_in_flight(&mut disk));
    fs::write(root.join(format!("job/chk-{CHECKPOINT}/_metadata")), manifest.encode().unwrap()).unwrap();
    manifest
}

/// What a reader should say of the checkpoint, from what was written.
fn listing_of(manifest: &Manifest) -> String {
    let mut text = String::new();
    list_manifest(manifest, &mut text).unwrap();
    for (subtask, part) in (0..).zip(&manifest.vertices[1].subtasks) {
        list_segment(subtask, &part.segment.as_ref().unwrap().file_name, &mut text).unwrap();
        if let Some(StoredInFlight::File(file)) = &part.in_flight {
            let place = format!("checkpoint {CHECKPOINT}, subtask {subtask}");
            writeln!(text, "in flight {}: {place}", file.file_name).unwrap();
            list_channels(&captured(subtask), "", &mut text).unwrap();
        }
    }
    text
}

fn list_manifest(manifest: &Manifest, text: &mut String) -> std::fmt::Result {
    let Manifest { id, job_id, job_name, triggered_at, max_parallelism, .. } = manifest;
    writeln!(text, "checkpoint {id} of job {job_id:032x} \"{job_name}\"")?;
    writeln!(text, "taken at {} ms, {max_parallelism} key groups", triggered_at.0)?;
    for ParticipantPart { kind, name, state } in &manifest.participants {
        let kind = if *kind == ParticipantKind::Hook { "hook" } else { "coordinator" };
        writeln!(text, "{kind} \"{name}\" {}", shown(state))?;
    }
    for vertex in &manifest.vertices {
        writeln!(text, "vertex \"{}\" with parallelism {}", vertex.name, vertex.subtasks.len())?;
        for (index, subtask) in vertex.subtasks.iter().enumerate() {
            writeln!(text, "  subtask {index}{}", if subtask.is_drained { ", finished" } else { "" })?;
            if let Some(SegmentRef { file_name, len, key_groups, .. }) = &subtask.segment {
                let (first, last) = (key_groups.first, key_groups.last);
                writeln!(text, "    segment {file_name}: {len} bytes, key groups {first} to {last}")?;
            }
            match &subtask.in_flight {
                Some(StoredInFlight::File(InFlightRef { file_name, len, .. })) => {
                    writeln!(text, "    in flight {file_name}: {len} bytes")?;
                }
                Some(StoredInFlight::Inline(bytes)) => {
                    writeln!(text, "    in flight: {} bytes", bytes.len())?;
                    list_channels(&captured(0), "    ", text)?;
                }
                None => {}
            }
            for state in &subtask.inline {
                writeln!(text, "    state \"{}\" \"{}\", split", state.operator, state.name)?;
                for partition in &state.partitions {
                    writeln!(text, "      partition {}", shown(partition))?;
                }
            }
        }
    }
    Ok(())
}

fn list_channels(captured: &InFlight, indent: &str, text: &mut String) -> std::fmt::Result {
    for CapturedChannel { edge, sender, batches } in &captured.channels {
        writeln!(text, "{indent}  channel {edge} from {sender}: {} batches", batches.len())?;
        for batch in batches {
            writeln!(text, "{indent}    batch {}", shown(batch))?;
        }
    }
    Ok(())
}

fn list_segment(subtask: u16, file_name: &str, text: &mut String) -> std::fmt::Result {
    let (mut heap, stored) = (filled(subtask), spec(subtask).compression);
    let frame_size = heap.options().frame_size;
    let place = format!("checkpoint {CHECKPOINT}, subtask {subtask}");
    writeln!(text, "segment {file_name}: {stored}, frames of {frame_size} bytes, {place}")?;
    let snapshot = heap.freeze().unwrap();
    for state in snapshot.states() {
        let kind = format!("{:?}, {}", state.kind, distribution(state.name)).to_lowercase();
        let codec = |codec: CodecId<'_>| format!("{}.{}", codec.name, codec.version);
        let codecs = format!("{} -> {}", codec(state.key), codec(state.value));
        let (id, operator, name, entries) = (state.id.0, state.operator, state.name, state.entries);
        writeln!(text, "  state {id} \"{operator}\" \"{name}\": {kind}, {codecs}, {entries} entries")?;
    }
    for (group, mut entries) in entries_by_group(&snapshot) {
        entries.sort();
        let name =
            if group == KeyGroup::NONE.0 { "no key group".into() } else { format!("key group {group}") };
        writeln!(text, "  {name}: {} entries", entries.len())?;
        for (state, key, value) in entries {
            writeln!(text, "    {state}: {} = {}", shown(&key), shown(&value))?;
        }
    }
    Ok(())
}

fn distribution(state: &str) -> &'static str {
    match state {
        "split" | "streams" => "split",
        "union" => "union",
        "rules" => "broadcast",
        _ => "by key",
    }
}

type Entry = (u16, Vec<u8>, Vec<u8>);

fn entries_by_group(snapshot: &Snapshot) -> BTreeMap<u16, Vec<Entry>> {
    let mut groups = BTreeMap::<u16, Vec<Entry>>::new();
    for state in snapshot.states() {
        snapshot.entries(state.id, &mut |group, key, value| {
            groups.entry(group.0).or_default().push((state.id.0, owned(key), owned(value)));
        });
    }
    groups
}

fn owned(value: Value<'_>) -> Vec<u8> {
    value.chunks().collect::<Vec<_>>().concat()
}

/// Entries by the name of their state.
fn entries_by_name(snapshot: &Snapshot) -> Vec<(String, u16, Vec<u8>, Vec<u8>)> {
    let name = |id| snapshot.states().find(|state| state.id.0 == id).unwrap().name.to_owned();
    let groups = entries_by_group(snapshot);
    let named = |(group, entries): (&u16, &Vec<Entry>)| {
        let group = *group;
        entries
            .iter()
            .map(|(id, key, value)| (name(*id), group, key.clone(), value.clone()))
            .collect::<Vec<_>>()
    };
    let mut entries: Vec<_> = groups.iter().flat_map(named).collect();
    entries.sort();
    entries
}

/// All of a few bytes, of more the first and how to recognise the others.
fn shown(bytes: &[u8]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    match bytes.len() {
        0 => "-".into(),
        len @ 1..=40 => hex(&bytes[..len]),
        len => format!("{}... {len} bytes, CRC-32 {:08x}", hex(&bytes[..8]), crc_32(bytes)),
    }
}

fn crc_32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 },
        )
    })
}

#[test]
fn the_golden_checkpoint_holds_what_its_listing_says() {
    let new = tempfile::tempdir().unwrap();
    let written = write(new.path());
    if std::env::var_os("SLACKWATER_WRITE_GOLDEN").is_some() {
        fs::remove_dir_all(golden().join("job")).unwrap();
        write(&golden());
        fs::write(golden().join("job.txt"), listing_of(&written)).unwrap();
    }
    let mut disk = Disk::new(&golden()).unwrap();
    let found = find(&mut disk, "job").unwrap();
    assert_eq!((found.passed_over.len(), &found.retained), (0, &vec![CHECKPOINT]));
    let manifest = found.newest.unwrap();
    assert!(verify_files(&mut disk, "job", &manifest).is_empty());
    assert!(listing() == listing_of(&manifest), "the listing is another");
    // What a compressor makes of the same bytes may change.
    for name in ["0-1.seg", "1-1.inflight"] {
        let path = format!("job/chk-{CHECKPOINT}/{name}");
        let is_same = fs::read(golden().join(&path)).unwrap() == fs::read(new.path().join(&path)).unwrap();
        assert!(is_same, "the writer writes the same {name}");
    }
    for subtask in 0..2 {
        let stored = manifest.vertices[1].subtasks[usize::from(subtask)].in_flight.as_ref().unwrap();
        let path = format!("job/chk-{CHECKPOINT}/1-1.inflight");
        assert_eq!(in_flight::read(&mut disk, &path, stored), Ok(captured(subtask)));
        let restored = restored(subtask, &manifest, &mut disk);
        assert!(restored == entries_by_name(&filled(subtask).freeze().unwrap()), "subtask {subtask}");
    }
}

fn restored(subtask: u16, manifest: &Manifest, disk: &mut Disk) -> Vec<(String, u16, Vec<u8>, Vec<u8>)> {
    let segment = manifest.vertices[1].subtasks[usize::from(subtask)].segment.as_ref().unwrap();
    let path = format!("job/{}", segment.file_name);
    let mut heap = heap(subtask);
    let key_groups = heap.options().key_groups;
    restore_segment(disk, &path, segment, key_groups, &mut heap).unwrap();
    let old = [Some(OldSegment { path: &path, segment })];
    let rescaling = Rescaling::new(max_parallelism(), 1, 1).unwrap();
    restore_operator_state(disk, &old, rescaling, 0, &mut heap).unwrap();
    entries_by_name(&heap.freeze().unwrap())
}

/// Lists the checkpoint by the program in Python; none without Python, unless `REQUIRE_PYTHON` is set.
fn by_python(job: &Path) -> Option<Output> {
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("reader/read_checkpoint.py");
    let number = CHECKPOINT.to_string();
    match Command::new("python3").arg("-B").arg(reader).arg(job).arg(number).output() {
        Ok(output) => Some(output),
        Err(error) => {
            assert!(std::env::var_os("REQUIRE_PYTHON").is_none(), "python3: {error}");
            eprintln!("skipped: python3: {error}");
            None
        }
    }
}

#[test]
fn a_reader_that_knows_the_page_alone_lists_the_golden_checkpoint() {
    let Some(output) = by_python(&golden().join("job")) else { return };
    let (listed, complaints) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{complaints}");
    assert!(listed == listing(), "{listed}");
}

/// The golden job with other bytes in one of its files, as Python sees it: what it says, or none without Python.
fn refused_by_python(file: &str, change: impl Fn(&mut [u8])) -> Option<String> {
    let (folder, copy) = (format!("chk-{CHECKPOINT}"), tempfile::tempdir().unwrap());
    fs::create_dir(copy.path().join(&folder)).unwrap();
    for name in ["_metadata", "0-1.seg", "1-1.seg", "1-1.inflight"] {
        let mut bytes = fs::read(golden().join("job").join(&folder).join(name)).unwrap();
        if name == file {
            change(&mut bytes);
        }
        fs::write(copy.path().join(&folder).join(name), bytes).unwrap();
    }
    let output = by_python(copy.path())?;
    assert_eq!(output.status.code(), Some(1));
    Some(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The page says which bytes are under which checksum.
#[test]
fn that_reader_finds_damage() {
    for (file, at, expected) in [
        ("_metadata", 8, "damaged: version of the manifest"),
        ("_metadata", 40, "damaged: checksum of the manifest"),
        ("0-1.seg", 8, "damaged: version of a segment"),
        ("0-1.seg", 70, "damaged: checksum of a header"),
        ("0-1.seg", 1000, "damaged: rest of the first block is not zero"),
        ("0-1.seg", 4096 + 100, "damaged: checksum of a frame"),
        ("1-1.seg", 4096 + 100, "damaged: checksum of a chunk"),
        ("1-1.inflight", 8, "damaged: version of a file of records in flight"),
        ("1-1.inflight", 200, "damaged: checksum of records in flight"),
    ] {
        let Some(complaint) = refused_by_python(file, |bytes| bytes[at] ^= 2) else { return };
        assert!(complaint.starts_with(expected), "{file} {at}: {complaint}");
    }
}

/// A newer program has put its version under the checksum.
#[test]
fn that_reader_tells_a_newer_version_from_a_rotten_one() {
    let newer_manifest = |bytes: &mut [u8]| {
        bytes[8] = 2;
        let identity = [&[6, 0, 0, 0], [0; 12].as_slice(), &bytes[32..40], &bytes[16..32]].concat();
        let end = bytes.len() - 8;
        let checksum = crc_32(&[&identity, &bytes[..end]].concat());
        bytes[end..end + 4].copy_from_slice(&checksum.to_le_bytes());
    };
    let newer_segment = |bytes: &mut [u8]| {
        bytes[8] = 2;
        let identity = [&[1, 0, 0, 0], [0; 12].as_slice(), &bytes[56..64], &bytes[16..32]].concat();
        let checksum = crc_32(&[&identity, &bytes[..124]].concat());
        bytes[124..128].copy_from_slice(&checksum.to_le_bytes());
    };
    let Some(complaint) = refused_by_python("_metadata", newer_manifest) else { return };
    assert_eq!(complaint, "unsupported: the manifest has version 2\n");
    let newer_records = |bytes: &mut [u8]| {
        bytes[8] = 2;
        let identity = [&[8, 0, 0, 0], [0; 12].as_slice(), &bytes[48..56], &bytes[16..32]].concat();
        let end = bytes.len() - 8;
        let checksum = crc_32(&[&identity, &bytes[..end]].concat());
        bytes[end..end + 4].copy_from_slice(&checksum.to_le_bytes());
    };
    let Some(complaint) = refused_by_python("0-1.seg", newer_segment) else { return };
    assert_eq!(complaint, "unsupported: a segment has version 2\n");
    let Some(complaint) = refused_by_python("1-1.inflight", newer_records) else { return };
    assert_eq!(complaint, "unsupported: a file of records in flight has version 2\n");
}
