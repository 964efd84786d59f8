//! The files of the tree.

use std::path::{Path, PathBuf};

/// Folders that hold nothing written by hand.
const NOT_OURS: [&str; 7] = ["target", ".git", ".venv", "out", "data", "generated", "__pycache__"];

/// The top of the tree: this crate lies in it, or is it.
pub(crate) fn root() -> &'static Path {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    folders.find(|folder| folder.join("deny.toml").exists()).expect("the tree")
}

/// Files by their endings, with paths from the top, sorted.
pub(crate) fn files(endings: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    walk(root(), endings, &mut found);
    assert!(!found.is_empty(), "no file ends in any of {endings:?}");
    found.sort();
    found
}

/// The text of a file of the tree.
pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Rust code without its comments and strings, line by line.
pub(crate) fn code(path: &str) -> Vec<String> {
    let strip = |line: &str| {
        let mut code = String::new();
        let mut in_string = false;
        let mut before = ' ';
        for (at, char) in line.char_indices() {
            if !in_string && line[at..].starts_with("//") {
                break;
            }
            if char == '"' && before != '\\' && before != '\'' {
                in_string = !in_string;
            } else if !in_string {
                code.push(char);
            }
            before = char;
        }
        code
    };
    read(path).lines().map(strip).collect()
}

fn walk(folder: &Path, endings: &[&str], found: &mut Vec<String>) {
    let entries = std::fs::read_dir(folder).expect("a folder");
    for entry in entries.map(|entry| entry.expect("an entry")) {
        let path: PathBuf = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            if !NOT_OURS.contains(&name.as_str()) {
                walk(&path, endings, found);
            }
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            let path = path.strip_prefix(root()).expect("within the tree");
            found.push(path.display().to_string());
        }
    }
}
