//! Test programs: each is linked by itself, with all that it tests.

use std::collections::BTreeSet;
use std::path::Path;

use toml::{Table, Value};

use crate::tree::{files, read};

/// Crates with more than one test program and no reason for it, and test files that belong to none.
pub(crate) fn breaches() -> Vec<String> {
    let sources = files(&[".rs"]);
    let manifests = files(&["Cargo.toml"]);
    manifests.iter().flat_map(|manifest| of_crate(manifest, &sources)).collect()
}

fn of_crate(manifest: &str, all: &[String]) -> Vec<String> {
    let folder = manifest.strip_suffix("Cargo.toml").expect("its name");
    let text = read(manifest);
    let table: Table = text.parse().unwrap_or_else(|error| panic!("{manifest}: {error}"));
    let tests = format!("{folder}tests/");
    let sources: Vec<&String> = all
        .iter()
        .filter(|path| path.strip_prefix(&tests).is_some_and(|inner| is_a_test(folder, inner)))
        .collect();
    let is_automatic = table.get("package").and_then(|package| package.get("autotests"))
        != Some(&Value::Boolean(false));
    if is_automatic {
        let programs = sources.iter().filter(|path| is_program(&path[tests.len()..])).count();
        let many = (programs > 1).then(|| {
            format!(
                "{manifest}: {programs} test programs: set `autotests = false`, and make one of them, tests/main.rs"
            )
        });
        return many.into_iter().collect();
    }
    let declared = declared(&table);
    let mut reached = BTreeSet::new();
    declared.iter().for_each(|path| reach(&format!("{folder}{path}"), true, &mut reached));
    let lost = sources.iter().filter(|path| !reached.contains(**path));
    let lost = lost.map(|path| format!("{path} is in no test program: tests/main.rs has them all"));
    let others = declared.iter().filter(|path| *path != "tests/main.rs");
    let unfounded = others.filter(|path| !has_a_reason(&text, path)).map(|path| {
        format!(
            "{manifest}: say in a comment above it why {path} needs a process of its own, or make a module of it"
        )
    });
    lost.chain(unfounded).collect()
}

/// A crate of its own lies in the root's folder of tests.
fn is_a_test(folder: &str, inner: &str) -> bool {
    !(folder.is_empty() && inner.starts_with("tidy/"))
}

/// What cargo takes for a program without a manifest entry.
fn is_program(inner: &str) -> bool {
    let folder = inner.strip_suffix("/main.rs");
    !inner.contains('/') || folder.is_some_and(|folder| !folder.contains('/'))
}

/// Paths of the programs that a manifest declares.
fn declared(table: &Table) -> Vec<String> {
    let declared = table.get("test").and_then(Value::as_array).into_iter().flatten();
    declared.filter_map(|test| test.get("path")?.as_str().map(str::to_owned)).collect()
}

/// Adds a file, and the files of the modules that it declares. A file `is_top` if its modules lie beside it.
fn reach(path: &str, is_top: bool, reached: &mut BTreeSet<String>) {
    if !reached.insert(path.to_owned()) {
        return;
    }
    let text = read(path);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let file = Path::new(path);
    let folder = file.parent().expect("a folder");
    let inner = if is_top { folder.to_owned() } else { file.with_extension("") };
    for (at, line) in lines.iter().enumerate() {
        let line = line.strip_prefix("pub ").unwrap_or(line);
        let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
        let Some(name) = line.strip_prefix("mod ").and_then(|line| line.strip_suffix(';')) else {
            continue;
        };
        let before = lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
        let other =
            before.filter_map(|line| line.strip_prefix("#[path = \"")?.strip_suffix("\"]")).next();
        let places = match other {
            Some(other) => vec![(folder.join(other), true)],
            None => vec![
                (inner.join(format!("{name}.rs")), false),
                (inner.join(name).join("mod.rs"), true),
            ],
        };
        for (place, is_top) in places {
            if crate::tree::root().join(&place).exists() {
                reach(&normal(&place), is_top, reached);
            }
        }
    }
}

/// Without steps back.
fn normal(path: &Path) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.iter().map(|part| part.to_str().expect("text")) {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

fn has_a_reason(manifest: &str, path: &str) -> bool {
    let before = manifest.split(&format!("path = \"{path}\"")).next().expect("its head");
    let lines: Vec<&str> = before.lines().collect();
    let at = lines.iter().rposition(|line| *line == "[[test]]").expect("its table");
    at > 0 && lines[at - 1].starts_with("# ")
}
