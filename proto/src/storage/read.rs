//! Asking for samples, and the samples.

use bytes::Bytes;
use headwater_core::Digest;
use headwater_core::shard_entries::ENTRIES_BYTES_MAX;

use super::{BadBytes, FieldSelection};
use crate::augment::{MessageError, digest, fault};
use crate::v1;

/// Largest number of samples of one request.
pub const READ_SAMPLES_MAX: usize = 1 << 16;

/// Largest sum of the fields of one sample, in bytes. A sample with more is bad, however it is read, and
/// batches follow from that: so this is the protocol's, and no node's or worker's own to set.
pub const SAMPLE_MAX_BYTES: u64 = 256 << 20;

/// What every JPEG file begins with: the first marker, and the first byte of the next.
const JPEG_START: [u8; 3] = [0xff, 0xd8, 0xff];

/// A request for samples of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadQuery {
    /// Name of the dataset.
    pub dataset: String,
    /// Digest of the manifest that the numbers refer to.
    pub manifest: Digest,
    /// Shard, in the order of the manifest.
    pub shard: u32,
    /// Samples, in the order in which they are wanted; at least one.
    pub indices: Vec<u32>,
    /// Fields wanted.
    pub fields: FieldSelection,
    /// Whether they looked broken, and are to be read from a distant source anew, over another connection.
    pub again: bool,
}

/// A field of a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, as in the shard.
    pub name: String,
    /// Its bytes.
    pub data: Bytes,
    /// Where decoding of the JPEG image that it holds can begin, as `headwater-jpeg` writes that: a hint,
    /// which nobody has checked. Empty where nothing is known.
    pub entries: Bytes,
}

/// One sample as it lies in its shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedSample {
    /// Number of the sample in its shard.
    pub index: u32,
    /// Key, as in the shard.
    pub key: String,
    /// Each field wanted that the sample has, in the order wanted; or why nobody can have them.
    pub fields: Result<Vec<Field>, BadBytes>,
}

// === impl ReadQuery ===

impl TryFrom<v1::ReadRequest> for ReadQuery {
    type Error = MessageError;

    fn try_from(request: v1::ReadRequest) -> Result<Self, MessageError> {
        let count = request.indices.len();
        if count == 0 || count > READ_SAMPLES_MAX {
            let fault_text = format!("has {count} numbers, must have 1 to {READ_SAMPLES_MAX}");
            return Err(fault("indices", fault_text));
        }
        Ok(Self {
            manifest: digest("manifest_digest", &request.manifest_digest)?,
            dataset: request.dataset,
            shard: request.shard,
            indices: request.indices,
            fields: FieldSelection::parse(&request.fields)?,
            again: request.again,
        })
    }
}

impl From<ReadQuery> for v1::ReadRequest {
    fn from(query: ReadQuery) -> Self {
        Self {
            dataset: query.dataset,
            manifest_digest: query.manifest.to_bytes().to_vec().into(),
            shard: query.shard,
            fields: query.fields.to_names(),
            indices: query.indices,
            again: query.again,
        }
    }
}

// === impl Field ===

impl Field {
    /// A field about which nothing else is known.
    #[must_use]
    pub fn new(name: impl Into<String>, data: impl Into<Bytes>) -> Self {
        Self { name: name.into(), data: data.into(), entries: Bytes::new() }
    }

    /// Whether its bytes begin as those of a JPEG file do.
    #[must_use]
    pub fn is_jpeg(&self) -> bool {
        self.data.starts_with(&JPEG_START)
    }
}

// === impl EncodedSample ===

impl EncodedSample {
    /// Sum of the fields' sizes, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.fields().map(|field| field.data.len() as u64).sum()
    }

    /// Bytes of a field, its name compared without regard to ASCII case.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Bytes> {
        self.find(name).map(|field| &field.data)
    }

    /// A field, its name compared without regard to ASCII case.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Field> {
        self.fields().find(|field| field.name.eq_ignore_ascii_case(name))
    }

    /// The fields; none where nobody can have them.
    pub fn fields(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().flatten()
    }
}

impl TryFrom<v1::Sample> for EncodedSample {
    type Error = MessageError;

