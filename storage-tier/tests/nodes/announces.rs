//! What callers announce is fetched ahead, in room that comes free as they go on; what they take back
//! is not fetched to its end.

use std::fs::{File, OpenOptions};
use std::io::Write;

use headwater_storage::{ReadConfig, StorageConfig};
use headwater_storage_client::StorageClientConfig;

use super::{dataset, shards};
use crate::support::{Node, config, shard};

const OUTCOMES: &str = "headwater_storage_prefetches_total";
const BYTES: &str = "headwater_storage_prefetch_bytes";
const WAITING: &str = "headwater_storage_prefetch_shards_waiting";
const IN_FLIGHT: &str = "headwater_storage_prefetch_shards_in_flight";

#[tokio::test]
async fn as_much_is_fetched_as_there_is_room_and_more_as_the_caller_goes_on() {
    let (_folder, config) = shards(9, 100_000);
    // Four shards, and as much free.
    let reads = ReadConfig { prefetch_bytes: 8 * 450_000, ..ReadConfig::default() };
    let node = Node::start(StorageConfig { reads, ..config });
    let dataset = dataset(&[&node.address], StorageClientConfig::default()).await;
    let bytes: u64 = dataset.manifest().shards()[..4].iter().map(|shard| shard.bytes).sum();
    assert!(dataset.prefetch(&[0, 1, 2, 3, 4, 5]).await.is_empty());
    node.counts.becomes(OUTCOMES, "fetched", 4).await;
    assert_eq!((node.counts.of(BYTES, ""), node.counts.of(WAITING, "")), (bytes, 2));
    assert!(dataset.prefetch(&[2, 3, 4, 5]).await.is_empty());
    node.counts.becomes(OUTCOMES, "fetched", 6).await;
    assert_eq!(node.counts.of(WAITING, ""), 0);
    assert!(dataset.prefetch(&[]).await.is_empty());
    node.counts.becomes(BYTES, "", 0).await;
    assert_eq!(node.counts.of("headwater_storage_prefetch_plans", ""), 0);
}

#[tokio::test]
async fn a_fetch_that_nobody_wants_any_more_is_broken_off() {
    let folder = tempfile::tempdir().unwrap();
    let (large, small) = (folder.path().join("large.tar"), folder.path().join("small.tar"));
    // A sample of a terabyte of zeros, which no disk holds and nobody reads to its end.
    let bytes = 1 << 40;
    let mut header = tar::Header::new_gnu();
    header.set_path("a.bin").unwrap();
    header.set_size(bytes);
    header.set_cksum();
    File::create(&large).unwrap().write_all(header.as_bytes()).unwrap();
    OpenOptions::new().write(true).open(&large).unwrap().set_len(512 + bytes + 1024).unwrap();
    std::fs::write(&small, shard(0, 4, 500)).unwrap();

    let config = config(folder.path(), &[large, small]);
    let reads = ReadConfig { shard_prefetch_window: 1, ..ReadConfig::default() };
    let node = Node::start(StorageConfig { reads, ..config });
    let dataset = dataset(&[&node.address], StorageClientConfig::default()).await;
    assert!(dataset.prefetch(&[0, 1]).await.is_empty());
    node.counts.becomes(IN_FLIGHT, "", 1).await;
    assert!(dataset.prefetch(&[1]).await.is_empty());
    node.counts.becomes(OUTCOMES, "cancelled", 1).await;
    node.counts.becomes(OUTCOMES, "fetched", 1).await;
}
