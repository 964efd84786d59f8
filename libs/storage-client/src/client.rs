//! Reading from all storage nodes: which one is asked, and what happens when it fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use headwater_core::{Backoff, Digest, Digester, Manifest, ShardEntry};
use headwater_proto::storage::{
    EncodedSample, FieldSelection, PLAN_SHARDS_MAX, ReadQuery, ShardPlan, ShardQuery,
    StorageFailure,
};
use headwater_trace::{Context, Span, Tier};
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::time::{Instant, sleep};

use crate::hedging::Hedging;
use crate::local::LocalShards;
use crate::metrics::{ReadCounts, Way};
use crate::node::Node;
use crate::nodes::{Nodes, order};
use crate::round::ask_in_order;
use crate::{
    BytesRead, IndexedShard, LocalFiles, ShardReadError, StorageClientConfig, StorageClientError,
    metrics,
};

/// Pauses between rounds of tries.
const BACKOFF: Backoff =
    Backoff { first: Duration::from_millis(50), longest: Duration::from_secs(3) };
/// The same where a node is there but at its limit: it is asked again sooner.
const BACKOFF_OVERLOADED: Backoff =
    Backoff { first: Duration::from_millis(50), longest: Duration::from_millis(200) };

/// A reader of storage nodes. Cheap to clone; clones share connections and open shards.
#[derive(Clone, Debug)]
pub struct StorageClient {
    inner: Arc<Inner>,
}

/// One dataset as a reader sees it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Dataset {
    client: StorageClient,
    manifest: Arc<Manifest>,
}

#[derive(Debug)]
struct Inner {
    config: StorageClientConfig,
    nodes: Arc<Nodes>,
    local: LocalShards,
    counts: ReadCounts,
    hedging: Option<Hedging>,
    /// By which nodes know this client's plans from others'.
    caller: Digest,
    /// Counts pauses, so that no two are alike.
    pauses: AtomicU64,
}

// === impl StorageClient ===

impl StorageClient {
    /// Finds the nodes, connects to them and says hello. Done as soon as each node was tried and at
    /// least one answered; the others are tried again when they are needed. While none answers, it
    /// tries again for up to `wait_limit_ms`. Nodes that are found by name or file may come and go
    /// later.
    ///
    /// # Errors
    /// A bad configuration, a node of another wire version, or no answer within the limit.
    pub async fn connect(config: StorageClientConfig) -> Result<Self, StorageClientError> {
        config.validate()?;
        let nodes = Nodes::find(&config).await?;
        metrics::describe_metrics();
        let local = LocalShards::new(config.local_shards_max, config.local_roots.clone());
        let inner = Inner {
            hedging: Hedging::new(config.hedge_ms, config.hedge_percent),
            config,
            nodes,
            local,
            counts: ReadCounts::default(),
            caller: draw_caller(),
            pauses: AtomicU64::new(0),
        };
        let client = Self { inner: Arc::new(inner) };
        // Later ones are named in the log; here the first that answers is enough.
        let nodes = client.inner.nodes.now();
        futures::future::join_all(nodes.iter().map(|node| node.hello())).await;
        let hello = |node: Arc<Node>| async move { node.hello().await };
        client.inner.on_some_node(Digest(0), None, hello).await?;
        Ok(client)
    }

    /// The manifest of a dataset; its digest was computed anew and compared.
    ///
    /// # Errors
    /// No node serves the dataset, or none answers.
    pub async fn manifest(&self, dataset: &str) -> Result<Manifest, StorageClientError> {
        let dataset: Arc<str> = dataset.into();
        let ask = move |node: Arc<Node>| {
            let dataset = dataset.clone();
            async move { node.manifest(&dataset).await }
        };
        self.inner.on_some_node(Digest(0), None, ask).await
    }

    /// A handle for reading samples of a dataset, as its manifest numbers them. Does not ask the
    /// nodes: a dataset that they do not serve shows at the first read.
    #[must_use]
    pub fn dataset(&self, manifest: Arc<Manifest>) -> Dataset {
        Dataset { client: self.clone(), manifest }
    }

