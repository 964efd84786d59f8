//! The tensors of a batch that a field becomes.

use super::{FieldKind, FieldSpec, JsonSpec, JsonValue, PackSpec, SequenceSpec, TokensSpec};
use crate::{Dtype, Recipe};

/// One tensor of a field: `views` blocks of one row for each sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTensor {
    /// Its name.
    pub name: String,
    /// Type of its elements.
    pub dtype: Dtype,
    /// Rows of each sample.
    pub views: u32,
    /// Shape of one row; empty for a number.
    pub row_shape: Vec<u32>,
}

// === impl FieldTensor ===

impl FieldTensor {
    fn new(name: &str, dtype: Dtype, row_shape: Vec<u32>) -> Self {
        Self { name: name.to_owned(), dtype, views: 1, row_shape }
    }

    /// Bytes of one row; `None` if the number does not fit 64 bits.
    #[must_use]
    pub fn row_bytes(&self) -> Option<u64> {
        let sides = self.row_shape.iter().map(|&side| u64::from(side));
        sides.chain([self.dtype.size_bytes()]).try_fold(1u64, u64::checked_mul)
    }
}

// === impl FieldSpec ===

impl FieldSpec {
    /// The tensors of the field, in the order of the slot.
    #[must_use]
    pub fn tensors(&self) -> Vec<FieldTensor> {
        let name = self.name.as_str();
        let one =
            |dtype, row_shape: &[u32]| vec![FieldTensor::new(name, dtype, row_shape.to_vec())];
        if let Some(bytes_max) = self.bytes_max() {
            return vec![
                FieldTensor::new(name, Dtype::U8, vec![bytes_max]),
                FieldTensor::new(&self.sizes_name(), Dtype::I64, Vec::new()),
            ];
        }
        match &self.kind {
            FieldKind::Int { .. } => one(Dtype::I64, &[]),
            FieldKind::Float { dtype, .. } => one(*dtype, &[]),
            FieldKind::Json(json) => one(json.dtype(), json.shape.as_deref().unwrap_or_default()),
            FieldKind::Npy { dtype, shape } | FieldKind::Npz { dtype, shape, .. } => {
                one(*dtype, shape)
            }
            FieldKind::MultiHot { classes, dtype } => one(*dtype, &[*classes]),
            FieldKind::Tokens(TokensSpec { length, dtype, mask_dtype, .. }) => vec![
                FieldTensor::new(name, *dtype, vec![*length]),
                FieldTensor::new(&self.mask_name(), *mask_dtype, vec![*length]),
            ],
            FieldKind::Sequence(sequence) => self.sequence_tensors(sequence),
            FieldKind::Pack(pack) => self.pack_tensors(pack),
            FieldKind::Bytes { .. } | FieldKind::Text { .. } => {
                unreachable!("they differ in size from sample to sample")
            }
        }
    }

    fn sequence_tensors(&self, spec: &SequenceSpec) -> Vec<FieldTensor> {
        let tensor = |what: &str, dtype, length| {
            FieldTensor::new(&format!("{}{what}", self.name), dtype, vec![length])
        };
        let mut tensors = vec![
            tensor("", spec.dtype, spec.length),
            tensor("_labels", spec.dtype, spec.length),
            tensor("_loss_mask", Dtype::F32, spec.length),
        ];
        // Otherwise they are the same in every sample.
        if spec.reset_position_ids {
            tensors.push(tensor("_position_ids", spec.dtype, spec.length));
        }
        if spec.reset_attention_mask {
            tensors.push(tensor("_cu_seqlens", Dtype::I32, spec.length + 1));
        }
        tensors
    }

    fn pack_tensors(&self, spec: &PackSpec) -> Vec<FieldTensor> {
        let tensor = |what: &str, dtype, shape: &[u32]| {
            FieldTensor::new(&format!("{}{what}", self.name), dtype, shape.to_vec())
        };
        vec![
            tensor("", spec.dtype, &[spec.budget]),
            tensor("_labels", spec.dtype, &[spec.budget]),
            tensor("_position_ids", spec.dtype, &[spec.budget]),
            tensor("_cu_seqlens", Dtype::I32, &[spec.sequences_max + 1]),
            tensor("_sequences", Dtype::I64, &[]),
        ]
    }

    /// All names of the field in a batch: those of its tensors and, if its size differs between
    /// samples, those under which Python has it without padding.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let tensors = self.tensors().into_iter().map(|tensor| tensor.name);
        let packed = ["data", "offsets"].map(|what| format!("{}_{what}", self.name));
        tensors.chain(packed.into_iter().filter(|_| self.bytes_max().is_some())).collect()
    }

    /// Name of the tensor of the sizes of a field that differs in size.
    #[must_use]
    pub fn sizes_name(&self) -> String {
        format!("{}_sizes", self.name)
    }

    /// Name of the tensor that tells tokens from padding.
    #[must_use]
    pub fn mask_name(&self) -> String {
        format!("{}_mask", self.name)
    }
}

// === impl JsonSpec ===

impl JsonSpec {
    /// Type of the elements: as given, else that of the value.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.dtype.unwrap_or(match self.value {
            JsonValue::Int => Dtype::I64,
            JsonValue::Float | JsonValue::Array => Dtype::F32,
            JsonValue::Bool => Dtype::Bool,
            JsonValue::Text => Dtype::U8,
        })
    }
}

// === impl Recipe ===

impl Recipe {
    /// The tensors of all fields, in the order of the slot.
    pub fn field_tensors(&self) -> impl Iterator<Item = FieldTensor> {
        self.fields.iter().flat_map(FieldSpec::tensors)
    }
}
