//! What serde says of data that do not fit, in a person's words: without Rust's names of types.

/// What is wrong, in place of the error's own text: ``needs a key `kind` ``, `is "x": give a whole number`.
///
/// Texts that do not come from serde itself are given back as they are.
#[must_use]
pub fn problem(error: &serde_json::Error) -> String {
    let whole = error.to_string();
    // Bytes of a file have a place, values do not.
    let (text, place) = match whole.rsplit_once(" at line ") {
        Some((text, place)) => (text, format!(", at line {place}")),
        None => (whole.as_str(), String::new()),
    };
    let plain = described(text).unwrap_or_else(|| text.to_owned());
    format!("{plain}{place}")
}

fn described(text: &str) -> Option<String> {
    if let Some(name) = text.strip_prefix("missing field ") {
        return Some(format!("needs a key {name}"));
    }
    let (found, wanted) = text.split_once(", expected ").unwrap_or((text, ""));
    if let Some(name) = found.strip_prefix("unknown field ") {
        let name = name.strip_suffix(", there are no fields").unwrap_or(name);
        return Some(format!("unknown key {name}: known are {}", known(wanted)));
    }
    if let Some(name) = found.strip_prefix("unknown variant ") {
        return Some(format!("{name} is not known: must be one of {}", known(wanted)));
    }
    if let Some(len) = found.strip_prefix("invalid length ") {
        return Some(format!("has {len} values: give {}", expected(wanted)));
    }
    let value =
        found.strip_prefix("invalid type: ").or_else(|| found.strip_prefix("invalid value: "))?;
    let value = written(value);
    Some(format!("is {value}: give {}", expected_of(value, wanted)))
}

/// `one of a, b`, `a or b` or `a`, as a list.
fn known(wanted: &str) -> String {
    match wanted {
        "" => "none".to_owned(),
        wanted => wanted.trim_start_matches("one of ").replace(" or ", ", "),
    }
}

/// What serde expects in place of a value as it is written: with the greatest number, where that is a greater one.
#[must_use]
pub fn expected_of(value: &str, wanted: &str) -> String {
    let most = match wanted {
        "u32" => u32::MAX.into(),
        "u64" | "usize" => u64::MAX.into(),
        _ => u128::MAX,
    };
    match value.parse::<u128>() {
        Ok(number) if number > most => format!("a whole number, from 0 to {most}"),
        _ => expected(wanted),
    }
}

/// A value without the name of its type: ``integer `5` `` is 5.
#[must_use]
pub fn written(value: &str) -> &str {
    match value {
        "sequence" => "a list",
        "map" => "a table",
        "unit value" => "empty",
        value => match value.split_once(' ') {
            Some(("string", text)) => text,
            _ => value.split('`').nth(1).unwrap_or(value),
        },
    }
}

/// What serde expects: `u32` is a whole number.
#[must_use]
pub fn expected(wanted: &str) -> String {
    let size = |text: &str| text.rsplit(' ').next().and_then(|size| size.parse::<u64>().ok());
    match wanted {
        "u8" => "a whole number, from 0 to 255".to_owned(),
        "u16" => "a whole number, from 0 to 65535".to_owned(),
        "u32" | "u64" | "u128" | "usize" => "a whole number, 0 or more".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" | "integer" => "a whole number".to_owned(),
        "f32" | "f64" | "floating point number" => "a number".to_owned(),
        "a boolean" | "boolean" => "true or false".to_owned(),
        "a string" | "string" | "str" | "path string" | "a character" | "variant identifier" => {
            "a string".to_owned()
        }
        "a sequence" | "sequence" => "a list".to_owned(),
        text if text.starts_with("a nonzero ") => "a whole number, 1 or more".to_owned(),
        text if text.starts_with("an array of length ") || text.starts_with("a tuple of size ") => {
            size(text).map_or_else(|| "a list".to_owned(), |size| format!("a list of {size}"))
        }
        text if text.starts_with("enum ") => "a string".to_owned(),
        text if ["a map", "map", "unit"].contains(&text)
            || ["struct ", "internally tagged enum ", "struct variant "]
                .iter()
                .any(|start| text.starts_with(start)) =>
        {
            "a table of keys and values".to_owned()
        }
        text if text.ends_with(" elements in sequence")
            || text.ends_with(" element in sequence") =>
        {
            let size = text.split(' ').next().unwrap_or_default();
            format!("a list of {size}")
        }
        text => text.trim_start_matches("expected ").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only what cannot be read is looked at")]
    struct Shape {
        sides: [u8; 2],
        kind: Kind,
        #[serde(default)]
        many: u32,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        Plain,
        Round,
    }

    #[test]
    fn no_name_of_a_type_reaches_a_reader() {
        for (given, said) in [
            (r#"5"#, "is 5: give a table of keys and values"),
            (r#"{"sides": [1, 2]}"#, "needs a key `kind`"),
            (
                r#"{"sides": [1, 2], "kind": "plane"}"#,
                "`plane` is not known: must be one of `plain`, `round`",
            ),
            (r#"{"sides": [1], "kind": "plain"}"#, "has 1 values: give a list of 2"),
            (
                r#"{"sides": [1, "x"], "kind": "plain"}"#,
                "is \"x\": give a whole number, from 0 to 255",
            ),
            (r#"{"sides": [1, -1], "kind": "plain"}"#, "is -1: give a whole number, from 0 to 255"),
            (
                r#"{"sides": [1, 2], "kind": "plain", "many": 5000000000}"#,
                "is 5000000000: give a whole number, from 0 to 4294967295",
            ),
            (r#"{"sides": 0.5, "kind": "plain"}"#, "is 0.5: give a list of 2"),
            (
                r#"{"sides": [1, 2], "kinds": 1}"#,
                "unknown key `kinds`: known are `sides`, `kind`, `many`",
            ),
        ] {
            let value: serde_json::Value = serde_json::from_str(given).expect("JSON");
            let error = serde_json::from_value::<Shape>(value).expect_err("what does not fit");
            assert_eq!(problem(&error), said, "{error}");
            let error = serde_json::from_str::<Shape>(given).expect_err("what does not fit");
            assert!(problem(&error).starts_with(&format!("{said}, at line 1 column ")), "{error}");
        }
    }
}
