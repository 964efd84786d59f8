//! The receiver's end: exported slots, and a task for each connection.

use std::net::IpAddr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::choices::CudaListen;
use super::proof::{Begun, Cells};
use super::wire::{ANSWERED, Challenge, MAGIC, Terms, VERSION};
use crate::link::contract::{AnswersRequests, ReceiverLink, TakesDeviceSlots};
use crate::link::messages::ToWorker;
use crate::link::receiver_permits::{ChannelToWorker, ReceiverPermits};
use crate::link::receiving_end::{ReceiverPath, ReceivingEnd};
use crate::link::terms::{Arrival, LinkError, LinkKind, PeerId};
use crate::links::local::acceptor::{Acceptor, Address, accept_all, listen_to};
use crate::links::local::channel::{Attached, Channel};
use crate::memory::place::SlotId;
use crate::memory::slot::SlotMemory;
use crate::memory::window::{DeviceWindow, ExportedWindow, ExportsWindow, WindowHandle};

const KIND: LinkKind = LinkKind::Cuda;

type Permits = ReceiverPermits<Path>;

/// A listening socket. Dropping it closes every connection.
#[derive(Debug)]
pub(super) struct CudaReceiver {
    permits: Arc<Permits>,
    address: Address,
    task: AbortHandle,
}

/// A slot in a GPU's memory, and what workers import it by.
#[derive(Debug)]
pub(super) struct Slot {
    window: Arc<dyn DeviceWindow>,
    exported: ExportedWindow,
}

/// The way to one worker.
#[derive(Clone, Debug)]
pub(super) struct Path(Arc<Channel>);

/// What all connections share.
#[derive(Debug)]
struct Door {
    permits: Arc<Permits>,
    acceptor: Arc<Acceptor>,
    cells: Cells,
    handshake_timeout: Duration,
    leave_timeout: Duration,
}

// === impl CudaReceiver ===

impl CudaReceiver {
    pub(super) fn listen(
        config: &CudaListen,
        arrivals: mpsc::UnboundedSender<Arrival>,
    ) -> Result<Arc<dyn ReceiverLink>, LinkError> {
        let CudaListen { socket_dir, allow_uids, handshake_timeout, leave_timeout } = config;
        let (address, socket) = Address::listen(KIND, socket_dir.as_deref(), allow_uids)?;
        let permits = Arc::new(Permits::new(KIND, false, arrivals));
        let acceptor = Arc::new(Acceptor::new(KIND, allow_uids, *handshake_timeout));
        let door = Arc::new(Door {
            permits: Arc::clone(&permits),
            acceptor: Arc::clone(&acceptor),
            cells: Cells::default(),
            handshake_timeout: *handshake_timeout,
            leave_timeout: *leave_timeout,
        });
        let serve = move |channel| serve(channel, Arc::clone(&door));
        let task = tokio::spawn(accept_all(socket, acceptor, serve)).abort_handle();
        let path = Self { permits: Arc::clone(&permits), address, task };
        Ok(ReceivingEnd::link(permits, path))
    }
}

impl ReceiverPath for CudaReceiver {
    const KIND: LinkKind = KIND;

    type Channel = Path;

    fn address(&self, _: IpAddr) -> Vec<u8> {
        self.address.name.clone()
    }

    fn add_slot(&self, _: &Permits, slot: SlotId, _: Arc<SlotMemory>) -> Result<(), LinkError> {
        Err(KIND.setup(format!(
            "slot {} is in the host's memory: set receiver.device = \"cuda\", or name other links",
            slot.0
        )))
    }

    fn answers_requests(&self) -> Option<&dyn AnswersRequests> {
        None
    }

    fn takes_device_slots(&self) -> Option<&dyn TakesDeviceSlots> {
        Some(self)
    }
}

impl TakesDeviceSlots for CudaReceiver {
    /// The trial is that of each connection, as it needs the other end.
    fn add_device_slot(
        &self,
        slot: SlotId,
        window: Arc<dyn DeviceWindow>,
    ) -> Result<(), LinkError> {
        let exported = match window.exports() {
            Some(exports) => exports.export(),
            None => Err("its memory cannot be exported to other processes".to_owned()),
        };
        let exported = exported.map_err(|reason| KIND.setup(format!("slot {}: {reason}", slot.0)));
        self.permits.add_slot(slot, Arc::new(Slot { window, exported: exported? }));
        Ok(())
    }
}

