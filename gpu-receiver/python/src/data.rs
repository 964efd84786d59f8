//! The argument `data`: datasets whose shards the loader has served on this host.

use std::sync::Arc;

use headwater_config::ConfigError;
use headwater_core::Manifest;
use serde_json::{Map, Value, json};

/// Name of a dataset that is given by its shards only. It is part of the manifest, and does not follow
/// from the path: a copy elsewhere has the same order of samples.
const NAME: &str = "data";
/// Before a dataset of the hub.
const HUB: &str = "hub:";
/// Keys of `[[dataset]]` that say where its shards are.
const PLACES: [&str; 2] = ["shards", "hub"];

/// `data` as `[[dataset]]`, with the names, weights and other keys of `datasets` where that is given too.
///
/// # Errors
/// `data` is none of path, pattern, URL, list or dict of them; or the two do not fit.
pub(crate) fn entries(data: Value, datasets: Option<Value>) -> Result<Value, ConfigError> {
    let mut shards: Vec<(Option<String>, Value)> = match data {
        Value::Object(named) => {
            named.into_iter().map(|(name, shards)| (Some(name), shards)).collect()
        }
        shards => vec![(None, shards)],
    };
    let mut entries = match datasets {
        Some(Value::Array(entries)) => entries,
        Some(other) => vec![other],
        None => shards.iter().map(|(name, _)| named(name.as_deref())).collect(),
    };
    let names = names(&entries);
    let fits = |name: &Option<String>| match name {
        Some(name) => names.contains(&name.as_str()),
        None => entries.len() == 1,
    };
    if shards.len() != entries.len() || !shards.iter().all(|(name, _)| fits(name)) {
        let given = shards.iter().filter_map(|(name, _)| name.as_deref()).collect::<Vec<_>>();
        return Err(wrong(format!(
            "`data` has shards of {}, and `datasets` names {}: give `data` as a dict with the shards of \
             each dataset by its name",
            if given.is_empty() { "one dataset".to_owned() } else { given.join(", ") },
            names.join(", ")
        )));
    }
    for entry in &mut entries {
        let Value::Object(entry) = entry else {
            return Err(wrong("`datasets` beside `data`: give names or dicts".to_owned()));
        };
        let name = entry.get("name").and_then(Value::as_str).unwrap_or_default();
        if let Some(place) = PLACES.iter().find(|place| entry.contains_key(**place)) {
            return Err(wrong(format!(
                "dataset `{name}` has `{place}`, and `data` has its shards: leave one out"
            )));
        }
        let of_entry = |(known, _): &(Option<String>, Value)| {
            known.as_deref().is_none_or(|known| known == name)
        };
        let at = shards.iter().position(of_entry).unwrap_or_default();
        place(entry, shards.swap_remove(at).1)?;
    }
    Ok(entries.into())
}

fn named(name: Option<&str>) -> Value {
    name.map_or_else(|| json!({}), |name| json!({ "name": name }))
}

fn names(entries: &[Value]) -> Vec<&str> {
    entries.iter().filter_map(|entry| entry.get("name")?.as_str()).collect()
}

/// Says where a dataset's shards are.
fn place(entry: &mut Map<String, Value>, shards: Value) -> Result<(), ConfigError> {
    let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    let usable = match &shards {
        Value::Array(patterns) => !patterns.is_empty() && patterns.iter().all(is_text),
        one => is_text(one),
    };
    if !usable {
        return Err(wrong(format!(
            "`data` = {shards}: give a path, a pattern such as `photos-{{000..127}}.tar`, a URL, a list of \
             them, or a dict of them by the datasets' names"
        )));
    }
    match shards.as_str().and_then(|text| text.strip_prefix(HUB)) {
        // It has a name there.
        Some(name) => entry.insert("hub".to_owned(), name.into()),
        None => {
            entry.entry("name").or_insert_with(|| NAME.into());
            entry.insert("shards".to_owned(), shards)
        }
    };
    Ok(())
}

fn wrong(fault: String) -> ConfigError {
    ConfigError::Keyword(fault)
}
/// A sentence for the log where classes of several datasets have the same numbers and other names.
pub(crate) fn shared_numbers(manifests: &[Arc<Manifest>]) -> Option<String> {
    let most = manifests.iter().map(|manifest| manifest.classes().len()).max()?;
    (0..most).find_map(|number| {
        let mut named =
            manifests.iter().filter_map(|manifest| Some((manifest, manifest.classes().get(number)?)));
        let (first, one) = named.next()?;
        let (other, another) = named.find(|(_, name)| *name != one)?;
        Some(format!(
            "label {number} is `{one}` in dataset `{}` and `{another}` in `{}`: give datasets of folders the same list \
             `classes = [..]` with all classes, and pack shards by `headwater datasets pack --classes FILE`",
            first.dataset(),
            other.dataset()
        ))
    })
}

/// The classes that all datasets have.
pub(crate) fn classes(manifests: &[Arc<Manifest>]) -> Option<Vec<String>> {
    let mut all = manifests.iter().map(|manifest| manifest.classes());
    let first = all.next().filter(|classes| !classes.is_empty())?;
    all.all(|classes| classes == first).then(|| first.to_vec())
}
