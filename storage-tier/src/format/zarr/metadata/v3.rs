//! `zarr.json`: version 3.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{
    ArrayMetadata, Codec, Fault, Keys, Sharding, codec, fill, length, unknown_codec, varying,
};
use crate::format::arrays::{Element, Varying};
use crate::format::json::parsed;

#[derive(Deserialize)]
struct Node {
    node_type: String,
}

#[derive(Deserialize)]
struct Text {
    shape: Vec<u64>,
    data_type: Value,
    chunk_grid: Named,
    chunk_key_encoding: Named,
    #[serde(default)]
    fill_value: Value,
    codecs: Vec<Named>,
    #[serde(default)]
    storage_transformers: Vec<Value>,
    /// Also keys that are not looked at.
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// Keys of an array that change none of its elements.
const PASSED_OVER: [&str; 4] = ["zarr_format", "node_type", "attributes", "dimension_names"];

/// An extension point: a name, and what it needs.
#[derive(Deserialize)]
struct Named {
    name: String,
    #[serde(default)]
    configuration: Value,
}

/// What the first codec makes of elements.
enum First {
    Bytes { big_endian: bool },
    Varying(Varying),
}

#[derive(Deserialize)]
struct ShardingText {
    chunk_shape: Vec<u64>,
    codecs: Vec<Named>,
    index_codecs: Vec<Named>,
    #[serde(default)]
    index_location: Option<String>,
}

pub(super) fn read(json: &[u8]) -> Result<Option<ArrayMetadata>, Fault> {
    let broken = |error| Fault::Broken(format!("its metadata: {error}"));
    match parsed::<Node>(json).map_err(broken)?.node_type.as_str() {
        "group" => return Ok(None),
        "array" => {}
        other => {
            let other = other.escape_debug();
            return Err(Fault::Broken(format!("its metadata: `{other}` is no kind of node")));
        }
    }
    let text: Text = parsed(json).map_err(broken)?;
    // An extension may change what elements are, unless it says otherwise.
    let is_meant = |(key, value): &(&String, &Value)| {
        !PASSED_OVER.contains(&key.as_str())
            && value.get("must_understand").and_then(Value::as_bool) != Some(false)
    };
    if let Some((key, _)) = text.others.iter().find(is_meant) {
        return Err(unsupported("extension", key));
    }
    if !text.storage_transformers.is_empty() {
        return Err(Fault::Unserved("it has storage transformers: write it without".to_owned()));
    }
    let outer = match text.chunk_grid.name.as_str() {
        "regular" => lengths(&text.chunk_grid.configuration)?,
        other => return Err(unsupported("chunk grid", other)),
    };
    let separator = text.chunk_key_encoding.configuration.get("separator").and_then(Value::as_str);
    let separator = separator.map(|text| text.chars().next().unwrap_or('/'));
    let keys = match text.chunk_key_encoding.name.as_str() {
        "default" => Keys { prefixed: true, separator: separator.unwrap_or('/') },
        "v2" => Keys { prefixed: false, separator: separator.unwrap_or('.') },
        other => return Err(unsupported("chunk key encoding", other)),
    };
    let (mut codecs, mut inner, mut sharding) = (text.codecs, outer.clone(), None);
    if let [Named { name, configuration }] = &mut codecs[..]
        && name == "sharding_indexed"
    {
        let found: ShardingText = serde_json::from_value(configuration.take())
            .map_err(|error| Fault::Broken(format!("its sharding: {error}")))?;
        let (index_codecs, first) = steps(&found.index_codecs, 1)?;
        if !matches!(first, First::Bytes { big_endian: false }) {
            return Err(unsupported("byte order of the index", "big"));
        }
        let index_first = found.index_location.as_deref() == Some("start");
        sharding = Some(Sharding { index_codecs, index_first });
        inner = found.chunk_shape;
        codecs = found.codecs;
    }
    let (codecs, first) = steps(&codecs, text.shape.len())?;
    let (element, varying, fill) = match first {
        First::Bytes { big_endian } => {
            let element = element(&text.data_type, big_endian)?;
            (element, None, fill::bytes(element, &text.fill_value)?)
        }
        First::Varying(varying) if has_values(&text.data_type, varying) => {
            (length(), Some(varying), fill::varying(varying, &text.fill_value)?)
        }
        First::Varying(_) => return Err(unserved(&text.data_type)),
    };
    let shape = text.shape;
    let array =
        ArrayMetadata { element, varying, shape, outer, inner, codecs, sharding, keys, fill };
    Ok(Some(array))
}

fn lengths(configuration: &Value) -> Result<Vec<u64>, Fault> {
    let lengths = configuration.get("chunk_shape").and_then(Value::as_array);
    let lengths = lengths.and_then(|lengths| lengths.iter().map(Value::as_u64).collect());
    lengths.ok_or_else(|| Fault::Broken("its metadata: the chunks have no shape".to_owned()))
}

/// The codecs behind the one that makes bytes of elements, and that one.
fn steps(codecs: &[Named], axes: usize) -> Result<(Vec<Codec>, First), Fault> {
    let (mut steps, mut first) = (Vec::new(), None);
    for Named { name, configuration } in codecs {
        match (name.as_str(), &first) {
            ("bytes", None) => {
                let order = configuration.get("endian").and_then(Value::as_str);
                first = Some(First::Bytes { big_endian: order == Some("big") });
            }
            ("transpose", None) => {
                let order = configuration.get("order").and_then(Value::as_array);
                let plain = order.is_some_and(|order| {
                    order.len() == axes
                        && order
                            .iter()
                            .enumerate()
                            .all(|(at, axis)| axis.as_u64() == Some(at as u64))
                });
                if !plain {
                    let remedy = "write it without `transpose`";
                    return Err(Fault::Unserved(format!("its axes are transposed: {remedy}")));
                }
            }
            (name, Some(_)) => {
                steps.push(codec(name, configuration.get("cname").and_then(Value::as_str))?);
            }
            (name, None) => {
                first = Some(First::Varying(varying(name).ok_or_else(|| unknown_codec(name))?));
            }
        }
    }
    let first = first.ok_or_else(|| unknown_codec("none but `bytes`"))?;
    Ok((steps, first))
}

/// Whether a type has such values.
fn has_values(data_type: &Value, varying: Varying) -> bool {
    match varying {
        Varying::Text => data_type == "string",
        Varying::Bytes => data_type == "bytes" || data_type == "variable_length_bytes",
    }
}

fn unserved(data_type: &Value) -> Fault {
    let remedy = "write arrays of numbers or strings";
    Fault::Unserved(format!("its type {data_type} is not supported: {remedy}"))
}

fn element(data_type: &Value, big_endian: bool) -> Result<Element, Fault> {
    let unserved = || unserved(data_type);
    let order = if big_endian { '>' } else { '<' };
    if let Some(width) = data_type.pointer("/configuration/length_bytes").and_then(Value::as_u64) {
        let name = match data_type["name"].as_str() {
            Some("fixed_length_utf32") => format!("{order}U{}", width / 4),
            Some("null_terminated_bytes") => format!("|S{width}"),
            _ => return Err(unserved()),
        };
        return Element::parse(&name).ok_or_else(unserved);
    }
    let name = match data_type.as_str().ok_or_else(unserved)? {
        "bool" => "b1",
        "int8" => "i1",
        "int16" => "i2",
        "int32" => "i4",
        "int64" => "i8",
        "uint8" => "u1",
        "uint16" => "u2",
        "uint32" => "u4",
        "uint64" => "u8",
        "float16" => "f2",
        "float32" => "f4",
        "float64" => "f8",
        "complex64" => "c8",
        "complex128" => "c16",
        _ => return Err(unserved()),
    };
    Element::parse(&format!("{order}{name}")).ok_or_else(unserved)
}

fn unsupported(what: &str, name: &str) -> Fault {
    Fault::Unserved(format!("its {what} `{}` is not supported", name.escape_debug()))
}
