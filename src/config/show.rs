//! The effective configuration, in a form that can be read back.

use std::fmt::Write as _;

use anyhow::Result;
use figment::value::{Num, Value};
use serde::Serialize;

use crate::config::keys::{sections, unit};
use crate::config::{Config, Loaded};

/// TOML of all keys, each with its unit and where its value came from.
pub(crate) fn show(loaded: &Loaded) -> Result<String> {
    let values = Value::serialize(&loaded.config)?;
    let mut text = String::new();
    for section in sections() {
        match section.name {
            "dataset" => {
                list(&mut text, loaded, "dataset", &loaded.config.dataset)?;
                continue;
            }
            "curriculum" => {
                list(&mut text, loaded, "curriculum", &loaded.config.curriculum)?;
                continue;
            }
            _ => {}
        }
        writeln!(text, "[{}]", section.name)?;
        for key in &section.keys {
            let path = format!("{}.{}", section.name, key.name);
            let origin = loaded.origin(&path);
            let value = values.find_ref(&path).map(inline).transpose()?.flatten();
            let (line, is_number) = match &value {
                Some(value) => (format!("{} = {value}", key.name), is_number(value)),
                None => (format!("# {} is not set", key.name), false),
            };
            match unit(&key.name) {
                unit if is_number && !unit.is_empty() => {
                    writeln!(text, "{line}  # {unit}; {origin}")?;
                }
                _ => writeln!(text, "{line}  # {origin}")?,
            }
        }
        writeln!(text)?;
    }
    Ok(text.trim_end().to_owned() + "\n")
}

fn list(text: &mut String, loaded: &Loaded, name: &str, entries: &[impl Serialize]) -> Result<()> {
    let origin = loaded.origin(name);
    if entries.is_empty() {
        writeln!(text, "# no [[{name}]]  # {origin}\n")?;
    }
    for entry in entries {
        writeln!(text, "[[{name}]]  # {origin}\n{}", toml::to_string(entry)?)?;
    }
    Ok(())
}

pub(crate) fn is_number(value: &toml::Value) -> bool {
    value.is_integer() || value.is_float()
}

/// A value as it stands behind `=`; `None` for a key that is not set.
pub(crate) fn inline(value: &Value) -> Result<Option<toml::Value>> {
    Ok(match value {
        Value::Empty(..) => None,
        // Through its text: widened, 0.485 would become 0.48500001430511475.
        Value::Num(_, Num::F32(number)) => Some(number.to_string().parse::<f64>()?.into()),
        Value::Array(_, items) => {
            let items: Result<Vec<_>> = items.iter().map(inline).collect();
            Some(toml::Value::Array(items?.into_iter().flatten().collect()))
        }
        value => Some(toml::Value::try_from(value)?),
    })
}

/// The value of a key when nobody sets it.
pub(crate) fn default_of(path: &str) -> Result<Option<toml::Value>> {
    let defaults = Value::serialize(Config::default())?;
    Ok(defaults.find_ref(path).map(inline).transpose()?.flatten())
}
