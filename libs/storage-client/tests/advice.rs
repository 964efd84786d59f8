//! Advice on the shards that come next reaches every node that lives, and says which shards were
//! taken up. The nodes here answer hello and advice, nothing else.

use std::sync::{Arc, Mutex};

use futures::stream::Empty;
use headwater_core::{Digest, Manifest, ShardEntry};
use headwater_proto::v1::storage_server::{Storage, StorageServer};
use headwater_proto::{WIRE_VERSION, v1};
use headwater_storage_client::{Dataset, LocalFiles, StorageClient, StorageClientConfig};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// A node that takes up so many shards of each advice, the first ones; `None`: it fails.
#[derive(Clone)]
struct Node {
    room: Option<u32>,
    /// The shards that it was advised of, call by call.
    heard: Arc<Mutex<Vec<Vec<u32>>>>,
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
        let shards = request.into_inner().shards;
        let most = shards.len() as u32;
        self.heard.lock().unwrap().push(shards);
        let room = self.room.ok_or_else(|| Status::unavailable("about to end"))?;
        let accepted = room.min(most);
        Ok(Response::new(v1::PrefetchReply { accepted }))
    }
}

/// Starts a node; its address.
async fn start(room: Option<u32>) -> (Node, String) {
    let node = Node { room, heard: Arc::default() };
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

fn heard(node: &Node) -> Vec<u32> {
    node.heard.lock().unwrap().concat()
}

#[tokio::test]
async fn shards_that_are_taken_up_are_named_one_by_one() {
    let (full, full_address) = start(Some(1)).await;
    let (roomy, roomy_address) = start(Some(100)).await;
    let dataset = dataset(vec![full_address, roomy_address]).await;
    let wanted: Vec<u32> = (0..32).collect();
    let advised = dataset.prefetch(&wanted).await;
    assert!(advised.failures.is_empty());

    let (of_full, of_roomy) = (heard(&full), heard(&roomy));
    assert!(of_full.len() > 1 && of_roomy.len() > 1, "one node has all shards: no test");
    let mut expected: Vec<u32> = of_full[..1].iter().chain(&of_roomy).copied().collect();
    expected.sort_unstable();
    let mut taken = advised.shards;
    taken.sort_unstable();
    assert_eq!(taken, expected);
}

#[tokio::test]
async fn a_node_that_fails_is_named_and_its_shards_are_told_to_the_next() {
    let (first, first_address) = start(Some(100)).await;
    let (failing, failing_address) = start(None).await;
    let (last, last_address) = start(Some(100)).await;
    let dataset = dataset(vec![first_address, failing_address.clone(), last_address]).await;
    let wanted: Vec<u32> = (0..64).collect();
    let advised = dataset.prefetch(&wanted).await;
    assert!(!heard(&failing).is_empty(), "it was not asked: no test");

    let mut taken = advised.shards;
    taken.sort_unstable();
    assert_eq!(taken, wanted);
    let mut told = [heard(&first), heard(&last)].concat();
    told.sort_unstable();
    assert_eq!(told, wanted, "each shard is told to one node that lives");
    let said: Vec<String> = advised.failures.iter().map(ToString::to_string).collect();
    assert!(said.len() == 1 && said[0].contains(&failing_address), "{said:?}");
}

#[tokio::test]
async fn advice_that_nobody_hears_ends() {
    let (_, one) = start(None).await;
    let (_, other) = start(None).await;
    let advised = dataset(vec![one, other]).await.prefetch(&[1, 2, 3]).await;
    assert!(advised.shards.is_empty());
    assert_eq!(advised.failures.len(), 2);
}
