//! Shards that lie on this host and are visible here as the same files.
//!
//! A node's word names the file; what may be read is this process's own configuration's word, and
//! what a shard is follows from the manifest.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headwater_core::{Digest, ShardEntry, ShardIndex, cached_shard_key};
use headwater_proto::storage::{ShardPlace, ShardQuery};

use crate::node::Node;
use crate::{CachedObject, FileIdentity, IndexedShard, OpenShards, ShardFile, host_id, metrics};

/// The shards opened so far.
#[derive(Debug)]
pub(crate) struct LocalShards {
    /// By manifest and number of the shard.
    shards: Arc<OpenShards<(Digest, u32), IndexedShard, ()>>,
    /// Folders that files may lie in.
    roots: Vec<PathBuf>,
}

/// The shard cannot be read here as a file: it must be read over gRPC, and if something is wrong
/// with it, that way meets it too and tells the caller.
#[derive(Debug)]
struct NotLocal {
    reason: String,
    concerns: Concerns,
}

/// What is read over gRPC for that reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Concerns {
    /// This read: something is short for now, or was moved just then.
    Read,
    /// The shard, for a while.
    Shard,
    /// All shards of the dataset, for a while.
    Dataset,
}

// === impl LocalShards ===

impl LocalShards {
    pub(crate) fn new(limit: usize, roots: Vec<PathBuf>) -> Self {
        Self { shards: Arc::new(OpenShards::new(limit)), roots }
    }

    /// The shard as a file; `None` where no connected node of this host has it, or its file is not
    /// visible here, may not be read, or is not the one of the manifest.
    pub(crate) async fn get(
        &self,
        nodes: &[&Node],
        query: &ShardQuery,
        entry: &ShardEntry,
    ) -> Option<IndexedShard> {
        let key = (query.manifest, query.shard);
        let found = self.shards.clone().get_or_open(key, self.find(nodes, query, entry)).await;
        metrics::local_shards(self.shards.len());
        found.ok()
    }

    /// Lets go of a shard that could not be read.
    pub(crate) fn forget(&self, query: &ShardQuery) {
        self.shards.forget(&(query.manifest, query.shard));
    }

    async fn find(
        &self,
        nodes: &[&Node],
        query: &ShardQuery,
        entry: &ShardEntry,
    ) -> Result<IndexedShard, ()> {
        for node in nodes {
            if !node.may_have_local_file(host_id(), query.manifest, query.shard) {
                continue;
            }
            let Ok((place, generation)) = node.locate(query).await else {
                continue;
            };
            let (roots, entry) = (self.roots.clone(), entry.clone());
            let opened = tokio::task::spawn_blocking(move || open(place, &entry, &roots)).await;
            let opened = opened.unwrap_or_else(|panic| Err(NotLocal::shard(panic.to_string())));
            let NotLocal { reason, concerns } = match opened {
                Ok(shard) => return Ok(shard),
                Err(not_local) => not_local,
            };
            metrics::not_local(concerns.name());
            let is_news = match concerns {
                Concerns::Read => false,
                Concerns::Shard => node.set_remote(generation, query.manifest, Some(query.shard)),
                Concerns::Dataset => node.set_remote(generation, query.manifest, None),
            };
            let (node, dataset, concerns) = (node.address(), &query.dataset, concerns.name());
            if is_news {
                tracing::info!(
                    node,
                    dataset,
                    concerns,
                    reason,
                    "dataset is on this host, but is read over grpc, all of it or some shards; further reasons are \
                     counted"
                );
            } else {
                tracing::debug!(node, dataset, concerns, reason, "a shard is read over grpc");
            }
        }
        Err(())
    }
}

// === impl NotLocal ===

impl NotLocal {
    fn shard(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), concerns: Concerns::Shard }
    }

    fn dataset(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), concerns: Concerns::Dataset }
    }

    /// A file that is away may be the only one; a folder that is away is away for all of them.
    fn because(path: &Path, error: &io::Error) -> Self {
        let concerns = match error.kind() {
            io::ErrorKind::NotFound if path.parent().is_some_and(Path::exists) => Concerns::Shard,
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => Concerns::Dataset,
            _ => Concerns::Read,
        };
        Self { reason: format!("`{}`: {error}", path.display()), concerns }
    }
}

// === impl Concerns ===

impl Concerns {
    /// Name for metrics and the log.
    fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Shard => "shard",
            Self::Dataset => "dataset",
        }
    }
}

