//! JSON as Python writes it.

use serde::de::DeserializeOwned;

use super::Fault;

/// Numbers that Python's `json` writes, and JSON does not have.
const NO_JSON: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];

/// Parses metadata. Numbers that JSON does not have are taken for strings of the same letters: so Zarr writes them as
/// fill values, and attributes, where they are met, are not read.
pub(super) fn parsed<T: DeserializeOwned>(json: &[u8]) -> Result<T, Fault> {
    let found = serde_json::from_slice(json).or_else(|_| serde_json::from_slice(&quoted(json)));
    found.map_err(|error| Fault::Broken(format!("its metadata: {error}")))
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
