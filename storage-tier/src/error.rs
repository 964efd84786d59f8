//! What can go wrong in the storage tier, for a person and for a machine.

use std::io;

use headwater_core::shard_index::ShardIndexError;
use headwater_core::{ManifestError, pluralize};
use headwater_proto::storage::{MessageError, StorageFailure};
use headwater_storage_client::{ObjectError, ShardFileError, ShardReadError};

use crate::source::{Place, is_other_sum};

/// Why a storage node cannot start or cannot answer.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// A value of the configuration cannot work.
    #[error("storage: `{key}` = `{value}`: {remedy}")]
    Config {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What to write instead.
        remedy: &'static str,
    },
    /// Certificates or token cannot be used.
    #[error(transparent)]
    Access(#[from] headwater_access::AccessError),
    /// The cache cannot be opened.
    #[error("`storage.cache` cannot be used")]
    Cache(#[from] headwater_cache::CacheError),
    /// A name of shards that cannot be read.
    #[error("shards `{pattern}`: {fault}")]
    Pattern {
        /// As it was written.
        pattern: String,
        /// What is wrong with it, and the remedy.
        fault: String,
    },
    /// A glob that fits no file.
    #[error("no file fits the shards `{pattern}`: check the folder and the pattern")]
    NoMatch {
        /// The glob.
        pattern: String,
    },
    /// A shard that cannot be opened or read, was changed, or does not lie where shards may.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// A shard that is no whole tar archive.
    #[error(
        "shard `{name}` is broken at byte {at}: {fault}; fetch or write it again, \
         or set `on_broken_shard = \"skip_tail\"` to serve the samples before it"
    )]
    BrokenTar {
        /// The shard, as people write it.
        name: String,
        /// First byte that cannot be used.
        at: u64,
        /// What is wrong there.
        fault: String,
    },
    /// A file without a byte.
    #[error("shard `{name}` is an empty file: fetch or write it again, or leave it out")]
    EmptyFile {
        /// The file, as people write it.
        name: String,
    },
    /// An archive that was compressed as a whole.
    #[error(
        "shard `{name}` is compressed ({form}), so that its samples cannot be read one by one: \
         write it as a plain tar archive, as `{command}` does"
    )]
    Compressed {
        /// The file, as people write it.
        name: String,
        /// How it was compressed.
        form: &'static str,
        /// What undoes it.
        command: String,
    },
    /// Samples that cannot be distinguished, or too many samples.
    #[error("shard `{name}`")]
    Samples {
        /// The shard, as people write it.
        name: String,
        /// What is wrong.
        #[source]
        source: ShardIndexError,
    },
    /// A file beside which no index of DALI's can be written.
    #[error(
        "no DALI index can be made for `{name}`: {why}; storage nodes do not need one: `headwater \
         datasets list` makes their own indices"
    )]
    NoDaliIndex {
        /// The object, as people write it.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// An index file that is not one of the shard beside it.
    #[error(
        "index `{name}` does not fit its shard: {place}: {fault}; \
         make it again, or remove it to have the shard scanned"
    )]
    Idx {
        /// The index, as people write it.
        name: String,
        /// Line or entry.
        place: String,
        /// What is wrong there.
        fault: String,
    },
    /// An index file that cannot be read.
    #[error("index `{name}` cannot be read: give read permission, or remove the file")]
    IdxRead {
        /// The index, as people write it.
        name: String,
        /// What its source said.
        #[source]
        source: ObjectError,
    },
    /// Bytes that are not of the format that they should be of.
    #[error("shard `{name}` is broken: {place}: {fault}; fetch or write it again")]
    Broken {
        /// The object, as people write it.
        name: String,
        /// Byte, row, line, entry.
        place: String,
        /// What is wrong there.
        fault: String,
    },
    /// An object that is whole, but cannot be served as it is.
    #[error("`{name}` cannot be served: {reason}")]
    Unserved {
        /// The object, as people write it.
        name: String,
        /// Why, and the remedy.
        reason: String,
    },
    /// A dataset in Python that does not give a sample now.
    #[error("`{name}` cannot be served: {reason}")]
    Dataset {
        /// Its class.
        name: String,
        /// What it raised.
        reason: String,
    },
    /// A sample that cannot be held against a filter now.
    #[error("a filter cannot be applied: {reason}")]
    NotJudged {
        /// Whose sample, and why.
        reason: String,
    },
    /// Filters that leave nothing of a dataset.
    #[error(
        "no sample of dataset `{dataset}` meets its filters ({left_out}), the fields found are {fields}: change [[filter]]"
    )]
    AllLeftOut {
        /// Name of the dataset.
        dataset: String,
        /// How many samples each filter left out.
        left_out: String,
        /// Names of the samples' fields.
        fields: String,
    },
    /// A shard for whose unpacked samples there is no room.
    #[error(
        "the samples of shard `{name}` cannot be unpacked: make room in `storage.cache` or in the \
         folder of TMPDIR"
    )]
    Unpack {
        /// The shard, as people write it.
        name: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Entry points that cannot be kept.
    #[error(
        "entry points of images cannot be written to `{path}`: allow the folder to be written to, or set \
         `storage.index_dir` to another one"
    )]
    KeepEntries {
        /// The file.
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A shard could not be opened; all who waited for it get this error.
    #[error(transparent)]
    Opening(std::sync::Arc<StorageError>),
    /// Shards that make no manifest.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A shard that is not what it was when the node started.
    #[error(
        "shard `{name}` was changed since the node started: put the former file back, or restart the \
         storage node and start the job anew"
    )]
    ShardChanged {
        /// The shard, as people write it.
        name: String,
    },
    /// The address is taken or not ours.
    #[error("cannot listen on `{address}`: free the port or set `listen` to another one")]
    Listen {
        /// The address.
        address: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The server stopped on its own.
    #[error("storage server stopped")]
    Serve {
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A thread of the node's own died.
    #[error("storage: a reader stopped by a panic: report it with the log")]
    Panic,
    /// A dataset that is not served here.
    #[error("no dataset `{dataset}` here, there are: {served}")]
    UnknownDataset {
        /// The name asked for.
        dataset: String,
        /// The names served.
        served: String,
    },
    /// The caller knows another dataset under this name.
    #[error(
        "dataset `{dataset}` has manifest {ours} here, the caller has {theirs}: \
         its shards were changed or the node serves others; fetch the manifest again"
    )]
    ManifestChanged {
        /// Name of the dataset.
        dataset: String,
        /// Digest here.
        ours: String,
        /// Digest there.
        theirs: String,
    },
    /// A shard that the dataset does not have.
    #[error(
        "dataset `{dataset}` has {}: there is no shard number {shard}", pluralize(*.shards, "shard")
    )]
    NoShard {
        /// Name of the dataset.
        dataset: String,
        /// Number asked for.
        shard: u32,
        /// How many there are.
        shards: usize,
    },
    /// Samples that cannot be given out.
    #[error(transparent)]
    Read(#[from] ShardReadError),
    /// As many reads wait as may.
    #[error(
        "the limit of waiting reads is reached here ({waiting}, `storage.max_waiting_reads`): try again"
    )]
    Overloaded {
        /// The limit.
        waiting: usize,
    },
    /// The node is stopping.
    #[error("this storage node is about to end: ask another one")]
    Draining,
    /// The caller speaks another version of the protocol.
    #[error("caller speaks wire version {theirs}, this node {ours}: use one release")]
    WrongVersion {
        /// Version of the caller.
        theirs: u32,
        /// Version of the node.
        ours: u32,
    },
    /// A request that does not keep to the protocol.
    #[error(transparent)]
    Message(#[from] MessageError),
}