    /// Bytes of sample data read so far, by way.
    #[must_use]
    pub fn bytes_read(&self) -> BytesRead {
        self.inner.counts.bytes()
    }
}

// === impl Dataset ===

impl Dataset {
    /// What the dataset consists of.
    #[must_use]
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// Samples of one shard, in the order asked for; of each, the fields wanted that it has, or the
    /// verdict on it. Cancel-safe. What one node, or this host, cannot read is asked of the next; so is,
    /// within `hedge_percent`, what one node takes long to answer.
    ///
    /// # Errors
    /// Unknown dataset, another manifest, no such shard or sample; or no node can read it for
    /// `wait_limit_ms`. Only the last of these may be retried. None of them says anything about a
    /// sample.
    pub async fn read(
        &self,
        shard: u32,
        indices: &[u32],
        fields: &FieldSelection,
    ) -> Result<Vec<EncodedSample>, StorageClientError> {
        Ok(self.read_timed(shard, indices, fields, (false, None)).await?.0)
    }

    /// As [`Dataset::read`], as a part of a span, where `within` is one; with how long of it a distant source
    /// was waited for, or a copy into the host's cache. With `again` the samples looked broken: what a distant
    /// source has is read from there anew, over another connection.
    ///
    /// # Errors
    /// As for [`Dataset::read`].
    pub async fn read_timed(
        &self,
        shard: u32,
        indices: &[u32],
        fields: &FieldSelection,
        (again, within): (bool, Option<Context>),
    ) -> Result<(Vec<EncodedSample>, Duration), StorageClientError> {
        let Some(first) = indices.first() else { return Ok(Default::default()) };
        let started = Instant::now();
        let inner = &self.client.inner;
        let entry = self.manifest.shards().get(shard as usize);
        let beyond = |index: &&u32| entry.is_none_or(|entry| **index >= entry.samples);
        let (Some(entry), None) = (entry, indices.iter().find(beyond)) else {
            let dataset = self.manifest.dataset().to_owned();
            let index = *indices.iter().find(beyond).unwrap_or(first);
            return Err(StorageClientError::NoSample { dataset, shard, index });
        };
        let mut span = Span::on_lane(Tier::Storage, "read samples", "storage read").within(within);
        span.arg_with("dataset", || self.manifest.dataset().to_owned());
        span.arg_with("shard", || entry.name.clone());
        let read = self.read_file(shard, entry, indices, (fields, again)).await;
        let ((samples, fetch), way) = match read {
            Some(read) => (read, Way::File),
            None => {
                let query = Arc::new(ReadQuery {
                    dataset: self.manifest.dataset().to_owned(),
                    manifest: self.manifest.digest(),
                    shard,
                    indices: indices.to_vec(),
                    fields: fields.clone(),
                    again,
                });
                let shard_bytes = entry.bytes;
                let of_span = span.context();
                let read = move |node: Arc<Node>| {
                    let query = query.clone();
                    async move { node.read(&query, shard_bytes, of_span).await }
                };
                let (place, hedging) = (self.place_of(shard), inner.hedging.as_ref());
                (inner.on_some_node(place, hedging, read).await?, Way::Grpc)
            }
        };
        let bytes = inner.counts.add(way, &samples, started.elapsed());
        span.arg("samples", samples.len());
        span.arg("bytes", bytes);
        span.arg("way", way.name());
        Ok((samples, fetch))
    }

