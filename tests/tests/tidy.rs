//! The repository's own rules, as tests. Each failure names the file and says what to do.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Most lines of a source file, its tests left out.
const LINES_MAX: usize = 600;

/// A file of the repository: its path from the root, and its text.
struct Source {
    path: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate lies in the workspace").to_owned()
}

/// Every text file under version control, near enough: what is not built and not hidden.
fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    collect(&root(), &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(found.len() > 30, "the repository was not found");
    found
}

fn collect(folder: &Path, found: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).expect("the repository can be read") {
        let path = entry.expect("the repository can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if matches!(name.as_str(), ".git" | "target" | "artifacts" | "coverage" | "corpus") {
            continue;
        }
        if path.is_dir() {
            collect(&path, found);
        } else if let Ok(text) = fs::read_to_string(&path) {
            let path =
                path.strip_prefix(root()).expect("it is below the root").to_string_lossy().into_owned();
            found.push(Source { path, text });
        }
    }
}

impl Source {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// A file, or the file of a folder, that holds nothing but tests.
    fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let of_tests =
            |part: &str| matches!(part, "tests" | "tests.rs" | "enumeration.rs" | "enumeration" | "loom.rs");
        let crate_path = self.path.split_once('/').map_or("", |(_, rest)| rest);
        of_tests(name) || crate_path.split('/').any(of_tests)
    }

    fn lines_without_tests(&self) -> usize {
        let before_tests = self.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        before_tests.lines().count()
    }

    /// The code alone: comments, and lines that are nothing but a comment, left out.
    fn code(&self) -> impl Iterator<Item = &str> {
        self.text.lines().map(|line| line.split("//").next().unwrap_or_default())
    }

    fn count(&self, pattern: &str) -> usize {
        self.code().map(|line| line.matches(pattern).count()).sum()
    }
}

/// Fails with every complaint at once.
fn none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn source_files_are_small() {
    let files = sources().into_iter().filter(|file| file.is_rust() && !file.is_test());
    none(
        files
            .filter(|file| file.lines_without_tests() > LINES_MAX)
            .map(|file| format!("{}: {} lines, at most {LINES_MAX}", file.path, file.lines_without_tests()))
            .collect(),
    );
}

#[test]
fn sources_are_ascii() {
    let files = sources().into_iter().filter(|file| file.is_rust() || file.path.ends_with(".toml"));
    let odd = files.filter(|file| !file.text.is_ascii());
    none(odd.map(|file| format!("{}: not ASCII; write \\u{{...}} in strings", file.path)).collect());
}

#[test]
fn nothing_is_left_unfinished() {
    let words =
        [concat!("FIX", "ME"), concat!("dbg", "!("), concat!("to", "do!("), concat!("unimpl", "emented!(")];
    let mut complaints = Vec::new();
    for file in sources().iter().filter(|file| file.is_rust()) {
        for (number, line) in (1..).zip(file.text.lines()) {
            if let Some(word) = words.iter().find(|word| line.contains(*word)) {
                complaints.push(format!("{}:{number}: {word}", file.path));
            }
        }
    }
    none(complaints);
}

#[test]
fn no_file_knows_where_it_was_written() {
    let places =
        [concat!("/wo", "rk/"), concat!("../sha", "red"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
    let mut complaints = Vec::new();
    for file in &sources() {
        for (number, line) in (1..).zip(file.text.lines()) {
            if let Some(place) = places.iter().find(|place| line.contains(*place)) {
                complaints.push(format!("{}:{number}: names {place}", file.path));
            }
        }
    }
    none(complaints);
}

#[test]
fn every_crate_uses_the_workspace_lints_and_says_what_it_is() {
    let manifests = sources().into_iter().filter(|file| file.path.ends_with("Cargo.toml"));
    let members = manifests.filter(|file| file.text.contains("version.workspace = true"));
    none(
        members
            .filter(|file| {
                !file.text.contains("[lints]\nworkspace = true") || !file.text.contains("description")
            })
            .map(|file| format!("{}: add `[lints] workspace = true` and a description", file.path))
            .collect(),
    );
}

/// The rows of the table in UNSAFE.md: file, blocks, implementations.
fn unsafe_listed(text: &str) -> BTreeSet<(String, usize, usize)> {
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let number =
            |cell: &str| cell.parse().unwrap_or_else(|_| panic!("UNSAFE.md: {cell} is not a number"));
        (cells[0].trim_matches('`').to_owned(), number(cells[1]), number(cells[2]))
    })
    .collect()
}

