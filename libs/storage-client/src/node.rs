//! One storage node: its connection, and the questions it answers. The only file of this crate
//! that names tonic.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use headwater_access::{Access, Caller, Reached, Taken, call_for_chunks};
use headwater_core::{Digest, Manifest, innermost};
use headwater_proto::identity::{self, Tier};
use headwater_proto::storage::{
    BlockAssembly, EncodedSample, ManifestAssembly, MessageError, READ_SAMPLES_PATH, ReadQuery,
    ShardPlace, ShardPlan, ShardQuery, StorageFailure, StorageWelcome, request_bytes,
};
use headwater_proto::v1::storage_client::StorageClient as Grpc;
use headwater_proto::{MESSAGE_MAX_BYTES, WIRE_VERSION, v1};
use headwater_trace::Context;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tonic::Status;
use tonic::transport::Endpoint;

use crate::answer::{Answer, Refused};
use crate::{StorageClientConfig, StorageClientError, metrics};

/// What one stream may have on its way to us: enough for some blocks, so that the node never waits
/// for our acknowledgement.
const STREAM_WINDOW_BYTES: u32 = 16 << 20;
/// What one connection may have on its way to us.
const CONNECTION_WINDOW_BYTES: u32 = 64 << 20;
/// Larger frames than HTTP/2's 16 KiB save work on both sides.
const FRAME_BYTES: u32 = 1 << 20;
/// A host that is gone is noticed after these two.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// What could not be read as a file is not tried as one again for so long.
const REMOTE: Duration = Duration::from_secs(60);
/// A node that failed is asked last for so long.
const REST: Duration = Duration::from_secs(2);
/// A node that said that it is about to end is asked last for so long.
const REST_DRAINING: Duration = Duration::from_secs(10);

/// A storage node that may or may not be there.
#[derive(Debug)]
pub(crate) struct Node {
    address: String,
    endpoint: Result<Endpoint, String>,
    access: Access,
    connect_timeout: Duration,
    answer_timeout: Duration,
    state: Mutex<State>,
    health: std::sync::Mutex<Health>,
}

/// What is known of a node without waiting for a connection that is being made.
#[derive(Debug, Default)]
struct Health {
    resting_until: Option<Instant>,
    /// Boot id of its host while it is connected.
    host_id: String,
    /// The last connection. What is learned over an older one is no news of the node.
    generation: u64,
    /// Until when a shard, or without a number any of its dataset, is not tried as a file: found out by trying.
    remote: HashMap<(Digest, Option<u32>), Instant>,
    /// Datasets for which the log has said that.
    told: HashSet<Digest>,
    /// It said that it is about to end.
    draining: bool,
}

#[derive(Debug, Default)]
struct State {
    /// Counts connections, so that a late failure does not tear down a new one.
    generation: u64,
    connection: Option<Connection>,
}

/// A connection whose other side said hello and speaks our version.
#[derive(Clone, Debug)]
struct Connection {
    generation: u64,
    grpc: Grpc<Caller>,
    /// The same connection, for what does without tonic's buffers.
    caller: Caller,
    welcome: Arc<StorageWelcome>,
}

// === impl Node ===

