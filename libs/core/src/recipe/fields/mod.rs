//! Extra fields: parts of a sample in the batch, in addition to its image and its label.

mod keys;
mod of_recipe;
mod tensors;
mod validate;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Dtype, serde_words};

pub use keys::{AnyFloat, FieldKeys, KeyValue};
pub use tensors::FieldTensor;

/// Default maximum of the bytes of a text, or of bytes.
pub const FIELD_BYTES_MAX: u32 = 4096;

/// One extra field: its source, its content, and its name in the batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "FieldKeys")]
pub struct FieldSpec {
    /// Name of the tensor, an identifier; an attribute of the batch in Python.
    pub name: String,
    /// Field of the sample, `|` between alternatives, as in `receiver.image_field`. Default: the
    /// name.
    pub field: String,
    /// What the field holds.
    #[serde(flatten)]
    pub kind: FieldKind,
}

/// Content of a field, and its tensors in a batch of `B` samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum FieldKind {
    /// A whole number in ASCII digits: `i64[B]`.
    Int {
        /// The value of samples that do not have the field; without it they are bad samples.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default: Option<i64>,
    },
    /// A number in ASCII: `f32[B]` or `f64[B]`. It is read in binary64, then rounded to `dtype`.
    Float {
        /// `f32` or `f64`.
        #[serde(default = "f32_default")]
        dtype: Dtype,
        /// The value of samples that do not have the field, which may be NaN or infinite; without it they are bad
        /// samples.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default: Option<AnyFloat>,
    },
    /// A value within a JSON document.
    Json(JsonSpec),
    /// An array in a `.npy` file: `dtype[B, shape..]`.
    Npy {
        /// Type of its elements, in either byte order.
        dtype: Dtype,
        /// Its shape.
        shape: Vec<u32>,
    },
    /// An array in a `.npz` archive: `dtype[B, shape..]`.
    Npz {
        /// Name of the array in the archive, without `.npy`.
        member: String,
        /// Type of its elements, in either byte order.
        dtype: Dtype,
        /// Its shape.
        shape: Vec<u32>,
    },
    /// Class numbers, in ASCII with spaces or commas between them, or as a JSON list:
    /// `u8[B, classes]` or `f32[B, classes]`, 1 where the sample has the class and 0 elsewhere.
    MultiHot {
        /// Classes there are; numbers go from 0 to `classes - 1`.
        classes: u32,
        /// `u8` or `f32`.
        #[serde(default = "u8_default")]
        dtype: Dtype,
    },
    /// Bytes as they are: `u8[B, bytes_max]`, zero after them, and `NAME_sizes`, `i64[B]`.
    Bytes {
        /// Maximum bytes; a longer field is a bad sample.
        #[serde(default = "bytes_max_default")]
        bytes_max: u32,
        /// Cuts a longer field instead.
        #[serde(default)]
        truncate: bool,
    },
    /// Text in UTF-8, as [`FieldKind::Bytes`].
    Text {
        /// Maximum bytes; a longer text is a bad sample.
        #[serde(default = "bytes_max_default")]
        bytes_max: u32,
        /// Cuts a longer text instead, between two characters.
        #[serde(default)]
        truncate: bool,
        /// The text of samples that do not have the field; without it they are bad samples.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default: Option<String>,
    },
    /// The ids of a text's tokens: `dtype[B, length]`, and `NAME_mask`, `mask_dtype[B, length]`.
    Tokens(TokensSpec),
    /// Tokens that a language model is trained on, and what it is to predict; as Megatron's `GPTDataset` has them.
    Sequence(SequenceSpec),
    /// Sequences of tokens that share a row, for an attention that does not go beyond one of them.
    Pack(PackSpec),
}

/// A value within a JSON document, and the type in which it is delivered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JsonSpec {
    /// Where it is, as a JSON pointer (RFC 6901): `/objects/0/area`. Empty: the whole document.
    pub path: String,
    /// What it is.
    #[serde(rename = "as")]
    pub value: JsonValue,
    /// Type of the elements of a number or of an array; for `float` `f32` or `f64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<Dtype>,
    /// Shape of an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Vec<u32>>,
    /// Maximum bytes of a text; a longer one is a bad sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_max: Option<u32>,
    /// Cuts a longer text instead, between two characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncate: Option<bool>,
}

/// What a value of a JSON document is delivered as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JsonValue {
    /// A whole number: `i64[B]`.
    Int,
    /// A number: `f32[B]` or `f64[B]`.
    Float,
    /// `true` or `false`: `bool[B]`.
    Bool,
    /// A string: as [`FieldKind::Text`].
    Text,
    /// Nested lists of numbers: `dtype[B, shape..]`.
    Array,
}

/// How a text becomes tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokensSpec {
    /// Path of the `tokenizer.json` on the receiver's host; workers know the file by `sha256`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tokenizer: String,
    /// SHA-256 of that file, in hexadecimal digits. The receiver writes it if it is left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sha256: String,
    /// Ids of each sample: longer texts are cut, shorter ones padded.
    pub length: u32,
    /// `i64` or `i32`.
    #[serde(default = "i64_default")]
    pub dtype: Dtype,
    /// Type of the mask: `bool`, `u8` or `i64`. It is 1 for ids of the text and 0 for padding.
    #[serde(default = "bool_default")]
    pub mask_dtype: Dtype,
    /// The id of padding. Without it the file's own, else 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pad_id: Option<u32>,
    /// Whether the file's special tokens are added, as `[CLS]` and `[SEP]`.
    #[serde(default = "yes")]
    pub special_tokens: bool,
    /// Maximum bytes of a text; a longer one is a bad sample.
    #[serde(default = "bytes_max_default")]
    pub bytes_max: u32,
}

