//! An array whose rows along its first axis become a field of samples.

use std::borrow::Cow;

use headwater_npy::Kind;

use super::Element;
use crate::StorageError;

/// Largest row, in bytes: more than a sample may have, and one is held while arrays are unpacked.
const ROW_BYTES_MAX: u64 = 256 << 20;

/// Values that have lengths of their own; each is a field as it is.
#[cfg_attr(not(any(feature = "format-hdf5", feature = "format-zarr")), allow(dead_code))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Varying {
    /// Strings.
    Text,
    /// Bytes, as an encoded image has them.
    Bytes,
}

/// What fills up strings of a fixed width.
#[cfg_attr(not(feature = "format-hdf5"), allow(dead_code))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Padding {
    /// Nulls at the end.
    Nulls,
    /// Whatever lies behind the first null.
    FirstNull,
    /// Spaces at the end, as Fortran writes them, and nulls before those.
    Spaces,
}

/// An array in C order; each row of it is a sample's field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// Name of the field.
    pub(crate) name: String,
    pub(crate) element: Element,
    /// Length of the first axis.
    pub(crate) rows: u64,
    /// Lengths of the other axes.
    pub(crate) row_shape: Vec<u64>,
    /// Size of a row; not 0. About the mean of values that vary.
    pub(crate) row_bytes: u64,
    /// Of rows that are values of different lengths; `element` says nothing then.
    pub(crate) varying: Option<Varying>,
    /// Of strings of a fixed width.
    pub(crate) padding: Padding,
}

// === impl Padding ===

impl Padding {
    /// A string without what fills it up. HDF5 takes the spaces away, and NumPy then the nulls before them.
    fn cut(self, bytes: &[u8]) -> &[u8] {
        match self {
            Self::Nulls => without_end(bytes, 0),
            Self::FirstNull => bytes.split(|&byte| byte == 0).next().unwrap_or(bytes),
            Self::Spaces => without_end(without_end(bytes, b' '), 0),
        }
    }
}

/// Bytes up to those at the end that fill them up.
fn without_end(bytes: &[u8], filler: u8) -> &[u8] {
    let end = bytes.iter().rposition(|&byte| byte != filler).map_or(0, |last| last + 1);
    &bytes[..end]
}

// === impl Column ===

impl Column {
    /// An array of the file `file`.
    ///
    /// # Errors
    /// It has no axis, rows without a byte or too large ones, or numbers of several bytes whose most
    /// significant byte comes first.
    pub(crate) fn new(
        file: &str,
        name: &str,
        element: Element,
        shape: &[u64],
    ) -> Result<Self, StorageError> {
        let unserved = |reason: String| {
            let (name, reason) = (file.to_owned(), format!("array `{name}` {reason}"));
            StorageError::Unserved { name, reason }
        };
        let [rows, row_shape @ ..] = shape else {
            return Err(unserved("has no axis: leave it out with `columns`".to_owned()));
        };
        let elements =
            row_shape.iter().try_fold(1u64, |product, &length| product.checked_mul(length));
        let row_bytes = elements.and_then(|count| count.checked_mul(element.bytes.into()));
        let row_bytes = row_bytes.filter(|bytes| (1..=ROW_BYTES_MAX).contains(bytes));
        let Some(row_bytes) = row_bytes else {
            let limits = format!("a row has to have 1 to {ROW_BYTES_MAX} bytes");
            return Err(unserved(format!("has the shape {shape:?}: {limits}")));
        };
        if element.big_endian && !(row_shape.is_empty() && element.has_text()) {
            let remedy = "write it in little-endian order, as `array.astype('<f4')` does";
            return Err(unserved(format!("is of type {}: {remedy}", element.name())));
        }
        let (name, row_shape, rows) = (name.to_owned(), row_shape.to_vec(), *rows);
        Ok(Self {
            name,
            element,
            rows,
            row_shape,
            row_bytes,
            varying: None,
            padding: Padding::Nulls,
        })
    }

    /// An array whose rows are values of different lengths, which have `bytes` together.
    ///
    /// # Errors
    /// It does not have one axis.
    #[cfg(any(feature = "format-hdf5", feature = "format-zarr"))]
    pub(crate) fn varying(
        file: &str,
        name: &str,
        varying: Varying,
        shape: &[u64],
        bytes: u64,
    ) -> Result<Self, StorageError> {
        let &[rows] = shape else {
            let reason = format!(
                "array `{name}` of values that vary in length has {} axes, and only one is served: leave it out \
                 with `columns`",
                shape.len()
            );
            return Err(StorageError::Unserved { name: file.to_owned(), reason });
        };
        let row_bytes = (bytes / rows.max(1)).clamp(1, ROW_BYTES_MAX);
        let element = Element { kind: Kind::Opaque, bytes: 1, big_endian: false };
        let (name, row_shape) = (name.to_owned(), Vec::new());
        let (varying, padding) = (Some(varying), Padding::Nulls);
        Ok(Self { name, element, rows, row_shape, row_bytes, varying, padding })
    }

    /// Whether a row is one value, which is delivered as text.
    pub(crate) fn is_text(&self) -> bool {
        match self.varying {
            Some(varying) => varying == Varying::Text,
            None => self.row_shape.is_empty() && self.element.has_text(),
        }
    }

    /// Whether a row has several strings that are not filled up with nulls, as NumPy has them.
    #[cfg(feature = "format-hdf5")]
    pub(crate) fn has_padding_within(&self) -> bool {
        self.padding != Padding::Nulls && !self.is_text()
    }

    /// A row of strings, each filled up with nulls.
    #[cfg(feature = "format-hdf5")]
    pub(crate) fn without_padding(&self, row: &[u8]) -> Vec<u8> {
        let mut row = row.to_vec();
        for string in row.chunks_exact_mut(self.element.bytes as usize) {
            let end = self.padding.cut(string).len();
            string[end..].fill(0);
        }
        row
    }

    /// Bytes of all rows; `None` where they are more than a number holds.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.rows.checked_mul(self.row_bytes)
    }

    /// A row's value as text: numbers in ASCII decimal, strings as they are. A string that is not UTF-8 keeps its bytes:
    /// a field of kind `text` makes a bad sample of it, a field of bytes delivers it.
    pub(crate) fn text<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        match (self.varying, self.element.kind) {
            (Some(_), _) => Cow::Borrowed(bytes),
            (None, Kind::Bytes) => Cow::Borrowed(self.padding.cut(bytes)),
            (None, _) => match self.element.text(bytes) {
                Some(text) => Cow::Owned(text.into_bytes()),
                None => Cow::Borrowed(bytes),
            },
        }
    }

    /// Name and text of the fields that say how a row's bytes are to be read: `NAME.dtype` with
    /// NumPy's name of the type, and `NAME.shape` with the lengths of the row's axes, as `3,32,32`.
    /// None for values that are text, or bytes of any length.
    pub(crate) fn notes(&self) -> Vec<(String, String)> {
        if self.is_text() || self.varying.is_some() {
            return Vec::new();
        }
        let lengths: Vec<String> = self.row_shape.iter().map(u64::to_string).collect();
        vec![
            (format!("{}.dtype", self.name), self.element.name()),
            (format!("{}.shape", self.name), lengths.join(",")),
        ]
    }

    /// Names of all fields that come of it.
    pub(crate) fn field_names(&self) -> Vec<String> {
        let notes = self.notes().into_iter().map(|(name, _)| name);
        std::iter::once(self.name.clone()).chain(notes).collect()
    }
}
