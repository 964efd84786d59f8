//! A value that a key cannot take, in a person's words: what was written, and what there may be.

use figment::Figment;
use figment::error::{Actual, Kind};
use figment::value::{Num, Value};
use headwater_core::{pluralize, serde_words};

/// `is "eight": give a whole number, 0 or more`; `None` for errors that say it themselves.
pub(crate) fn wanted(kind: &Kind) -> Option<String> {
    match kind {
        Kind::InvalidType(actual, expected) | Kind::InvalidValue(actual, expected) => {
            let value = written(actual);
            Some(format!("is {value}: give {}", serde_words::expected_of(&value, expected)))
        }
        Kind::InvalidLength(len, expected) => {
            let expected = serde_words::expected(expected);
            Some(format!("has {}: give {expected}", pluralize(*len as u64, "value")))
        }
        Kind::DuplicateField(name) => Some(format!("has `{name}` twice: leave one out")),
        _ => None,
    }
}

/// The key of a table whose value cannot be read. Errors within an operation or another tagged table name the table only.
pub(crate) fn key_within(figment: &Figment, path: &[String], kind: &Kind) -> Option<Vec<String>> {
    let (section, within) = path.split_first()?;
    let section = figment.find_value(section).ok()?;
    let value = within.iter().try_fold(&section, |value, part| match value {
        Value::Dict(_, table) => table.get(part),
        Value::Array(_, values) => values.get(part.parse::<usize>().ok()?),
        _ => None,
    })?;
    let mut found = Vec::new();
    places(value, kind, &mut Vec::new(), &mut found);
    match found.as_mut_slice() {
        [only] if !only.is_empty() => Some(std::mem::take(only)),
        _ => None,
    }
}

/// Paths of all values that the error may be about.
fn places(value: &Value, kind: &Kind, at: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    let is_meant = match (kind, value) {
        (Kind::InvalidType(actual, _) | Kind::InvalidValue(actual, _), value) => is(value, actual),
        (Kind::InvalidLength(len, _), Value::Array(_, values)) => values.len() == *len,
        (Kind::UnknownVariant(name, _), Value::String(_, text)) => name == text,
        _ => false,
    };
    if is_meant {
        found.push(at.clone());
    }
    let mut below = |name: String, value: &Value| {
        at.push(name);
        places(value, kind, at, found);
        at.pop();
    };
    match value {
        Value::Dict(_, table) => table.iter().for_each(|(name, value)| below(name.clone(), value)),
        Value::Array(_, values) => {
            values.iter().enumerate().for_each(|(number, value)| below(number.to_string(), value));
        }
        _ => {}
    }
}

fn is(value: &Value, actual: &Actual) -> bool {
    match (value, actual) {
        (Value::String(_, text), Actual::Str(written)) => text == written,
        (Value::Bool(_, flag), Actual::Bool(written)) => flag == written,
        (Value::Num(_, number), Actual::Unsigned(written)) => number.to_u128() == Some(*written),
        (Value::Num(_, number), Actual::Signed(written)) => signed(*number) == Some(*written),
        (Value::Num(_, number), Actual::Float(written)) => number.to_f64() == Some(*written),
        _ => false,
    }
}

fn signed(number: Num) -> Option<i128> {
    match number.to_i128() {
        Some(number) => Some(number),
        None => number.to_u128().and_then(|number| i128::try_from(number).ok()),
    }
}

fn written(actual: &Actual) -> String {
    match actual {
        Actual::Bool(flag) => flag.to_string(),
        Actual::Unsigned(number) => number.to_string(),
        Actual::Signed(number) => number.to_string(),
        Actual::Float(number) => format!("{number:?}"),
        Actual::Char(letter) => format!("{letter:?}"),
        Actual::Str(text) => format!("{text:?}"),
        Actual::Seq => "a list".to_owned(),
        Actual::Map | Actual::Enum | Actual::StructVariant => "a table".to_owned(),
        Actual::Unit | Actual::Option => "empty".to_owned(),
        other => serde_words::written(&other.to_string()).to_owned(),
    }
}
