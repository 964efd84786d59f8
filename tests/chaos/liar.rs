//! A storage node that lies. It stands at the address of an honest one, asks another for the truth,
//! and tells every second caller something else.
//!
//! It lies about everything that a caller can check against the manifest: which samples these are, how
//! many, where their shard lies, what is in it, and the manifest itself. The samples' own bytes are
//! the storage tier's word: nobody could tell.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use headwater_proto::v1;
use headwater_proto::v1::storage_client::StorageClient;
use headwater_proto::v1::storage_server::{Storage, StorageServer};
use headwater_storage_client::FileIdentity;
use tokio::runtime::Runtime;
use tokio_stream::{Stream, StreamExt as _};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};

/// Threads that serve.
const THREADS: usize = 2;

/// A liar that serves until it is dropped.
pub(crate) struct Liar {
    told: Arc<AtomicUsize>,
    _runtime: Runtime,
}

/// What it tells.
struct Tale {
    /// An honest node.
    truth: StorageClient<Channel>,
    /// Files with the shards' names and sizes, and other bytes.
    forged: PathBuf,
    /// Counts answers: the number decides what it says.
    answers: AtomicUsize,
    /// Lies so far.
    told: Arc<AtomicUsize>,
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

// === impl Liar ===

impl Liar {
    /// Serves at `address`, where nobody listens. `first` draws what it says first.
    pub(crate) fn stand_in(address: &str, truth: &str, forged: &Path, first: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .enable_all()
            .build()
            .expect("a runtime");
        let entered = runtime.enter();
        let incoming = TcpIncoming::bind(address.parse().expect("an address"));
        let incoming = incoming.expect("the address of a node that has ended");
        let truth = Endpoint::from_shared(format!("http://{truth}")).expect("an address");
        let told = Arc::new(AtomicUsize::new(0));
        let tale = Tale {
            truth: StorageClient::new(truth.connect_lazy()).max_decoding_message_size(usize::MAX),
            forged: forged.to_owned(),
            answers: AtomicUsize::new(first),
            told: Arc::clone(&told),
        };
        let server = Server::builder().add_service(StorageServer::new(tale));
        runtime.spawn(server.serve_with_incoming(incoming));
        drop(entered);
        Self { told, _runtime: runtime }
    }

    /// Number of lies so far.
    pub(crate) fn told(&self) -> usize {
        self.told.load(Ordering::SeqCst)
    }
}

// === impl Tale ===

impl Tale {
    /// The number of the next lie of `kinds` kinds; none for a true answer.
    fn next(&self, kinds: usize) -> Option<usize> {
        let answer = self.answers.fetch_add(1, Ordering::SeqCst);
        answer.is_multiple_of(2).then(|| {
            self.told.fetch_add(1, Ordering::SeqCst);
            answer / 2 % kinds
        })
    }

    /// The place of a forged file, which has all that the true one has but its inode and bytes.
    fn forge(&self, place: &mut v1::LocateReply) -> Result<(), Status> {
        let name = Path::new(&place.path).file_name().unwrap_or_default();
        let path = self.forged.join(name);
        let identity = FileIdentity::of(&path.metadata()?);
        place.path = path.to_str().expect("text").to_owned();
        (place.device, place.inode) = (identity.device, identity.inode);
        (place.bytes, place.modified_ns) = (identity.bytes, identity.modified_ns);
        Ok(())
    }
}

#[tonic::async_trait]
impl Storage for Tale {
    type GetManifestStream = Answers<v1::ManifestPiece>;
    type ReadSamplesStream = Answers<v1::SampleBlock>;

    async fn hello(
        &self,
        request: Request<v1::StorageHello>,
    ) -> Result<Response<v1::StorageWelcome>, Status> {
        self.truth.clone().hello(request.into_inner()).await
    }

    async fn get_manifest(
        &self,
        request: Request<v1::ManifestRequest>,
    ) -> Result<Response<Self::GetManifestStream>, Status> {
        let answer = self.truth.clone().get_manifest(request.into_inner()).await?;
        let mut pieces = all(answer.into_inner()).await?;
        let shards = &mut pieces[0].shards;
        match self.next(3) {
            Some(0) => shards.reverse(),
            Some(1) => shards[0].samples -= 1,
            Some(_) => shards[0].digest = shards.last().expect("a shard").digest.clone(),
            None => {}
        }
        Ok(Response::new(stream(pieces)))
    }

    async fn read_samples(
        &self,
        request: Request<v1::ReadRequest>,
    ) -> Result<Response<Self::ReadSamplesStream>, Status> {
        let answer = self.truth.clone().read_samples(request.into_inner()).await?;
        let mut blocks = all(answer.into_inner()).await?;
        match self.next(5) {
            Some(0) => blocks[0].samples[0].index += 1,
            Some(1) => drop(blocks[0].samples.pop()),
            Some(2) => blocks.push(v1::SampleBlock::default()),
            Some(3) => {
                let again = blocks[0].clone();
                blocks.push(again);
            }
            Some(_) => {
                let endless = std::iter::repeat(blocks.remove(0)).map(Ok);
                return Ok(Response::new(Box::pin(tokio_stream::iter(endless))));
            }
            None => {}
        }
        Ok(Response::new(stream(blocks)))
    }

    async fn locate_shard(
        &self,
        request: Request<v1::LocateRequest>,
    ) -> Result<Response<v1::LocateReply>, Status> {
        let answer = self.truth.clone().locate_shard(request.into_inner()).await?;
        let mut place = answer.into_inner();
        match self.next(4) {
            Some(0) => self.forge(&mut place)?,
            // The first image is what follows it, which lies in the file.
            Some(1) => place.samples[0].fields[0].offset += 512,
            Some(2) => place.samples.swap(0, 1),
            Some(_) => place.inode += 1,
            None => {}
        }
        Ok(Response::new(place))
    }

    async fn prefetch(
        &self,
        _: Request<v1::PrefetchRequest>,
    ) -> Result<Response<v1::PrefetchReply>, Status> {
        Ok(Response::new(v1::PrefetchReply {}))
    }
}

async fn all<T>(mut answer: Streaming<T>) -> Result<Vec<T>, Status> {
    let mut pieces = Vec::new();
    while let Some(piece) = answer.message().await? {
        pieces.push(piece);
    }
    Ok(pieces)
}

fn stream<T: Send + 'static>(pieces: Vec<T>) -> Answers<T> {
    Box::pin(tokio_stream::iter(pieces).map(Ok))
}

/// Files that a worker must not take for the shards in `shards`: same names, sizes and times of
/// change, other bytes.
pub(crate) fn forge(shards: &Path, folder: &Path) {
    std::fs::create_dir(folder).expect("a folder");
    for file in std::fs::read_dir(shards).expect("shards").map(|file| file.expect("a file")) {
        let mut bytes = std::fs::read(file.path()).expect("a shard");
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
        let forged = folder.join(file.file_name());
        std::fs::write(&forged, bytes).expect("a forged shard");
        let modified = file.metadata().and_then(|of| of.modified()).expect("a time");
        std::fs::File::options()
            .append(true)
            .open(forged)
            .and_then(|file| file.set_modified(modified))
            .expect("a time");
    }
}
