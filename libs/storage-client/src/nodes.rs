//! The storage nodes that there are: found at the start, and looked for again and again where they
//! are found by name or file, so that nodes come and go while somebody reads.

use std::sync::{Arc, PoisonError, RwLock, Weak};

use headwater_access::Access;
use headwater_core::{Digest, rendezvous};
use headwater_discovery::{Places, Sight};
use tokio::time::{Duration, Instant, sleep};

use crate::node::Node;
use crate::{StorageClientConfig, StorageClientError};

/// Pause between two looks while an entry gives nothing at the start.
const PAUSE: Duration = Duration::from_millis(500);

/// The nodes in the list's order. Those of one moment: it is never changed, but replaced.
pub(crate) type NodeList = Arc<[Arc<Node>]>;

/// The nodes as they were seen last.
#[derive(Debug)]
pub(crate) struct Nodes {
    config: StorageClientConfig,
    access: Access,
    list: RwLock<NodeList>,
}

// === impl Nodes ===

impl Nodes {
    /// Finds the nodes, and goes on looking where the list may change, for as long as the value is
    /// held.
    ///
    /// # Errors
    /// Certificates or token cannot be used; an entry gives no address within the limit.
    pub(crate) async fn find(
        config: &StorageClientConfig,
    ) -> Result<Arc<Self>, StorageClientError> {
        let (places, addresses) = find_nodes(&config.nodes, config.wait_limit()).await?;
        let access = Access::open(&config.access)?;
        let list = RwLock::new(Arc::from([]));
        let nodes = Arc::new(Self { config: config.clone(), access, list });
        nodes.set(&addresses);
        if places.change() {
            tokio::spawn(follow(Arc::downgrade(&nodes), places, config.refresh()));
        }
        Ok(nodes)
    }

    /// Those of this moment.
    pub(crate) fn now(&self) -> NodeList {
        Arc::clone(&self.list.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes over a list: who stays keeps his connection, who has left ends with his last read.
    fn set(&self, addresses: &[String]) {
        let before = self.now();
        let known = |address: &String| before.iter().find(|node| node.address() == address);
        let made = |address: &String| Arc::new(Node::new(address, &self.config, &self.access));
        let list = addresses
            .iter()
            .map(|address| known(address).map_or_else(|| made(address), Arc::clone))
            .collect();
        *self.list.write().unwrap_or_else(PoisonError::into_inner) = list;
    }
}

/// The numbers of nodes in the order in which they are asked: as `place` prefers them, those that
/// failed a moment ago last.
pub(crate) fn order(nodes: &[Arc<Node>], place: Digest) -> Vec<usize> {
    let addresses: Vec<&str> = nodes.iter().map(|node| node.address()).collect();
    let mut order = rendezvous(place, &addresses);
    order.sort_by_key(|&at| nodes[at].is_resting());
    order
}

/// Looks again until nobody holds the nodes any more.
async fn follow(nodes: Weak<Nodes>, mut places: Places, every: Duration) {
    let mut told = Vec::new();
    loop {
        sleep(every).await;
        // Before the look as after it: a name server may take its time.
        if nodes.strong_count() == 0 {
            return;
        }
        let Sight { addresses, troubles } = look(&mut places).await;
        let Some(nodes) = nodes.upgrade() else { return };
        for trouble in troubles.iter().filter(|trouble| !told.contains(*trouble)) {
            tracing::warn!(error = %trouble, "storage nodes stay as they were found before");
        }
        told = troubles;
        let before = nodes.now();
        if !before.iter().map(|node| node.address()).eq(addresses.iter().map(String::as_str)) {
            tracing::info!(nodes = addresses.join(","), "other storage nodes found");
            nodes.set(&addresses);
        }
    }
}

/// The addresses of a list. All its entries must give some: a list that is not whole would divide
/// the shards otherwise than everybody else's does. Waits for them up to `limit`.
async fn find_nodes(
    entries: &[String],
    limit: Duration,
) -> Result<(Places, Vec<String>), StorageClientError> {
    let mut places = Places::parse(entries)?;
    let until = Instant::now() + limit;
    let mut told = false;
    loop {
        let Sight { addresses, mut troubles } = look(&mut places).await;
        let Some(trouble) = troubles.pop() else {
            if places.change() {
                tracing::info!(nodes = addresses.join(","), "storage nodes found");
            }
            return Ok((places, addresses));
        };
        if Instant::now() + PAUSE > until {
            return Err(trouble.into());
        }
        if !std::mem::replace(&mut told, true) {
            tracing::warn!(error = %trouble, "storage nodes not found yet, looking again");
        }
        sleep(PAUSE).await;
    }
}

/// One look, on a thread that may block.
async fn look(places: &mut Places) -> Sight {
    let mut moved = places.clone();
    let looked = tokio::task::spawn_blocking(move || (moved.look(), moved)).await;
    let (sight, moved) =
        looked.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
    *places = moved;
    sight
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_list_that_is_not_whole_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nodes");
        let entries = ["n[0-1]:1".to_owned(), format!("file:{}", path.display())];
        let error = find_nodes(&entries, Duration::ZERO).await.unwrap_err();
        assert!(error.is_retryable() && error.to_string().contains("`file:"), "{error}");

        let writer = tokio::spawn(async move {
            sleep(Duration::from_millis(50)).await;
            std::fs::write(path, "late:1\n").unwrap();
        });
        let (_, found) = find_nodes(&entries, Duration::from_secs(60)).await.unwrap();
        assert_eq!(found, ["n0:1", "n1:1", "late:1"]);
        writer.await.unwrap();
    }

    #[tokio::test]
    async fn a_node_that_stays_on_the_list_stays_connected_and_nobody_looks_for_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nodes");
        std::fs::write(&path, "a:1\nb:1\n").unwrap();
        let nodes = vec![format!("file:{}", path.display())];
        let config = StorageClientConfig { nodes, refresh_ms: 1, ..Default::default() };
        let nodes = Nodes::find(&config).await.unwrap();
        let before = nodes.now();
        std::fs::write(&path, "b:1\nc:1\n").unwrap();
        let addresses = || nodes.now().iter().map(|n| n.address().to_owned()).collect::<Vec<_>>();
        let changed = async {
            while addresses() != ["b:1", "c:1"] {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(60), changed).await.expect("the new list");
        assert!(Arc::ptr_eq(&nodes.now()[0], &before[1]), "another connection to the same node");
        // A list that is empty for a moment sends nobody away.
        std::fs::write(&path, "").unwrap();
        sleep(Duration::from_millis(50)).await;
        assert_eq!(addresses(), ["b:1", "c:1"]);

        let held = Arc::downgrade(&nodes);
        drop(nodes);
        // The one who looks holds them for a moment at most.
        let gone = async {
            while held.strong_count() > 0 {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(60), gone).await.expect("nobody holds them");
    }
}
