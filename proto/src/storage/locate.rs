//! Where a shard lies, for callers on the same host.

use std::path::PathBuf;

use headwater_core::{Digest, ShardEntries, ShardIndex, ShardIndexBuilder};

use crate::augment::{MessageError, digest, fault};
use crate::v1;

/// Which shard is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardQuery {
    /// Name of the dataset.
    pub dataset: String,
    /// Digest of the manifest that the number refers to.
    pub manifest: Digest,
    /// Shard, in the order of the manifest.
    pub shard: u32,
}

/// A shard as a file of its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardPlace {
    /// Boot id of the host.
    pub host_id: String,
    /// Absolute path; `None` where the shard cannot be read as a file.
    pub path: Option<PathBuf>,
    /// Device number of the file.
    pub device: u64,
    /// Inode number of the file.
    pub inode: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// When it was changed last, in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Its samples; every field lies within the file. Empty for an entry of the cache that is served as a whole.
    pub index: ShardIndex,
    /// For an entry of the host's cache, the version of the shard at its source.
    pub cached: Option<Digest>,
    /// For an entry of the host's cache with samples that filters leave out, the shard's digest with all samples.
    pub whole: Option<Digest>,
    /// The entries of its JPEG images, where they are known.
    pub entries: Option<ShardEntries>,
}

// === impl ShardQuery ===

impl TryFrom<v1::LocateRequest> for ShardQuery {
    type Error = MessageError;

    fn try_from(request: v1::LocateRequest) -> Result<Self, MessageError> {
        let manifest = digest("manifest_digest", &request.manifest_digest)?;
        Ok(Self { dataset: request.dataset, manifest, shard: request.shard })
    }
}

impl From<ShardQuery> for v1::LocateRequest {
    fn from(query: ShardQuery) -> Self {
        Self {
            dataset: query.dataset,
            manifest_digest: query.manifest.to_bytes().to_vec().into(),
            shard: query.shard,
        }
    }
}

// === impl ShardPlace ===

impl TryFrom<v1::LocateReply> for ShardPlace {
    type Error = MessageError;

    fn try_from(reply: v1::LocateReply) -> Result<Self, MessageError> {
        let mut builder = ShardIndexBuilder::default();
        for sample in &reply.samples {
            builder.sample(&sample.key).map_err(|e| fault("samples", e.to_string()))?;
            for field in &sample.fields {
                let added = match &field.inline {
                    Some(value) => builder.inline(&field.name, value),
                    None => builder.field(&field.name, field.offset, field.bytes),
                };
                added.map_err(|e| fault("samples.fields", e.to_string()))?;
            }
        }
        let optional = |field: &'static str, bytes: &[u8]| match bytes.is_empty() {
            true => Ok(None),
            false => digest(field, bytes).map(Some),
        };
        let cached = optional("cached_version", &reply.cached_version)?;
        let whole = optional("whole_digest", &reply.whole_digest)?;
        let index = builder.finish();
        if index.end() > reply.bytes {
            let text = format!("end at {}, the shard at {}", index.end(), reply.bytes);
            return Err(fault("samples", text));
        }
        let entries = match reply.entries.is_empty() {
            true => None,
            false => {
                let read = ShardEntries::from_bytes(reply.entries[..].into());
                Some(read.ok_or_else(|| fault("entries", "are not as they are written"))?)
            }
        };
        Ok(Self {
            host_id: reply.host_id,
            path: (!reply.path.is_empty()).then(|| PathBuf::from(reply.path)),
            device: reply.device,
            inode: reply.inode,
            bytes: reply.bytes,
            modified_ns: reply.modified_ns,
            index,
            cached,
            whole,
            entries,
        })
    }
}

impl From<ShardPlace> for v1::LocateReply {
    fn from(place: ShardPlace) -> Self {
        let index = &place.index;
        let sample = |at| v1::IndexedSample {
            key: index.key(at).unwrap_or_default().to_owned(),
            fields: index
                .fields(at)
                .map(|field| v1::IndexedField {
                    name: field.name.to_owned(),
                    offset: field.offset,
                    bytes: if field.inline.is_some() { 0 } else { field.bytes },
                    inline: field.inline.map(|value| value.to_vec().into()),
                })
                .collect(),
        };
        let samples = (0..index.samples()).map(sample).collect();
        let entries = place.entries.as_ref().map(|entries| entries.as_bytes().to_vec());
        // A path that is not UTF-8 cannot travel: the caller then reads over gRPC.
        let path = place.path.and_then(|path| path.into_os_string().into_string().ok());
        Self {
            host_id: place.host_id,
            path: path.unwrap_or_default(),
            device: place.device,
            inode: place.inode,
            bytes: place.bytes,
            modified_ns: place.modified_ns,
            samples,
            cached_version: place.cached.map(|v| v.to_bytes().to_vec()).unwrap_or_default().into(),
            whole_digest: place.whole.map(|d| d.to_bytes().to_vec()).unwrap_or_default().into(),
            entries: entries.unwrap_or_default().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use headwater_core::ShardEntriesBuilder;

    use super::*;

    fn place() -> ShardPlace {
        let mut builder = ShardIndexBuilder::default();
        builder.sample("k").unwrap();
        builder.field("jpg", 512, 100).unwrap();
        builder.inline("cls", b"7").unwrap();
        let mut entries = ShardEntriesBuilder::default();
        entries.add(0, 0, b"entries");
        ShardPlace {
            host_id: "h".to_owned(),
            path: Some("/data/a.tar".into()),
            device: 1,
            inode: 2,
            bytes: 1024,
            modified_ns: -3,
            index: builder.finish(),
            cached: Some(Digest(5)),
            whole: Some(Digest(6)),
            entries: Some(entries.finish()),
        }
    }

    #[test]
    fn a_place_survives_the_wire() {
        assert_eq!(ShardPlace::try_from(v1::LocateReply::from(place())).unwrap(), place());
    }

    #[test]
    fn a_field_beyond_the_end_of_the_shard_is_refused() {
        let reply = v1::LocateReply { bytes: 611, ..place().into() };
        assert_eq!(ShardPlace::try_from(reply).unwrap_err().field, "samples");
    }

    #[test]
    fn entries_that_are_none_are_refused() {
        let reply = v1::LocateReply { entries: vec![1; 20].into(), ..place().into() };
        assert_eq!(ShardPlace::try_from(reply).unwrap_err().field, "entries");
    }

    #[test]
    fn a_query_survives_the_wire() {
        let query = ShardQuery { dataset: "d".to_owned(), manifest: Digest(1), shard: 2 };
        let wire = v1::LocateRequest::from(query.clone());
        assert_eq!(ShardQuery::try_from(wire).unwrap(), query);
    }
}
