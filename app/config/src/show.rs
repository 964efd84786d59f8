//! The effective configuration, in a form that can be read back.

use figment::value::Value;
use serde::Serialize;
use toml::ser::ValueSerializer;

use crate::sections::sections;
use crate::{Config, Loaded};

/// TOML of all keys, each with its unit and where its value came from.
#[must_use]
pub fn show(loaded: &Loaded) -> String {
    let values = plain(&loaded.config);
    let mut text = String::new();
    for section in sections() {
        match section.name {
            "dataset" => list(&mut text, loaded, "dataset", &loaded.config.dataset),
            "filter" => list(&mut text, loaded, "filter", &loaded.config.filter),
            "curriculum" => list(&mut text, loaded, "curriculum", &loaded.config.curriculum),
            name => text.push_str(&format!("[{name}]\n")),
        }
        for key in section.keys().filter(|_| !section.is_list()) {
            let path = format!("{}.{}", section.name, key.name);
            let origin = loaded.origin(&path);
            let value = values.find_ref(&path).and_then(inline);
            text.push_str(&match &value {
                Some(value) if !key.unit.is_empty() => {
                    format!("{} = {value}  # {}; {origin}\n", key.name, key.unit)
                }
                Some(value) => format!("{} = {value}  # {origin}\n", key.name),
                None => format!("# {} is not set  # {origin}\n", key.name),
            });
        }
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

fn list(text: &mut String, loaded: &Loaded, name: &str, entries: &[impl Serialize]) {
    let origin = loaded.origin(name);
    if entries.is_empty() {
        text.push_str(&format!("# no [[{name}]]  # {origin}\n"));
    }
    for entry in entries {
        let entry = toml::to_string(entry).expect("plain data");
        text.push_str(&format!("[[{name}]]  # {origin}\n{entry}"));
    }
}

/// A value as it stands behind `=`; `None` for a key that is not set.
fn inline(value: &Value) -> Option<String> {
    match value {
        Value::Empty(..) => None,
        Value::Array(_, items) => {
            let items: Vec<String> = items.iter().filter_map(inline).collect();
            Some(format!("[{}]", items.join(", ")))
        }
        value => {
            // Not by way of `toml::Value`, whose numbers end at 2^63.
            let mut text = String::new();
            value.serialize(ValueSerializer::new(&mut text)).expect("plain data");
            Some(text)
        }
    }
}

/// The value of a key when nobody sets it.
pub(crate) fn default_of(path: &str) -> Option<String> {
    plain(&Config::default()).find_ref(path).and_then(inline)
}

fn plain(config: &Config) -> Value {
    Value::serialize(config).expect("plain data")
}
