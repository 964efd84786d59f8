//! Harnesses for the kinds of links.
#![allow(dead_code)] // Each test binary uses some of it.

pub(crate) mod certificates;
pub(crate) mod counts;
pub(crate) mod faulty;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use async_trait::async_trait;
use headwater_transport::conformance::{Harness, HostImports, HostWindow};
use headwater_transport::links::cuda::{self, CudaConnect, CudaListen};
use headwater_transport::links::rdma::{self, RdmaConnect, RdmaListen};
use headwater_transport::links::shm::{self, ShmConnect, ShmListen};
use headwater_transport::links::tcp::{self, TcpConnect, TcpListen};
use headwater_transport::links::ucx::{self, UcxConnect, UcxListen};
use headwater_transport::{
    Arrival, DeviceWindow, Exchange, LinkError, LinkKind, LinkOffer, ReceiverLink, SPARE_BYTES,
    SessionKey, SlotMemory, WorkerLink,
};
use tokio::sync::mpsc;

#[derive(Debug, Default)]
pub(crate) struct Shm {
    pub(crate) listen: ShmListen,
    pub(crate) connect: ShmConnect,
}

#[derive(Debug)]
pub(crate) struct Tcp {
    pub(crate) listen: TcpListen,
    pub(crate) connect: TcpConnect,
}

#[async_trait]
impl Harness for Shm {
    async fn listen(&self, arrivals: mpsc::UnboundedSender<Arrival>) -> Arc<dyn ReceiverLink> {
        shm::listen(&self.listen, arrivals).await.expect("a socket")
    }

    async fn connect(
        &self,
        offer: &LinkOffer,
        key: &SessionKey,
    ) -> Result<Arc<dyn WorkerLink>, LinkError> {
        shm::connect(offer, key, &self.connect).await
    }

    fn slot(&self, len_bytes: u64) -> Arc<SlotMemory> {
        let memory = SlotMemory::shared(len_bytes, false);
        Arc::new(memory.expect("shared memory"))
    }

    fn buffers(&self) -> Option<usize> {
        None
    }
}

impl Tcp {
    /// Both ends with certificates of one authority.
    pub(crate) fn encrypted() -> Self {
        let authority = certificates::Authority::new();
        let mut tcp = Self::default();
        tcp.listen.tls = Some(authority.listen());
        tcp.connect.tls = Some(authority.connect(Some(&authority)));
        tcp.connect.encrypted_only = true;
        tcp
    }
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            listen: TcpListen {
                bind: SocketAddr::from(([127, 0, 0, 1], 0)),
                reconnect_grace: Duration::from_millis(500),
                ..TcpListen::default()
            },
            connect: TcpConnect {
                staging_buffers: 3,
                reconnect_tries: 3,
                reconnect_backoff: Duration::from_millis(20),
                ..TcpConnect::default()
            },
        }
    }
}

#[async_trait]
impl Harness for Tcp {
    async fn listen(&self, arrivals: mpsc::UnboundedSender<Arrival>) -> Arc<dyn ReceiverLink> {
        tcp::listen(&self.listen, arrivals).await.expect("a port")
    }

    async fn connect(
        &self,
        offer: &LinkOffer,
        key: &SessionKey,
    ) -> Result<Arc<dyn WorkerLink>, LinkError> {
        tcp::connect(offer, key, &self.connect).await
    }

    fn slot(&self, len_bytes: u64) -> Arc<SlotMemory> {
        Arc::new(SlotMemory::private(len_bytes, false).expect("memory"))
    }

    fn buffers(&self) -> Option<usize> {
        Some(self.connect.staging_buffers)
    }
}

/// Both ends on memory of the host that stands for a GPU's. `libs/cuda` runs the suite on a driver.
#[derive(Debug)]
pub(crate) struct Cuda {
    pub(crate) listen: CudaListen,
    pub(crate) connect: CudaConnect,
}

impl Default for Cuda {
    fn default() -> Self {
        Self::with(HostImports::default())
    }
}

impl Cuda {
    pub(crate) fn with(imports: HostImports) -> Self {
        let listen = CudaListen::default();
        let connect = CudaConnect {
            allow_uids: Vec::new(),
            handshake_timeout: cuda::DEFAULT_HANDSHAKE_TIMEOUT,
            staging_buffers: 3,
            imports: Arc::new(imports),
        };
        Self { listen, connect }
    }
}

#[async_trait]
impl Harness for Cuda {
    async fn listen(&self, arrivals: mpsc::UnboundedSender<Arrival>) -> Arc<dyn ReceiverLink> {
        cuda::listen(&self.listen, arrivals).await.expect("a socket")
    }

