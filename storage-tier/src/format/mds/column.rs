//! How a column's values lie in a sample, and what becomes of them.

use std::borrow::Cow;

use half::f16;

/// Bytes of an array that may be kept in the index of a shard that is read in place.
pub(super) const INDEXED_ARRAY_BYTES_MAX: u32 = 4096;
/// The most bytes of an array's dimensions.
const DIMENSIONS_MAX: usize = 63;

/// A column.
#[derive(Debug)]
pub(super) struct Column {
    /// Name of the field.
    pub(super) name: String,
    /// Bytes of each value; `None` where each sample says it.
    pub(super) size: Option<u32>,
    pub(super) kind: Kind,
}

/// What values are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// Bytes that are the field as they lie there.
    AsIs,
    Number(Number),
    /// An array; what the encoding says of it is not in the value.
    Array {
        dtype: Option<Number>,
        shape: Option<Vec<u64>>,
    },
    /// What nobody wants.
    LeftOut,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F16,
    F32,
    F64,
}

// === impl Column ===

impl Column {
    /// # Errors
    /// An encoding that cannot be served; a size that is not the encoding's.
    pub(super) fn new(name: &str, encoding: &str, size: Option<u32>) -> Result<Self, String> {
        let kind = match encoding {
            "bytes" | "str" | "json" | "jpeg" | "png" | "str_int" | "str_float" | "str_decimal" => {
                Kind::AsIs
            }
            "int" => Kind::Number(Number::I64),
            _ if encoding == "ndarray" || encoding.starts_with("ndarray:") => array(encoding)
                .ok_or_else(|| format!("column `{name}`: `{encoding}` is not known"))?,
            _ => Kind::Number(Number::parse(encoding).ok_or_else(|| {
                format!(
                    "column `{name}` has encoding `{encoding}`, which is not served: write it as \
                     jpeg, png, bytes, str, json, ndarray or a number"
                )
            })?),
        };
        // The package takes 0 for a size that each sample says.
        let size = size.filter(|&size| size > 0);
        let of_kind = match &kind {
            Kind::AsIs => None,
            Kind::Number(number) => Some(u64::from(number.bytes())),
            Kind::Array { dtype: Some(dtype), shape: Some(shape) } => {
                let values = shape.iter().try_fold(1_u64, |all, &dim| all.checked_mul(dim));
                values.and_then(|values| values.checked_mul(dtype.bytes().into()))
            }
            Kind::Array { .. } | Kind::LeftOut => None,
        };
        if size.map(u64::from) != of_kind {
            return Err(format!("column `{name}`: {size:?} is not the size of `{encoding}`"));
        }
        Ok(Self { name: name.to_owned(), size, kind })
    }

    /// A column that becomes no field.
    pub(super) fn left_out(name: &str, size: Option<u32>) -> Self {
        let size = size.filter(|&size| size > 0);
        Self { name: name.to_owned(), size, kind: Kind::LeftOut }
    }

    /// The field of a value; `None` for bytes that are none of this column.
    pub(super) fn field<'a>(&self, value: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        Some(match &self.kind {
            Kind::AsIs => value.into(),
            Kind::LeftOut => return None,
            Kind::Number(number) => number.text(value)?.into_bytes().into(),
            Kind::Array { dtype, shape } => npy(value, *dtype, shape.as_deref())?.into(),
        })
    }
}

fn array(encoding: &str) -> Option<Kind> {
    let mut parts = encoding.split(':').skip(1);
    let dtype = match parts.next() {
        Some(dtype) => Some(Number::parse(dtype)?),
        None => None,
    };
    let shape = match parts.next() {
        Some(dims) => {
            let dims = dims.split(',').map(|dim| dim.parse::<u64>().ok());
            Some(dims.collect::<Option<Vec<_>>>()?)
        }
        None => None,
    };
    parts.next().is_none().then_some(Kind::Array { dtype, shape })
}

