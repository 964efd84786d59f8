//! The reference of all keys, for `docs/configuration.md` and `headwater.example.toml`.

use std::fmt::Write as _;

use anyhow::Result;

use crate::config::keys::{sections, unit};
use crate::config::show::{default_of, is_number};

const HEAD: &str = "\
# Configuration

Written by `headwater config --markdown`; a test keeps it up to date.

One TOML file, `headwater.toml`: the one named by `--config`, else by the variable
`HEADWATER_CONFIG`, else the one in the working directory, if there is one. On top of it lie
variables `HEADWATER_SECTION__KEY` (for example `HEADWATER_STORAGE__LISTEN`), on top of those flags
(`--set storage.listen=0.0.0.0:7401`, and shorter ones for the usual keys). In variables and in
`--set` a value is written as in TOML; a string needs no quotation marks, and a list of strings may
be written `a,b`. `HEADWATER_DATASET` holds a whole list: `[{name = \"a\", shards = \"a/*.tar\"}]`.
A key that is not known is refused, with the known ones. Patterns of shards are relative to the
working directory. What the hub is: [datasets.md](datasets.md).

`headwater config` prints every key with its value, its unit and where the value came from;
`headwater --check-config` only says whether all of it can be used. `HEADWATER_LOG` goes before
`telemetry.log`.
";

const EXAMPLE_HEAD: &str = "\
# Every key of headwater.toml with its default. Written by `headwater config --example`; a test
# keeps it up to date. Only what differs from the default needs to be written.

[[dataset]]
name = \"photos\"
shards = \"tests/data/photos/photos-{000000..000003}.tar\"
# In place of shards: hub = \"public/rgb/photos/train\"
# weight = 1.0

# Weights of the datasets from a step of the job on; as many points as are wanted.
# [[curriculum]]
# step = 10000
# weights = [1.0]
";

/// `docs/configuration.md`.
pub(crate) fn markdown() -> Result<String> {
    let mut text = HEAD.to_owned();
    for section in sections() {
        match section.name {
            "dataset" => writeln!(text, "\n## `[[dataset]]`, one for each dataset\n")?,
            "curriculum" => writeln!(text, "\n## `[[curriculum]]`, one for each point\n")?,
            name => writeln!(text, "\n## `[{name}]`\n")?,
        }
        writeln!(text, "| key | default | unit | meaning |\n| --- | --- | --- | --- |")?;
        for key in &section.keys {
            let default = default_of(&format!("{}.{}", section.name, key.name))?;
            let unit = default.as_ref().filter(|value| is_number(value)).map(|_| unit(&key.name));
            let default =
                default.map_or_else(|| "not set".to_owned(), |value| format!("`{value}`"));
            let cells = [&format!("`{}`", key.name), &default, unit.unwrap_or(""), &key.meaning];
            writeln!(text, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))?;
        }
    }
    Ok(text)
}

/// `headwater.example.toml`.
pub(crate) fn example() -> Result<String> {
    let mut text = EXAMPLE_HEAD.to_owned();
    for section in sections().iter().filter(|section| !section.is_list()) {
        writeln!(text, "\n[{}]", section.name)?;
        for key in &section.keys {
            for line in wrapped(&key.meaning) {
                writeln!(text, "# {line}")?;
            }
            match default_of(&format!("{}.{}", section.name, key.name))? {
                Some(value) => writeln!(text, "{} = {value}", key.name)?,
                None => writeln!(text, "# {} =", key.name)?,
            }
        }
    }
    Ok(text)
}

/// A paragraph in lines that fit a page.
fn wrapped(paragraph: &str) -> Vec<String> {
    const COLUMNS: usize = 96;
    let mut lines: Vec<String> = Vec::new();
    for word in paragraph.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
