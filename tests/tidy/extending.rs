//! docs/extending.md against the sources: its lists name the files that their examples are in.

use std::collections::BTreeSet;

use crate::tree::{files, read, root};

const GUIDE: &str = "docs/extending.md";
/// Endings of sources.
const SOURCES: [&str; 2] = [".rs", ".cu"];

/// Files that a list lacks or has too many.
pub(crate) fn breaches() -> Vec<String> {
    let guide = read(GUIDE);
    let sections: Vec<&str> = guide.split("\n## ").skip(1).collect();
    assert!(sections.len() >= 7, "{GUIDE} has lost its sections");
    sections.into_iter().flat_map(section_breaches).collect()
}

fn section_breaches(section: &str) -> Vec<String> {
    let title = section.lines().next().unwrap_or_default();
    let words: Vec<String> = section
        .lines()
        .filter_map(|line| line.split_once("Sources that say "))
        .flat_map(|(_, words)| quoted(words))
        .collect();
    if words.is_empty() {
        return vec![format!("{GUIDE}, `{title}`: say which sources name the example")];
    }
    let listed: BTreeSet<String> = section
        .lines()
        .filter(|line| line.starts_with("| `"))
        .filter_map(|line| quoted(line).into_iter().next())
        .collect();
    let mut breaches = Vec::new();
    for path in files(&SOURCES).into_iter().filter(|path| !is_a_check(path)) {
        let named = words.iter().any(|word| path.contains(word) || read(&path).contains(word));
        let in_folder = |entry: &String| entry.ends_with('/') && path.starts_with(entry.as_str());
        if named && !listed.contains(&path) && !listed.iter().any(in_folder) {
            breaches.push(format!("{GUIDE}, `{title}`: {path} names the example, list it"));
        }
    }
    let gone = listed.iter().filter(|path| !root().join(path).exists());
    breaches.extend(gone.map(|path| format!("{GUIDE}, `{title}`: there is no {path}")));
    breaches
}

/// Tests, benches and examples use what is there; a new thing does not have to be in all of them.
fn is_a_check(path: &str) -> bool {
    let folders = ["tests/", "benches/", "examples/", "fuzz/"];
    folders.iter().any(|folder| path.starts_with(folder) || path.contains(&format!("/{folder}")))
        || path.ends_with("tests.rs")
}

/// What stands between backticks.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}