/// How tokens become inputs and targets. The field has `length` tokens as little-endian integers of type `stored`, and one
/// more if the file has the last label.
///
/// In a batch of `B` samples: `NAME` and `NAME_labels`, `dtype[B, length]`; `NAME_loss_mask`, `f32[B, length]`; with
/// `reset_position_ids` also `NAME_position_ids`, `dtype[B, length]`; with `reset_attention_mask` also
/// `NAME_cu_seqlens`, `i32[B, length + 1]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SequenceSpec {
    /// Tokens of a sample.
    pub length: u32,
    /// Type of the tokens in the field: `u8`, `u16`, `i32` or `i64`. Megatron writes `u16` for vocabularies of up to 65,536
    /// tokens, and otherwise `i32`.
    #[serde(default = "u16_default")]
    pub stored: Dtype,
    /// `i64` or `i32`.
    #[serde(default = "i64_default")]
    pub dtype: Dtype,
    /// The token that ends a document. Needed for the three options.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eod: Option<u32>,
    /// The token that fills up a sequence: it becomes 0, and its label counts nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pad: Option<u32>,
    /// Whether positions are delivered, which begin with 0 again after the end of a document.
    #[serde(default, skip_serializing_if = "is_false")]
    pub reset_position_ids: bool,
    /// Whether the bounds of documents are delivered, for an attention that does not go beyond them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub reset_attention_mask: bool,
    /// Whether the loss of the ends of documents counts nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub eod_mask_loss: bool,
}

/// Sequences of tokens in a pack. The field has the number of sequences and the number of tokens of each as `u32`, then
/// the tokens as integers of type `stored`, everything little-endian.
///
/// In a batch of `B` samples: `NAME`, `NAME_labels` and `NAME_position_ids`, `dtype[B, budget]`; `NAME_cu_seqlens`,
/// `i32[B, sequences_max + 1]`; `NAME_sequences`, `i64[B]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackSpec {
    /// Tokens that a row has room for.
    pub budget: u32,
    /// Most sequences of a pack.
    #[serde(default = "sequences_default")]
    pub sequences_max: u32,
    /// Type of the tokens in the field: `u8`, `u16`, `i32` or `i64`.
    #[serde(default = "u16_default")]
    pub stored: Dtype,
    /// `i64` or `i32`.
    #[serde(default = "i64_default")]
    pub dtype: Dtype,
    /// The token behind the last sequence.
    #[serde(default)]
    pub pad: u32,
    /// The label of the last token of a sequence and of padding: what `torch.nn.CrossEntropyLoss` leaves out.
    #[serde(default = "ignore_index_default")]
    pub ignore_index: i32,
}

fn sequences_default() -> u32 {
    256
}

fn ignore_index_default() -> i32 {
    -100
}

fn f32_default() -> Dtype {
    Dtype::F32
}

fn u8_default() -> Dtype {
    Dtype::U8
}

fn u16_default() -> Dtype {
    Dtype::U16
}

fn i64_default() -> Dtype {
    Dtype::I64
}

fn bool_default() -> Dtype {
    Dtype::Bool
}

fn bytes_max_default() -> u32 {
    FIELD_BYTES_MAX
}

fn is_false(value: &bool) -> bool {
    !value
}

fn yes() -> bool {
    true
}

// === impl FieldSpec ===

impl TryFrom<FieldKeys> for FieldSpec {
    type Error = String;

    /// Takes name and field, and leaves the other keys to the kind, which knows them all.
    fn try_from(FieldKeys(mut keys): FieldKeys) -> Result<Self, String> {
        let name = match keys.remove("name") {
            Some(Value::String(name)) => name,
            Some(other) => return Err(format!("`name` of a field is {other}: give a string")),
            None => return Err("a field has no `name`: give it one".to_owned()),
        };
        let field = match keys.remove("field") {
            Some(Value::String(field)) => field,
            Some(other) => {
                return Err(format!("`field` of `{name}` is {other}: give a string"));
            }
            None => name.clone(),
        };
        let kind = serde_json::from_value(Value::Object(keys))
            .map_err(|error| format!("field `{name}`: {}", serde_words::problem(&error)))?;
        Ok(Self { name, field, kind })
    }
}

impl FieldSpec {
    /// Whether every sample must have the field: it has no default.
    #[must_use]
    pub fn is_required(&self) -> bool {
        !matches!(
            self.kind,
            FieldKind::Int { default: Some(_) }
                | FieldKind::Float { default: Some(_), .. }
                | FieldKind::Text { default: Some(_), .. }
        )
    }

    /// Maximum bytes of a field whose size differs between samples. Its tensor has this number of
    /// bytes for each sample.
    #[must_use]
    pub fn bytes_max(&self) -> Option<u32> {
        match &self.kind {
            FieldKind::Bytes { bytes_max, .. } | FieldKind::Text { bytes_max, .. } => {
                Some(*bytes_max)
            }
            FieldKind::Json(JsonSpec { value: JsonValue::Text, bytes_max, .. }) => {
                Some(bytes_max.unwrap_or(FIELD_BYTES_MAX))
            }
            _ => None,
        }
    }

    /// Whether it differs in size from sample to sample, and is text.
    #[must_use]
    pub fn is_text(&self) -> bool {
        self.bytes_max().is_some() && !matches!(self.kind, FieldKind::Bytes { .. })
    }
}