/// Opens a shard, if it is the one of the manifest, the very file that the node has, and lies where
/// this process may read. The reason, if not.
fn open(
    place: ShardPlace,
    entry: &ShardEntry,
    roots: &[PathBuf],
) -> Result<IndexedShard, NotLocal> {
    if place.host_id != host_id() {
        return Err(NotLocal::dataset("its host id changed"));
    }
    let path = place.path.as_deref().ok_or_else(|| NotLocal::shard("the shard has no path"))?;
    let shown = path.display();
    if let Some(version) = place.cached {
        let filtered = place.whole.map(|whole| (whole, place.index));
        let opened = open_cached(path, version, entry, filtered, roots)?;
        return Ok(opened.with_entries(place.entries));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if !is_of_file(&entry.name, &name)
        || !has_size(&place, entry.bytes)
        || place.index.digest() != entry.digest
    {
        let reason = format!("`{shown}` is not the shard `{}` of the manifest", entry.name);
        return Err(NotLocal::shard(reason));
    }
    let real = allowed(path, roots)?;
    let file = ShardFile::open(&real).map_err(|error| {
        let concerns = if error.is_shortage() { Concerns::Read } else { Concerns::Shard };
        NotLocal { reason: error.to_string(), concerns }
    })?;
    let there = FileIdentity {
        device: place.device,
        inode: place.inode,
        bytes: place.bytes,
        modified_ns: place.modified_ns,
    };
    if file.identity() != there {
        return Err(NotLocal::shard(format!("`{shown}` is another file here")));
    }
    let shard = IndexedShard::new(Arc::new(file), place.index)
        .ok_or_else(|| NotLocal::shard("its index does not fit"))?;
    Ok(shard.with_entries(place.entries))
}

/// Whether a shard lies in a file of that name: it is called as the file is, or as one of several in it
/// (`a.npy#3`), or as a file of a folder (`photos/shard.00000.mds`).
fn is_of_file(shard: &str, file: &str) -> bool {
    let last = shard.rsplit_once('/').map_or(shard, |(_, last)| last);
    last.strip_prefix(file).is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
}

/// Whether a shard can have that many bytes by its manifest: those of its fields or, where it has its file
/// to itself, of the file.
fn has_size(place: &ShardPlace, bytes: u64) -> bool {
    let fields = place.index.field_bytes();
    bytes == fields || bytes == fields.max(place.bytes)
}

/// Opens a shard in the host's cache. Its key follows from the manifest's digest, so that no other shard's entry is taken
/// for it; for one that is `filtered`, from its digest with all samples, and the node says which of them stay.
fn open_cached(
    path: &Path,
    version: Digest,
    entry: &ShardEntry,
    filtered: Option<(Digest, ShardIndex)>,
    roots: &[PathBuf],
) -> Result<IndexedShard, NotLocal> {
    // Entries come and go.
    let passing = |reason: String| NotLocal { reason, concerns: Concerns::Read };
    let real = allowed(path, roots).map_err(|not_local| match path.symlink_metadata() {
        Err(_) if path.parent().is_some_and(Path::exists) => passing(not_local.reason),
        _ => not_local,
    })?;
    let (digest, only) = match filtered {
        Some((whole, only)) => (whole, Some(only)),
        None => (entry.digest, None),
    };
    let key = cached_shard_key(digest, version);
    let opened = CachedObject::open(&real, key, version);
    let object = opened.map_err(|error| passing(error.to_string()))?;
    let index = only.or_else(|| object.index()).filter(|index| index.samples() == entry.samples);
    let unfit = || passing(format!("`{}` holds no index of this shard", path.display()));
    let index = index.ok_or_else(unfit)?;
    IndexedShard::new(Arc::new(object), index).ok_or_else(unfit)
}

/// Where a path leads, all links and `..` followed, if that is in one of the folders.
fn allowed(path: &Path, roots: &[PathBuf]) -> Result<PathBuf, NotLocal> {
    if !path.is_absolute() {
        return Err(NotLocal::shard(format!("`{}` is no absolute path", path.display())));
    }
    // Looked up first: a folder that is not there allows nothing.
    let roots = roots.iter().filter_map(|root| root.canonicalize().ok());
    let roots: Vec<PathBuf> = roots.collect();
    if roots.is_empty() {
        return Err(NotLocal::dataset(
            "no folder of this host may be read: set `augment.local_roots`, or name the datasets with \
             their shards in this worker's configuration too",
        ));
    }
    let real = path.canonicalize().map_err(|error| NotLocal::because(path, &error))?;
    if roots.iter().any(|root| real.starts_with(root)) {
        return Ok(real);
    }
    // Others may lie elsewhere: one that is unpacked, beside files that are read where they are.
    Err(NotLocal::shard(format!(
        "`{}` is in none of the folders that may be read: add its folder to `augment.local_roots`",
        path.display()
    )))
}

#[cfg(test)]
mod tests {
    use headwater_core::ShardIndexBuilder;

    use super::*;

    #[test]
    fn only_the_very_file_of_the_manifest_in_an_allowed_folder_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tar");
        std::fs::write(&path, [0; 100]).unwrap();
        let identity = FileIdentity::of(&path.metadata().unwrap());
        let mut index = ShardIndexBuilder::default();
        index.sample("k").unwrap();
        index.field("jpg", 20, 70).unwrap();
        let index = index.finish();
        let digest = index.digest();
        let entry = ShardEntry { name: "a.tar".to_owned(), samples: 1, bytes: 100, digest };
        let place = || ShardPlace {
            host_id: host_id().to_owned(),
            path: Some(path.clone()),
            device: identity.device,
            inode: identity.inode,
            bytes: identity.bytes,
            modified_ns: identity.modified_ns,
            cached: None,
            whole: None,
            index: index.clone(),
            entries: None,
        };
        let roots = [folder.path().to_owned()];
        let reason = |place| open(place, &entry, &roots).map(|_| ()).err().unwrap().reason;
        assert!(open(place(), &entry, &roots).is_ok());
        assert!(reason(ShardPlace { host_id: "other".to_owned(), ..place() }).contains("host"));
        assert!(reason(ShardPlace { path: None, ..place() }).contains("no path"));
        assert!(reason(ShardPlace { inode: identity.inode + 1, ..place() }).contains("another"));
        assert!(reason(ShardPlace { device: identity.device + 1, ..place() }).contains("another"));
        assert!(reason(ShardPlace { modified_ns: 1, ..place() }).contains("another"));
        assert!(reason(ShardPlace { bytes: 99, ..place() }).contains("of the manifest"));
        assert!(reason(ShardPlace { path: Some("a.tar".into()), ..place() }).contains("absolute"));
        let missing = Some("/nowhere/a.tar".into());
        assert!(reason(ShardPlace { path: missing, ..place() }).contains("/nowhere/a.tar"));

        // What is wrong with one shard says nothing about the others.
        let concerns = |place| open(place, &entry, &roots).map(|_| ()).err().unwrap().concerns;
        assert_eq!(concerns(ShardPlace { path: None, ..place() }), Concerns::Shard);
        assert_eq!(concerns(ShardPlace { modified_ns: 1, ..place() }), Concerns::Shard);
        let elsewhere = |path: &Path| ShardPlace { path: Some(path.to_owned()), ..place() };
        assert_eq!(concerns(elsewhere(Path::new("/nowhere/a.tar"))), Concerns::Dataset);
        let evicted = ShardPlace { cached: Some(Digest(1)), ..elsewhere(&folder.path().join("e")) };
        assert_eq!(concerns(evicted), Concerns::Read);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(concerns(place()), Concerns::Shard);
        std::fs::write(&path, [0; 100]).unwrap();

        // Another index than the manifest's, though it lies within the file.
        let mut other = ShardIndexBuilder::default();
        other.sample("k").unwrap();
        other.field("jpg", 0, 100).unwrap();
        let other = other.finish();
        assert!(reason(ShardPlace { index: other, ..place() }).contains("of the manifest"));
    }

    #[test]
    fn no_file_outside_the_folders_is_read_whatever_leads_there() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let secret = outside.path().join("a.tar");
        std::fs::write(&secret, b"secret").unwrap();
        let link = inside.path().join("a.tar");
        std::os::unix::fs::symlink(&secret, &link).unwrap();
        let dots = inside.path().join("..").join(outside.path().file_name().unwrap()).join("a.tar");
        let roots = [inside.path().to_owned()];
        for path in [&secret, &link, &dots] {
            let refused = allowed(path, &roots).err().unwrap();
            assert!(refused.reason.contains("`augment.local_roots`"), "{}", refused.reason);
            assert_eq!(refused.concerns, Concerns::Shard);
            assert!(allowed(path, &[]).err().unwrap().reason.contains("no folder"));
            assert!(allowed(path, &["/nowhere".into()]).is_err());
        }
        let real = secret.canonicalize().unwrap();
        assert_eq!(allowed(&link, &[outside.path().to_owned()]).ok(), Some(real));
    }
}
