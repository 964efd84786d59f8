//! Test programs: each is linked by itself, with all that it tests.

use std::collections::BTreeSet;

use toml::{Table, Value};

use crate::tree::{files, read};

/// Crates with more than one test program and no reason for it, and test files that belong to none.
pub(crate) fn breaches() -> Vec<String> {
    files(&["Cargo.toml"]).iter().flat_map(|manifest| of_crate(manifest)).collect()
}

fn of_crate(manifest: &str) -> Vec<String> {
    let folder = manifest.strip_suffix("Cargo.toml").expect("its name");
    let text = read(manifest);
    let table: Table = text.parse().unwrap_or_else(|error| panic!("{manifest}: {error}"));
    let tests = format!("{folder}tests/");
    let sources: Vec<String> = files(&[".rs"])
        .into_iter()
        .filter(|path| path.strip_prefix(&tests).is_some_and(|inner| is_a_test(folder, inner)))
        .collect();
    let declared = paths(&table);
    let is_automatic = table.get("package").and_then(|package| package.get("autotests"))
        != Some(&Value::Boolean(false));
    let mut breaches = Vec::new();
    let tops = sources.iter().filter(|path| !path[tests.len()..].contains('/'));
    if is_automatic {
        let programs =
            tops.count() + sources.iter().filter(|path| is_main(&path[tests.len()..])).count();
        if programs > 1 {
            breaches.push(format!(
                "{manifest}: {programs} test programs: set `autotests = false`, and make one of them, tests/main.rs"
            ));
        }
        return breaches;
    }
    let modules = modules(&sources);
    for path in tops {
        let inner = path.strip_prefix(folder).expect("below it");
        let name = path[tests.len()..].strip_suffix(".rs").expect("its ending");
        if !declared.contains(inner) && !modules.contains(name) {
            breaches
                .push(format!("{path} is in no test program: add `mod {name};` to tests/main.rs"));
        }
    }
    for path in declared.iter().filter(|path| *path != "tests/main.rs") {
        if !has_a_reason(&text, path) {
            breaches.push(format!(
                "{manifest}: say in a comment above it why {path} needs a process of its own, or make a module of it"
            ));
        }
    }
    breaches
}

/// A crate of its own lies in the root's folder of tests.
fn is_a_test(folder: &str, inner: &str) -> bool {
    !(folder.is_empty() && inner.starts_with("tidy/"))
}

fn is_main(inner: &str) -> bool {
    inner.strip_suffix("/main.rs").is_some_and(|name| !name.contains('/'))
}

/// Paths of the programs that a manifest declares.
fn paths(table: &Table) -> BTreeSet<String> {
    let declared = table.get("test").and_then(Value::as_array).into_iter().flatten();
    declared.filter_map(|test| test.get("path")?.as_str().map(str::to_owned)).collect()
}

/// Modules that test files declare.
fn modules(sources: &[String]) -> BTreeSet<String> {
    let name = |line: &str| {
        let line = line.strip_prefix("pub ").unwrap_or(line);
        line.strip_prefix("mod ")?.strip_suffix(';').map(str::to_owned)
    };
    sources
        .iter()
        .flat_map(|path| read(path).lines().filter_map(name).collect::<Vec<_>>())
        .collect()
}

fn has_a_reason(manifest: &str, path: &str) -> bool {
    let before = manifest.split(&format!("path = \"{path}\"")).next().expect("its head");
    let lines: Vec<&str> = before.lines().collect();
    let at = lines.iter().rposition(|line| *line == "[[test]]").expect("its table");
    at > 0 && lines[at - 1].starts_with("# ")
}
