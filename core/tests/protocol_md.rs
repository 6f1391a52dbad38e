//! PROTOCOL.md says what the tests show, and the tests show what PROTOCOL.md says.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const PROTOCOL_MD: &str = include_str!("../PROTOCOL.md");

/// Ids of one letter, from the first number to the last.
type Range = (char, u32, u32);

/// The sections and the ids that each states.
const SECTIONS: &[(&str, &[Range])] = &[
    ("1", &[('T', 1, 37)]),
    ("2", &[('P', 1, 38), ('W', 1, 15)]),
    ("3", &[('F', 1, 9)]),
    ("4", &[('S', 1, 34), ('Z', 1, 8)]),
    ("5", &[('B', 1, 36), ('Q', 1, 21)]),
    ("6", &[('X', 1, 31), ('Y', 1, 14)]),
    ("7", &[('U', 1, 27)]),
    ("8", &[('K', 1, 9), ('R', 1, 14)]),
    ("11", &[('C', 1, 22)]),
    ("12", &[('V', 1, 18)]),
    ("13", &[('M', 1, 8), ('G', 1, 3)]),
    ("14", &[('L', 7, 8)]),
    ("15", &[('L', 1, 1)]),
];

/// Folders whose tests may show a rule.
const FOLDERS: &[&str] = &["core", "tests", "backend-mem", "runtime"];

/// Id of a rule: `X7`.
type Id = (char, u32);

/// A rule as the document states it.
struct Rule {
    section: &'static str,
    id: Id,
    text: String,
}

impl Rule {
    fn is_out_of_scope(&self) -> bool {
        self.text.starts_with("Out of scope")
    }
}

/// A test function and the rules that its name begins with.
struct Test {
    path: String,
    name: String,
    ids: Vec<Id>,
}

fn show((letter, number): Id) -> String {
    format!("{letter}{number}")
}

/// Fails with every complaint at once.
fn none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// The section that a rule belongs to.
fn section_of((letter, number): Id) -> Option<&'static str> {
    let states = |ranges: &[Range]| {
        ranges.iter().any(|range| range.0 == letter && (range.1..=range.2).contains(&number))
    };
    SECTIONS.iter().find(|(_, ranges)| states(ranges)).map(|(section, _)| *section)
}

/// `X7`, without leading zeros: `A-03` is a bug report.
fn id(text: &str) -> Option<Id> {
    let mut letters = text.chars();
    let letter = letters.next().filter(char::is_ascii_alphabetic)?.to_ascii_uppercase();
    let digits = letters.as_str();
    let is_number = digits.bytes().all(|digit| digit.is_ascii_digit()) && !digits.starts_with('0');
    Some((letter, digits.parse().ok().filter(|_| is_number)?))
}

/// Whether a word of a test's name is the id of a public bug report: `a03`.
fn is_bug(word: &str) -> bool {
    word == "bug" || word.len() == 3 && word.as_bytes()[1] == b'0' && word.as_bytes()[2].is_ascii_digit()
}

/// The rules of the document, with lines that go on joined.
fn rules() -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    let (mut section, mut is_in_rule) = ("", false);
    for line in PROTOCOL_MD.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = heading.split_once(". ").map_or("", |(number, _)| number);
        }
        let stated = line.strip_prefix("- **").and_then(|rest| rest.split_once("** "));
        if let Some((id, text)) = stated.and_then(|(word, text)| Some((id(word)?, text))) {
            rules.push(Rule { section, id, text: text.to_owned() });
            is_in_rule = true;
        } else if is_in_rule && line.starts_with("  ") {
            let rule = rules.last_mut().unwrap();
            rule.text = format!("{} {}", rule.text, line.trim());
        } else {
            is_in_rule = false;
        }
    }
    rules
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The functions below a `#[test]` in a file.
fn names_of_tests(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim_start) {
        is_test |= line.starts_with("#[test]");
        if let Some(rest) = line.strip_prefix("fn ").filter(|_| is_test) {
            names.extend(rest.split('(').next().map(str::to_owned));
            is_test = false;
        }
    }
    names
}

