//! Values of chunks that are not there.

use serde_json::Value;

use super::Fault;
use crate::format::arrays::{Element, Kind, Varying};

/// A value that varies in length, from its form in JSON.
pub(super) fn varying(varying: Varying, value: &Value) -> Result<Vec<u8>, Fault> {
    match (varying, value) {
        (Varying::Text, Value::String(text)) => Ok(text.clone().into_bytes()),
        (_, Value::Null) => Ok(Vec::new()),
        (_, Value::String(text)) if text.is_empty() => Ok(Vec::new()),
        (_, Value::Number(number)) if number.as_u64() == Some(0) => Ok(Vec::new()),
        _ => Err(Fault::Unserved(format!("its fill value {value} is not supported"))),
    }
}

/// An element's bytes, from its form in JSON.
pub(super) fn bytes(element: Element, value: &Value) -> Result<Vec<u8>, Fault> {
    let width = element.bytes as usize;
    let unserved = || Fault::Unserved(format!("its fill value {value} is not supported"));
    let little = match (element.kind, value) {
        (_, Value::Null) => vec![0; width],
        // Strings and bytes are empty unless they are written, by far the most often.
        (Kind::Bytes | Kind::Text | Kind::Opaque, Value::String(text)) if text.is_empty() => {
            vec![0; width]
        }
        (Kind::Bytes | Kind::Text, Value::Number(number)) if number.as_u64() == Some(0) => {
            vec![0; width]
        }
        (Kind::Bool, Value::Bool(truth)) => vec![u8::from(*truth)],
        (Kind::Bool | Kind::Int | Kind::Uint | Kind::Time | Kind::Duration, Value::Number(n)) => {
            let number = n.as_i64().map(i128::from).or_else(|| n.as_u64().map(i128::from));
            let number = number.ok_or_else(unserved)?;
            let (bits, is_signed) = (8 * width as u32, element.kind != Kind::Uint);
            let fits = match element.kind {
                Kind::Bool => number == 0 || number == 1,
                _ if is_signed => number >> (bits - 1) == 0 || number >> (bits - 1) == -1,
                _ => number >> bits == 0,
            };
            if !fits {
                let what = format!("its fill value {value} does not fit an element");
                return Err(Fault::Broken(what));
            }
            number.to_le_bytes()[..width].to_vec()
        }
        (Kind::Float, value) => {
            let number = match value {
                Value::Number(number) => number.as_f64(),
                Value::String(name) => match name.as_str() {
                    "NaN" => Some(f64::NAN),
                    "Infinity" => Some(f64::INFINITY),
                    "-Infinity" => Some(f64::NEG_INFINITY),
                    _ => None,
                },
                _ => None,
            };
            let number = number.ok_or_else(unserved)?;
            match width {
                2 => half::f16::from_f64(number).to_le_bytes().to_vec(),
                4 => (number as f32).to_le_bytes().to_vec(),
                _ => number.to_le_bytes().to_vec(),
            }
        }
        // Complex numbers: parts of zero only.
        (Kind::Complex, Value::Array(parts)) if parts.iter().all(|p| p.as_f64() == Some(0.0)) => {
            vec![0; width]
        }
        _ => return Err(unserved()),
    };
    let big = element.big_endian && element.kind != Kind::Text;
    Ok(if big { little.into_iter().rev().collect() } else { little })
}