impl Drop for CudaReceiver {
    fn drop(&mut self) {
        tracing::debug!(address = ?self.address, "cuda link closes");
        self.task.abort();
    }
}

async fn serve(channel: Channel, door: Arc<Door>) {
    let path = Path(Arc::new(channel));
    let knock = async {
        let key = door.acceptor.hello(&path.0, MAGIC, VERSION).await?;
        door.permits.knock(&key)
    };
    let Some(peer) = door.acceptor.known(&path.0, knock).await else { return };
    let proven = tokio::time::timeout(door.handshake_timeout, door.prove(peer, &path)).await;
    let proven = proven.unwrap_or_else(|_| Err("it did not answer in time".into()));
    let reason = match proven {
        Ok(()) if door.permits.stands(peer) => {
            tokio::select! {
                reason = listen_to(KIND, peer, &path.0, &door.permits) => reason,
                () = door.hangs(peer) => "it did not let go in time after it was dropped".into(),
            }
        }
        Ok(()) => "dropped before it connected".into(),
        Err(reason) => {
            door.acceptor.turn_away(&path.0, &reason);
            reason
        }
    };
    door.permits.gone(peer, &reason);
}

// === impl Door ===

impl Door {
    /// Ends when a worker that was dropped has not let go for as long as it may.
    async fn hangs(&self, peer: PeerId) {
        while !self.permits.is_leaving(peer) {
            tokio::time::sleep(self.leave_timeout / 10).await;
        }
        tokio::time::sleep(self.leave_timeout).await;
    }

    /// Sees that both ends reach the same bytes of the GPU.
    async fn prove(&self, peer: PeerId, path: &Path) -> Result<(), String> {
        if !self.permits.reached(peer, path) {
            return Err("dropped before it connected".into());
        }
        let slots = self.permits.each_slot(Arc::clone);
        let (_, slot) = slots.into_iter().next().ok_or("there is no slot to try it on")?;
        let (of_slot, cell) = (Arc::clone(&slot), self.cells.next());
        let begun = on_gpu(move || Begun::new(of_slot.exports()?, cell)).await?;
        let challenge =
            Challenge { offset_bytes: begun.offset_bytes, terms: Terms::of(&slot.exported) };
        path.0.post(challenge.encode(), Some(Arc::clone(&slot) as Arc<dyn Attached>));
        let answer = path.0.receive().await.map_err(|error| error.to_string())?;
        let answer = answer.ok_or("it does not reach this receiver's GPU")?;
        if answer.bytes != ANSWERED {
            return Err("it sent something else than the answer to a challenge".into());
        }
        on_gpu(move || begun.check(slot.exports()?)).await
    }
}

/// Calls of a driver may take a while.
async fn on_gpu<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(call).await.map_err(|error| error.to_string())?
}

// === impl Slot ===

impl Slot {
    fn exports(&self) -> Result<&dyn ExportsWindow, String> {
        self.window.exports().ok_or_else(|| "its memory cannot be exported".to_owned())
    }
}

impl Attached for Slot {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.exported.handle {
            WindowHandle::File(file) => Some(file.as_fd()),
            WindowHandle::Fabric(_) => None,
        }
    }
}

// === impl Path ===

impl ChannelToWorker for Path {
    type Slot = Arc<Slot>;

    const WRITTEN_HERE: bool = false;

    fn slot_bytes(slot: &Self::Slot) -> u64 {
        slot.exported.len_bytes
    }

    /// Goodbye is the end of this side's stream; a slot's descriptor goes with its packet.
    fn send(&self, message: ToWorker<&Self::Slot>) {
        let attached = match message {
            ToWorker::Bye => return self.0.end_sending(),
            ToWorker::Slot { terms, .. } => Some(Arc::clone(terms) as Arc<dyn Attached>),
            _ => None,
        };
        self.0.post(message.map(|slot| Terms::of(&slot.exported)).encode(), attached);
    }
}