#[test]
fn unsafe_md_lists_every_file_with_unsafe_code_and_nothing_else() {
    let (blocks, impls) = (concat!("unsafe", " {"), concat!("unsafe", " impl"));
    let files = sources();
    let found: BTreeSet<_> = files
        .iter()
        .filter(|file| file.is_rust())
        .map(|file| (file.path.clone(), file.count(blocks), file.count(impls)))
        .filter(|(_, blocks, impls)| blocks + impls > 0)
        .collect();
    let page = files.iter().find(|file| file.path == "UNSAFE.md").expect("there is an UNSAFE.md");
    let listed = unsafe_listed(&page.text);
    let row =
        |(path, blocks, impls): &(String, usize, usize)| format!("| `{path}` | {blocks} | {impls} | ... |");
    let missing = found.difference(&listed).map(|entry| format!("UNSAFE.md lacks {}", row(entry)));
    let stale = listed.difference(&found).map(|entry| format!("UNSAFE.md is wrong in {}", row(entry)));
    none(missing.chain(stale).collect());
}

/// The ids that a module documents under `# Invariants`: lines `//! - GI1: ...`.
fn invariants_documented(text: &str) -> BTreeSet<String> {
    let section = text.lines().skip_while(|line| *line != "//! # Invariants").skip(1);
    let rows = section.take_while(|line| line.starts_with("//!") && !line.starts_with("//! #"));
    let ids = rows
        .filter_map(|line| line.strip_prefix("//! - ")?.split_once(':').map(|(id, _)| id.trim_matches('`')));
    ids.map(str::to_owned).collect()
}

/// Ids in quotes that start with the same letters as a documented one: those that a check answers with.
fn invariants_asserted(texts: &[&str], documented: &BTreeSet<String>) -> BTreeSet<String> {
    let letters = |id: &str| id.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
    let prefixes: BTreeSet<String> = documented.iter().map(|id| letters(id)).collect();
    let quoted = texts.iter().flat_map(|text| text.split('"'));
    let is_id =
        |word: &&str| word.len() < 8 && letters(word).len() < word.len() && prefixes.contains(&letters(word));
    quoted.filter(is_id).map(str::to_owned).collect()
}

#[test]
fn documented_invariants_are_asserted_and_the_other_way_round() {
    let files = sources();
    let mut complaints = Vec::new();
    let mut machines = 0;
    for file in files.iter().filter(|file| file.is_rust() && file.text.contains("fn check(&self)")) {
        let documented = invariants_documented(&file.text);
        let folder = format!("{}/", file.path.trim_end_matches(".rs"));
        let module = files.iter().filter(|other| other.path == file.path || other.path.starts_with(&folder));
        let texts: Vec<&str> =
            module.filter(|other| !other.is_test()).map(|other| other.text.as_str()).collect();
        let asserted = invariants_asserted(&texts, &documented);
        machines += usize::from(!documented.is_empty());
        complaints.extend(
            documented.difference(&asserted).map(|id| format!("{}: {id} is never checked", file.path)),
        );
        complaints.extend(
            asserted.difference(&documented).map(|id| format!("{}: {id} is not documented", file.path)),
        );
    }
    none(complaints);
    assert!(machines >= 3, "the machines' invariants were not found");
}

#[test]
fn the_readme_names_every_crate() {
    let files = sources();
    let text = |path: &str| files.iter().find(|file| file.path == path).map_or("", |file| &file.text);
    let members =
        text("Cargo.toml").lines().find_map(|line| line.strip_prefix("members = [")).expect("members");
    let folders = members.trim_end_matches(']').split(',').map(|folder| folder.trim().trim_matches('"'));
    none(
        folders
            .filter(|folder| !text("README.md").contains(&format!("{folder}/")))
            .map(|folder| format!("README.md does not name {folder}/"))
            .collect(),
    );
}

#[test]
fn every_dependency_was_chosen() {
    let files = sources();
    let lock =
        files.iter().find(|file| file.path == "Cargo.lock").expect("Cargo.lock is under version control");
    let names = lock.text.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    let chosen: BTreeSet<&str> = include_str!("packages.txt").lines().collect();
    let locked: BTreeSet<&str> = names.collect();
    let new = locked
        .difference(&chosen)
        .map(|name| format!("{name} is new: say why in ARCHITECTURE.md, add it here"));
    let gone = chosen.difference(&locked).map(|name| format!("{name} is gone: take it out of packages.txt"));
    none(new.chain(gone).collect());
}
