//! Each key of a recipe is part of its digest: one that is changed gives another.

use std::collections::BTreeMap;

use headwater_core::op::OpSpec;
use headwater_core::recipe::{CropSpec, FieldKind};
use headwater_core::{Digest, Recipe};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A key that says which other keys there are.
const TAGS: [&str; 5] = ["op", "kind", "as", "scaling", "channels"];
/// Words of keys that have only some.
const WORDS: &[&str] = &[
    "nearest",
    "box",
    "f16",
    "f32",
    "i64",
    "u8",
    "bool",
    "off",
    "ignore",
    "pillow-13",
    "turbojpeg",
    "symmetric",
    "cifar10",
    "noise",
    "xyxy",
];

/// A recipe in which every key is written out.
fn every_key() -> Value {
    serde_json::from_str(include_str!("data/every_key.json")).expect("the fixture")
}

fn digest(recipe: Value) -> Option<Digest> {
    serde_json::from_value::<Recipe>(recipe).ok().map(|recipe| recipe.digest())
}

/// JSON pointers to all that is neither a list nor a table.
fn leaves(value: &Value, at: &str, to: &mut Vec<String>) {
    match value {
        Value::Object(table) => {
            for (key, value) in table.iter().filter(|(key, _)| !TAGS.contains(&key.as_str())) {
                leaves(value, &format!("{at}/{key}"), to);
            }
        }
        Value::Array(list) => {
            for (number, value) in list.iter().enumerate() {
                leaves(value, &format!("{at}/{number}"), to);
            }
        }
        _ => to.push(at.to_owned()),
    }
}

fn others(value: &Value) -> Vec<Value> {
    match value {
        Value::Bool(given) => vec![json!(!given)],
        Value::Number(number) if number.is_f64() => vec![json!(number.as_f64().unwrap() * 1.25)],
        Value::Number(number) => vec![json!(number.as_i64().unwrap() + 1)],
        Value::String(text) => {
            let words = WORDS.iter().filter(|word| *word != text).map(|&word| json!(word));
            std::iter::once(json!(format!("{text}x"))).chain(words).collect()
        }
        other => panic!("{other} is no leaf"),
    }
}

#[test]
fn a_changed_key_gives_a_changed_digest() {
    let whole = every_key();
    let mut pointers = Vec::new();
    leaves(&whole, "", &mut pointers);
    assert!(pointers.len() > 200, "{}", pointers.len());
    let mut seen = BTreeMap::from([(digest(whole.clone()).expect("a recipe").to_string(), "none")]);
    for pointer in &pointers {
        let changed = |value: Value| {
            let mut changed = whole.clone();
            *changed.pointer_mut(pointer).expect("a leaf") = value;
            digest(changed)
        };
        let found = others(whole.pointer(pointer).expect("a leaf")).into_iter().find_map(changed);
        let found = found.unwrap_or_else(|| panic!("{pointer}: nothing else is accepted"));
        let before = seen.insert(found.to_string(), pointer);
        assert_eq!(before, None, "{pointer} has the same digest");
    }
}

/// The kinds that a type knows, out of its own refusal of another one.
fn kinds<T: DeserializeOwned>(tag: &str) -> Vec<String> {
    let refusal = serde_json::from_value::<T>(json!({tag: "?"})).err().expect("a refusal");
    let quoted: Vec<String> = refusal.to_string().split('`').map(str::to_owned).collect();
    quoted.into_iter().skip(3).step_by(2).collect()
}

#[test]
fn every_kind_of_operation_crop_and_field_is_among_the_changed_keys() {
    let written = every_key().to_string();
    let known = [
        ("op", kinds::<OpSpec>("op"), 23),
        ("kind", kinds::<CropSpec>("kind"), 8),
        ("kind", kinds::<FieldKind>("kind"), 9),
    ];
    for (tag, kinds, least) in known {
        assert!(kinds.len() >= least, "{kinds:?}");
        for kind in kinds {
            assert!(written.contains(&format!("\"{tag}\":\"{kind}\"")), "{kind}");
        }
    }
}
