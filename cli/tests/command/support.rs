//! Runs the program, stops it in the middle, and holds its output against a plain count.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use slackwater::checkpoint::Manifest;
use slackwater::word_count::plain::add_counts;
use tempfile::TempDir;

/// What a run said and how it ended.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The program, not started yet.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slackwater"));
    command.stdin(Stdio::null());
    command
}

/// Runs the program to its end.
pub(crate) fn slackwater<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Told {
    told(program().args(args))
}

/// Runs a command to its end. It must not have panicked.
pub(crate) fn told(command: &mut Command) -> Told {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let told =
        Told { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) };
    assert!(!told.stderr.contains("panicked"), "{told:?}");
    told
}

impl Told {
    /// It ended with this code, said exactly one line on standard error with these words in it, and
    /// nothing on standard output.
    #[track_caller]
    pub(crate) fn refused(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
        assert!(words.iter().all(|word| self.stderr.contains(word)), "{words:?} in {self:?}");
        assert!(self.stdout.is_empty(), "{self:?}");
    }

    /// It did what it was asked.
    #[track_caller]
    pub(crate) fn fine(&self) -> &Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// The last line of standard output.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(self.stdout.lines().last().expect("an object")).unwrap()
    }
}

/// A folder of its own with a text in it.
pub(crate) struct Place {
    folder: TempDir,
    pub(crate) text: Vec<u8>,
}

impl Place {
    pub(crate) fn new(text: &[u8]) -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap(), text: text.to_vec() };
        fs::write(place.input(), text).unwrap();
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn input(&self) -> PathBuf {
        self.path("input.txt")
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.path("dir")
    }

    pub(crate) fn output(&self) -> PathBuf {
        self.path("dir/output")
    }

    /// The folder of the newest checkpoint that has a manifest.
    pub(crate) fn newest(&self) -> (u64, PathBuf) {
        self.checkpoints().pop().expect("there is a checkpoint")
    }

    /// Every checkpoint that has a manifest, oldest first.
    pub(crate) fn checkpoints(&self) -> Vec<(u64, PathBuf)> {
        let entries = fs::read_dir(self.path("dir/wordcount")).unwrap().map(|entry| entry.unwrap().path());
        let complete = entries.filter(|path| path.join("_metadata").exists());
        let id = |path: &Path| path.file_name()?.to_str()?.strip_prefix("chk-")?.parse().ok();
        let mut found: Vec<_> = complete.filter_map(|path| Some((id(&path)?, path))).collect();
        found.sort();
        found
    }

    /// A word count over the text, not started yet.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = program();
        command.arg("wordcount").arg(self.input()).arg("--dir").arg(self.dir());
        if !args.contains(&"--interval") {
            command.args(["--interval", "10ms"]);
        }
        command.args(args);
        command
    }

    /// A word count over the text, run to its end, with JSON.
    pub(crate) fn wordcount(&self, args: &[&str]) -> Told {
        told(self.command(args).arg("--json"))
    }

    /// Starts a word count and kills it once it has completed so many checkpoints. False if it had come to its
    /// end by then.
    pub(crate) fn killed(&self, checkpoints: u64, args: &[&str]) -> bool {
        let mut command = self.command(args);
        command.arg("--events").stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = Running(command.spawn().unwrap());
        let lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut events = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
        let is_due = |event: &Value| {
            event["event"] == "progress" && event["checkpoints_completed"].as_u64() >= Some(checkpoints)
        };
        let is_due = events.any(|event| is_due(&event));
        child.0.kill().unwrap();
        let was_killed = is_due && !child.0.wait().unwrap().success();
        // The kill may have come between the last checkpoint and the end of the process.
        was_killed && !self.is_finished()
    }

    fn is_finished(&self) -> bool {
        let manifest = fs::read(self.newest().1.join("_metadata")).unwrap();
        Manifest::decode(&manifest).unwrap().is_finished
    }

    #[track_caller]
    pub(crate) fn assert_exact(&self, emit: &str) {
        assert_exact(&self.output(), &[&self.text], emit);
    }
}

