//! Who is connected to a socket, as ZeroMQ's own monitor tells it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use zmq::{Context, DONTWAIT, PAIR, Socket, SocketEvent};

/// Each socket's monitor has its own address in this process.
static NEXT: AtomicU64 = AtomicU64::new(0);
/// Bytes of an event: its kind and the number of a descriptor.
const EVENT_BYTES: usize = 6;

/// The connections of one socket.
pub(super) struct Clients {
    events: Socket,
    /// By their descriptors.
    connected: HashSet<u32>,
}

// === impl Clients ===

impl Clients {
    /// Watches a socket that is neither bound nor connected yet.
    pub(super) fn watch(context: &Context, socket: &Socket) -> zmq::Result<Self> {
        let endpoint =
            format!("inproc://headwater-clients-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let kinds = [SocketEvent::CONNECTED, SocketEvent::ACCEPTED, SocketEvent::DISCONNECTED];
        let mask = kinds.into_iter().fold(0, |mask, kind| mask | kind as i32);
        socket.monitor(&endpoint, mask)?;
        let events = context.socket(PAIR)?;
        // Without a bound, because ZeroMQ's own threads would otherwise wait here. It is emptied
        // several times a second.
        events.set_rcvhwm(0)?;
        events.set_linger(0)?;
        events.connect(&endpoint)?;
        Ok(Self { events, connected: HashSet::new() })
    }

    /// Counts who has come and gone meanwhile; how many have gone.
    pub(super) fn notice(&mut self) -> zmq::Result<u64> {
        let mut gone = 0;
        loop {
            let event = match self.events.recv_multipart(DONTWAIT) {
                Ok(event) => event,
                Err(zmq::Error::EAGAIN) => return Ok(gone),
                Err(error) => return Err(error),
            };
            let Some((kind, descriptor)) = event.first().and_then(|told| parsed(told)) else {
                continue;
            };
            match kind {
                SocketEvent::CONNECTED | SocketEvent::ACCEPTED => {
                    self.connected.insert(descriptor);
                }
                SocketEvent::DISCONNECTED => gone += u64::from(self.connected.remove(&descriptor)),
                _ => {}
            }
        }
    }

    pub(super) fn connected(&self) -> usize {
        self.connected.len()
    }
}

fn parsed(told: &[u8]) -> Option<(SocketEvent, u32)> {
    let told: &[u8; EVENT_BYTES] = told.try_into().ok()?;
    let [k0, k1, descriptor @ ..] = *told;
    Some((SocketEvent::from_raw(u16::from_ne_bytes([k0, k1])), u32::from_ne_bytes(descriptor)))
}