    /// Tells the nodes which shards are wanted next, soonest first; of more than [`PLAN_SHARDS_MAX`]
    /// the first. That takes the place of what this client and its clones said of the dataset before.
    /// Each node hears of the shards that are its own, and of those of a node that fails, in their order.
    ///
    /// Nothing depends on it: callers may pass over any failure. Those of the nodes that did not hear
    /// are returned.
    pub async fn prefetch(&self, shards: &[u32]) -> Vec<StorageClientError> {
        let shards = &shards[..shards.len().min(PLAN_SHARDS_MAX)];
        let nodes = self.client.inner.nodes.now();
        let mut failures = Vec::new();
        let mut deaf = vec![false; nodes.len()];
        let mut told: Vec<Option<Vec<u32>>> = vec![None; nodes.len()];
        loop {
            let plans = self.divide(&nodes, shards, &deaf);
            let news = plans.into_iter().enumerate().filter(|(at, plan)| {
                // One that failed a moment ago has nothing to forget that would be worth a wait.
                let idle = plan.is_empty() && nodes[*at].is_resting();
                !deaf[*at] && !idle && told[*at].as_ref() != Some(plan)
            });
            let tell = |(at, plan): (usize, Vec<u32>)| {
                let told = self.tell(&nodes[at], plan.clone());
                async move { (at, plan, told.await) }
            };
            let heard = futures::future::join_all(news.map(tell)).await;
            if heard.is_empty() {
                return failures;
            }
            for (at, plan, heard) in heard {
                match heard {
                    Ok(()) => told[at] = Some(plan),
                    Err(error) => {
                        deaf[at] = true;
                        failures.push(error);
                    }
                }
            }
        }
    }

    /// Which shards each node hears of, in their order; none where all are deaf.
    fn divide(&self, nodes: &[Arc<Node>], shards: &[u32], deaf: &[bool]) -> Vec<Vec<u32>> {
        let mut plans: Vec<Vec<u32>> = vec![Vec::new(); nodes.len()];
        for &shard in shards {
            let order = order(nodes, self.place_of(shard));
            if let Some(at) = order.into_iter().find(|&at| !deaf[at]) {
                plans[at].push(shard);
            }
        }
        plans
    }

    async fn tell(&self, node: &Node, shards: Vec<u32>) -> Result<(), StorageClientError> {
        let dataset = self.manifest.dataset().to_owned();
        let (manifest, caller) = (self.manifest.digest(), self.client.inner.caller);
        node.prefetch(ShardPlan { dataset, manifest, caller, shards }).await
    }

    /// From the shard's file, where it lies on this host. `None`: the nodes are to be asked, also
    /// where the file cannot be read now.
    async fn read_file(
        &self,
        shard: u32,
        entry: &ShardEntry,
        indices: &[u32],
        (fields, again): (&FieldSelection, bool),
    ) -> Option<(Vec<EncodedSample>, Duration)> {
        let started = Instant::now();
        let opened = self.local_shard(shard, entry).await?;
        if again && opened.object().file().is_none() {
            return None; // A copy.
        }
        // What lies in the cache was fetched, or is it only now.
        let was_fetched = opened.object().cached().is_some();
        let fetch = if was_fetched { started.elapsed() } else { Duration::ZERO };
        let (indices, fields) = (indices.to_vec(), fields.clone());
        let read = tokio::task::spawn_blocking(move || opened.read(&indices, &fields)).await;
        let error: ShardReadError = match read {
            Ok(Ok(samples)) => return Some((samples, fetch)),
            Ok(Err(error)) => error,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        };
        self.client.inner.local.forget(&self.shard_query(shard));
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        tracing::warn!(%error, cause, "a shard's file cannot be read here: nodes are asked for it");
        None
    }

    async fn local_shard(&self, shard: u32, entry: &ShardEntry) -> Option<IndexedShard> {
        let inner = &self.client.inner;
        if inner.config.local_files == LocalFiles::Off {
            return None;
        }
        let nodes = inner.nodes.now();
        let order = order(&nodes, self.place_of(shard));
        let ordered: Vec<&Node> = order.into_iter().map(|at| &*nodes[at]).collect();
        inner.local.get(&ordered, &self.shard_query(shard), entry).await
    }

    fn shard_query(&self, shard: u32) -> ShardQuery {
        let dataset = self.manifest.dataset().to_owned();
        ShardQuery { dataset, manifest: self.manifest.digest(), shard }
    }

    /// What decides which node a shard belongs to; the same for all callers.
    fn place_of(&self, shard: u32) -> Digest {
        let mut digester = Digester::new("headwater shard place 1");
        digester.bytes(&self.manifest.digest().to_bytes()).number(shard.into()).finish()
    }
}

