//! What makes fields usable.

use super::{
    AnyFloat, FieldKind, FieldSpec, FieldTensor, JsonSpec, JsonValue, PackSpec, SequenceSpec,
    TokensSpec,
};
use crate::op::is_sha256;
use crate::recipe::error::{RecipeError, wrong};
use crate::{Dtype, Recipe};

/// Largest number of fields of a recipe.
const FIELDS_MAX: usize = 64;
/// Largest number of bytes of one row of a field.
const ROW_BYTES_MAX: u64 = 1 << 26;
/// Largest number of axes of an array.
const AXES_MAX: usize = 16;
/// Longest path within a JSON document, and longest name of a field or an array, in bytes.
const NAME_BYTES_MAX: usize = 256;

impl Recipe {
    /// Checks the fields.
    pub(in crate::recipe) fn validate_fields(&self) -> Result<(), RecipeError> {
        let count = self.fields.len();
        if count > FIELDS_MAX {
            return Err(wrong("fields".into(), count, "at most 64"));
        }
        for (index, spec) in self.fields.iter().enumerate() {
            let at = format!("fields[{index}]");
            validate_texts(&at, spec)?;
            validate_kind(&at, &spec.kind)?;
            for tensor in spec.tensors() {
                validate_size(&at, &tensor)?;
            }
        }
        Ok(())
    }
}

fn validate_texts(at: &str, spec: &FieldSpec) -> Result<(), RecipeError> {
    let name = &spec.name;
    let identifier = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.len() <= NAME_BYTES_MAX
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !identifier {
        return Err(wrong(format!("{at}.name"), name, "letters, digits and _ only"));
    }
    let is_long = spec.field.len() > NAME_BYTES_MAX;
    if is_long || spec.field.split('|').any(str::is_empty) {
        let rule = "must be a field's name, or names with | between alternatives";
        return Err(wrong(format!("{at}.field"), &spec.field, rule));
    }
    Ok(())
}

fn validate_kind(at: &str, kind: &FieldKind) -> Result<(), RecipeError> {
    match kind {
        FieldKind::Int { .. } => Ok(()),
        FieldKind::Float { dtype, default } => {
            one_of(at, "dtype", *dtype, &[Dtype::F32, Dtype::F64])?;
            let fits = |number: f64| *dtype == Dtype::F64 || (number as f32).is_finite();
            match default {
                Some(AnyFloat(number)) if number.is_finite() && !fits(*number) => Err(wrong(
                    format!("{at}.default"),
                    number,
                    "is too large for f32: use dtype f64",
                )),
                _ => Ok(()),
            }
        }
        FieldKind::Json(json) => validate_json(at, json),
        FieldKind::Npy { dtype, shape } => validate_array(at, *dtype, shape),
        FieldKind::Npz { member, dtype, shape } => {
            if member.is_empty() || member.len() > NAME_BYTES_MAX {
                let rule = "must be the name of an array in the archive";
                return Err(wrong(format!("{at}.member"), member, rule));
            }
            validate_array(at, *dtype, shape)
        }
        FieldKind::MultiHot { classes, dtype } => {
            if *classes == 0 {
                return Err(wrong(format!("{at}.classes"), classes, "must be 1 or more"));
            }
            one_of(at, "dtype", *dtype, &[Dtype::U8, Dtype::F32])
        }
        FieldKind::Bytes { bytes_max, .. } => validate_bytes_max(at, *bytes_max),
        FieldKind::Text { bytes_max, default, .. } => {
            validate_bytes_max(at, *bytes_max)?;
            let long = default.as_ref().filter(|text| text.len() > *bytes_max as usize);
            match long {
                Some(text) => {
                    let rule = format!("must have at most {bytes_max} bytes, `bytes_max`");
                    Err(wrong(format!("{at}.default"), text, rule))
                }
                None => Ok(()),
            }
        }
        FieldKind::Tokens(tokens) => validate_tokens(at, tokens),
        FieldKind::Sequence(sequence) => validate_sequence(at, sequence),
        FieldKind::Pack(pack) => validate_pack(at, pack),
    }
}

fn validate_json(at: &str, json: &JsonSpec) -> Result<(), RecipeError> {
    let JsonSpec { path, value, dtype, shape, bytes_max, truncate } = json;
    if path.len() > NAME_BYTES_MAX || !(path.is_empty() || path.starts_with('/')) {
        let rule =
            "must be a JSON pointer, as \"/objects/0/area\", or empty for the whole document";
        return Err(wrong(format!("{at}.path"), path, rule));
    }
    let only = |key: &str, given: bool, of: &str| match given {
        true => Err(wrong(format!("{at}.{key}"), "given", format!("is for as = {of}"))),
        false => Ok(()),
    };
    let is_text = *value == JsonValue::Text;
    only("bytes_max", bytes_max.is_some() && !is_text, "\"text\"")?;
    only("truncate", truncate.is_some() && !is_text, "\"text\"")?;
    only("shape", shape.is_some() && *value != JsonValue::Array, "\"array\"")?;
    let has_dtype = matches!(value, JsonValue::Float | JsonValue::Array);
    only("dtype", dtype.is_some() && !has_dtype, "\"float\" and \"array\"")?;
    match (value, shape) {
        (JsonValue::Array, Some(shape)) => validate_array(at, json.dtype(), shape),
        (JsonValue::Array, None) => {
            Err(wrong(format!("{at}.shape"), "left out", "as = \"array\" needs it"))
        }
        (JsonValue::Float, _) => one_of(at, "dtype", json.dtype(), &[Dtype::F32, Dtype::F64]),
        (JsonValue::Text, _) => bytes_max.map_or(Ok(()), |most| validate_bytes_max(at, most)),
        (JsonValue::Int | JsonValue::Bool, _) => Ok(()),
    }
}

