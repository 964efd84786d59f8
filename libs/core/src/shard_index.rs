//! Positions of each sample's fields in a shard.

use std::collections::HashMap;
use std::ops::Range;

use crate::manifest::SHARD_SAMPLES_MAX;
use crate::{Digest, Digester};

/// Largest number of different field names in one shard.
pub const FIELD_NAMES_MAX: usize = 4096;

/// Keys, field names, offsets and sizes of all samples of one shard, in order. Packed: some 30
/// bytes a sample besides its key, so that many shards may be open at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardIndex {
    keys: String,
    key_ends: Vec<u32>,
    names: Vec<String>,
    fields: Vec<PackedField>,
    field_ends: Vec<u32>,
    /// Values of fields that are not in the shard, one after the other.
    inline: Vec<u8>,
}

/// Marks the offset of a field whose bytes are in [`ShardIndex::inline`].
const INLINE: u64 = 1 << 63;

/// One field of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexedField<'a> {
    /// Name, as in the shard.
    pub name: &'a str,
    /// Offset of its bytes in the shard; 0 if they are in the index.
    pub offset: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// Its bytes, if they are not in the shard: for example a class that follows from a folder's
    /// name, or a number that a file has in another form.
    pub inline: Option<&'a [u8]>,
}

/// Builds a [`ShardIndex`] sample by sample.
#[derive(Default)]
pub struct ShardIndexBuilder {
    index: ShardIndex,
    numbers: HashMap<String, u32>,
}

/// What cannot be put into an index.
#[derive(Debug, thiserror::Error)]
pub enum ShardIndexError {
    /// A sample has two fields of one name.
    #[error("sample `{key}` has two fields named `{field}`: names must be unique in a sample")]
    FieldTwice {
        /// Key of the sample.
        key: String,
        /// Name of the field.
        field: String,
    },
    /// More than the limits allow.
    #[error("{what} of the shard are over the limit of {limit}: {remedy}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many there may be.
        limit: u64,
        /// What to do about it.
        remedy: &'static str,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PackedField {
    name: u32,
    offset: u64,
    bytes: u64,
}

// === impl ShardIndex ===

impl ShardIndex {
    /// Number of samples.
    #[must_use]
    pub fn samples(&self) -> u32 {
        self.key_ends.len() as u32
    }

    /// Names of the fields that occur, in the order in which they first do.
    #[must_use]
    pub fn field_names(&self) -> &[String] {
        &self.names
    }

    /// Key of a sample; `None` if the sample does not exist.
    #[must_use]
    pub fn key(&self, sample: u32) -> Option<&str> {
        let end = *self.key_ends.get(sample as usize)?;
        let start = start_of(&self.key_ends, sample);
        Some(&self.keys[start as usize..end as usize])
    }