// === impl StorageError ===

impl From<ShardFileError> for StorageError {
    fn from(error: ShardFileError) -> Self {
        Self::Object(error.into())
    }
}

impl StorageError {
    /// What is wrong with bytes, and where.
    pub(crate) fn broken(
        name: impl Into<String>,
        place: impl Into<String>,
        fault: impl Into<String>,
    ) -> Self {
        Self::Broken { name: name.into(), place: place.into(), fault: fault.into() }
    }

    /// Whether a shard was fetched, twice, and does not have its checksum.
    pub(crate) fn is_other_sum(&self) -> bool {
        matches!(self, Self::Object(error) if is_other_sum(error))
    }

    /// What it means of metadata that could be read when the node started: they are others now, or away.
    pub(crate) fn since_start(self, place: &Place) -> Self {
        match self.kind() {
            StorageFailure::ShardBroken => {
                tracing::warn!(error = self.sentence(), "metadata could be read at the start");
                Self::ShardChanged { name: place.name() }
            }
            _ => self,
        }
    }

    /// Kind of the fault, as it travels to the caller.
    #[must_use]
    pub fn kind(&self) -> StorageFailure {
        match self {
            Self::UnknownDataset { .. } => StorageFailure::UnknownDataset,
            Self::ManifestChanged { .. } => StorageFailure::ManifestChanged,
            Self::NoShard { .. } => StorageFailure::OutOfRange,
            Self::Read(error) => error.kind(),
            Self::Opening(error) => error.kind(),
            Self::Overloaded { .. } => StorageFailure::Overloaded,
            Self::Draining => StorageFailure::Draining,
            Self::WrongVersion { .. } => StorageFailure::WrongVersion,
            Self::Message(_) => StorageFailure::BadRequest,
            // That a shard has its version of the start is known before its bytes are looked at.
            Self::Broken { .. }
            | Self::Unserved { .. }
            | Self::BrokenTar { .. }
            | Self::EmptyFile { .. }
            | Self::Compressed { .. }
            | Self::Samples { .. } => StorageFailure::ShardBroken,
            // It was fetched twice.
            error if error.is_other_sum() => StorageFailure::ShardBroken,
            // Its source, the system, or files beside it: neither says anything about a sample.
            Self::Object(_)
            | Self::Dataset { .. }
            | Self::NotJudged { .. }
            | Self::Unpack { .. }
            | Self::Idx { .. }
            | Self::IdxRead { .. }
            | Self::ShardChanged { .. } => StorageFailure::ShardAway,
            Self::Config { .. }
            | Self::Access(_)
            | Self::Cache(_)
            | Self::Pattern { .. }
            | Self::NoMatch { .. }
            | Self::NoDaliIndex { .. }
            | Self::KeepEntries { .. }
            | Self::AllLeftOut { .. }
            | Self::Manifest(_)
            | Self::Listen { .. }
            | Self::Serve { .. }
            | Self::Panic => StorageFailure::Internal,
        }
    }

