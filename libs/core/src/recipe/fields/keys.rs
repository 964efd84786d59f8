//! The keys of a field as a configuration has them: JSON, and numbers that JSON does not have.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// The keys of a field, plain JSON: a `default` that is infinite or no number is its name.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "BTreeMap<String, KeyValue>")]
pub struct FieldKeys(pub Map<String, Value>);

/// A number of 64 bits. In JSON, which has finite ones only, others are `"nan"`, `"inf"` and `"-inf"`. Two that are no
/// number are equal.
#[derive(Clone, Copy, Debug)]
pub struct AnyFloat(pub f64);

/// A value of a key.
#[derive(Clone, Debug)]
pub enum KeyValue {
    /// What JSON has.
    Json(Value),
    /// Infinite, or no number.
    NotFinite(f64),
}

// === impl FieldKeys ===

impl TryFrom<BTreeMap<String, KeyValue>> for FieldKeys {
    type Error = String;

    fn try_from(keys: BTreeMap<String, KeyValue>) -> Result<Self, String> {
        let text = |key: &str| match keys.get(key) {
            Some(KeyValue::Json(Value::String(text))) => text.clone(),
            _ => String::new(),
        };
        let (name, is_float) = (text("name"), text("kind") == "float");
        let json = |(key, value): (String, KeyValue)| match value {
            KeyValue::Json(value) => Ok((key, value)),
            KeyValue::NotFinite(number) if is_float && key == "default" => {
                Ok((key, AnyFloat(number).name().into()))
            }
            KeyValue::NotFinite(number) => {
                let number = AnyFloat(number).name();
                Err(format!("`{key}` of `{name}` is {number}: give a finite number"))
            }
        };
        keys.into_iter().map(json).collect::<Result<_, _>>().map(Self)
    }
}

// === impl AnyFloat ===

impl AnyFloat {
    /// The text of a number that is not finite.
    fn name(self) -> &'static str {
        match self.0 {
            number if number.is_nan() => "nan",
            number if number > 0.0 => "inf",
            _ => "-inf",
        }
    }
}

impl PartialEq for AnyFloat {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || self.0.is_nan() && other.0.is_nan()
    }
}

impl Serialize for AnyFloat {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() { to.serialize_f64(self.0) } else { to.serialize_str(self.name()) }
    }
}

impl<'de> Deserialize<'de> for AnyFloat {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let wrong = |given: &dyn fmt::Display| {
            D::Error::custom(format!(
                "{given} is no number: give one, or \"nan\", \"inf\" or \"-inf\""
            ))
        };
        match KeyValue::deserialize(from)? {
            KeyValue::NotFinite(number) => Ok(Self(number)),
            KeyValue::Json(Value::String(name)) => match name.as_str() {
                "nan" => Ok(Self(f64::NAN)),
                "inf" => Ok(Self(f64::INFINITY)),
                "-inf" => Ok(Self(f64::NEG_INFINITY)),
                other => Err(wrong(&format!("\"{}\"", other.escape_debug()))),
            },
            KeyValue::Json(value) => value.as_f64().map(Self).ok_or_else(|| wrong(&value)),
        }
    }
}

// === impl KeyValue ===

impl KeyValue {
    /// The value, if JSON has it.
    ///
    /// # Errors
    /// It is infinite, or no number.
    pub fn into_json(self) -> Result<Value, String> {
        match self {
            Self::Json(value) => Ok(value),
            Self::NotFinite(number) => {
                let number = AnyFloat(number).name();
                Err(format!("{number} cannot be handed on as JSON: give a finite number or a text"))
            }
        }
    }
}

impl<'de> Deserialize<'de> for KeyValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(KeyValueVisitor)
    }
}

struct KeyValueVisitor;

impl<'de> Visitor<'de> for KeyValueVisitor {
    type Value = KeyValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<KeyValue, E> {
        Ok(KeyValue::Json(value.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<KeyValue, E> {
        Ok(KeyValue::Json(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<KeyValue, E> {
        Ok(KeyValue::Json(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<KeyValue, E> {
        let finite = serde_json::Number::from_f64(value);
        Ok(finite.map_or(KeyValue::NotFinite(value), |number| KeyValue::Json(number.into())))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<KeyValue, E> {
        Ok(KeyValue::Json(value.into()))
    }

    fn visit_unit<E: Error>(self) -> Result<KeyValue, E> {
        Ok(KeyValue::Json(Value::Null))
    }

    fn visit_none<E: Error>(self) -> Result<KeyValue, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<KeyValue, D::Error> {
        KeyValue::deserialize(from)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<KeyValue, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<KeyValue>()? {
            list.push(item.into_json().map_err(A::Error::custom)?);
        }
        Ok(KeyValue::Json(list.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<KeyValue, A::Error> {
        let mut map = Map::new();
        while let Some((key, value)) = entries.next_entry::<String, KeyValue>()? {
            map.insert(key, value.into_json().map_err(A::Error::custom)?);
        }
        Ok(KeyValue::Json(map.into()))
    }
}
