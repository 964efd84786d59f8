//! The values of one JSON object, as they are written.

use std::ops::Range;

use crate::format::json;

/// Names and values of an object: strings decoded, all other values as their text; `null` is none.
///
/// # Errors
/// The line is no JSON object; says what is wrong in one sentence.
pub(super) fn fields(line: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
    std::str::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned())?;
    let plain = json::plain(line).map_err(|error| error.to_string())?;
    let text = std::str::from_utf8(&plain).map_err(|error| error.to_string())?;
    if !text.trim_start().starts_with('{') {
        return Err("it is no JSON object".to_owned());
    }
    let mut fields = Vec::new();
    for (name, value) in spans(text.as_bytes()) {
        let name: String = serde_json::from_str(&text[name]).map_err(|error| error.to_string())?;
        match &text[value] {
            "null" => {}
            string if string.starts_with('"') => {
                let decoded: String =
                    serde_json::from_str(string).map_err(|error| error.to_string())?;
                fields.push((name, decoded.into_bytes()));
            }
            other => fields.push((name, other.as_bytes().to_vec())),
        }
    }
    Ok(fields)
}

/// Where the names and values of an object lie, of text that is known to be one.
fn spans(text: &[u8]) -> Vec<(Range<usize>, Range<usize>)> {
    let mut spans = Vec::new();
    // Past the brace that opens the object.
    let mut at = skip_space(text, 0) + 1;
    loop {
        at = skip_space(text, at);
        if text.get(at) != Some(&b'"') {
            return spans;
        }
        let name = at..value_end(text, at);
        // Past the colon.
        at = skip_space(text, skip_space(text, name.end) + 1);
        let value = at..value_end(text, at);
        // Past the comma or the brace.
        at = skip_space(text, value.end) + 1;
        spans.push((name, value));
    }
}

fn skip_space(text: &[u8], from: usize) -> usize {
    let space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    from + text[from.min(text.len())..].iter().take_while(|byte| space(byte)).count()
}

/// The end of the value that begins at a byte.
fn value_end(text: &[u8], start: usize) -> usize {
    let (mut depth, mut in_string, mut escaped) = (0u32, false, false);
    for (at, &byte) in text.iter().enumerate().skip(start) {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => continue,
            }
            if !in_string && depth == 0 {
                return at + 1;
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth > 1 => depth -= 1,
            b'}' | b']' if depth == 1 => return at + 1,
            b',' | b'}' | b' ' | b'\t' | b'\n' | b'\r' | b':' if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_as_they_are_written() {
        let line = br#" {"a": "x\"\u00e9,}", "n":1.50 , "big":12345678901234567890123,
            "o": {"k": ["}", {}], "l": 1} ,"t":true,"none":null,"":[ ]} "#;
        let found = fields(line).unwrap();
        let texts: Vec<(&str, &str)> = found
            .iter()
            .map(|(name, value)| (name.as_str(), std::str::from_utf8(value).unwrap()))
            .collect();
        let expected = [
            ("a", "x\"\u{e9},}"),
            ("n", "1.50"),
            ("big", "12345678901234567890123"),
            ("o", r#"{"k": ["}", {}], "l": 1}"#),
            ("t", "true"),
            ("", "[ ]"),
        ];
        assert_eq!(texts, expected);
        assert!(fields(b"{}").unwrap().is_empty());
    }

    /// Python's `json` writes such numbers.
    #[test]
    fn numbers_that_json_does_not_have_are_their_names() {
        let found = fields(br#"{"score": NaN, "most": -Infinity, "text": "NaN \" NaN"}"#).unwrap();
        let expected = [("score", &b"NaN"[..]), ("most", b"-Infinity"), ("text", b"NaN \" NaN")];
        let found: Vec<_> = found.iter().map(|(name, value)| (name.as_str(), &value[..])).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for line in [&b"[1]"[..], b"1", b"{", b"{\"a\":1} {}", b"{\"a\":\xff}", b"{'a':1}"] {
            assert!(fields(line).is_err(), "{line:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn an_object_comes_back_as_serde_reads_it(
            pairs in proptest::collection::btree_map(".{0,6}", (".{0,6}", 0u8..6), 0..5)
        ) {
            let value = |(text, kind): &(String, u8)| match kind {
                0 => serde_json::json!(text),
                1 => serde_json::json!([text, {"a": text}]),
                2 => serde_json::json!({text.clone(): [text]}),
                3 => serde_json::json!(text.len() as f64 / 8.0),
                4 => serde_json::Value::Null,
                _ => serde_json::json!(-7),
            };
            let object: serde_json::Map<_, _> =
                pairs.iter().map(|(name, pair)| (name.clone(), value(pair))).collect();
            let text = serde_json::to_string_pretty(&object).unwrap();
            let found = fields(text.as_bytes()).unwrap();
            let given = object.iter().filter(|(_, value)| !value.is_null());
            proptest::prop_assert_eq!(found.len(), given.clone().count());
            for ((name, bytes), (given, value)) in found.iter().zip(given) {
                proptest::prop_assert_eq!(name, given);
                match value.as_str() {
                    Some(text) => proptest::prop_assert_eq!(&bytes[..], text.as_bytes()),
                    None => {
                        let read: serde_json::Value = serde_json::from_slice(bytes).unwrap();
                        proptest::prop_assert_eq!(&read, value);
                    }
                }
            }
        }
    }
}
