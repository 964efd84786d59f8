//! Shards that lie on this host and are visible here as the same files.

use std::path::Path;

use headwater_core::Digest;
use headwater_proto::storage::{ShardPlace, ShardQuery};

use crate::node::Node;
use crate::{FileIdentity, MapError, MappedShard, OpenShards, ShardMap, host_id, metrics};

/// The shards mapped so far.
#[derive(Debug)]
pub(crate) struct LocalShards {
    /// By manifest and number of the shard.
    shards: OpenShards<(Digest, u32), MappedShard>,
}

// === impl LocalShards ===

impl LocalShards {
    pub(crate) fn new(limit: usize) -> Self {
        Self { shards: OpenShards::new(limit) }
    }

    /// The shard as a map; `None` where no connected node of this host has it, or its file is not
    /// visible here.
    pub(crate) async fn get(&self, nodes: &[&Node], query: &ShardQuery) -> Option<MappedShard> {
        let key = (query.manifest, query.shard);
        let found = self.shards.get_or_open(key, find(nodes, query)).await;
        metrics::mapped_shards(self.shards.len());
        found.ok()
    }

    /// Lets go of a shard that could not be read.
    pub(crate) fn forget(&self, query: &ShardQuery) {
        self.shards.forget(&(query.manifest, query.shard));
    }
}

/// The shard cannot be mapped: it is to be read over gRPC, and if something is wrong with it, that
/// way meets it too and tells the caller.
struct NotLocal;

async fn find(nodes: &[&Node], query: &ShardQuery) -> Result<MappedShard, NotLocal> {
    for node in nodes {
        if !node.may_be_mapped(host_id()) {
            continue;
        }
        let Ok(place) = node.locate(query).await else {
            continue;
        };
        let opened = tokio::task::spawn_blocking(move || open(place)).await;
        match opened.unwrap_or_else(|panic| Err(panic.to_string())) {
            Ok(shard) => return Ok(shard),
            Err(reason) if node.set_unmappable() => {
                let node = node.address();
                tracing::info!(node, reason, "node is on this host, but is read over grpc");
            }
            Err(_) => {}
        }
    }
    Err(NotLocal)
}

/// Maps a shard, if it is the very file that the node has. The reason, if not.
fn open(place: ShardPlace) -> Result<MappedShard, String> {
    if place.host_id != host_id() {
        return Err("its host id changed".to_owned());
    }
    let path = place.path.as_deref().ok_or("the shard has no path")?;
    let map = ShardMap::open(path).map_err(|error| not_visible(path, &error))?;
    let FileIdentity { device, inode, bytes, .. } = map.identity();
    if (device, inode, bytes) != (place.device, place.inode, place.bytes) {
        return Err(format!("`{}` is another file here", path.display()));
    }
    MappedShard::new(map, place.index).ok_or_else(|| "its index does not fit".to_owned())
}

fn not_visible(path: &Path, error: &MapError) -> String {
    match error {
        MapError::Open { source, .. } => format!("`{}`: {source}", path.display()),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use headwater_core::ShardIndexBuilder;

    use super::*;

    #[test]
    fn only_the_very_same_file_is_mapped() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(100).unwrap();
        let identity = FileIdentity::of(&file.as_file().metadata().unwrap());
        let place = || ShardPlace {
            host_id: host_id().to_owned(),
            path: Some(file.path().to_owned()),
            device: identity.device,
            inode: identity.inode,
            bytes: identity.bytes,
            index: ShardIndexBuilder::default().finish(),
        };
        let reason = |place| open(place).map(|_| ()).unwrap_err();
        assert!(open(place()).is_ok());
        assert!(reason(ShardPlace { host_id: "other".to_owned(), ..place() }).contains("host"));
        assert!(reason(ShardPlace { path: None, ..place() }).contains("no path"));
        assert!(reason(ShardPlace { inode: identity.inode + 1, ..place() }).contains("another"));
        assert!(reason(ShardPlace { device: identity.device + 1, ..place() }).contains("another"));
        assert!(reason(ShardPlace { bytes: 99, ..place() }).contains("another"));
        let missing = Some("/nowhere/a.tar".into());
        assert!(reason(ShardPlace { path: missing, ..place() }).contains("/nowhere/a.tar"));
        let mut index = ShardIndexBuilder::default();
        index.sample("k").unwrap();
        index.field("jpg", 90, 11).unwrap();
        assert!(reason(ShardPlace { index: index.finish(), ..place() }).contains("does not fit"));
    }
}