/// An array as the bytes of a `.npy` file.
fn npy(value: &[u8], dtype: Option<Number>, shape: Option<&[u64]>) -> Option<Vec<u8>> {
    let (dtype, value) = match dtype {
        Some(dtype) => (dtype, value),
        None => {
            let (&number, rest) = value.split_first()?;
            (Number::of_array(number)?, rest)
        }
    };
    let (shape, value) = match shape {
        Some(shape) => (shape.to_vec(), value),
        None => dimensions(value)?,
    };
    let values = shape.iter().try_fold(1_u64, |all, &dim| all.checked_mul(dim))?;
    if values.checked_mul(dtype.bytes().into())? != value.len() as u64 {
        return None;
    }
    let mut dims: String = shape.iter().map(|dim| format!("{dim}, ")).collect();
    dims.truncate(dims.len() - if shape.len() > 1 { 2 } else { 1 }.min(dims.len()));
    let mut head =
        format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({dims}), }}", dtype.numpy());
    // Magic, version, length and this text, with the end of its line, are a multiple of 64.
    let padded = (10 + head.len() + 1).next_multiple_of(64) - 11;
    head.extend(std::iter::repeat_n(' ', padded - head.len()));
    head.push('\n');
    let length = u16::try_from(head.len()).ok()?.to_le_bytes();
    Some([b"\x93NUMPY\x01\x00", &length[..], head.as_bytes(), value].concat())
}

/// How many dimensions there are and how wide each is written, in one byte; then each.
fn dimensions(value: &[u8]) -> Option<(Vec<u64>, &[u8])> {
    let (&head, rest) = value.split_first()?;
    let (count, width) = (usize::from(head >> 2), 1 << (head & 3));
    if count > DIMENSIONS_MAX {
        return None;
    }
    let (dims, rest) = rest.split_at_checked(count * width)?;
    let dim = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    Some((dims.chunks_exact(width).map(dim).collect(), rest))
}

// === impl Number ===

impl Number {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "uint8" => Self::U8,
            "uint16" => Self::U16,
            "uint32" => Self::U32,
            "uint64" => Self::U64,
            "int8" => Self::I8,
            "int16" => Self::I16,
            "int32" => Self::I32,
            "int64" => Self::I64,
            "float16" => Self::F16,
            "float32" => Self::F32,
            "float64" => Self::F64,
            _ => return None,
        })
    }

    /// The type that an array names by a number.
    fn of_array(number: u8) -> Option<Self> {
        Some(match number {
            8 => Self::U8,
            9 => Self::I8,
            16 => Self::U16,
            17 => Self::I16,
            18 => Self::F16,
            32 => Self::U32,
            33 => Self::I32,
            34 => Self::F32,
            64 => Self::U64,
            65 => Self::I64,
            66 => Self::F64,
            _ => return None,
        })
    }

    fn bytes(self) -> u32 {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    fn numpy(self) -> &'static str {
        match self {
            Self::U8 => "|u1",
            Self::U16 => "<u2",
            Self::U32 => "<u4",
            Self::U64 => "<u8",
            Self::I8 => "|i1",
            Self::I16 => "<i2",
            Self::I32 => "<i4",
            Self::I64 => "<i8",
            Self::F16 => "<f2",
            Self::F32 => "<f4",
            Self::F64 => "<f8",
        }
    }

    /// The shortest decimal that gives the number again.
    fn text(self, value: &[u8]) -> Option<String> {
        Some(match self {
            Self::U8 => u8::from_le_bytes(value.try_into().ok()?).to_string(),
            Self::U16 => u16::from_le_bytes(value.try_into().ok()?).to_string(),
            Self::U32 => u32::from_le_bytes(value.try_into().ok()?).to_string(),
            Self::U64 => u64::from_le_bytes(value.try_into().ok()?).to_string(),
            Self::I8 => i8::from_le_bytes(value.try_into().ok()?).to_string(),
            Self::I16 => i16::from_le_bytes(value.try_into().ok()?).to_string(),
            Self::I32 => i32::from_le_bytes(value.try_into().ok()?).to_string(),
            Self::I64 => i64::from_le_bytes(value.try_into().ok()?).to_string(),
            Self::F16 => format!("{:?}", f16::from_le_bytes(value.try_into().ok()?).to_f32()),
            Self::F32 => format!("{:?}", f32::from_le_bytes(value.try_into().ok()?)),
            Self::F64 => format!("{:?}", f64::from_le_bytes(value.try_into().ok()?)),
        })
    }
}