    /// Fields of a sample, in the order of the shard; empty if the sample does not exist.
    pub fn fields(&self, sample: u32) -> impl ExactSizeIterator<Item = IndexedField<'_>> + Clone {
        let range = match self.field_ends.get(sample as usize) {
            Some(&end) => start_of(&self.field_ends, sample) as usize..end as usize,
            None => 0..0,
        };
        self.fields[range].iter().map(|field| {
            let name = &self.names[field.name as usize];
            let inline = self.inline_bytes(field);
            let offset = if inline.is_some() { 0 } else { field.offset };
            IndexedField { name, offset, bytes: field.bytes, inline }
        })
    }

    fn inline_bytes(&self, field: &PackedField) -> Option<&[u8]> {
        let start = (field.offset & !INLINE) as usize;
        (field.offset & INLINE != 0).then(|| &self.inline[start..start + field.bytes as usize])
    }

    /// First byte after all fields: the least size the shard must have.
    #[must_use]
    pub fn end(&self) -> u64 {
        let in_shard = self.fields.iter().filter(|field| field.offset & INLINE == 0);
        in_shard.map(|field| field.offset + field.bytes).max().unwrap_or(0)
    }

    /// Bytes of all fields of all samples, those in the index included.
    #[must_use]
    pub fn field_bytes(&self) -> u64 {
        self.fields.iter().fold(0, |sum, field| sum.saturating_add(field.bytes))
    }

    /// The ranges of the shard with its fields, in order. Ranges with at most `gap` bytes between
    /// them are joined.
    #[must_use]
    pub fn spans(&self, gap: u64) -> Vec<Range<u64>> {
        let in_shard = self.fields.iter().filter(|field| field.offset & INLINE == 0);
        let ranges = in_shard.map(|field| field.offset..field.offset + field.bytes);
        let mut ranges: Vec<_> = ranges.filter(|range| !range.is_empty()).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        let mut spans: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match spans.last_mut() {
                Some(last) if range.start - last.end.min(range.start) <= gap => {
                    last.end = last.end.max(range.end);
                }
                _ => spans.push(range),
            }
        }
        spans
    }

    /// The index of something that holds these spans of the shard, one after the other; `None` if
    /// a field is in none of them. They are in order, as [`ShardIndex::spans`] gives them.
    #[must_use]
    pub fn within(mut self, spans: &[Range<u64>]) -> Option<Self> {
        let mut starts = Vec::with_capacity(spans.len());
        let mut end = 0;
        for span in spans {
            starts.push(end);
            end += span.end - span.start;
        }
        for field in self.fields.iter_mut().filter(|field| field.offset & INLINE == 0) {
            if field.bytes == 0 {
                field.offset = 0;
                continue;
            }
            let at = spans.partition_point(|span| span.start <= field.offset).checked_sub(1)?;
            if field.offset + field.bytes > spans[at].end {
                return None;
            }
            field.offset = starts[at] + (field.offset - spans[at].start);
        }
        Some(self)
    }

    /// The index of those samples only that are `wanted`, in the same order.
    #[must_use]
    pub fn only(&self, wanted: impl Fn(u32) -> bool) -> Self {
        let mut only = Self { names: self.names.clone(), ..Self::default() };
        for sample in (0..self.samples()).filter(|&sample| wanted(sample)) {
            only.keys.push_str(self.key(sample).unwrap_or_default());
            only.key_ends.push(only.keys.len() as u32);
            let first = start_of(&self.field_ends, sample) as usize;
            for field in &self.fields[first..self.field_ends[sample as usize] as usize] {
                let mut field = *field;
                if let Some(value) = self.inline_bytes(&field) {
                    field.offset = only.inline.len() as u64 | INLINE;
                    only.inline.extend_from_slice(value);
                }
                only.fields.push(field);
            }
            only.field_ends.push(only.fields.len() as u32);
        }
        only
    }

    /// Digest of all that is in the index, however it was made.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut digester = Digester::new("headwater shard index 1");
        digester.number(self.samples().into());
        for sample in 0..self.samples() {
            let fields = self.fields(sample);
            digester.bytes(self.key(sample).unwrap_or_default().as_bytes());
            digester.number(fields.len() as u64);
            for field in fields {
                digester.bytes(field.name.as_bytes());
                match field.inline {
                    Some(value) => digester.number(u64::MAX).bytes(value),
                    None => digester.number(field.offset).number(field.bytes),
                };
            }
        }
        digester.finish()
    }
}

fn start_of(ends: &[u32], at: u32) -> u32 {
    if at == 0 { 0 } else { ends[at as usize - 1] }
}

// === impl ShardIndexBuilder ===

impl ShardIndexBuilder {
    /// Starts the next sample.
    ///
    /// # Errors
    /// Too many samples, or keys of more than 4 GiB in all.
    pub fn sample(&mut self, key: &str) -> Result<(), ShardIndexError> {
        if self.index.samples() >= SHARD_SAMPLES_MAX {
            return Err(too_many("samples", SHARD_SAMPLES_MAX.into(), "make smaller shards"));
        }
        let end = u32::try_from(self.index.keys.len() + key.len())
            .map_err(|_| too_many("bytes of the keys", u32::MAX.into(), "make smaller shards"))?;
        self.index.keys.push_str(key);
        self.index.key_ends.push(end);
        self.index.field_ends.push(self.index.fields.len() as u32);
        Ok(())
    }