/// Every test whose name begins with the id of a rule of the document's sections.
fn tests() -> Vec<Test> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    FOLDERS.iter().for_each(|folder| sources(&root.join(folder), &mut files));
    let mut tests = Vec::new();
    for file in files {
        let path = file.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        for name in names_of_tests(&fs::read_to_string(&file).unwrap()) {
            let chain = name.split('_').take_while(|word| id(word).is_some() || is_bug(word));
            let ids: Vec<_> = chain.filter_map(id).filter(|id| is_family(*id)).collect();
            if !ids.is_empty() {
                tests.push(Test { path: path.clone(), name, ids });
            }
        }
    }
    assert!(tests.len() > 50, "the tests were not found");
    tests
}

/// Whether rules of this letter are stated here; those of the state heap are not.
fn is_family((letter, _): Id) -> bool {
    SECTIONS.iter().any(|(_, ranges)| ranges.iter().any(|range| range.0 == letter))
}

#[test]
fn every_section_is_there_and_each_rule_lies_in_its_own_once() {
    let mut complaints = Vec::new();
    for (section, _) in SECTIONS {
        let count = PROTOCOL_MD.lines().filter(|line| line.starts_with(&format!("## {section}. "))).count();
        if count != 1 {
            complaints.push(format!("section {section} has {count} headings `## {section}. ...`"));
        }
    }
    let mut seen = BTreeSet::new();
    for rule in rules() {
        let id = show(rule.id);
        match section_of(rule.id) {
            None => complaints.push(format!("{id} is no rule of any section")),
            Some(section) if section != rule.section => {
                complaints.push(format!("{id} belongs in section {section}, not in {:?}", rule.section));
            }
            Some(_) => {}
        }
        if !seen.insert(rule.id) {
            complaints.push(format!("{id} is stated twice"));
        }
    }
    none(complaints);
}

#[test]
fn every_rule_is_stated() {
    let stated: BTreeSet<Id> = rules().iter().map(|rule| rule.id).collect();
    let mut complaints = Vec::new();
    for (section, ranges) in SECTIONS {
        for (letter, first, last) in *ranges {
            let missing = (*first..=*last).map(|number| (*letter, number)).filter(|id| !stated.contains(id));
            complaints.extend(
                missing.map(|id| format!("{} is not stated in section {section} of PROTOCOL.md", show(id))),
            );
        }
    }
    none(complaints);
}

#[test]
fn every_rule_has_a_test_or_a_reason() {
    let mut tests_of: BTreeMap<Id, Vec<String>> = BTreeMap::new();
    for test in tests() {
        for id in &test.ids {
            tests_of.entry(*id).or_default().push(format!("{} in {}", test.name, test.path));
        }
    }
    let mut complaints = Vec::new();
    for rule in rules() {
        let (id, tests) = (show(rule.id), tests_of.get(&rule.id));
        match (rule.is_out_of_scope(), tests) {
            (false, None) => complaints.push(format!(
                "{id} has no test: name one {}_... below {}",
                id.to_lowercase(),
                FOLDERS.join("/, ") + "/"
            )),
            (true, Some(tests)) => {
                complaints.push(format!("{id} is out of scope, but has {}", tests.join(", ")));
            }
            (true, None) if rule.text.len() < "Out of scope: because.".len() => {
                complaints.push(format!("{id} is out of scope without a reason: `Out of scope: ...`"));
            }
            _ => {}
        }
    }
    none(complaints);
}

#[test]
fn every_test_of_a_rule_finds_it() {
    let stated: BTreeSet<Id> = rules().iter().map(|rule| rule.id).collect();
    let mut complaints = Vec::new();
    for Test { path, name, ids } in tests() {
        for id in ids {
            if !stated.contains(&id) {
                complaints
                    .push(format!("{path}: {name} names {}, which PROTOCOL.md does not state", show(id)));
            }
        }
    }
    none(complaints);
}
