//! Element types of tensors.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Element type of a tensor in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dtype {
    /// bfloat16: the upper half of an IEEE binary32, rounded to nearest even.
    Bf16,
    /// IEEE binary16.
    F16,
    /// IEEE binary32.
    F32,
    /// Unsigned byte; pixels before normalisation.
    U8,
    /// FP8 E4M3 (finite, largest 448), as a byte.
    #[serde(rename = "fp8_e4m3")]
    Fp8E4m3,
    /// FP8 E4M3 in blocks of 32 along the last axis. Each block has a scale in a tensor of
    /// [`Dtype::E8m0`].
    #[serde(rename = "mxfp8_e4m3")]
    Mxfp8E4m3,
    /// A power of two, 2^(byte - 127), as a byte; 255 is NaN. Scales of blocks.
    E8m0,
    /// Signed 64-bit integer; labels.
    I64,
    /// IEEE binary64; fields.
    F64,
    /// Signed byte; fields.
    I8,
    /// Signed 16-bit integer; fields.
    I16,
    /// Signed 32-bit integer; fields.
    I32,
    /// Unsigned 16-bit integer; fields.
    U16,
    /// Unsigned 32-bit integer; fields.
    U32,
    /// 0 or 1 in a byte; masks.
    Bool,
}

impl Dtype {
    /// Bytes of one element.
    #[must_use]
    pub const fn size_bytes(self) -> u64 {
        match self {
            Self::U8 | Self::I8 | Self::Fp8E4m3 | Self::Mxfp8E4m3 | Self::E8m0 | Self::Bool => 1,
            Self::Bf16 | Self::F16 | Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }

    /// Whether images may be delivered in this type.
    #[must_use]
    pub const fn is_for_images(self) -> bool {
        matches!(
            self,
            Self::Bf16 | Self::F16 | Self::F32 | Self::U8 | Self::Fp8E4m3 | Self::Mxfp8E4m3
        )
    }

    /// Name used in configuration, on the wire and in Python.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::U8 => "u8",
            Self::Fp8E4m3 => "fp8_e4m3",
            Self::Mxfp8E4m3 => "mxfp8_e4m3",
            Self::E8m0 => "e8m0",
            Self::I64 => "i64",
            Self::F64 => "f64",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::Bool => "bool",
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
