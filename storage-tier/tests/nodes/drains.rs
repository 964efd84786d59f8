//! A node that is asked to stop finishes what it has begun and sends callers to the next.

use headwater_storage::{RequestConfig, StorageConfig};
use headwater_storage_client::StorageClientConfig;

use super::{dataset, read, shards};
use crate::support::Node;
use crate::support::counted::Counts;
use crate::support::gate::Gate;

const SHARDS: u32 = 16;
const SERVED: &str = "headwater_storage_served_samples_total";

#[tokio::test]
async fn a_node_that_ends_finishes_its_answers_and_nobody_counts_it_as_failed() {
    let counts = Counts::new();
    counts.count_on_this_thread();
    let (_folder, config) = shards(SHARDS, 500);
    let (mut ending, other) = (Node::start(config.clone()), Node::start(config));
    let gate = Gate::to(&ending.address).await;
    // Slow callers are not hedged here.
    let config = || StorageClientConfig {
        hedge_ms: 0,
        answer_timeout_ms: 600_000,
        ..StorageClientConfig::default()
    };
    // One whose answers are held, and one that only this node can serve; both share its shards.
    let held = dataset(&[&gate.address], config()).await;
    let reads = dataset(&[&ending.address, &other.address], config()).await;
    let mut samples = Vec::new();
    for shard in 0..SHARDS {
        samples.push(read(&reads, shard).await);
    }
    let before = ending.counts.of(SERVED, "");
    assert!(before > 0 && other.counts.of(SERVED, "") > 0, "one node has all shards: no test");
    gate.close();
    let begun = tokio::spawn(async move { read(&held, 0).await });
    ending.counts.becomes(SERVED, "", before + 2).await;

    ending.ask_to_stop();
    let before = other.counts.of(SERVED, "");
    let mut drained = 0;
    while drained == 0 {
        for shard in 0..SHARDS {
            assert_eq!(read(&reads, shard).await, samples[shard as usize]);
        }
        assert_eq!(counts.of("headwater_storage_node_failures_total", ""), 0);
        drained = counts.of("headwater_storage_node_drains_total", "");
    }
    assert!(other.counts.of(SERVED, "") > before);
    assert_eq!(drained, 1, "told once");
    assert!(ending.counts.of("headwater_storage_refused_requests_total", "draining") > 0);

    gate.open();
    assert_eq!(begun.await.unwrap(), samples[0], "what was begun is finished");
    ending.ended().await;
    for shard in 0..SHARDS {
        assert_eq!(read(&reads, shard).await, samples[shard as usize]);
    }
    assert_eq!(counts.of("headwater_storage_node_failures_total", ""), 0, "asked last for a while");
}

#[tokio::test]
async fn a_caller_that_does_not_read_does_not_keep_a_node() {
    // More than sockets hold, and nobody but the drain breaks the answer off.
    let (_folder, config) = shards(1, 20 << 20);
    let requests = RequestConfig {
        drain_timeout_ms: 50,
        answer_timeout_ms: 600_000,
        ..RequestConfig::default()
    };
    let mut node = Node::start(StorageConfig { requests, ..config });
    let gate = Gate::to(&node.address).await;
    let held = dataset(&[&gate.address], StorageClientConfig::default()).await;
    gate.close();
    let begun = tokio::spawn(async move { read(&held, 0).await });
    node.counts.becomes("headwater_storage_reads_in_flight", "", 1).await;
    node.ask_to_stop();
    node.ended().await;
    begun.abort();
}
