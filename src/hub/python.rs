//! `hub.py`: the datasets as names that an editor completes and a type checker knows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use headwater_config::hub::SplitName;
use headwater_core::pluralize;

use super::Sizes;
use crate::run::bytes;

const HEAD: &str = r#""""The datasets of a hub, as names that an editor completes.

    import headwater
    import @MODULE@

    loader = headwater.Loader(datasets=[@MODULE@.@EXAMPLE_PATH@], ...)

Storage nodes have to serve a dataset under its whole name, as they do with
`headwater storage --dataset hub:@EXAMPLE_NAME@`.

Written by `headwater datasets stubs`: write it again when there are other datasets.
"""

from pathlib import Path
from typing import Final, Literal

ROOT: Final = Path(@ROOT@)

class Dataset(str):
    """One split. As text its whole name, which is what headwater.Loader takes."""

    samples: int
    shards: int
    total_bytes: int

    def __new__(
        cls, name: str, samples: int = 0, shards: int = 0, total_bytes: int = 0
    ) -> "Dataset":
        self = super().__new__(cls, name)
        self.samples = samples
        self.shards = shards
        self.total_bytes = total_bytes
        return self

    @property
    def folder(self) -> Path:
        return ROOT / str(self)

    def paths(self) -> "list[Path]":
        """Its shards in the order in which storage nodes have them."""
        return sorted(self.folder.glob("[!.]*.tar"))
"#;

const TAIL: &str = r#"

def get(name: Name) -> Dataset:
    """The dataset of a whole name."""
    return DATASETS[name]
"#;

/// Words of Python, and names that the file itself uses.
const TAKEN: [&str; 55] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield", "match", "case", "type", "str", "int", "property", "sorted", "super", "list",
    "mro", "print", "Path", "Final", "Literal", "ROOT", "DATASETS", "Dataset", "Name", "get",
    "self",
];

/// The name under which Python imports a file; `None` if it cannot.
pub(crate) fn module_name(file: &Path) -> Option<&str> {
    let stem = file.file_stem()?.to_str()?;
    let plain = |c: char| c == '_' || c.is_ascii_alphanumeric();
    let is_name = stem.chars().all(plain) && !stem.starts_with(|c: char| c.is_ascii_digit());
    let is_python = file.extension().is_some_and(|ending| ending == "py");
    (is_python && is_name && !TAKEN.contains(&stem)).then_some(stem)
}

/// The text of `hub.py`, which Python imports as `module`. `splits` are sorted by name and not
/// empty.
pub(crate) fn stubs(root: &Path, module: &str, splits: &[(SplitName, Sizes)]) -> Result<String> {
    let mut classes = String::new();
    let mut paths = Vec::new();
    nested(&mut classes, splits, 0, "", &mut paths)?;
    let quoted = |text: &str| serde_json::to_string(text);
    let (example, example_path) = splits
        .first()
        .zip(paths.first())
        .map(|((name, _), path)| (name.to_string(), path.clone()))
        .unwrap_or_default();
    let mut text = HEAD
        .replace("@MODULE@", module)
        .replace("@ROOT@", &quoted(&root.display().to_string())?)
        .replace("@EXAMPLE_NAME@", &example)
        .replace("@EXAMPLE_PATH@", &example_path);
    text.push_str(&classes);
    writeln!(text, "\n\nName = Literal[")?;
    for (name, _) in splits {
        writeln!(text, "    {},", quoted(&name.to_string())?)?;
    }
    writeln!(text, "]\n\nDATASETS: \"Final[dict[Name, Dataset]]\" = {{")?;
    for ((name, _), path) in splits.iter().zip(&paths) {
        writeln!(text, "    {}: {path},", quoted(&name.to_string())?)?;
    }
    writeln!(text, "}}")?;
    text.push_str(TAIL);
    Ok(text)
}

/// Writes a class for each name of a level, and the splits at the last one. `paths` are the splits
/// as Python reaches them.
fn nested(
    text: &mut String,
    splits: &[(SplitName, Sizes)],
    level: usize,
    above: &str,
    paths: &mut Vec<String>,
) -> Result<()> {
    let groups: Vec<_> = splits.chunk_by(|(a, _), (b, _)| a.part(level) == b.part(level)).collect();
    let names: Vec<&str> = groups.iter().map(|group| group[0].0.part(level)).collect();
    let identifiers = identifiers(&names);
    let indent = "    ".repeat(level);
    for (at, (group, name)) in groups.iter().zip(names).enumerate() {
        let identifier = &identifiers[name];
        let path =
            if above.is_empty() { identifier.clone() } else { format!("{above}.{identifier}") };
        let (split, Sizes { samples, shards, bytes: size, .. }) = &group[0];
        if level + 1 == SplitName::LEVELS.len() {
            text.push_str(if at == 0 { "\n" } else { "" });
            writeln!(text, "{indent}{identifier}: Final = Dataset(")?;
            writeln!(
                text,
                "{indent}    \"{split}\", samples={samples}, shards={shards}, total_bytes={size}"
            )?;
            writeln!(text, "{indent})")?;
            writeln!(
                text,
                "{indent}\"\"\"{}, {}\"\"\"",
                pluralize(*samples, "sample"),
                bytes(*size)
            )?;
            paths.push(path);
        } else {
            text.push_str(if level == 0 { "\n\n" } else { "\n" });
            writeln!(text, "{indent}class {identifier}:")?;
            let below: Vec<&str> = (0..=level).map(|level| split.part(level)).collect();
            writeln!(text, "{indent}    \"\"\"{}\"\"\"", below.join("/"))?;
            nested(text, group, level + 1, &path, paths)?;
        }
    }
    Ok(())
}

/// Each name as Python can write it. A name that is already an identifier does not change, so
/// `a_b` keeps its name when an `a-b` is added.
fn identifiers(names: &[&str]) -> BTreeMap<String, String> {
    let mut used: BTreeSet<String> = BTreeSet::new();
    let mut found = BTreeMap::new();
    let (plain, other): (Vec<&str>, Vec<&str>) =
        names.iter().partition(|name| identifier(name) == **name);
    for name in plain.into_iter().chain(other) {
        let base = identifier(name);
        let mut candidate = base.clone();
        let mut number = 2;
        while !used.insert(candidate.clone()) {
            candidate = format!("{base}_{number}");
            number += 1;
        }
        found.insert(name.to_owned(), candidate);
    }
    found
}

fn identifier(name: &str) -> String {
    let mut identifier = name.replace(['-', '.'], "_");
    if identifier.starts_with(|first: char| first.is_ascii_digit()) {
        identifier.insert(0, '_');
    }
    if TAKEN.contains(&identifier.as_str()) {
        identifier.push('_');
    }
    identifier
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_imported_by_its_name_if_python_takes_it() {
        assert_eq!(module_name(Path::new("a/hub2.py")), Some("hub2"));
        for odd in ["hub-2.py", "2hub.py", "class.py", "hub.txt", "hub", ".py"] {
            assert_eq!(module_name(Path::new(odd)), None, "{odd}");
        }
    }

    #[test]
    fn names_become_identifiers_and_those_that_are_some_keep_them() {
        let found = identifiers(&["a-b", "a.b", "a_b", "class", "22k", "train"]);
        let expected = [
            ("22k", "_22k"),
            ("a-b", "a_b_2"),
            ("a.b", "a_b_3"),
            ("a_b", "a_b"),
            ("class", "class_"),
            ("train", "train"),
        ];
        let found: Vec<(&str, &str)> =
            found.iter().map(|(name, id)| (name.as_str(), id.as_str())).collect();
        assert_eq!(found, expected);
    }
}