    /// Adds a field to the sample started last.
    ///
    /// # Errors
    /// The sample has a field of that name; too many names or fields; an offset and size whose sum
    /// is over 2^63 - 1.
    ///
    /// # Panics
    /// No sample was started.
    pub fn field(&mut self, name: &str, offset: u64, bytes: u64) -> Result<(), ShardIndexError> {
        if offset.checked_add(bytes).is_none_or(|end| end & INLINE != 0) {
            return Err(too_many("bytes", INLINE - 1, "the index is broken, make it again"));
        }
        self.push(name, offset, bytes)
    }

    /// Adds a field with its bytes to the sample started last, for small values.
    ///
    /// # Errors
    /// As [`ShardIndexBuilder::field`]; or more than 4 GiB of such values.
    ///
    /// # Panics
    /// No sample was started.
    pub fn inline(&mut self, name: &str, value: &[u8]) -> Result<(), ShardIndexError> {
        let start = self.index.inline.len();
        if start + value.len() > u32::MAX as usize {
            let remedy = "make smaller shards";
            return Err(too_many("bytes of values in the index", u32::MAX.into(), remedy));
        }
        self.push(name, start as u64 | INLINE, value.len() as u64)?;
        self.index.inline.extend_from_slice(value);
        Ok(())
    }

    fn push(&mut self, name: &str, offset: u64, bytes: u64) -> Result<(), ShardIndexError> {
        let sample = self.index.samples().checked_sub(1).expect("a sample was started");
        let number = self.name(name)?;
        let first = start_of(&self.index.field_ends, sample) as usize;
        if self.index.fields[first..].iter().any(|field| field.name == number) {
            let key = self.index.key(sample).unwrap_or_default().to_owned();
            return Err(ShardIndexError::FieldTwice { key, field: name.to_owned() });
        }
        self.index.fields.push(PackedField { name: number, offset, bytes });
        let end = u32::try_from(self.index.fields.len())
            .map_err(|_| too_many("fields", u32::MAX.into(), "make smaller shards"))?;
        self.index.field_ends[sample as usize] = end;
        Ok(())
    }

    /// The index of the samples so far.
    #[must_use]
    pub fn so_far(&self) -> &ShardIndex {
        &self.index
    }

    /// The index of all samples added.
    #[must_use]
    pub fn finish(self) -> ShardIndex {
        self.index
    }

    fn name(&mut self, name: &str) -> Result<u32, ShardIndexError> {
        if let Some(&number) = self.numbers.get(name) {
            return Ok(number);
        }
        if self.index.names.len() == FIELD_NAMES_MAX {
            let remedy = "a field's name is all that follows the first dot of the file name, \
                          so keys must not contain dots";
            return Err(too_many("different field names", FIELD_NAMES_MAX as u64, remedy));
        }
        let number = self.index.names.len() as u32;
        self.index.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        Ok(number)
    }
}