/// A child that does not outlive the test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The committed parts hold exactly what a plain count of the texts gives.
#[track_caller]
pub(crate) fn assert_exact(output: &Path, texts: &[&[u8]], emit: &str) {
    let mut expected = BTreeMap::new();
    texts.iter().for_each(|text| add_counts(&mut expected, text));
    let mut emitted: BTreeMap<Vec<u8>, Vec<u64>> = BTreeMap::new();
    for part in parts(output) {
        for line in fs::read(part).unwrap().split_inclusive(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\n").expect("every line has its end");
            let tab = line.iter().rposition(|byte| *byte == b'\t').unwrap();
            let count = std::str::from_utf8(&line[tab + 1..]).unwrap().parse().unwrap();
            emitted.entry(line[..tab].to_vec()).or_default().push(count);
        }
    }
    assert!(emitted.keys().eq(expected.keys()), "{} words, not {}", emitted.len(), expected.len());
    for (word, mut counts) in emitted {
        counts.sort_unstable();
        let last = expected[&word];
        let first = if emit == "updates" { 1 } else { last };
        let word = String::from_utf8_lossy(&word);
        assert!(counts.iter().copied().eq(first..=last), "{word} occurs {last} times: {counts:?}");
    }
}

/// The committed parts in a folder.
pub(crate) fn parts(output: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(output).unwrap().map(|entry| entry.unwrap().path());
    let is_part = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("part-");
    entries.filter(is_part).collect()
}

/// A text of a few thousand different words.
pub(crate) fn text(len: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(len + 64);
    let mut random = 1u64;
    while text.len() < len {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let word = (random >> 33) % 3000 * ((random >> 50) % 3);
        text.extend_from_slice(format!("word{word}").as_bytes());
        text.push(if random >> 60 == 0 { b'\n' } else { b' ' });
    }
    text
}

/// A job with `--emit updates` that was killed after at least two checkpoints. Made once, copied each time.
pub(crate) fn stopped() -> Place {
    static STOPPED: OnceLock<(Vec<u8>, Tree)> = OnceLock::new();
    let (text, tree) = STOPPED.get_or_init(|| {
        let place = until_killed(768 << 10, |place| place.killed(2, &["--emit", "updates"]));
        (place.text.clone(), read_tree(&place.dir()))
    });
    let place = Place::new(text);
    write_tree(&place.dir(), tree);
    place
}

/// Tries with more and more text, as long as the job ends before it is killed.
pub(crate) fn until_killed(len: usize, is_killed: impl Fn(&Place) -> bool) -> Place {
    let places = (0..6).map(|doublings| Place::new(&text(len << doublings)));
    places.into_iter().find(|place| is_killed(place)).expect("the job is not always faster than its kill")
}

/// Files by path, folders without content.
type Tree = Vec<(PathBuf, Option<Vec<u8>>)>;

fn read_tree(root: &Path) -> Tree {
    let mut tree = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if !path.is_dir() && !path.is_file() {
                continue; // The socket of a job that was killed.
            }
            let content = path.is_file().then(|| fs::read(&path).unwrap());
            tree.push((path.strip_prefix(root).unwrap().to_owned(), content));
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    tree
}

fn write_tree(root: &Path, tree: &Tree) {
    fs::create_dir(root).unwrap();
    for (path, content) in tree {
        match content {
            None => fs::create_dir(root.join(path)).unwrap(),
            Some(content) => fs::write(root.join(path), content).unwrap(),
        }
    }
}

/// Whether this machine has io_uring; says so if not.
pub(crate) fn has_uring() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let told = Place::new(b"a").wordcount(&["--storage", "uring"]);
        let has = told.code == Some(0);
        let is_required = std::env::var_os("REQUIRE_URING").is_some_and(|value| value == "1");
        assert!(has || !is_required, "io_uring is required: {told:?}");
        if !has {
            eprintln!("skipped on io_uring: {}", told.stderr.trim());
        }
        has
    })
}

/// Whether the tests run as root.
pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}
