//! The reference of all keys, for `docs/configuration.md` and `headwater.example.toml`.

use crate::launcher;
use crate::sections::sections;
use crate::show::default_of;

const HEAD: &str = "\
# Configuration

Written by `headwater config --markdown`; a test keeps it up to date.

Headwater reads one TOML file, `headwater.toml`. It is the file of `--config`, or else of the variable
`HEADWATER_CONFIG`, or else the file in the working directory, if there is one. Variables
`HEADWATER_SECTION__KEY` (for example `HEADWATER_STORAGE__LISTEN`) override the file. Flags
(`--set storage.listen=0.0.0.0:7401`, and shorter ones for common keys) override both, and so do the
keywords of `Loader` in Python. The program and the Python loader read the same files and variables,
and report the same errors.

In variables and in `--set`, write a value as in TOML, for example
`--set 'receiver.epoch_end={ steps = 605 }'`; a string needs no quotation marks. A list of strings may
always be one string, `a,b`. `HEADWATER_DATASET` is a whole list:
`[{name = \"a\", shards = \"a/*.tar\"}]`. An unknown key is refused; the error names the nearest known
key. Patterns of shards are relative to the working directory. [datasets.md](datasets.md) describes
the hub.

`headwater config` prints every key with its value, its unit and the source of the value.
`headwater --check-config` only checks the configuration. `HEADWATER_LOG` overrides `telemetry.log`.

Below, each key is followed by its default, with the unit, and by its meaning.
";

const EXAMPLE_HEAD: &str = "\
# Every key of headwater.toml with its default. Written by `headwater config --example`; a test
# keeps it up to date. Your file only needs the keys that differ from the default.

[[dataset]]
name = \"photos\"
shards = \"tests/data/photos/photos-{000000..000003}.tar\"
# In place of shards: hub = \"public/rgb/photos/train\"
# weight = 1.0

# Which samples are served: those that meet all filters.
# [[filter]]
# kind = \"width\"
# min = 256

# Weights of the datasets from a step of the job on; any number of points.
# [[curriculum]]
# step = 10000
# weights = [1.0]
";

/// `docs/configuration.md`.
#[must_use]
pub fn markdown() -> String {
    let mut text = HEAD.to_owned();
    for section in sections() {
        text.push_str(&match section.name {
            "dataset" => "\n## `[[dataset]]`, one for each dataset\n\n".to_owned(),
            "filter" => "\n## `[[filter]]`, one for each condition\n\n".to_owned(),
            "curriculum" => "\n## `[[curriculum]]`, one for each point\n\n".to_owned(),
            name => format!("\n## `[{name}]`\n\n"),
        });
        for key in section.keys() {
            let default = default_of(&format!("{}.{}", section.name, key.name));
            let default = match default {
                Some(value) if key.unit.is_empty() => format!("default `{value}`"),
                Some(value) => format!("default `{value}` {}", key.unit),
                None => "not set".to_owned(),
            };
            let entry = format!("- **`{}`** ({default}): {}", key.name, key.meaning);
            text.push_str(&wrapped(&entry).join("\n  "));
            text.push('\n');
        }
    }
    text
}

/// `headwater.example.toml`.
#[must_use]
pub fn example() -> String {
    let mut text = EXAMPLE_HEAD.to_owned();
    for section in sections().iter().filter(|section| !section.is_list()) {
        text.push_str(&format!("\n[{}]\n", section.name));
        for key in section.keys() {
            for line in wrapped(key.meaning) {
                text.push_str(&format!("# {line}\n"));
            }
            let path = format!("{}.{}", section.name, key.name);
            text.push_str(&match default_of(&path) {
                // Written out, it would silence the launcher.
                Some(value) if launcher::sets(&path) => format!("# {} = {value}\n", key.name),
                Some(value) => format!("{} = {value}\n", key.name),
                None => format!("# {} =\n", key.name),
            });
        }
    }
    text
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