    /// Whether a shard has only made room for others in the cache.
    pub(crate) fn is_evicted(&self) -> bool {
        matches!(self, Self::Read(error) if error.is_evicted())
    }

    /// Whether a file system or a budget is full.
    pub(crate) fn is_no_room(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let Self::Unpack { source, .. } = self else { return false };
        matches!(source.kind(), FileTooLarge | QuotaExceeded | StorageFull)
    }

    /// The error and its causes in one line.
    #[must_use]
    pub fn sentence(&self) -> String {
        headwater_core::error_chain(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A caller gives up at once where no node has another answer, and else waits.
    #[test]
    fn a_shard_that_cannot_be_read_now_is_away_and_one_that_never_can_is_broken() {
        let name = || "a.tar".to_owned();
        let fault = || "odd".to_owned();
        let gone = || ObjectError::NotFound { name: name() };
        let said = || io::Error::from(io::ErrorKind::Other);
        let away = [
            gone().into(),
            ObjectError::Changed { name: name() }.into(),
            ObjectError::Forbidden(fault()).into(),
            ObjectError::Read { name: name(), source: Box::new(said()) }.into(),
            StorageError::Read(gone().into()),
            StorageError::Idx { name: name(), place: fault(), fault: fault() },
            StorageError::IdxRead { name: name(), source: gone() },
            StorageError::Dataset { name: name(), reason: fault() },
            StorageError::Unpack { name: name(), source: said() },
            StorageError::ShardChanged { name: name() },
        ];
        for error in away {
            assert_eq!(error.kind(), StorageFailure::ShardAway, "{error}");
            assert!(error.kind().is_retryable(), "{error}");
        }
        let broken = [
            StorageError::BrokenTar { name: name(), at: 512, fault: fault() },
            StorageError::EmptyFile { name: name() },
            StorageError::Compressed { name: name(), form: "gzip", command: fault() },
            StorageError::broken(name(), fault(), fault()),
            StorageError::Unserved { name: name(), reason: fault() },
        ];
        for error in broken {
            assert_eq!(error.kind(), StorageFailure::ShardBroken, "{error}");
            assert!(!error.kind().is_retryable(), "{error}");
        }
    }
}
