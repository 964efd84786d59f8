//! Files as texts: their names, lengths and heads.

use std::path::Path;

use crate::tree::{files, read};

/// Longest file, in lines. The aim is a median near 130.
const LINES_MAX: usize = 500;
/// Names that say nothing.
const VAGUE: [&str; 6] = ["utils", "util", "common", "misc", "helpers", "helper"];
/// Every kind of file that people write.
const WRITTEN: [&str; 9] =
    [".rs", ".py", ".proto", ".sh", ".cu", ".toml", ".yaml", ".sbatch", "Makefile"];

/// Every key of the configuration, made by the program.
const EXAMPLE: &str = "headwater.example.toml";

/// Crates whose `lib.rs` does not say what they do and refuse to know.
pub(crate) fn lib_heads() -> Vec<String> {
    let heads = files(&["lib.rs", "src/main.rs"]);
    let silent = heads.into_iter().filter(|path| {
        let text = read(path);
        let head: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
        head.is_empty() || !head.join("\n").contains("Deliberately absent")
    });
    silent
        .map(|path| format!("{path}: begin with //! what it does and `Deliberately absent:`"))
        .collect()
}

/// Files that every tier has, and the tier's file for gRPC: the receiver serves nobody.
const SKELETON: [&str; 4] = ["lib.rs", "config.rs", "error.rs", "metrics.rs"];
const TIERS: [(&str, &str, &str); 3] = [
    ("storage-tier", "service.rs", "client.rs"),
    ("augment-tier", "service.rs", "client.rs"),
    ("gpu-receiver", "client.rs", "service.rs"),
];

/// Tiers whose files do not have the names by which a reader of another tier looks for them.
pub(crate) fn skeletons() -> Vec<String> {
    let sources = files(&[".rs"]);
    let has = |tier: &str, file: &str| sources.contains(&format!("{tier}/src/{file}"));
    let mut breaches = Vec::new();
    for (tier, grpc, other) in TIERS {
        let missing = SKELETON.into_iter().chain([grpc]).filter(|file| !has(tier, file));
        breaches.extend(missing.map(|file| format!("{tier}/src has no {file}: all tiers do")));
        if has(tier, other) {
            breaches.push(format!("{tier}/src/{other}: its gRPC is in {grpc}"));
        }
    }
    breaches
}

/// Files beyond the limit.
pub(crate) fn long_files() -> Vec<String> {
    let written = files(&WRITTEN).into_iter().filter(|path| !path.ends_with(EXAMPLE));
    let lengths = written.map(|path| (read(&path).lines().count(), path));
    let long = lengths.filter(|(lines, _)| *lines > LINES_MAX);
    long.map(|(lines, path)| format!("{path} has {lines} lines: split it by noun")).collect()
}

/// Modules named after nothing.
pub(crate) fn vague_names() -> Vec<String> {
    let sources = files(&[".rs", ".py"]).into_iter();
    let vague = sources.filter(|path| {
        let parts = Path::new(path).with_extension("");
        parts.iter().any(|part| VAGUE.iter().any(|vague| part == *vague))
    });
    vague.map(|path| format!("{path}: name it after what it holds")).collect()
}

/// Notes that belong in an issue.
pub(crate) fn left_over_notes() -> Vec<String> {
    let notes = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X ")];
    let mut found = Vec::new();
    for path in files(&WRITTEN) {
        for (number, line) in read(&path).lines().enumerate() {
            if notes.iter().any(|note| line.contains(note)) {
                found.push(format!("{path}:{}: do it, or write an issue", number + 1));
            }
        }
    }
    found
}
