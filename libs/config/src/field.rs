//! An entry of `[[recipe.fields]]`: boxes that follow a tensor's views, or a field that is delivered as it is.

use headwater_core::recipe::{BoxesSpec, FieldSpec};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The value of `kind` of boxes.
const BOXES: &str = "boxes";

/// A field as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>", into = "Map<String, Value>")]
pub enum FieldEntry {
    /// `kind = "boxes"`.
    Boxes(BoxesSpec),
    /// Every other kind.
    Alone(FieldSpec),
}

// === impl FieldEntry ===

impl TryFrom<Map<String, Value>> for FieldEntry {
    type Error = String;

    fn try_from(mut keys: Map<String, Value>) -> Result<Self, String> {
        if keys.get("kind").and_then(Value::as_str) != Some(BOXES) {
            return FieldSpec::try_from(keys).map(Self::Alone);
        }
        keys.remove("kind");
        let name = keys.get("name").cloned();
        if let Some(name) = &name {
            keys.entry("field").or_insert_with(|| name.clone());
        }
        let name = name.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
        let boxes = serde_json::from_value(Value::Object(keys));
        boxes.map(Self::Boxes).map_err(|error| format!("field `{name}`: {error}"))
    }
}

impl From<FieldEntry> for Map<String, Value> {
    fn from(entry: FieldEntry) -> Self {
        let (value, kind) = match entry {
            FieldEntry::Boxes(spec) => (serde_json::to_value(spec), Some(BOXES)),
            FieldEntry::Alone(spec) => (serde_json::to_value(spec), None),
        };
        let mut keys = match value {
            Ok(Value::Object(keys)) => keys,
            other => unreachable!("a field is plain data: {other:?}"),
        };
        keys.extend(kind.map(|kind| ("kind".to_owned(), kind.into())));
        keys
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn boxes_are_read_as_they_are_written_and_others_stay_fields() {
        let given = json!({"name": "found", "kind": "boxes", "like": "images", "boxes_max": 3});
        let entry: FieldEntry = serde_json::from_value(given).expect("boxes");
        let FieldEntry::Boxes(spec) = &entry else { panic!("no boxes: {entry:?}") };
        assert_eq!((spec.field.as_str(), spec.boxes_max, spec.size_min), ("found", 3, 1.0));
        let written = serde_json::to_value(&entry).expect("plain data");
        assert_eq!(written["kind"], "boxes");
        assert_eq!(serde_json::from_value::<FieldEntry>(written).expect("boxes"), entry);
        let wrong = json!({"name": "found", "kind": "boxes", "like": "images", "most": 3});
        let said =
            serde_json::from_value::<FieldEntry>(wrong).expect_err("no such key").to_string();
        assert!(said.contains("field `found`") && said.contains("most"), "{said}");
        let number = json!({"name": "age", "kind": "int"});
        let entry: FieldEntry = serde_json::from_value(number).expect("a field");
        assert!(matches!(entry, FieldEntry::Alone(_)), "{entry:?}");
    }
}
