//! The list in docs/security.md of the files, sockets and folders that the program makes, against the sources.

use std::collections::BTreeSet;

use crate::tree::{code, files, read, root};

const LIST: &str = "docs/security.md";
const SECTION: &str = "## Files, sockets and folders that are made";
/// What makes a file, a socket or a folder.
const MAKES: [&str; 14] = [
    ".append(true)",
    ".create(true)",
    "DirBuilder::new",
    "File::create",
    "NamedTempFile",
    "UnixListener::bind",
    "create_dir",
    "create_new(",
    "fs::copy",
    "fs::write(",
    "make_own_folder(",
    "PacketSocket::listen(",
    "net::bind(",
    "tempfile",
];
/// What follows a link that another user has left, or opens a file of theirs.
const FOLLOWS: [&str; 5] =
    [".append(true)", ".create(true)", "File::create(", "fs::copy", "fs::write("];
/// Modules that only tests have.
const OF_TESTS: [&str; 6] = [
    "libs/inventory/src/trees.rs",
    "libs/transport/src/links/rdma/detection.rs",
    "libs/transport/src/links/rdma/verbs/layout.rs",
    "libs/transport/src/links/ucx/layout.rs",
    "storage-tier/src/format/arrays/trial.rs",
    "storage-tier/src/format/fixtures.rs",
];

/// One row of the list.
struct Row {
    rule: String,
    sources: Vec<String>,
    tests: Vec<String>,
}

/// Sources that make something and are not on the list; rows whose sources do not follow their rule.
pub(crate) fn breaches() -> Vec<String> {
    let rows = rows();
    assert!(rows.len() >= 10, "{LIST} has lost its list");
    let listed: BTreeSet<&String> = rows.iter().flat_map(|row| &row.sources).collect();
    let sources = files(&[".rs"]);
    let made = sources.iter().filter(|path| is_of_the_program(path) && has(path, &MAKES));
    let unlisted = made.filter(|path| !listed.contains(path)).map(|path| {
        format!("{path} makes a file, a socket or a folder: add it to the list in {LIST}")
    });
    let all: Vec<String> = files(&[".rs", ".py"]).iter().map(|path| read(path)).collect();
    unlisted.chain(rows.iter().flat_map(|row| row.breaches(&all))).collect()
}

fn rows() -> Vec<Row> {
    let text = read(LIST);
    let (_, section) = text.split_once(SECTION).unwrap_or_else(|| panic!("{LIST}: no {SECTION}"));
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| ")).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let quoted = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        let [_, rule, sources, tests] = cells[..] else { panic!("{LIST}: four cells: {line}") };
        Row { rule: rule.to_owned(), sources: quoted(sources), tests: quoted(tests) }
    });
    rows.filter(|row| !row.sources.is_empty()).collect()
}

// === impl Row ===

impl Row {
    fn breaches(&self, all: &[String]) -> Vec<String> {
        let mut breaches = Vec::new();
        for path in &self.sources {
            if !root().join(path).exists() {
                breaches.push(format!("{LIST}: there is no {path}"));
            } else if self.rule == "new file" && has(path, &FOLLOWS) {
                breaches.push(format!("{path} opens what may be there already: {}", self.rule));
            }
        }
        if self.tests.is_empty() && !["your path", "new file", "no name"].contains(&&*self.rule) {
            breaches.push(format!("{LIST}: no test holds {:?} to its rule", self.sources));
        }
        let is_there = |test: &String| {
            let starts = [format!("fn {test}("), format!("def {test}(")];
            all.iter().any(|text| starts.iter().any(|start| text.contains(start)))
        };
        let gone = self.tests.iter().filter(|test| !is_there(test));
        breaches.extend(gone.map(|test| format!("{LIST}: there is no test {test}")));
        breaches
    }
}

/// Whether the code before a file's tests has one of these.
fn has(path: &str, words: &[&str]) -> bool {
    let lines = code(path);
    let begins = |pair: &[String]| pair[0].trim() == "#[cfg(test)]" && pair[1].ends_with('{');
    let end = lines.windows(2).position(begins).unwrap_or(lines.len());
    lines[..end].iter().any(|line| words.iter().any(|word| line.contains(word)))
}

/// Tests, benches, examples and conformance suites make files where they like.
fn is_of_the_program(path: &str) -> bool {
    let checks = ["tests/", "benches/", "examples/", "fuzz/", "conformance/"];
    let is_check = checks.iter().any(|at| path.starts_with(at) || path.contains(&format!("/{at}")));
    !is_check && !path.ends_with("tests.rs") && !OF_TESTS.contains(&path)
}
