//! Keys of the configuration that texts name: `section.key`, and the variables of the environment.

use std::collections::HashSet;

use headwater_config::Section;

use crate::tree::{files, read};

/// Every kind of file that speaks of keys to people.
const SPEAKS: [&str; 11] =
    [".rs", ".md", ".toml", ".yaml", ".tpl", ".sbatch", ".env", ".sh", ".py", ".pyi", ".txt"];
/// Where names are examples, or wrong on purpose.
const NOT_READ: [&str; 4] = ["tests/", "benches/", "fuzz/", "Cargo.toml"];
/// What stands behind a dot in the name of a file.
const ENDINGS: [&str; 9] = ["parquet", "rs", "toml", "py", "md", "json", "sh", "yaml", "sbatch"];
/// What looks like a key and is something else.
const OTHERS: [(&str, &str); 4] = [
    // Names in `hub.py`, which `headwater datasets stubs` writes.
    ("hub", "public"),
    ("hub", "get"),
    // Fields of the tiers' structs that have a place of their own in the file.
    ("receiver", "curriculum"),
    ("storage", "datasets"),
];
/// In place of a section or a key in a text about all of them.
const PLACEHOLDERS: [&str; 2] = ["SECTION", "KEY"];
const VARIABLE: &str = "HEADWATER_";

/// Names of keys that do not exist, in all files.
fn unknown() -> Vec<String> {
    let left_out = |path: &str| {
        let path = format!("/{path}");
        NOT_READ.iter().any(|part| path.contains(&format!("/{part}")))
    };
    let spoken = files(&SPEAKS).into_iter().filter(|path| !left_out(path));
    spoken.flat_map(|path| unknown_in(&path, &read(&path))).collect()
}

/// Names of keys that do not exist, in one text.
fn unknown_in(path: &str, text: &str) -> Vec<String> {
    let chart = chart_values();
    let lines = if path.ends_with(".rs") {
        spoken(text)
    } else {
        text.lines().map(str::to_owned).collect()
    };
    let mut found = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let names = line.split(|c: char| !(c.is_ascii_alphanumeric() || "_./-$".contains(c)));
        for name in names.map(|name| name.trim_matches('.')) {
            if !exists(name.strip_prefix("config.").unwrap_or(name), &chart) {
                found.push(format!("{path}:{}: there is no key `{name}`", number + 1));
            }
        }
    }
    found
}

/// Whether a word is a key that exists, or no key at all.
fn exists(word: &str, chart: &HashSet<String>) -> bool {
    if let Some((section, key)) = word.strip_prefix(VARIABLE).and_then(|v| v.split_once("__")) {
        let key = key.split("__").next().unwrap_or(key);
        return PLACEHOLDERS.contains(&key)
            || Section::named(&section.to_lowercase())
                .is_some_and(|section| section.has(&key.to_lowercase()));
    }
    let mut parts = word.split('.');
    let (Some(section), Some(key)) = (parts.next().and_then(Section::named), parts.next()) else {
        return true;
    };
    let is_word = key.starts_with(|c: char| c.is_ascii_lowercase())
        && key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    !is_word
        || section.has(key)
        || ENDINGS.contains(&key)
        || OTHERS.contains(&(section.name, key))
        || chart.contains(&format!("{}.{key}", section.name))
}

/// What a Rust file says to people, line by line: comments, and what stands in strings. Ends where
/// its tests begin.
fn spoken(text: &str) -> Vec<String> {
    let mut is_within = false;
    let said = |line: &str| {
        let mut said = String::new();
        let mut before = ' ';
        for (at, char) in line.char_indices() {
            if !is_within && line[at..].starts_with("//") {
                said.push_str(&line[at..]);
                break;
            }
            let is_char = !is_within && before == '\'';
            if char == '"' && before != '\\' && !is_char {
                is_within = !is_within;
                said.push(' ');
            } else if is_within {
                said.push(char);
            }
            // Of two backslashes the second escapes nothing.
            before = if char == '\\' && before == '\\' { ' ' } else { char };
        }
        said
    };
    text.lines().take_while(|line| !line.contains("#[cfg(test)]")).map(said).collect()
}

/// Keys of the chart's own values, `section.key` of `values.yaml`, some of whose sections are named
/// as those of the configuration.
fn chart_values() -> HashSet<String> {
    let mut section = "";
    let mut keys = HashSet::new();
    let values = read("helm/headwater/values.yaml");
    for line in values.lines() {
        let Some((key, _)) = line.split_once(':') else { continue };
        match key.strip_prefix("  ") {
            None => section = key,
            Some(inner) if !inner.starts_with([' ', '#']) => {
                keys.insert(format!("{section}.{inner}"));
            }
            Some(_) => {}
        }
    }
    keys
}

#[test]
fn every_key_that_is_named_exists() {
    let unknown = unknown();
    assert!(unknown.is_empty(), "\n{}\n", unknown.join("\n"));
}

#[test]
fn a_key_that_does_not_exist_is_found() {
    let found = |path: &str, text: &str| unknown_in(path, text);
    let in_code = "let a = receiver.open(\n    \"see receiver.{key}, or \\\n     raise receiver.tcp_bind\");\n";
    assert_eq!(found("src/x.rs", in_code), ["src/x.rs:3: there is no key `receiver.tcp_bind`"]);
    assert_eq!(found("src/x.rs", "/// Read from `storage.caches`.\n").len(), 1);
    assert_eq!(found("docs/x.md", "set `HEADWATER_RECEIVER__RANKS`, storage.md\n").len(), 1);
    assert_eq!(found("docs/x.md", "`config.augment.storages` or receiver.masks.patch\n").len(), 1);
    assert!(found("docs/x.md", "`HEADWATER_SECTION__KEY`, `storage.replicas`\n").is_empty());
}