impl Node {
    pub(crate) fn new(address: &str, config: &StorageClientConfig, access: &Access) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).map(|endpoint| {
            endpoint
                .connect_timeout(config.connect_timeout())
                .tcp_nodelay(true)
                .initial_stream_window_size(STREAM_WINDOW_BYTES)
                .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
                .max_frame_size(FRAME_BYTES)
                .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
                .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        });
        Self {
            address: address.to_owned(),
            endpoint: endpoint.map_err(|error| error.to_string()),
            access: access.clone(),
            connect_timeout: config.connect_timeout(),
            answer_timeout: config.answer_timeout(),
            state: Mutex::default(),
            health: std::sync::Mutex::default(),
        }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Whether the node failed a moment ago, so that others are asked first.
    pub(crate) fn is_resting(&self) -> bool {
        self.health().resting_until.is_some_and(|until| Instant::now() < until)
    }

    /// Whether the node is connected and runs on the host of that id, and reading the shard as a file has not
    /// failed lately.
    pub(crate) fn may_have_local_file(&self, host_id: &str, manifest: Digest, shard: u32) -> bool {
        let (health, now) = (self.health(), Instant::now());
        let is_remote = |shard| health.remote.get(&(manifest, shard)).is_some_and(|&t| now < t);
        !host_id.is_empty()
            && health.host_id == host_id
            && !is_remote(None)
            && !is_remote(Some(shard))
    }

    /// Does not try to read that shard, or without a number any of the dataset, as a file for [`REMOTE`]; says
    /// whether it is the first of the dataset on this connection.
    pub(crate) fn set_remote(&self, generation: u64, manifest: Digest, shard: Option<u32>) -> bool {
        let (mut health, now) = (self.health(), Instant::now());
        if health.generation != generation {
            return false;
        }
        health.remote.retain(|_, until| now < *until);
        health.remote.insert((manifest, shard), now + REMOTE);
        health.told.insert(manifest)
    }

    /// Connects and says hello, unless that was done.
    pub(crate) async fn hello(&self) -> Result<Arc<StorageWelcome>, StorageClientError> {
        self.connection().await.map(|connection| connection.welcome)
    }

    pub(crate) async fn manifest(&self, dataset: &str) -> Result<Manifest, StorageClientError> {
        let mut connection = self.connection().await?;
        let answer = async {
            let request = v1::ManifestRequest { dataset: dataset.to_owned() };
            let answer = self.in_time(connection.grpc.get_manifest(request)).await?;
            let mut pieces = answer.into_inner();
            let mut assembly = ManifestAssembly::default();
            while let Some(piece) = self.in_time(pieces.message()).await? {
                assembly.push(piece).map_err(Fault::Message)?;
            }
            assembly.finish().map_err(Fault::Message)
        };
        let answer = answer.await;
        self.settle(&connection, answer).await
    }

    /// Samples of a shard of about `shard_bytes` bytes. What is sent beyond those asked for is an error,
    /// and no more of it is read. The node hears of the span that reads them, if there is one.
    pub(crate) async fn read(
        &self,
        query: &ReadQuery,
        shard_bytes: u64,
        span: Option<Context>,
    ) -> Result<(Vec<EncodedSample>, Duration), StorageClientError> {
        let mut connection = self.connection().await?;
        let answer = async {
            let request = request_bytes(&v1::ReadRequest::from(query.clone()));
            let trace = span.map(Context::traceparent);
            let asked = call_for_chunks(&mut connection.caller, READ_SAMPLES_PATH, request, trace);
            let mut chunks = self.in_time(asked).await?;
            let mut blocks = BlockAssembly::default();
            let mut answer = Answer::new(query, shard_bytes);
            // Limited for each block: bytes that trickle in do not keep a read for ever.
            while let Some(block) = self.in_time(next_block(&mut chunks, &mut blocks)).await? {
                answer.push(block).map_err(|refused| Fault::of(refused, query))?;
            }
            answer.finish().map_err(|refused| Fault::of(refused, query))
        };
        let answer = answer.await;
        self.settle(&connection, answer).await
    }

    /// Where a shard lies, and the generation of the connection that says so.
    pub(crate) async fn locate(
        &self,
        query: &ShardQuery,
    ) -> Result<(ShardPlace, u64), StorageClientError> {
        let mut connection = self.connection().await?;
        let generation = connection.generation;
        let answer = async {
            let request = v1::LocateRequest::from(query.clone());
            let reply = self.in_time(connection.grpc.locate_shard(request)).await?;
            ShardPlace::try_from(reply.into_inner()).map_err(Fault::Message)
        };
        let answer = answer.await.map(|place| (place, generation));
        self.settle(&connection, answer).await
    }

    pub(crate) async fn prefetch(&self, plan: ShardPlan) -> Result<(), StorageClientError> {
        let mut connection = self.connection().await?;
        let answer = async {
            let request = v1::PrefetchRequest::from(plan);
            self.in_time(connection.grpc.prefetch(request)).await.map(drop)
        };
        let answer = answer.await;
        self.settle(&connection, answer).await
    }

    async fn connection(&self) -> Result<Connection, StorageClientError> {
        let mut state = self.state.lock().await;
        if let Some(connection) = &state.connection {
            return Ok(connection.clone());
        }
        let generation = state.generation + 1;
        match timeout(self.connect_timeout * 2, self.connect(generation)).await {
            Ok(Ok(connection)) => {
                state.generation = generation;
                state.connection = Some(connection.clone());
                let host_id = connection.welcome.host_id.clone();
                *self.health() = Health { host_id, generation, ..Health::default() };
                let node = &connection.welcome.node;
                tracing::info!(address = self.address, node, "connected to storage node");
                Ok(connection)
            }
            Ok(Err(fault)) => Err(self.failed(generation, fault)),
            Err(_) => Err(self.failed(generation, Fault::TimedOut)),
        }
    }

    async fn connect(&self, generation: u64) -> Result<Connection, Fault> {
        let endpoint = self.endpoint.clone().map_err(Fault::Unreachable)?;
        let connected = self.access.connect(&endpoint).await;
        let Reached { caller, .. } = connected.map_err(|e| Fault::Unreachable(innermost(&e)))?;
        let mut grpc = Grpc::new(caller.clone()).max_decoding_message_size(MESSAGE_MAX_BYTES);
        let hello = v1::StorageHello { wire_version: WIRE_VERSION };
        let welcome = match grpc.hello(hello).await {
            Ok(welcome) => welcome.into_inner(),
            Err(refused) if StorageFailure::of(&refused) == StorageFailure::Draining => {
                return Err(Fault::Status(refused));
            }
            Err(refused) => {
                let instead = identity::instead(caller, Tier::Storage, &refused).await;
                return Err(instead.map_or(Fault::Status(refused), Fault::Mistaken));
            }
        };
        let welcome = StorageWelcome::try_from(welcome).map_err(Fault::Version)?;
        Ok(Connection { generation, grpc, caller, welcome: welcome.into() })
    }

    async fn in_time<T, E: Into<Fault>>(
        &self,
        answer: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Fault> {
        match timeout(self.answer_timeout, answer).await {
            Ok(result) => result.map_err(Into::into),
            Err(_) => Err(Fault::TimedOut),
        }
    }

    async fn settle<T>(
        &self,
        connection: &Connection,
        answer: Result<T, Fault>,
    ) -> Result<T, StorageClientError> {
        let fault = match answer {
            Ok(value) => return Ok(value),
            Err(Fault::TimedOut) if self.answers(connection).await => Fault::Slow,
            Err(fault) => fault,
        };
        let (generation, is_away) = (connection.generation, fault.is_away());
        let error = self.failed(generation, fault);
        if is_away {
            let mut state = self.state.lock().await;
            state.connection.take_if(|connection| connection.generation == generation);
        }
        Err(error)
    }

    /// Whether the node still answers over a connection on which one answer is late: the first copy of a shard
    /// may take minutes.
    async fn answers(&self, connection: &Connection) -> bool {
        let hello = v1::StorageHello { wire_version: WIRE_VERSION };
        let mut grpc = connection.grpc.clone();
        match timeout(self.connect_timeout, grpc.hello(hello)).await {
            Ok(Ok(_)) => true,
            Ok(Err(status)) => !Fault::Status(status).is_away(),
            Err(_) => false,
        }
    }

    /// Counts a failure and puts it into words.
    fn failed(&self, generation: u64, fault: Fault) -> StorageClientError {
        let node = self.address.clone();
        let (is_away, is_slow) = (fault.is_away(), matches!(fault, Fault::Slow));
        let error = match fault {
            Fault::Status(status) => {
                let kind = StorageFailure::of(&status);
                StorageClientError::Node { node, kind, message: status.message().to_owned() }
            }
            Fault::Unreachable(message) => StorageClientError::Node {
                node,
                kind: StorageFailure::Unavailable,
                message: format!("cannot be reached: {message}"),
            },
            Fault::TimedOut => StorageClientError::Node {
                node,
                kind: StorageFailure::TimedOut,
                message: format!("no answer within {} ms", self.answer_timeout.as_millis()),
            },
            Fault::Slow => StorageClientError::Node {
                node,
                kind: StorageFailure::TimedOut,
                message: format!(
                    "no answer within {} ms, though the node is there: its disks or a distant source are slow",
                    self.answer_timeout.as_millis()
                ),
            },
            Fault::TooLarge { samples, limit_bytes } => {
                StorageClientError::AnswerTooLarge { node, samples, limit_bytes }
            }
            Fault::Version(error) => StorageClientError::Node {
                node,
                kind: StorageFailure::WrongVersion,
                message: error.to_string(),
            },
            Fault::Mistaken(message) => {
                StorageClientError::Node { node, kind: StorageFailure::WrongVersion, message }
            }
            Fault::Message(source) => StorageClientError::Message { node, source },
        };
        match error.kind() {
            StorageFailure::Draining => self.drains(generation),
            kind => metrics::node_failed(&self.address, kind),
        }
        let mut health = self.health();
        if generation < health.generation {
            return error;
        }
        let draining = error.kind() == StorageFailure::Draining;
        let resting_until = Some(Instant::now() + if draining { REST_DRAINING } else { REST });
        if is_away {
            let generation = health.generation;
            *health = Health { resting_until, draining, generation, ..Health::default() };
        } else if is_slow {
            health.resting_until = resting_until;
        }
        drop(health);
        error
    }

    /// Tells once that the node is about to end: that is no failure.
    fn drains(&self, generation: u64) {
        let is_news = {
            let health = self.health();
            generation >= health.generation && !health.draining
        };
        if is_news {
            metrics::node_drains(&self.address);
            tracing::info!(address = self.address, "storage node drains: others are asked");
        }
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        // No panic can happen while the lock is held.
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What came of a request, before it is put into words.
enum Fault {
    Status(Status),
    Unreachable(String),
    /// No answer, to whatever is asked.
    TimedOut,
    /// No answer yet, but the node answers other requests.
    Slow,
    /// More bytes than any answer may have.
    TooLarge {
        samples: usize,
        limit_bytes: u64,
    },
    Version(MessageError),
    /// Something else answers there.
    Mistaken(String),
    Message(MessageError),
}

// === impl Fault ===

impl Fault {
    fn of(refused: Refused, query: &ReadQuery) -> Self {
        match refused {
            Refused::Message(error) => Self::Message(error),
            Refused::TooLarge { limit_bytes } => {
                Self::TooLarge { samples: query.indices.len(), limit_bytes }
            }
        }
    }

    /// Whether the node is asked last for a while, over a new connection.
    fn is_away(&self) -> bool {
        match self {
            Self::Status(status) => matches!(
                StorageFailure::of(status),
                StorageFailure::Unavailable | StorageFailure::Draining
            ),
            Self::Unreachable(_) | Self::TimedOut => true,
            _ => false,
        }
    }
}

impl From<Status> for Fault {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

/// The next block of an answer; `None` where it ends.
async fn next_block(
    chunks: &mut Taken,
    blocks: &mut BlockAssembly,
) -> Result<Option<v1::SampleBlock>, Fault> {
    loop {
        if let Some(block) = blocks.block().map_err(Fault::Message)? {
            return Ok(Some(block));
        }
        match chunks.next().await? {
            Some(chunk) => blocks.push(chunk),
            None => {
                blocks.finish().map_err(Fault::Message)?;
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connected(generation: u64) -> Node {
        let config = StorageClientConfig::default();
        let node = Node::new("127.0.0.1:1", &config, &Access::open(&config.access).unwrap());
        let host_id = "host".to_owned();
        *node.health() = Health { host_id, generation, ..Health::default() };
        node
    }

    fn is_local(node: &Node, shard: u32) -> bool {
        node.may_have_local_file("host", Digest(7), shard)
    }

    #[tokio::test]
    async fn what_an_old_connection_says_late_is_no_news_of_the_new_one() {
        let node = connected(2);
        node.failed(1, Fault::TimedOut);
        node.set_remote(1, Digest(7), None);
        assert!(is_local(&node, 0) && !node.is_resting());
        node.failed(2, Fault::Slow);
        assert!(is_local(&node, 0) && node.is_resting(), "it is there, and asked last");
        node.failed(2, Fault::TimedOut);
        assert!(!is_local(&node, 0) && node.is_resting());
    }

    #[tokio::test(start_paused = true)]
    async fn one_shard_that_is_no_file_concerns_no_other_and_is_tried_again() {
        let node = connected(1);
        assert!(node.set_remote(1, Digest(7), Some(3)), "told once");
        assert!(!node.set_remote(1, Digest(7), Some(4)));
        assert_eq!([2, 3, 4].map(|shard| is_local(&node, shard)), [true, false, false]);
        tokio::time::advance(REMOTE / 2).await;
        node.set_remote(1, Digest(7), None);
        assert!(!is_local(&node, 2));
        assert!(node.may_have_local_file("host", Digest(8), 2), "another dataset");
        tokio::time::advance(REMOTE / 2).await;
        assert!(!is_local(&node, 3));
        tokio::time::advance(REMOTE / 2).await;
        assert_eq!([2, 3, 4].map(|shard| is_local(&node, shard)), [true; 3]);
    }
}
