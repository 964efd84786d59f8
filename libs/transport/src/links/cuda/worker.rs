//! The worker's end: imported slots, and the copies to them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use tokio::task::AbortHandle;

use super::choices::CudaConnect;
use super::proof;
use super::wire::{ANSWERED, Challenge, HandleTerms, MAGIC, Terms, VERSION};
use crate::link::contract::{SendsWhole, WorkerLink};
use crate::link::messages::{MESSAGES_WAITING_MAX, ToReceiver, ToWorker};
use crate::link::terms::{LinkError, LinkKind, LinkOffer, SessionKey};
use crate::link::worker_permits::{ChannelToReceiver, Rendered, Rendering, WorkerPermits};
use crate::links::local::channel::Channel;
use crate::links::local::greeting::{greet, let_in, next};
use crate::memory::part::{DevicePart, PartBuffer};
use crate::memory::place::{self, LeaseId, PartPlace, PlaceError};
use crate::memory::staging::{StagingBuffer, StagingPool};
use crate::memory::window::{DeviceImports, ExportedWindow, ImportedWindow, WindowHandle};
use crate::metrics::{self, Direction};
use crate::packets::{Packet, PacketSocket};

const KIND: LinkKind = LinkKind::Cuda;

/// Why a link ends whose GPU may still write.
const IN_DOUBT: &str = "the GPU failed while it wrote to the receiver's memory";

type Permits = WorkerPermits<Arc<Slot>>;

/// A connected worker.
#[derive(Debug)]
pub(super) struct CudaWorker {
    permits: Arc<Permits>,
    // Held by the session's task and by buffers, as in the shm link.
    path: Weak<Path>,
    pool: StagingPool<()>,
    task: AbortHandle,
}

/// A receiver's slot.
#[derive(Debug)]
pub(super) struct Slot {
    len_bytes: u64,
    window: Box<dyn ImportedWindow>,
}

/// What a part keeps.
#[derive(Debug)]
struct Kept {
    rendering: Rendering<Arc<Slot>, Arc<Path>>,
    slot: Arc<Slot>,
    _staging: StagingBuffer<()>,
}

/// The way to the receiver.
#[derive(Debug)]
struct Path {
    channel: Channel,
    /// A GPU may still write for this session: nothing is said of any lease any more. The end of the socket says that
    /// this process has nothing more to say, and the receiver makes the slots of its leases anew.
    in_doubt: AtomicBool,
}

/// What the task holds. Fields drop in order: slots go before the socket closes.
struct Session {
    permits: Arc<Permits>,
    path: Arc<Path>,
    imports: Arc<dyn DeviceImports>,
}

// === impl CudaWorker ===

impl CudaWorker {
    pub(super) async fn connect(
        offer: &LinkOffer,
        key: &SessionKey,
        config: &CudaConnect,
    ) -> Result<Self, LinkError> {
        let connecting = prove(&offer.address, key, config);
        let late = |_| KIND.setup("the receiver did not answer in time");
        let socket =
            tokio::time::timeout(config.handshake_timeout, connecting).await.map_err(late)??;
        let permits = Arc::new(Permits::new(KIND, Rendered::InStaging));
        let channel = Channel::new(KIND, socket, MESSAGES_WAITING_MAX);
        let path = Arc::new(Path { channel, in_doubt: AtomicBool::new(false) });
        let weak = Arc::downgrade(&path);
        let imports = Arc::clone(&config.imports);
        let pins = Arc::clone(&config.imports);
        let in_use = metrics::staging_in_use(KIND);
        // Pinned: copies to the GPU then need no memory of the driver's.
        let pool = StagingPool::new(config.staging_buffers, in_use, move |mapping| {
            mapping.is_pinned(pins.pins());
            Ok(())
        });
        let session = Session { permits: Arc::clone(&permits), path, imports };
        let task = tokio::spawn(session.run());
        Ok(Self { permits, path: weak, pool, task: task.abort_handle() })
    }
}

#[async_trait]
impl WorkerLink for CudaWorker {
    fn kind(&self) -> LinkKind {
        KIND
    }

    async fn begin(&self, place: PartPlace) -> Result<PartBuffer, LinkError> {
        let slot = self.permits.permitted_slot(&place).await?;
        place::check(&place, slot.len_bytes)?;
        let staging = self.permits.staging(&place, &self.pool).await?;
        let Some(path) = self.path.upgrade() else {
            return Err(KIND.closed("the session has ended"));
        };
        let rendering = self.permits.render(&place, Arc::clone(&path))?;
        let permits = Arc::clone(&self.permits);
        let doubt = move || path.doubt(&permits);
        let device = DevicePart::new(&place, slot.window.address(), doubt);
        let memory = Arc::clone(staging.mapping());
        let kept = Kept { rendering, slot, _staging: staging };
        Ok(PartBuffer::beside_device(place, memory, device, kept)?)
    }

    async fn commit(&self, part: PartBuffer) -> Result<(), LinkError> {
        let kept: &Kept =
            part.keeper().ok_or_else(|| PlaceError::new("the buffer is of another link"))?;
        let path = Arc::clone(kept.rendering.channel());
        if part.is_in_doubt() {
            return Err(KIND.closed(IN_DOUBT));
        }
        self.permits.spend(part.place())?;
        let (bytes, permits) = (part.len_bytes(), Arc::clone(&self.permits));
        let delivery = Arc::clone(&path);
        // Goes on where nobody waits for it: the part is let go of when its bytes are in the slot.
        let delivered = tokio::task::spawn_blocking(move || deliver(part, &delivery, &permits));
        let sent = delivered.await.map_err(|error| KIND.closed(error.to_string()))??;
        if !sent {
            path.channel.flushed().await;
            self.permits.check_connected()?;
        }
        metrics::part(KIND, Direction::Out, bytes);
        Ok(())
    }

