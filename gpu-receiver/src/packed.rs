//! Fields that differ in size from sample to sample, one after the other.

use headwater_core::recipe::FieldSpec;

use crate::batch::Batch;
use crate::error::ReceiverError;

/// A field of all samples of a batch, without the padding that it has in the slot. In memory of its own: a slot's
/// rows stay where they are, since a late worker may still write the same bytes there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The bytes of all samples.
    pub data: Vec<u8>,
    /// Where each sample's begin, and where the last one's end: one more than there are samples.
    pub offsets: Vec<i64>,
}

// === impl Batch ===

impl Batch {
    /// A field of the recipe that differs in size; `None` for others, and where the batch does not have it.
    ///
    /// # Errors
    /// As for [`Batch::tensor_bytes`].
    pub fn packed(&self, spec: &FieldSpec) -> Result<Option<Packed>, ReceiverError> {
        if spec.bytes_max().is_none() {
            return Ok(None);
        }
        let (rows, sizes) = (self.tensor(&spec.name), self.tensor(&spec.sizes_name()));
        let Some((rows, sizes)) = rows.zip(sizes) else { return Ok(None) };
        let row_bytes = rows.row_bytes as usize;
        Ok(Some(Packed::of(&self.tensor_bytes(rows)?, row_bytes, &self.tensor_bytes(sizes)?)))
    }
}

// === impl Packed ===

impl Packed {
    /// Takes the first bytes of each row, as many as its size says and the row has.
    fn of(rows: &[u8], row_bytes: usize, sizes: &[u8]) -> Self {
        let (mut data, mut offsets) = (Vec::new(), vec![0]);
        let sizes = sizes.as_chunks::<8>().0.iter().map(|size| i64::from_le_bytes(*size));
        for (row, size) in rows.chunks_exact(row_bytes).zip(sizes) {
            let size = usize::try_from(size).unwrap_or(0).min(row_bytes);
            data.extend_from_slice(&row[..size]);
            offsets.push(data.len() as i64);
        }
        Self { data, offsets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_brought_together_without_what_is_behind_them() {
        let sizes: Vec<u8> =
            [2i64, 0, 4, 99, -1].iter().flat_map(|size| size.to_le_bytes()).collect();
        let packed = Packed::of(b"ab..\0\0\0\0cdefghijzzzz", 4, &sizes);
        assert_eq!(packed.data, b"abcdefghij");
        assert_eq!(packed.offsets, [0, 2, 2, 6, 10, 10]);
    }
}
