//! What shards come next reaches every node that lives, each its own in their order, and takes the
//! place of what was said before. The nodes here answer hello and that, nothing else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures::stream::Empty;
use headwater_core::{Digest, Manifest, ShardEntry};
use headwater_proto::v1::storage_server::{Storage, StorageServer};
use headwater_proto::{WIRE_VERSION, v1};
use headwater_storage_client::{Dataset, LocalFiles, StorageClient, StorageClientConfig};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// Manifest and shards.
type Told = (Vec<u8>, Vec<u32>);

#[derive(Clone)]
struct Node {
    fails: Arc<AtomicBool>,
    /// The manifest and the shards of each call, in order.
    heard: Arc<Mutex<Vec<Told>>>,
}

#[tonic::async_trait]
impl Storage for Node {
    type GetManifestStream = Empty<Result<v1::ManifestPiece, Status>>;
    type ReadSamplesStream = Empty<Result<v1::SampleBlock, Status>>;

    async fn hello(
        &self,
        _: Request<v1::StorageHello>,
    ) -> Result<Response<v1::StorageWelcome>, Status> {
        Ok(Response::new(v1::StorageWelcome {
            wire_version: WIRE_VERSION,
            node: "a test's".to_owned(),
            ..Default::default()
        }))
    }

    async fn get_manifest(
        &self,
        _: Request<v1::ManifestRequest>,
    ) -> Result<Response<Self::GetManifestStream>, Status> {
        Err(Status::unimplemented("only advice"))
    }

    async fn read_samples(
        &self,
        _: Request<v1::ReadRequest>,
    ) -> Result<Response<Self::ReadSamplesStream>, Status> {
        Err(Status::unimplemented("only advice"))
    }

    async fn locate_shard(
        &self,
        _: Request<v1::LocateRequest>,
    ) -> Result<Response<v1::LocateReply>, Status> {
        Err(Status::unimplemented("only advice"))
    }

    async fn prefetch(
        &self,
        request: Request<v1::PrefetchRequest>,
    ) -> Result<Response<v1::PrefetchReply>, Status> {
        let v1::PrefetchRequest { caller, shards, .. } = request.into_inner();
        self.heard.lock().unwrap().push((caller.to_vec(), shards));
        if self.fails.load(Ordering::SeqCst) {
            return Err(Status::unavailable("about to end"));
        }
        Ok(Response::new(v1::PrefetchReply {}))
    }
}

/// Starts a node; its address.
async fn start(fails: bool) -> (Node, String) {
    let node = Node { fails: Arc::new(fails.into()), heard: Arc::default() };
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap().to_string();
    let serve = Server::builder()
        .add_service(StorageServer::new(node.clone()))
        .serve_with_incoming(incoming);
    tokio::spawn(serve);
    (node, address)
}

async fn dataset(nodes: Vec<String>) -> Dataset {
    let config = StorageClientConfig {
        nodes,
        local_files: LocalFiles::Off,
        ..StorageClientConfig::default()
    };
    let client = StorageClient::connect(config).await.unwrap();
    let shard = |number: u32| ShardEntry {
        name: format!("{number}.tar"),
        samples: 1,
        bytes: 1024,
        digest: Digest(number.into()),
    };
    let manifest = Manifest::new("d".to_owned(), Vec::new(), (0..64).map(shard).collect());
    client.dataset(Arc::new(manifest.unwrap()))
}

/// The last plan that a node got.
fn plan(node: &Node) -> Vec<u32> {
    node.heard.lock().unwrap().last().map(|(_, shards)| shards.clone()).unwrap_or_default()
}

/// Whether the nodes' plans are these shards, each at one node and in their order.
fn assert_divided(nodes: &[&Node], wanted: &[u32]) {
    let mut all = Vec::new();
    for node in nodes {
        let plan = plan(node);
        let places = plan.iter().map(|shard| wanted.iter().position(|other| other == shard));
        let places: Vec<usize> = places.map(|place| place.expect("a shard wanted")).collect();
        assert!(places.is_sorted(), "{plan:?} is not in the order wanted");
        all.extend(plan);
    }
    all.sort_unstable();
    let mut wanted = wanted.to_vec();
    wanted.sort_unstable();
    assert_eq!(all, wanted);
}

#[tokio::test]
async fn each_node_hears_of_its_own_shards_and_a_new_plan_takes_the_place_of_the_former() {
    let ((one, one_address), (other, other_address)) = (start(false).await, start(false).await);
    let addresses = vec![one_address, other_address];
    let dataset = dataset(addresses.clone()).await;
    let wanted: Vec<u32> = (0..64).rev().collect();
    assert!(dataset.prefetch(&wanted).await.is_empty());
    assert!(plan(&one).len() > 1 && plan(&other).len() > 1, "one node has all shards: no test");
    assert_divided(&[&one, &other], &wanted);
    let after_a_seek = [40, 2, 63];
    assert!(dataset.clone().prefetch(&after_a_seek).await.is_empty());
    assert_divided(&[&one, &other], &after_a_seek);
    assert!(dataset.prefetch(&[]).await.is_empty());
    let heard = one.heard.lock().unwrap().clone();
    assert_eq!((heard.len(), heard[2].1.len()), (3, 0), "it is taken back");
    assert!(heard.iter().all(|(caller, _)| caller.len() == 16 && *caller == heard[0].0));

    self::dataset(addresses).await.prefetch(&wanted).await;
    let another = one.heard.lock().unwrap().last().unwrap().0.clone();
    assert_ne!(another, heard[0].0, "another caller's plan takes no place");
}

#[tokio::test]
async fn a_node_that_fails_is_named_and_its_shards_are_told_to_the_next() {
    let (first, first_address) = start(false).await;
    let (failing, failing_address) = start(true).await;
    let (last, last_address) = start(false).await;
    let dataset = dataset(vec![first_address, failing_address.clone(), last_address]).await;
    let wanted: Vec<u32> = (0..64).rev().collect();
    let failures = dataset.prefetch(&wanted).await;
    assert!(!plan(&failing).is_empty(), "it was not asked: no test");
    assert_divided(&[&first, &last], &wanted);
    let said: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert!(said.len() == 1 && said[0].contains(&failing_address), "{said:?}");
}

#[tokio::test]
async fn advice_that_nobody_hears_ends() {
    let (_, one) = start(true).await;
    let (_, other) = start(true).await;
    assert_eq!(dataset(vec![one, other]).await.prefetch(&[1, 2, 3]).await.len(), 2);
}
