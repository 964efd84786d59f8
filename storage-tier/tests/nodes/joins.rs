//! A node that is added takes its share of the shards, and nothing else moves.

use headwater_storage_client::{Dataset, StorageClientConfig};

use super::{dataset, read, shards};
use crate::support::Node;

const SHARDS: u32 = 256;
const SERVED: &str = "headwater_storage_served_samples_total";

/// Which node each shard is read from.
async fn readers(dataset: &Dataset, nodes: &[Node]) -> Vec<usize> {
    let mut readers = Vec::new();
    for shard in 0..SHARDS {
        let before: Vec<u64> = nodes.iter().map(|node| node.counts.of(SERVED, "")).collect();
        assert_eq!(read(dataset, shard).await.len(), 2);
        let served = |at: &usize| nodes[*at].counts.of(SERVED, "") > before[*at];
        let by: Vec<usize> = (0..nodes.len()).filter(served).collect();
        assert_eq!(by.len(), 1, "shard {shard} is read from {by:?}");
        readers.extend(by);
    }
    readers
}

#[tokio::test]
async fn a_node_added_to_three_is_read_from_for_a_quarter_of_the_shards() {
    let (_folder, config) = shards(SHARDS, 100);
    let nodes = [(); 4].map(|()| Node::start(config.clone()));
    let addresses: Vec<&str> = nodes.iter().map(|node| node.address.as_str()).collect();
    let config = || StorageClientConfig { hedge_ms: 0, ..StorageClientConfig::default() };
    let before = readers(&dataset(&addresses[..3], config()).await, &nodes).await;
    let after = readers(&dataset(&addresses, config()).await, &nodes).await;
    let moved = before.iter().zip(&after).filter(|(before, after)| before != after);
    assert!(moved.clone().all(|(_, after)| *after == 3), "a shard moved between the old nodes");
    // A quarter, within six standard deviations of the binomial distribution: ports are drawn.
    let moved = moved.count();
    assert!((22..=106).contains(&moved), "{moved} of {SHARDS} shards moved");
}