fn validate_tokens(at: &str, tokens: &TokensSpec) -> Result<(), RecipeError> {
    let TokensSpec { tokenizer, sha256, length, dtype, mask_dtype, bytes_max, .. } = tokens;
    if tokenizer.is_empty() && sha256.is_empty() {
        let rule = "must be the path of a tokenizer.json";
        return Err(wrong(format!("{at}.tokenizer"), "left out", rule));
    }
    if !sha256.is_empty() && !is_sha256(sha256) {
        let rule = "must be 64 hexadecimal digits, or left out";
        return Err(wrong(format!("{at}.sha256"), sha256, rule));
    }
    if *length == 0 {
        return Err(wrong(format!("{at}.length"), length, "must be 1 or more"));
    }
    one_of(at, "dtype", *dtype, &[Dtype::I64, Dtype::I32])?;
    one_of(at, "mask_dtype", *mask_dtype, &[Dtype::Bool, Dtype::U8, Dtype::I64])?;
    validate_bytes_max(at, *bytes_max)
}

fn validate_pack(at: &str, pack: &PackSpec) -> Result<(), RecipeError> {
    let PackSpec { budget, sequences_max, stored, dtype, pad, .. } = pack;
    for (key, value) in [("budget", budget), ("sequences_max", sequences_max)] {
        if !(1..i32::MAX as u32).contains(value) {
            return Err(wrong(format!("{at}.{key}"), value, "must be 1 or more"));
        }
    }
    one_of(at, "stored", *stored, &[Dtype::U8, Dtype::U16, Dtype::I32, Dtype::I64])?;
    one_of(at, "dtype", *dtype, &[Dtype::I64, Dtype::I32])?;
    if *dtype == Dtype::I32 && i32::try_from(*pad).is_err() {
        return Err(wrong(format!("{at}.pad"), pad, "must fit i32"));
    }
    Ok(())
}

fn validate_sequence(at: &str, sequence: &SequenceSpec) -> Result<(), RecipeError> {
    let SequenceSpec { length, stored, dtype, eod, pad, .. } = sequence;
    // With the next number, so that the tensor of bounds has one, too.
    if !(2..u32::MAX).contains(length) {
        return Err(wrong(format!("{at}.length"), length, "must be 2 or more"));
    }
    one_of(at, "stored", *stored, &[Dtype::U8, Dtype::U16, Dtype::I32, Dtype::I64])?;
    one_of(at, "dtype", *dtype, &[Dtype::I64, Dtype::I32])?;
    if let Some(pad) = pad.filter(|pad| *eod == Some(*pad)) {
        let rule = "is the token that ends a document, which nothing would learn: leave `pad` out";
        return Err(wrong(format!("{at}.pad"), pad, rule));
    }
    let options = [
        ("reset_position_ids", sequence.reset_position_ids),
        ("reset_attention_mask", sequence.reset_attention_mask),
        ("eod_mask_loss", sequence.eod_mask_loss),
    ];
    match options.into_iter().find(|(_, given)| *given && eod.is_none()) {
        Some((option, _)) => {
            let rule = format!("`{option}` needs it: the token that ends a document");
            Err(wrong(format!("{at}.eod"), "left out", rule))
        }
        None => Ok(()),
    }
}

fn validate_array(at: &str, dtype: Dtype, shape: &[u32]) -> Result<(), RecipeError> {
    use Dtype::{Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32};
    one_of(at, "dtype", dtype, &[F16, F32, F64, U8, I8, I16, U16, I32, U32, I64, Bool])?;
    if shape.len() > AXES_MAX || shape.contains(&0) {
        let rule = "must have at most 16 axes, each of 1 or more elements";
        return Err(wrong(format!("{at}.shape"), format!("{shape:?}"), rule));
    }
    Ok(())
}

fn validate_bytes_max(at: &str, bytes_max: u32) -> Result<(), RecipeError> {
    if !(1..=ROW_BYTES_MAX).contains(&u64::from(bytes_max)) {
        let rule = "must be from 1 to 67108864";
        return Err(wrong(format!("{at}.bytes_max"), bytes_max, rule));
    }
    Ok(())
}

fn validate_size(at: &str, tensor: &FieldTensor) -> Result<(), RecipeError> {
    match tensor.row_bytes() {
        Some(1..=ROW_BYTES_MAX) => Ok(()),
        _ => {
            let shape = format!("{}{:?}", tensor.dtype, tensor.row_shape);
            Err(wrong(at.to_owned(), shape, "a sample may have at most 67108864 bytes of it"))
        }
    }
}

fn one_of(at: &str, key: &str, dtype: Dtype, allowed: &[Dtype]) -> Result<(), RecipeError> {
    if allowed.contains(&dtype) {
        return Ok(());
    }
    let names: Vec<&str> = allowed.iter().map(|dtype| dtype.name()).collect();
    Err(wrong(format!("{at}.{key}"), dtype, format!("must be one of {}", names.join(", "))))
}
