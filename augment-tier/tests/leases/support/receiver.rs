//! The receiver's side: slots, the receiver's end of a link, the control stream.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use headwater_core::{Digest, Layout, Region, SampleRef};
use headwater_proto::augment::{
    BadSamplePolicy, DatasetRef, Failure, FailureKind, FromWorker, Heartbeat, LinkOffer, PartDone,
    PartLease, SessionHello, SessionWelcome, ToWorker,
};
use headwater_proto::v1::augment_client::AugmentClient;
use headwater_proto::{WIRE_VERSION, v1};
use headwater_transport::links::shm::{self, ShmListen};
use headwater_transport::links::tcp::{self, TcpListen};
use headwater_transport::{
    Arrival, LeaseId, LinkKind, PartPlace, PeerId, ReceiverLink, SessionKey, SlotId, SlotMemory,
    Withdrawal,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::storage::{DATASET, TestStorage};
use super::{SOON, recipe};

/// Samples of the batches of all tests.
pub(crate) const BATCH: u32 = 12;
/// Of every FP8 tensor of every lease; not the recipe's own.
pub(crate) const FP8_SCALE: f32 = 3.25;
const SLOTS: u32 = 4;
const PEER: PeerId = PeerId(1);

pub(crate) struct Receiver {
    pub(crate) hello: SessionHello,
    pub(crate) welcome: SessionWelcome,
    pub(crate) layout: Layout,
    link: Arc<dyn ReceiverLink>,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    slots: Vec<Arc<SlotMemory>>,
    places: HashMap<u64, (u32, Arc<[Region]>)>,
    outbox: mpsc::Sender<v1::ToWorker>,
    inbox: Streaming<v1::FromWorker>,
    /// Whether heartbeats go out.
    beating: Arc<AtomicBool>,
    beat: JoinHandle<()>,
    /// The last heartbeat that came back.
    pub(crate) echoed: u64,
}

/// What a receiver says first; tests change what they are about.
pub(crate) fn hello(storage: &TestStorage) -> SessionHello {
    SessionHello {
        wire_version: WIRE_VERSION,
        receiver: "test/0".into(),
        session_key: SessionKey::random().unwrap().0,
        recipe: recipe(),
        seed: 11,
        datasets: vec![DatasetRef { name: DATASET.into(), manifest: storage.manifest.digest() }],
        links: Vec::new(),
        heartbeat_ms: 500,
        on_bad_sample: BadSamplePolicy::Substitute,
        image_field: "jpg|jpeg|png".into(),
        label_field: "cls".into(),
        stream: Digest(1),
        sessions_held: None,
    }
}

/// Sends one message as a session's first and gives the answer.
pub(crate) async fn first_answer(
    worker: SocketAddr,
    first: v1::to_worker::Message,
) -> Result<Option<v1::FromWorker>, Status> {
    let (outbox, queue) = mpsc::channel(1);
    outbox.send(v1::ToWorker { message: Some(first) }).await.unwrap();
    let mut inbox = connect(worker).await.work(ReceiverStream::new(queue)).await?.into_inner();
    timeout(SOON, inbox.message()).await.expect("an answer")
}

pub(crate) async fn connect(worker: SocketAddr) -> AugmentClient<tonic::transport::Channel> {
    AugmentClient::connect(format!("http://{worker}")).await.unwrap()
}

// === impl Receiver ===

impl Receiver {
    /// A session over a link of this kind. It beats until the test stops that.
    pub(crate) async fn open(
        worker: SocketAddr,
        storage: &TestStorage,
        kind: LinkKind,
    ) -> Receiver {
        Self::open_with(worker, hello(storage), kind).await.unwrap()
    }

    pub(crate) async fn open_with(
        worker: SocketAddr,
        mut hello: SessionHello,
        kind: LinkKind,
    ) -> Result<Receiver, Status> {
        let layout = Layout::new(&hello.recipe, BATCH);
        let (arrived, arrivals) = mpsc::unbounded_channel();
        let link = listen(kind, arrived).await;
        let slots: Vec<_> = (0..SLOTS).map(|_| slot(layout.len_bytes())).collect();
        for (number, slot) in slots.iter().enumerate() {
            link.add_slot(SlotId(number as u32), Arc::clone(slot)).unwrap();
        }
        link.admit(PEER, SessionKey(hello.session_key));
        let address = link.offer(Ipv4Addr::LOCALHOST.into()).address;
        hello.links.push(LinkOffer { kind: kind.name().into(), address });
        let (outbox, queue) = mpsc::channel(256);
        outbox.send(ToWorker::Hello(Box::new(hello.clone())).into()).await.unwrap();
        let mut inbox = connect(worker).await.work(ReceiverStream::new(queue)).await?.into_inner();
        let first = timeout(SOON, inbox.message()).await.expect("a welcome in time")?;
        let Some(Ok(FromWorker::Welcome(welcome))) = first.map(FromWorker::try_from) else {
            panic!("the first answer is no welcome");
        };
        let beating = Arc::new(AtomicBool::new(true));
        let beat = beat(outbox.clone(), Arc::clone(&beating), hello.heartbeat_ms);
        let places = HashMap::new();
        let session = Self {
            hello,
            welcome,
            layout,
            link,
            arrivals,
            slots,
            places,
            outbox,
            inbox,
            beating,
            beat,
            echoed: 0,
        };
        Ok(session)
    }

    /// Leases samples to the worker, from `first` of the batch in the slot.
    pub(crate) async fn lease(&mut self, lease: u64, slot: u32, first: u32, samples: &[SampleRef]) {
        let regions: Arc<[Region]> = self.layout.part_regions(first, samples.len() as u32).into();
        self.places.insert(lease, (slot, Arc::clone(&regions)));
        let place = PartPlace { lease: LeaseId(lease), slot: SlotId(slot), regions };
        self.link.expect(PEER, place);
        let lease = PartLease {
            lease,
            epoch: 3,
            step: 0,
            batch_samples: BATCH,
            first,
            samples: samples.to_vec(),
            slot,
            fp8_scales: self.hello.recipe.fp8_tensors().map(|_| FP8_SCALE).collect(),
            bucket: 0,
        };
        self.send(ToWorker::Lease(lease)).await;
    }

    /// Takes a lease back, from the link and from the worker.
    pub(crate) async fn withdraw(&mut self, lease: u64) -> Withdrawal {
        let answer = self.link.withdraw(PEER, LeaseId(lease));
        self.send(ToWorker::Withdraw(vec![lease])).await;
        answer
    }

    pub(crate) async fn send(&self, message: ToWorker) {
        self.outbox.send(message.into()).await.unwrap();
    }

    /// The worker's next word but heartbeats; `None` where it closed the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<FromWorker>, Status> {
        // One time for all: heartbeats do not prolong it.
        let by = Instant::now() + SOON;
        loop {
            let message = timeout_at(by, self.inbox.message()).await.expect("a word in time")?;
            match message.map(|message| FromWorker::try_from(message).unwrap()) {
                Some(FromWorker::Heartbeat(answer)) => self.echoed = answer.sequence,
                other => return Ok(other),
            }
        }
    }

    pub(crate) async fn done(&mut self) -> PartDone {
        match self.next().await {
            Ok(Some(FromWorker::Done(done))) => done,
            other => panic!("no part was done: {other:?}"),
        }
    }

    pub(crate) async fn failed(&mut self, kind: FailureKind) -> Failure {
        match self.next().await {
            Ok(Some(FromWorker::Failed(failure))) if failure.kind == kind => failure,
            other => panic!("no lease failed with {kind:?}: {other:?}"),
        }
    }

    /// How the worker ended the session.
    pub(crate) async fn ended(&mut self) -> Result<(), Status> {
        while self.next().await?.is_some() {}
        Ok(())
    }

    /// The link's next word but that the worker connected.
    pub(crate) async fn arrival(&mut self) -> Arrival {
        loop {
            match timeout(SOON, self.arrivals.recv()).await.expect("an arrival in time") {
                Some(Arrival::Connected { .. }) => {}
                other => return other.expect("the link lives"),
            }
        }
    }

    /// Waits for the link to say that the part is there; its bytes, regions joined.
    pub(crate) async fn part(&mut self, lease: u64) -> Vec<u8> {
        assert_eq!(self.arrival().await, Arrival::Part { peer: PEER, lease: LeaseId(lease) });
        self.bytes(lease)
    }

    pub(crate) fn bytes(&self, lease: u64) -> Vec<u8> {
        let (slot, regions) = &self.places[&lease];
        regions.iter().flat_map(|region| self.slots[*slot as usize].read(*region)).collect()
    }

    /// Whether anything was written where the lease's part goes.
    pub(crate) fn is_untouched(&self, lease: u64) -> bool {
        self.bytes(lease).iter().all(|byte| *byte == 0)
    }

    /// No more heartbeats.
    pub(crate) fn fall_silent(&self) {
        self.beating.store(false, Ordering::Relaxed);
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.beat.abort();
    }
}