    fn try_from(sample: v1::Sample) -> Result<Self, MessageError> {
        if !sample.bad.is_empty() {
            if !sample.fields.is_empty() {
                return Err(fault("bad", format!("of `{}` stands beside fields", sample.key)));
            }
            let fields = Err(BadBytes::verdict(sample.bad));
            return Ok(Self { index: sample.index, key: sample.key, fields });
        }
        let mut fields: Vec<Field> = Vec::with_capacity(sample.fields.len());
        for v1::Field { name, data, more, entries } in sample.fields {
            if more > 0 {
                return Err(fault(
                    "fields",
                    format!("of `{}` holds a part of `{name}`", sample.key),
                ));
            }
            if entries.len() > ENTRIES_BYTES_MAX {
                let (key, bytes) = (sample.key, entries.len());
                let text = format!("of `{key}` have {bytes} bytes, limit {ENTRIES_BYTES_MAX}");
                return Err(fault("entries", text));
            }
            if name.is_empty() || fields.iter().any(|field| field.name == name) {
                let fault_text = format!("of `{}` holds `{name}`, empty or twice", sample.key);
                return Err(fault("fields", fault_text));
            }
            fields.push(Field { name, data, entries });
        }
        Ok(Self { index: sample.index, key: sample.key, fields: Ok(fields) })
    }
}

impl From<EncodedSample> for v1::Sample {
    fn from(sample: EncodedSample) -> Self {
        let EncodedSample { index, key, fields } = sample;
        let (fields, bad) = match fields {
            Ok(fields) => (fields, String::new()),
            Err(verdict) => (Vec::new(), verdict.to_string()),
        };
        let to_wire = |Field { name, data, entries }| v1::Field { name, data, more: 0, entries };
        let fields = fields.into_iter().map(to_wire).collect();
        Self { index, key, fields, bad }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query() -> ReadQuery {
        ReadQuery {
            dataset: "d".to_owned(),
            manifest: Digest(7),
            shard: 3,
            indices: vec![5, 4],
            fields: FieldSelection::parse(&["jpg|png"]).unwrap(),
            again: true,
        }
    }

    #[test]
    fn a_query_survives_the_wire() {
        let wire = v1::ReadRequest::from(query());
        assert_eq!(ReadQuery::try_from(wire).unwrap(), query());
    }

    #[test]
    fn a_query_for_nothing_or_with_a_short_digest_is_refused() {
        let nothing = v1::ReadRequest { indices: vec![], ..query().into() };
        assert_eq!(ReadQuery::try_from(nothing).unwrap_err().field, "indices");
        let short = v1::ReadRequest { manifest_digest: vec![1; 15].into(), ..query().into() };
        assert_eq!(ReadQuery::try_from(short).unwrap_err().field, "manifest_digest");
    }

    #[test]
    fn a_sample_with_a_field_twice_is_refused() {
        let field = v1::Field {
            name: "jpg".to_owned(),
            data: Bytes::from_static(b"x"),
            ..Default::default()
        };
        let one = v1::Sample { key: "k".to_owned(), fields: vec![field], ..Default::default() };
        let twice = v1::Sample { fields: [&one.fields[..], &one.fields].concat(), ..one.clone() };
        let error = EncodedSample::try_from(twice).unwrap_err().to_string();
        assert!(error.contains("`k`") && error.contains("`jpg`"), "{error}");
        let sample = EncodedSample::try_from(one).unwrap();
        assert_eq!((sample.bytes(), sample.field("JPG")), (1, Some(&Bytes::from_static(b"x"))));
    }

    #[test]
    fn a_verdict_survives_the_wire_and_stands_alone() {
        let fields = Err(BadBytes::verdict("too long"));
        let sample = EncodedSample { index: 3, key: "k".to_owned(), fields };
        let wire = v1::Sample::from(sample.clone());
        assert_eq!(EncodedSample::try_from(wire.clone()).unwrap(), sample);
        assert_eq!((sample.bytes(), sample.field("jpg")), (0, None));
        let field = v1::Field { name: "jpg".to_owned(), ..Default::default() };
        let both = v1::Sample { fields: vec![field], ..wire };
        assert_eq!(EncodedSample::try_from(both).unwrap_err().field, "bad");
    }
    #[test]
    fn entries_survive_the_wire_and_have_a_limit() {
        let with = |bytes: usize| {
            let entries = vec![7; bytes].into();
            let field = Field { entries, ..Field::new("jpg", &b"\xff\xd8\xff"[..]) };
            EncodedSample { index: 3, key: "k".to_owned(), fields: Ok(vec![field]) }
        };
        let sample = with(ENTRIES_BYTES_MAX);
        assert!(sample.find("JPG").unwrap().is_jpeg());
        assert_eq!(EncodedSample::try_from(v1::Sample::from(sample.clone())).unwrap(), sample);
        assert_eq!(sample.bytes(), 3, "only the field's own");
        let long = v1::Sample::from(with(ENTRIES_BYTES_MAX + 1));
        assert_eq!(EncodedSample::try_from(long).unwrap_err().field, "entries");
    }
}