    fn sends_whole(&self) -> Option<&dyn SendsWhole> {
        None // The part must be in the slot.
    }

    fn withdraw(&self, lease: LeaseId) {
        self.permits.withdraw(lease);
    }

    async fn closed(&self) -> LinkError {
        self.permits.closed().await
    }
}

impl Drop for CudaWorker {
    fn drop(&mut self) {
        // Slots go before the task's end of the socket.
        self.permits.close("the worker left");
        self.task.abort();
    }
}

/// Copies what no device has written, and says that all is there. Whether that is sent already.
fn deliver(part: PartBuffer, path: &Path, permits: &Permits) -> Result<bool, LinkError> {
    let Some(Kept { slot, .. }) = part.keeper() else { return Err(KIND.closed("no such part")) };
    if let Err(reason) = slot.window.write(&part.rest()) {
        tracing::error!(reason, "{IN_DOUBT}: the cuda link ends");
        path.doubt(permits);
        return Err(KIND.closed(reason));
    }
    Ok(path.channel.post(ToReceiver::Written { lease: part.lease() }.encode(), None))
}

// === impl Path ===

impl Path {
    /// Nobody knows whether a GPU still writes: the session ends, and says nothing more.
    fn doubt(&self, permits: &Permits) {
        self.in_doubt.store(true, Ordering::Release);
        self.channel.discard_queued();
        permits.close(IN_DOUBT);
    }
}

impl ChannelToReceiver for Arc<Path> {
    fn send(&self, message: ToReceiver) {
        if !self.in_doubt.load(Ordering::Acquire) {
            self.channel.post(message.encode(), None);
        }
    }
}

// === impl Session ===

impl Session {
    /// Hears the receiver to the end of its stream.
    async fn run(self) {
        let reason = loop {
            let packet = tokio::select! {
                packet = self.path.channel.receive() => packet,
                _ = self.permits.closed() => break IN_DOUBT.to_owned(),
            };
            match packet {
                Ok(Some(packet)) => {
                    if let Err(reason) = self.hear(packet).await {
                        break reason;
                    }
                }
                Ok(None) => break "the receiver has closed the link".to_owned(),
                Err(error) => break error.to_string(),
            }
        };
        // Not `end_sending`, see the shm link.
        self.path.channel.discard_queued();
        self.permits.close(&reason);
    }

    async fn hear(&self, packet: Packet) -> Result<(), String> {
        let Packet { bytes, fd } = packet;
        let message = ToWorker::decode(&bytes).ok_or("the receiver sent no known message")?;
        let message = message.try_map(|terms: Terms| exported(terms, fd))?;
        let imports = Arc::clone(&self.imports);
        // Mapping takes a driver's time, and comes before what is said after it.
        let message = match message {
            slot @ ToWorker::Slot { .. } => {
                let import = move || slot.try_map(|window| Slot::new(&*imports, window));
                tokio::task::spawn_blocking(import).await.map_err(|error| error.to_string())??
            }
            other => other.try_map(|window| Slot::new(&*imports, window))?,
        };
        self.permits.on_message(message, &self.path)
    }
}

// === impl Slot ===

impl Slot {
    fn new(imports: &dyn DeviceImports, exported: ExportedWindow) -> Result<Arc<Self>, String> {
        let len_bytes = exported.len_bytes;
        Ok(Arc::new(Self { len_bytes, window: imports.import(exported)? }))
    }
}

/// A receiver's memory, by what was said and what came with it.
fn exported(terms: Terms, file: Option<std::os::fd::OwnedFd>) -> Result<ExportedWindow, String> {
    let Terms { len_bytes, whole_bytes, gpu, handle } = terms;
    let handle = match handle {
        HandleTerms::File => WindowHandle::File(file.ok_or("a slot came without its descriptor")?),
        HandleTerms::Fabric(bytes) => WindowHandle::Fabric(bytes),
    };
    Ok(ExportedWindow { gpu, len_bytes, whole_bytes, handle })
}

/// Connects, and shows that this worker's GPU reaches the receiver's memory.
async fn prove(
    name: &[u8],
    key: &SessionKey,
    config: &CudaConnect,
) -> Result<PacketSocket, LinkError> {
    let (socket, answer) = greet(KIND, name, (MAGIC, VERSION), key, &config.allow_uids).await?;
    let Packet { bytes, fd } = answer;
    let Some(challenge) = Challenge::decode(&bytes) else {
        return Err(let_in(KIND, ToWorker::<Terms>::decode(&bytes), &bytes)
            .err()
            .unwrap_or_else(|| KIND.refused("it does not ask for a proof")));
    };
    let Challenge { offset_bytes, terms } = challenge;
    let imports = Arc::clone(&config.imports);
    let proof = move || {
        let window = exported(terms, fd)?;
        let (slot_bytes, whole_bytes) = (window.len_bytes, window.whole_bytes);
        if !(slot_bytes..whole_bytes).contains(&offset_bytes) {
            return Err("the receiver asks for a proof in the middle of a slot".into());
        }
        proof::answer(&*imports.import(window)?, offset_bytes)
    };
    let proven = tokio::task::spawn_blocking(proof).await;
    let proven = proven.unwrap_or_else(|error| Err(error.to_string()));
    proven.map_err(|reason| KIND.setup(reason))?;
    socket.send(&ANSWERED, None).await.ok();
    let answer = next(KIND, &socket).await?;
    let_in(KIND, ToWorker::<Terms>::decode(&answer.bytes), &answer.bytes)?;
    Ok(socket)
}