/// Leaves the stream open after the test has stopped the beating.
fn beat(
    outbox: mpsc::Sender<v1::ToWorker>,
    beating: Arc<AtomicBool>,
    every_ms: u32,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        for sequence in 1.. {
            tokio::time::sleep(Duration::from_millis(u64::from(every_ms) / 2)).await;
            if beating.load(Ordering::Relaxed)
                && outbox
                    .send(
                        ToWorker::Heartbeat(Heartbeat {
                            sequence,
                            step: 0,
                            sessions_held: None,
                            width: 0,
                        })
                        .into(),
                    )
                    .await
                    .is_err()
            {
                return;
            }
        }
    })
}

async fn listen(kind: LinkKind, arrived: mpsc::UnboundedSender<Arrival>) -> Arc<dyn ReceiverLink> {
    match kind {
        LinkKind::Shm => shm::listen(&ShmListen::default(), arrived).await.unwrap(),
        LinkKind::Tcp => {
            let bind = SocketAddr::from(([127, 0, 0, 1], 0));
            let reconnect_grace = Duration::from_millis(200);
            let listen = TcpListen { bind, reconnect_grace, ..TcpListen::default() };
            tcp::listen(&listen, arrived).await.unwrap()
        }
        other => panic!("no test here has the {other} link"),
    }
}

fn slot(len_bytes: u64) -> Arc<SlotMemory> {
    Arc::new(SlotMemory::shared(len_bytes, false).unwrap())
}
