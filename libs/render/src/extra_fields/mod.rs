//! Extra fields of a sample: from the bytes that lie beside its image to rows of tensors.
//!
//! A pure function of a recipe's fields and those bytes. All of a sample's fields are read before
//! anything of the sample is written, so that a bad one leaves its rows untouched.

mod array;
mod json;
mod multi_hot;
mod number;
mod pack;
mod sequence;
mod text;
mod tokens;

use bytes::Bytes;
use headwater_core::Recipe;
use headwater_core::recipe::{FieldKind, FieldSpec};
use headwater_part_rows::RowBytes;

use crate::error::{BadImage, FieldFault, RenderError};
use crate::tokenizers::{FieldTokenizer, Tokenizers};

/// Reads the fields of a recipe.
#[derive(Clone, Debug)]
pub struct FieldReaders {
    readers: Vec<FieldReader>,
    /// Bytes of one sample's rows of all fields.
    rows_bytes: usize,
}

#[derive(Clone, Debug)]
struct FieldReader {
    spec: FieldSpec,
    /// Number of its field among the extra fields.
    sibling: usize,
    /// Bytes of one row of each of its tensors.
    row_bytes: Vec<usize>,
    /// Of a field of tokens.
    tokenizer: Option<FieldTokenizer>,
}

/// Why there are no rows of a field.
enum Fault {
    /// The sample's is bad.
    Sample(String),
    /// The recipe does not fit its dataset, and other samples would be as bad: none stands in for them.
    Recipe(String),
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Self::Sample(reason)
    }
}

// === impl FieldReaders ===

impl FieldReaders {
    /// Those of a recipe, which must have been validated.
    #[must_use]
    pub fn new(recipe: &Recipe) -> Self {
        let extra_fields = recipe.extra_fields();
        let reader = |spec: &FieldSpec| FieldReader {
            sibling: extra_fields.iter().position(|name| *name == spec.field).unwrap_or_default(),
            row_bytes: spec
                .tensors()
                .iter()
                .map(|tensor| tensor.row_bytes().expect("the recipe is valid") as usize)
                .collect(),
            spec: spec.clone(),
            tokenizer: None,
        };
        let readers: Vec<_> = recipe.fields.iter().map(reader).collect();
        let rows_bytes = readers.iter().flat_map(|reader| &reader.row_bytes).sum();
        Self { readers, rows_bytes }
    }

    /// The same, which makes tokens by files that this worker has.
    ///
    /// # Errors
    /// The recipe wants one that is not there.
    pub fn tokenizing(mut self, tokenizers: &Tokenizers) -> Result<Self, String> {
        for reader in &mut self.readers {
            if let FieldKind::Tokens(tokens) = &reader.spec.kind {
                reader.tokenizer = Some(tokenizers.of(&reader.spec.name, tokens)?);
            }
        }
        Ok(self)
    }

    /// The rows of one sample, one after the other; empty where the recipe has no fields. `extra_fields`
    /// are the bytes of [`Recipe::extra_fields`], `None` where the sample does not have one.
    ///
    /// # Errors
    /// A field is bad, and the sample with it; or this worker cannot read it.
    ///
    /// # Panics
    /// There is not one field for each of the recipe's.
    pub fn read(&self, extra_fields: &[Option<Bytes>]) -> Result<Vec<u8>, RenderError> {
        let mut rows = vec![0; self.rows_bytes];
        let mut rest = rows.as_mut_slice();
        for reader in &self.readers {
            let mut to = Vec::with_capacity(reader.row_bytes.len());
            for &bytes in &reader.row_bytes {
                let (row, after) = rest.split_at_mut(bytes);
                to.push(row);
                rest = after;
            }
            reader.read(extra_fields[reader.sibling].as_deref(), &mut to)?;
        }
        Ok(rows)
    }

    /// Copies a sample's rows to its place in a part, from region `first` on.
    pub(crate) fn write(&self, mut rows: &[u8], first: usize, to: &mut impl RowBytes) {
        let lengths = self.readers.iter().flat_map(|reader| &reader.row_bytes);
        for (number, &bytes) in lengths.enumerate() {
            let (row, rest) = rows.split_at(bytes);
            to.region_mut(first + number).copy_from_slice(row);
            rows = rest;
        }
    }
}

// === impl FieldReader ===

impl FieldReader {
    /// Fills the rows, which are zero.
    fn read(&self, bytes: Option<&[u8]>, rows: &mut [&mut [u8]]) -> Result<(), RenderError> {
        let fault = |fault| {
            let name = self.spec.name.clone();
            match fault {
                Fault::Sample(reason) => {
                    RenderError::Bad(BadImage::Field(FieldFault { name, reason }))
                }
                Fault::Recipe(reason) => {
                    RenderError::Device { reason: format!("field `{name}`: {reason}") }
                }
            }
        };
        if matches!(self.spec.kind, FieldKind::Tokens(_)) && self.tokenizer.is_none() {
            // Not the sample's fault: a worker that has the file makes its tokens.
            let name = &self.spec.name;
            let reason = format!("no tokenizer is here for field `{name}`: see augment.tokenizers");
            return Err(RenderError::Device { reason });
        }
        match bytes {
            Some(bytes) => self.read_present(bytes, rows).map_err(fault),
            None => self.fill_default(rows).map_err(|reason| fault(reason.into())),
        }
    }

    fn read_present(&self, bytes: &[u8], rows: &mut [&mut [u8]]) -> Result<(), Fault> {
        let read = match &self.spec.kind {
            FieldKind::Int { .. } => number::read_int(bytes, rows[0]),
            FieldKind::Float { dtype, .. } => number::read_float(*dtype, bytes, rows[0]),
            FieldKind::Json(json) => json::read(json, bytes, rows),
            FieldKind::MultiHot { dtype, .. } => multi_hot::read(*dtype, bytes, rows[0]),
            FieldKind::Bytes { truncate, .. } => text::put_bytes(bytes, *truncate, rows),
            FieldKind::Text { truncate, .. } => {
                text::put_text(text::checked(bytes)?, *truncate, rows)
            }
            FieldKind::Npy { dtype, shape } => {
                let array = headwater_npy::npy(bytes).map_err(|fault| fault.0)?;
                array::put(&array, *dtype, shape, rows[0])
            }
            FieldKind::Npz { member, dtype, shape } => {
                let array = headwater_npy::npz(bytes, member, rows[0].len() as u64);
                array::put(&array.map_err(|fault| fault.0)?, *dtype, shape, rows[0])
            }
            FieldKind::Sequence(spec) => sequence::read(spec, bytes, rows),
            FieldKind::Pack(spec) => return pack::read(spec, bytes, rows),
            FieldKind::Tokens(tokens) => match &self.tokenizer {
                Some(tokenizer) => tokens::read(tokenizer, tokens, bytes, rows),
                None => Err("there is no tokenizer".to_owned()),
            },
        };
        Ok(read?)
    }

    /// What the recipe has for samples that do not have the field.
    fn fill_default(&self, rows: &mut [&mut [u8]]) -> Result<(), String> {
        match &self.spec.kind {
            FieldKind::Int { default: Some(value) } => {
                rows[0].copy_from_slice(&value.to_le_bytes());
                Ok(())
            }
            FieldKind::Float { dtype, default: Some(value) } => {
                number::put_float(*dtype, value.0, rows[0])
            }
            FieldKind::Text { default: Some(text), .. } => text::put_text(text, false, rows),
            _ => Err(format!("the sample has no `{}`", self.spec.field)),
        }
    }
}

#[cfg(test)]
mod tests;