    async fn connect(
        &self,
        offer: &LinkOffer,
        key: &SessionKey,
    ) -> Result<Arc<dyn WorkerLink>, LinkError> {
        cuda::connect(offer, key, &self.connect).await
    }

    fn slot(&self, len_bytes: u64) -> Arc<SlotMemory> {
        let memory = SlotMemory::shared(len_bytes + SPARE_BYTES, false);
        Arc::new(memory.expect("shared memory"))
    }

    fn window(&self, memory: &Arc<SlotMemory>) -> Option<Arc<dyn DeviceWindow>> {
        Some(Arc::new(HostWindow::with_spare(Arc::clone(memory))))
    }

    fn buffers(&self) -> Option<usize> {
        Some(self.connect.staging_buffers)
    }
}

/// Whether UCX is here and finds a way; says loudly that it is not. With `HEADWATER_NEEDS_UCX` in
/// the environment it has to be.
pub(crate) fn has_ucx() -> bool {
    match ucx::detect(false) {
        Ok(_) => true,
        Err(error) if std::env::var_os("HEADWATER_NEEDS_UCX").is_some() => panic!("{error}"),
        Err(error) => {
            eprintln!("SKIP: {error}");
            false
        }
    }
}

/// Both ends over whatever UCX finds on this machine.
#[derive(Debug)]
pub(crate) struct Ucx {
    pub(crate) listen: UcxListen,
    pub(crate) connect: UcxConnect,
}

impl Default for Ucx {
    fn default() -> Self {
        Self {
            listen: UcxListen::default(),
            connect: UcxConnect { staging_buffers: 3, ..UcxConnect::default() },
        }
    }
}

#[async_trait]
impl Harness for Ucx {
    async fn listen(&self, arrivals: mpsc::UnboundedSender<Arrival>) -> Arc<dyn ReceiverLink> {
        ucx::listen(&self.listen, arrivals).await.expect("UCX, by scripts/install-system.sh tests")
    }

    async fn connect(
        &self,
        offer: &LinkOffer,
        key: &SessionKey,
    ) -> Result<Arc<dyn WorkerLink>, LinkError> {
        ucx::connect(offer, key, &self.connect).await
    }

    fn slot(&self, len_bytes: u64) -> Arc<SlotMemory> {
        Arc::new(SlotMemory::private(len_bytes, false).expect("memory"))
    }

    fn buffers(&self) -> Option<usize> {
        Some(self.connect.staging_buffers)
    }
}

/// Both ends on one port of this machine. The control stream is a call of the receiver's.
#[derive(Debug)]
pub(crate) struct Rdma {
    pub(crate) listen: RdmaListen,
    pub(crate) connect: RdmaConnect,
    receiver: Mutex<Option<Weak<dyn ReceiverLink>>>,
}

struct Call(Weak<dyn ReceiverLink>);

impl Rdma {
    pub(crate) fn new(queue_pairs: u32) -> Self {
        Self {
            listen: RdmaListen::default(),
            connect: RdmaConnect { queue_pairs, staging_buffers: 3, ..RdmaConnect::default() },
            receiver: Mutex::new(None),
        }
    }
}

#[async_trait]
impl Exchange for Call {
    async fn exchange(&self, _: LinkKind, request: Vec<u8>) -> Result<Vec<u8>, LinkError> {
        let receiver = self.0.upgrade().expect("a receiver");
        let answer = tokio::task::spawn_blocking(move || {
            receiver.answers_requests().expect("it answers").answer(&request)
        })
        .await;
        Ok(answer.expect("no panic"))
    }
}

#[async_trait]
impl Harness for Rdma {
    async fn listen(&self, arrivals: mpsc::UnboundedSender<Arrival>) -> Arc<dyn ReceiverLink> {
        let receiver = rdma::listen(&self.listen, arrivals).await.expect("an RDMA port");
        *self.receiver.lock().expect("no panic") = Some(Arc::downgrade(&receiver));
        receiver
    }

    async fn connect(
        &self,
        offer: &LinkOffer,
        key: &SessionKey,
    ) -> Result<Arc<dyn WorkerLink>, LinkError> {
        let call = Call(self.receiver.lock().expect("no panic").clone().expect("a receiver"));
        rdma::connect(offer, key, &self.connect, &call).await
    }

    fn slot(&self, len_bytes: u64) -> Arc<SlotMemory> {
        Arc::new(SlotMemory::private(len_bytes, false).expect("memory"))
    }

    fn buffers(&self) -> Option<usize> {
        Some(self.connect.staging_buffers)
    }
}
