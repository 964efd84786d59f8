//! `.zarray`: version 2.

use serde::Deserialize;
use serde_json::Value;

use super::{ArrayMetadata, Fault, Keys, codec, fill, length, unknown_codec, varying};
use crate::format::arrays::Element;
use crate::format::json::parsed;

#[derive(Deserialize)]
struct Text {
    shape: Vec<u64>,
    chunks: Vec<u64>,
    dtype: Value,
    compressor: Option<Compressor>,
    #[serde(default)]
    fill_value: Value,
    order: String,
    filters: Option<Vec<Compressor>>,
    dimension_separator: Option<char>,
}

#[derive(Deserialize)]
struct Compressor {
    id: String,
    /// What blosc packs with.
    cname: Option<String>,
}

pub(super) fn read(json: &[u8]) -> Result<ArrayMetadata, Fault> {
    let text: Text =
        parsed(json).map_err(|error| Fault::Broken(format!("its metadata: {error}")))?;
    let mut filters = text.filters.iter().flatten();
    // Python's objects, which the first filter says more of.
    let objects = text.dtype == "|O";
    let varying = objects.then(|| filters.next()).flatten().and_then(|first| varying(&first.id));
    let element = match varying {
        Some(_) => Some(length()),
        None => text.dtype.as_str().and_then(Element::parse),
    };
    let element = element.ok_or_else(|| {
        let remedy = "write arrays of numbers or strings";
        Fault::Unserved(format!("its type {} is not supported: {remedy}", text.dtype))
    })?;
    if text.order != "C" && text.shape.len() > 1 {
        let remedy = "write it anew with `order=\"C\"`";
        return Err(Fault::Unserved(format!("its chunks are in Fortran order: {remedy}")));
    }
    if let Some(filter) = filters.next() {
        return Err(unknown_codec(&filter.id));
    }
    let codec =
        text.compressor.map(|compressor| codec(&compressor.id, compressor.cname.as_deref()));
    Ok(ArrayMetadata {
        element,
        varying,
        shape: text.shape,
        outer: text.chunks.clone(),
        inner: text.chunks,
        codecs: codec.transpose()?.into_iter().collect(),
        sharding: None,
        keys: Keys { prefixed: false, separator: text.dimension_separator.unwrap_or('.') },
        fill: match varying {
            Some(varying) => fill::varying(varying, &text.fill_value)?,
            None => fill::bytes(element, &text.fill_value)?,
        },
    })
}
