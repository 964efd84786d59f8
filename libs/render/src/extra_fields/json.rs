//! Values within JSON documents.

use headwater_core::Dtype;
use headwater_core::recipe::{JsonSpec, JsonValue};
use serde_json::{Number, Value};

use super::{number, text};

/// Reads the value at a path. Documents nested deeper than 127 levels are refused, as are numbers that
/// binary64 does not hold.
pub(super) fn read(spec: &JsonSpec, bytes: &[u8], rows: &mut [&mut [u8]]) -> Result<(), String> {
    let document: Value =
        serde_json::from_slice(bytes).map_err(|error| format!("it is not JSON: {error}"))?;
    let path = &spec.path;
    let value =
        document.pointer(path).ok_or_else(|| format!("the document has nothing at `{path}`"))?;
    let wrong = |wanted: &str| format!("at `{path}` is {}, not {wanted}", kind(value));
    match (spec.value, value) {
        (JsonValue::Int, Value::Number(value)) => put_whole(Dtype::I64, value, rows[0]),
        (JsonValue::Int, _) => Err(wrong("a whole number")),
        (JsonValue::Float, Value::Number(value)) => put_number(spec.dtype(), value, rows[0]),
        (JsonValue::Float, _) => Err(wrong("a number")),
        (JsonValue::Bool, Value::Bool(value)) => {
            rows[0][0] = u8::from(*value);
            Ok(())
        }
        (JsonValue::Bool, _) => Err(wrong("true or false")),
        (JsonValue::Text, Value::String(value)) => {
            text::put_text(value, spec.truncate.unwrap_or_default(), rows)
        }
        (JsonValue::Text, _) => Err(wrong("a string")),
        (JsonValue::Array, value) => {
            let shape = spec.shape.as_deref().unwrap_or_default();
            put_array(spec.dtype(), shape, value, rows[0])
                .map_err(|reason| format!("at `{path}` {reason}"))
        }
    }
}

/// Writes nested lists of a shape, C order.
fn put_array(dtype: Dtype, shape: &[u32], value: &Value, row: &mut [u8]) -> Result<(), String> {
    let Some((&side, inner)) = shape.split_first() else {
        return match value {
            Value::Number(value) => put_number(dtype, value, row),
            Value::Bool(value) if dtype == Dtype::Bool => {
                row[0] = u8::from(*value);
                Ok(())
            }
            other => Err(format!("is {} where an element of {dtype} is wanted", kind(other))),
        };
    };
    let Value::Array(values) = value else {
        return Err(format!("is {} where a list of {side} is wanted", kind(value)));
    };
    if values.len() != side as usize {
        return Err(format!("is a list of {}, not of {side}", values.len()));
    }
    let bytes = row.len() / values.len();
    let places = row.chunks_exact_mut(bytes);
    values.iter().zip(places).try_for_each(|(value, row)| put_array(dtype, inner, value, row))
}

fn put_number(dtype: Dtype, value: &Number, row: &mut [u8]) -> Result<(), String> {
    match (dtype, value.as_f64()) {
        (Dtype::F16 | Dtype::F32 | Dtype::F64, Some(value)) => number::put_float(dtype, value, row),
        _ => put_whole(dtype, value, row),
    }
}

fn put_whole(dtype: Dtype, value: &Number, row: &mut [u8]) -> Result<(), String> {
    let whole = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    let whole = whole.ok_or_else(|| format!("is {value}, not a whole number of 64 bits"))?;
    number::put_int(dtype, whole, row)
}

/// What a value is, for a sentence that does not show it.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