fn too_many(what: &'static str, limit: u64, remedy: &'static str) -> ShardIndexError {
    ShardIndexError::TooMany { what, limit, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_samples() -> ShardIndex {
        let mut builder = ShardIndexBuilder::default();
        builder.sample("a/0").unwrap();
        builder.field("jpg", 512, 7).unwrap();
        builder.field("cls", 1536, 0).unwrap();
        builder.sample("a/1").unwrap();
        builder.field("jpg", 2560, 9).unwrap();
        builder.finish()
    }

    #[test]
    fn samples_and_fields_come_back_in_order() {
        let index = two_samples();
        assert_eq!(index.samples(), 2);
        assert_eq!((index.key(0), index.key(1), index.key(2)), (Some("a/0"), Some("a/1"), None));
        let fields: Vec<_> = index.fields(0).map(|f| (f.name, f.offset, f.bytes)).collect();
        assert_eq!(fields, [("jpg", 512, 7), ("cls", 1536, 0)]);
        assert_eq!(index.fields(1).len(), 1);
        assert_eq!(index.fields(2).len(), 0);
        assert_eq!(index.end(), 2569);
    }

    #[test]
    fn spans_hold_all_fields_and_become_a_shard_of_their_own() {
        let mut builder = ShardIndexBuilder::default();
        builder.sample("0").unwrap();
        builder.field("a", 5000, 10).unwrap();
        builder.field("b", 100, 4).unwrap();
        builder.inline("c", b"seven").unwrap();
        builder.field("empty", 9999, 0).unwrap();
        builder.sample("1").unwrap();
        builder.field("a", 5010, 10).unwrap();
        builder.field("b", 102, 4).unwrap();
        builder.field("d", 5030, 1).unwrap();
        let index = builder.finish();
        assert_eq!(index.field_bytes(), 10 + 4 + 5 + 10 + 4 + 1);
        assert_eq!(index.spans(9), [100..106, 5000..5020, 5030..5031]);
        assert_eq!(index.spans(10), [100..106, 5000..5031]);
        let within = index.clone().within(&index.spans(10)).unwrap();
        let shown = |sample| {
            let shown = |f: IndexedField<'_>| (f.offset, f.bytes, f.inline.map(<[u8]>::to_vec));
            within.fields(sample).map(shown).collect::<Vec<_>>()
        };
        assert_eq!(
            shown(0),
            [(6, 10, None), (0, 4, None), (0, 5, Some(b"seven".to_vec())), (0, 0, None)]
        );
        assert_eq!(shown(1), [(16, 10, None), (2, 4, None), (36, 1, None)]);
        assert_eq!(within.end(), 37);
        assert!(index.clone().within(&index.spans(9)[..2]).is_none());
        assert!(ShardIndex::default().spans(0).is_empty());
    }

    #[test]
    fn the_digest_tells_where_a_sample_ends() {
        let mut moved = ShardIndexBuilder::default();
        moved.sample("a/0").unwrap();
        moved.field("jpg", 512, 7).unwrap();
        moved.sample("a/1").unwrap();
        moved.field("cls", 1536, 0).unwrap();
        moved.field("jpg", 2560, 9).unwrap();
        assert_ne!(moved.finish().digest(), two_samples().digest());
        assert_eq!(two_samples().digest(), two_samples().digest());
    }

    #[test]
    fn a_value_in_the_index_is_part_of_its_digest_and_of_no_file() {
        let with = |label: &[u8]| {
            let mut builder = ShardIndexBuilder::default();
            builder.sample("k").unwrap();
            builder.field("jpg", 512, 7).unwrap();
            builder.inline("cls", label).unwrap();
            builder.inline("empty", b"").unwrap();
            builder.finish()
        };
        let index = with(b"12");
        assert_eq!(index.end(), 519);
        let values: Vec<_> = index.fields(0).map(|field| field.inline).collect();
        assert_eq!(values, [None, Some(&b"12"[..]), Some(b"")]);
        assert_ne!(index.digest(), with(b"13").digest());
        let mut builder = ShardIndexBuilder::default();
        builder.sample("k").unwrap();
        assert!(builder.field("jpg", 1 << 63, 0).is_err());
        assert!(builder.inline("jpg", b"x").is_ok() && builder.inline("jpg", b"y").is_err());
        assert_eq!(builder.finish().fields(0).next().unwrap().inline, Some(&b"x"[..]));
    }

    #[test]
    fn a_field_named_twice_is_refused_by_name() {
        let mut builder = ShardIndexBuilder::default();
        builder.sample("k").unwrap();
        builder.field("jpg", 0, 1).unwrap();
        let error = builder.field("jpg", 512, 1).unwrap_err().to_string();
        assert!(error.contains("`k`") && error.contains("`jpg`"), "{error}");
    }
}