// === impl Inner ===

impl Inner {
    /// Asks the nodes until one gives an answer ([`ask_in_order`]). Where all failed and one of them
    /// for good, that is the error; where all may be tried again, they are, until the limit.
    async fn on_some_node<T, F>(
        &self,
        place: Digest,
        hedging: Option<&Hedging>,
        ask: impl Fn(Arc<Node>) -> F,
    ) -> Result<T, StorageClientError>
    where
        F: Future<Output = Result<T, StorageClientError>>,
    {
        let started = Instant::now();
        let mut rounds = 0;
        loop {
            // Others may be there in the next round.
            let nodes = self.nodes.now();
            let ordered: Vec<_> = order(&nodes, place).into_iter().map(|at| &nodes[at]).collect();
            let error = match ask_in_order(&ordered, hedging, &ask).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if !error.is_retryable() {
                return Err(error);
            }
            rounds += 1;
            let overloaded = error.kind() == StorageFailure::Overloaded;
            let pause = self.pause(if overloaded { BACKOFF_OVERLOADED } else { BACKOFF }, rounds);
            if started.elapsed() + pause > self.config.wait_limit() {
                return Err(self.gave_up(started, error));
            }
            if rounds == 1 {
                let limit_ms = self.config.wait_limit_ms;
                tracing::warn!(error = %error, limit_ms, "no storage node can answer, trying again");
            }
            sleep(pause).await;
        }
    }

    /// The pause after a round in which no node answered. Which one it is has no bearing on what is
    /// read.
    fn pause(&self, backoff: Backoff, rounds: u32) -> Duration {
        let count = self.pauses.fetch_add(1, Ordering::Relaxed);
        let process = u64::from(std::process::id());
        let draw = Digester::new("headwater pause").number(process).number(count).finish();
        backoff.pause(rounds, draw)
    }

    fn gave_up(&self, started: Instant, error: StorageClientError) -> StorageClientError {
        let nodes = self.nodes.now();
        let addresses: Vec<&str> = nodes.iter().map(|node| node.address()).collect();
        StorageClientError::NoNode {
            nodes: addresses.join(", "),
            waited_ms: started.elapsed().as_millis() as u64,
            limit_key: self.config.wait_limit_key,
            source: Box::new(error),
        }
    }
}

/// A number that no other client has. Without random numbers of the system, which is not seen on any
/// that is in use, it is this process's own.
fn draw_caller() -> Digest {
    let mut drawn = [0; 16];
    let filled = getrandom(&mut drawn[..], GetRandomFlags::NONBLOCK).unwrap_or(0);
    let process = u64::from(std::process::id());
    Digester::new("headwater caller 1").bytes(&drawn[..filled]).number(process).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_send<T: Send>(value: T) -> T {
        value
    }

    #[tokio::test]
    async fn a_client_without_nodes_gives_up_at_its_limit_and_names_them() {
        let nodes = vec!["127.0.0.1:1".to_owned(), "127.0.0.1:2".to_owned()];
        let wait_limit_key = "augment.storage_wait_ms";
        let config =
            StorageClientConfig { nodes, wait_limit_ms: 200, wait_limit_key, ..Default::default() };
        let started = Instant::now();
        let error = assert_send(StorageClient::connect(config)).await.unwrap_err();
        assert!(started.elapsed() < Duration::from_secs(60));
        assert!(error.is_retryable());
        let error = error.to_string();
        assert!(error.contains("127.0.0.1:1, 127.0.0.1:2"), "{error}");
        assert!(error.ends_with("or raise `augment.storage_wait_ms`"), "{error}");
    }

    #[allow(dead_code)]
    fn reads_can_be_spawned(dataset: Dataset, client: StorageClient) {
        drop(assert_send(async move {
            client.manifest("d").await.unwrap();
            dataset.read(0, &[1], &FieldSelection::all()).await.unwrap();
            dataset.prefetch(&[1]).await;
        }));
    }
}
