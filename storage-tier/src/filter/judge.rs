//! Values of a sample, held against the filters of its dataset.

use bytes::Bytes;
use headwater_core::recipe::DecodeLimits;
use headwater_render::decode::{DecodeFailure, Decoder};
use serde_json::Value;

use super::{FilterConfig, FilterKind, Filters, LeftOutCounts};
use crate::StorageError;

/// Bytes of an image that nearly always have its size.
const HEADER_BYTES: u64 = 16 << 10;
/// A number or a document larger than this is none: as many as are read at once have to fit into memory.
const VALUE_BYTES_MAX: u64 = 4 << 20;

/// What is read of a field for a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Its first bytes.
    Head,
    /// All of it.
    Whole,
    /// Only its size.
    Size,
}

/// A field of a sample, as far as it has been read.
pub(super) struct Found {
    /// Its size.
    pub(super) bytes: u64,
    /// From its first byte on.
    pub(super) read: Bytes,
}

/// A sample that is judged.
pub(super) trait Sample {
    /// The field of the filter of this number, if the sample has one.
    fn field(&self, filter: usize) -> Option<&Found>;

    /// All bytes of that field.
    ///
    /// # Errors
    /// They cannot be read now.
    fn whole(&self, filter: usize) -> Result<Bytes, StorageError>;
}

/// Judges samples of one shard, one after the other.
pub(super) struct Judge<'a> {
    filters: &'a Filters,
    decoder: Decoder,
    /// Which samples stay.
    pub(super) stays: Vec<bool>,
    /// How many each filter has left out.
    pub(super) left_out: LeftOutCounts,
}

// === impl FilterConfig ===

impl FilterConfig {
    /// What has to be read of its field.
    pub(super) fn part(&self) -> Part {
        match self.kind {
            FilterKind::Present | FilterKind::Bytes => Part::Size,
            FilterKind::Number => Part::Whole,
            kind => {
                debug_assert!(kind.is_of_image());
                Part::Head
            }
        }
    }
}

// === impl Part ===

impl Part {
    /// How many of a field's bytes are read.
    pub(super) fn of(self, bytes: u64) -> u64 {
        match self {
            Self::Head => bytes.min(HEADER_BYTES),
            Self::Whole if bytes <= VALUE_BYTES_MAX => bytes,
            Self::Whole | Self::Size => 0,
        }
    }
}

// === impl Judge ===

impl<'a> Judge<'a> {
    pub(super) fn new(filters: &'a Filters) -> Result<Self, StorageError> {
        let decoder = Decoder::new(DecodeLimits::default()).map_err(|_| StorageError::Panic)?;
        Ok(Self { filters, decoder, stays: Vec::new(), left_out: vec![0; filters.len()] })
    }

    /// Takes the next sample.
    ///
    /// # Errors
    /// Its bytes cannot be read now.
    pub(super) fn take(&mut self, sample: &dyn Sample) -> Result<(), StorageError> {
        for (number, filter) in self.filters.all.iter().enumerate() {
            if !self.meets(number, filter, sample)? {
                self.left_out[number] += 1;
                self.stays.push(false);
                return Ok(());
            }
        }
        self.stays.push(true);
        Ok(())
    }

    /// Whether a sample meets a condition. One without such a value does not.
    fn meets(
        &mut self,
        number: usize,
        filter: &FilterConfig,
        sample: &dyn Sample,
    ) -> Result<bool, StorageError> {
        let Some(found) = sample.field(number) else { return Ok(false) };
        let value = match filter.kind {
            FilterKind::Present => return Ok(true),
            FilterKind::Bytes => Some(found.bytes as f64),
            FilterKind::Number => number_in(&found.read, &filter.path),
            kind => self.of_image(number, kind, found, sample)?,
        };
        let (min, max) = filter.range();
        Ok(value.is_some_and(|value| min <= value && value <= max))
    }

    /// What a filter compares of an image; `None` where its header cannot be read.
    fn of_image(
        &mut self,
        number: usize,
        kind: FilterKind,
        found: &Found,
        sample: &dyn Sample,
    ) -> Result<Option<f64>, StorageError> {
        let mut header = self.decoder.header(&found.read);
        if header.is_err() && (found.read.len() as u64) < found.bytes {
            header = self.decoder.header(&sample.whole(number)?);
        }
        let extent = match header {
            Ok(extent) => extent,
            Err(DecodeFailure::Bytes(_)) => return Ok(None),
            Err(passing) => {
                return Err(StorageError::Dataset {
                    name: "image".into(),
                    reason: passing.to_string(),
                });
            }
        };
        let (width, height) = (f64::from(extent.width), f64::from(extent.height));
        Ok(Some(match kind {
            FilterKind::Width => width,
            FilterKind::Height => height,
            FilterKind::Pixels => width * height,
            _ => width / height,
        }))
    }
}

/// A number in a field: ASCII with space around, or in a JSON document at a path.
fn number_in(bytes: &[u8], path: &str) -> Option<f64> {
    if path.is_empty() {
        return std::str::from_utf8(bytes.trim_ascii()).ok()?.parse().ok();
    }
    let document: Value = serde_json::from_slice(bytes).ok()?;
    document.pointer(path)?.as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_text_and_from_documents() {
        for (bytes, path, value) in [
            (" 7\n", "", Some(7.0)),
            ("-0.25", "", Some(-0.25)),
            ("7 8", "", None),
            ("", "", None),
            ("{\"a\": {\"b\": [1, 2.5]}}", "/a/b/1", Some(2.5)),
            ("{\"a\": \"2\"}", "/a", None),
            ("{\"a\": 2}", "/b", None),
            ("{\"a\": NaN}", "/a", None),
            ("[3]", "/0", Some(3.0)),
        ] {
            assert_eq!(number_in(bytes.as_bytes(), path), value, "{bytes} {path}");
        }
        assert!(number_in(b"nan", "").unwrap().is_nan(), "no range holds it");
    }
}
