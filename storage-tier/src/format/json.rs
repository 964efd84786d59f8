//! JSON as Python writes it: in metadata of Zarr, in lines, in tables of labels.

use std::borrow::Cow;

use serde::de::{DeserializeOwned, IgnoredAny};

/// Numbers that Python's `json` writes, and JSON does not have.
const NO_JSON: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];

/// JSON, or what Python writes for it: numbers that JSON does not have become strings of the same letters.
///
/// # Errors
/// It is neither.
pub(super) fn plain(json: &[u8]) -> Result<Cow<'_, [u8]>, serde_json::Error> {
    let Err(error) = serde_json::from_slice::<IgnoredAny>(json) else {
        return Ok(json.into());
    };
    let quoted = quoted(json);
    serde_json::from_slice::<IgnoredAny>(&quoted).map(|_| quoted.into()).map_err(|_| error)
}

/// Parses such a text.
///
/// # Errors
/// It is neither, or it is something else than `T`.
pub(super) fn parsed<T: DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(&plain(json)?)
}

/// The same text with quotes around such numbers.
fn quoted(json: &[u8]) -> Vec<u8> {
    let (mut text, mut at, mut is_within) = (Vec::with_capacity(json.len()), 0, false);
    while let Some(&byte) = json.get(at) {
        let number = NO_JSON.iter().find(|number| !is_within && json[at..].starts_with(number));
        let length = match (number, byte) {
            (Some(number), _) => number.len(),
            (None, b'\\') if is_within => 2,
            _ => 1,
        };
        is_within ^= byte == b'"';
        let quote: &[u8] = if number.is_some() { b"\"" } else { b"" };
        let part = &json[at..json.len().min(at + length)];
        text.extend([quote, part, quote].concat());
        at += length;
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn numbers_that_json_does_not_have_are_strings_and_strings_stay() {
        let text = br#"{"a": [NaN, -Infinity,Infinity, 1], "NaN": "NaN \" NaN, \\", "b": -1.5}"#;
        let expected = json!({
            "a": ["NaN", "-Infinity", "Infinity", 1], "NaN": "NaN \" NaN, \\", "b": -1.5,
        });
        assert_eq!(parsed::<Value>(text).unwrap(), expected);
        for broken in [&b"{NaN"[..], b"[NaNs]", b"\"NaN", b"[Na]", b"NaN\"\\"] {
            assert!(parsed::<Value>(broken).is_err());
        }
    }
}
