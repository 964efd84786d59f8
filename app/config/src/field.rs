//! An entry of `[[recipe.fields]]`: boxes that follow a tensor's views, where these lie, or a field that is delivered as it
//! is.

use headwater_core::recipe::{BoxesSpec, FieldKeys, FieldSpec, GeometrySpec};
use headwater_core::serde_words;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The value of `kind` of boxes.
const BOXES: &str = "boxes";
/// And of where views lie.
const GEOMETRY: &str = "geometry";

/// A field as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "FieldKeys", into = "Map<String, Value>")]
pub enum FieldEntry {
    /// `kind = "boxes"`.
    Boxes(BoxesSpec),
    /// `kind = "geometry"`.
    Geometry(GeometrySpec),
    /// Every other kind.
    Alone(FieldSpec),
}

// === impl FieldEntry ===

impl TryFrom<FieldKeys> for FieldEntry {
    type Error = String;

    fn try_from(FieldKeys(mut keys): FieldKeys) -> Result<Self, String> {
        let kind = keys.get("kind").and_then(Value::as_str);
        let Some(kind) = [BOXES, GEOMETRY].into_iter().find(|known| Some(*known) == kind) else {
            return FieldSpec::try_from(FieldKeys(keys)).map(Self::Alone);
        };
        keys.remove("kind");
        let name = keys.get("name").cloned();
        if let (BOXES, Some(name)) = (kind, &name) {
            keys.entry("field").or_insert_with(|| name.clone());
        }
        let name = name.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
        let keys = Value::Object(keys);
        let entry = match kind {
            BOXES => serde_json::from_value(keys).map(Self::Boxes),
            _ => serde_json::from_value(keys).map(Self::Geometry),
        };
        entry.map_err(|error| format!("field `{name}`: {}", serde_words::problem(&error)))
    }
}

impl From<FieldEntry> for Map<String, Value> {
    fn from(entry: FieldEntry) -> Self {
        let (value, kind) = match entry {
            FieldEntry::Boxes(spec) => (serde_json::to_value(spec), Some(BOXES)),
            FieldEntry::Geometry(spec) => (serde_json::to_value(spec), Some(GEOMETRY)),
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

    #[test]
    fn numbers_of_toml_that_json_does_not_have_are_kept_or_refused_by_name() {
        let entry = |text: &str| toml::from_str::<FieldEntry>(text);
        let without = entry("name = 'score'\nkind = 'float'").expect("a field");
        let mut seen = vec![without];
        for number in ["nan", "inf", "-inf", "0.5"] {
            let text = format!("name = 'score'\nkind = 'float'\ndefault = {number}");
            let given = entry(&text).expect("a field");
            assert!(!seen.contains(&given), "{number}");
            let written = serde_json::to_value(&given).expect("plain data");
            assert_eq!(serde_json::from_value::<FieldEntry>(written).expect("a field"), given);
            seen.push(given);
        }
        for (key, kind) in [("default", "text"), ("length", "tokens"), ("size_min", "boxes")] {
            let text = format!("name = 'a'\nkind = '{kind}'\n{key} = nan");
            let said = entry(&text).expect_err("no number there").to_string();
            assert!(said.contains(&format!("`{key}` of `a` is nan")), "{said}");
        }
    }
}
