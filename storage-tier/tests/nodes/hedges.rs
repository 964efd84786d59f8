//! A node that does not answer is overtaken by the next; an error of one hides no answer.

use std::time::Duration;

use headwater_storage_client::{Dataset, EncodedSample, StorageClientConfig};
use tokio::time::timeout;

use super::{dataset, read, shards};
use crate::support::Node;
use crate::support::counted::Counts;
use crate::support::gate::Gate;

const SHARDS: u32 = 16;
const SERVED: &str = "headwater_storage_served_samples_total";
const LIMIT: Duration = Duration::from_secs(60);

struct Setup {
    nodes: [Node; 2],
    gates: [Gate; 2],
    dataset: Dataset,
    /// What is read of each shard.
    samples: Vec<Vec<EncodedSample>>,
    /// A shard that the first node is asked for first.
    of_first: u32,
    counts: Counts,
    _folder: tempfile::TempDir,
}

/// Without hedges a read of a node that is held ends when its connection does: that counts a failure.
async fn setup() -> Setup {
    let counts = Counts::new();
    counts.count_on_this_thread();
    let (folder, config) = shards(SHARDS, 500);
    let nodes = [Node::start(config.clone()), Node::start(config)];
    let gates = [Gate::to(&nodes[0].address).await, Gate::to(&nodes[1].address).await];
    let addresses = [&*gates[0].address, &*gates[1].address];
    let config = StorageClientConfig {
        hedge_ms: 20,
        hedge_percent: 100,
        answer_timeout_ms: 600_000,
        ..StorageClientConfig::default()
    };
    // A hedge of these reads would be counted by a node when it comes to it.
    let unhedged = StorageClientConfig { hedge_percent: 0, ..config.clone() };
    let unhedged = dataset(&addresses, unhedged).await;
    let mut samples = Vec::new();
    let mut of_first = None;
    for shard in 0..SHARDS {
        let before = nodes[0].counts.of(SERVED, "");
        samples.push(read(&unhedged, shard).await);
        of_first = of_first.or((nodes[0].counts.of(SERVED, "") > before).then_some(shard));
    }
    let of_first = of_first.expect("one node has all shards: no test");
    let dataset = dataset(&addresses, config).await;
    Setup { nodes, gates, dataset, samples, of_first, counts, _folder: folder }
}

#[tokio::test]
async fn a_node_that_does_not_answer_is_overtaken() {
    let setup = setup().await;
    setup.gates[0].close();
    for shard in 0..SHARDS {
        let samples = timeout(LIMIT, read(&setup.dataset, shard)).await.expect("is hedged");
        assert_eq!(samples, setup.samples[shard as usize]);
    }
    let won = setup.counts.of("headwater_storage_hedges_won_total", "");
    assert!(won > 0 && won <= setup.counts.of("headwater_storage_hedged_reads_total", ""));
    assert_eq!(setup.counts.of("headwater_storage_node_failures_total", ""), 0);
    // Whoever was overtaken is asked again, over the same connection.
    setup.gates[0].open();
    let before = setup.nodes[0].counts.of(SERVED, "");
    let asked_again = async {
        // On a busy machine it may be overtaken once more.
        for shard in (0..SHARDS).cycle() {
            assert_eq!(read(&setup.dataset, shard).await, setup.samples[shard as usize]);
            if setup.nodes[0].counts.of(SERVED, "") > before {
                return;
            }
        }
    };
    timeout(LIMIT, asked_again).await.expect("it is asked again");
    assert_eq!(setup.counts.of("headwater_storage_node_failures_total", ""), 0);
}

/// Both are asked; one fails, whichever; then the other answers.
#[tokio::test]
async fn an_error_of_one_does_not_hide_the_answer_of_the_other() {
    for failing in 0..2 {
        let setup = setup().await;
        let served = |node: usize| setup.nodes[node].counts.of(SERVED, "");
        let before = [served(0), served(1)];
        setup.gates.iter().for_each(Gate::close);
        let (dataset, shard) = (setup.dataset.clone(), setup.of_first);
        let reading = tokio::spawn(async move { read(&dataset, shard).await });
        for (node, before) in setup.nodes.iter().zip(before) {
            node.counts.becomes(SERVED, "", before + 2).await;
        }
        let failures = "headwater_storage_node_failures_total";
        assert_eq!(setup.counts.of(failures, ""), 0, "both are asked before one has failed");
        setup.gates[failing].cut();
        setup.counts.becomes(failures, "", 1).await;
        assert!(!reading.is_finished());
        setup.gates[1 - failing].open();
        let samples = timeout(LIMIT, reading).await.expect("is answered").unwrap();
        assert_eq!(samples, setup.samples[shard as usize]);
    }
}
