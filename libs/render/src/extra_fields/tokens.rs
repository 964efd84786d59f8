//! Texts as the ids of their tokens.

use headwater_core::Dtype;
use headwater_core::recipe::TokensSpec;

use super::{number, text};
use crate::tokenizers::FieldTokenizer;

/// Writes the ids of a text, and which of them are not padding.
pub(super) fn read(
    tokenizer: &FieldTokenizer,
    spec: &TokensSpec,
    bytes: &[u8],
    rows: &mut [&mut [u8]],
) -> Result<(), String> {
    let (ids, mask) = tokenizer.encode(text::checked(bytes)?)?;
    if ids.len() != spec.length as usize {
        return Err(format!("the tokenizer gives {} ids, not {}", ids.len(), spec.length));
    }
    put(spec.dtype, &ids, rows[0])?;
    // Truth is 0 or 1 in a byte.
    let mask_dtype = if spec.mask_dtype == Dtype::Bool { Dtype::U8 } else { spec.mask_dtype };
    put(mask_dtype, &mask, rows[1])
}

fn put(dtype: Dtype, values: &[u32], row: &mut [u8]) -> Result<(), String> {
    let places = row.chunks_exact_mut(dtype.size_bytes() as usize);
    values.iter().zip(places).try_for_each(|(&value, to)| number::put_int(dtype, value.into(), to))
}
