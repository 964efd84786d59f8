//! What the driver hears of, and the ways on which it hears it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use headwater_core::sampler::{Restored, SamplerError, State, Term};
use headwater_proto::augment::{FromWorker, SessionWelcome, ToWorker};
use headwater_transport::{Arrival, LinkKind, PeerId, ReceiverLink};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::error::ReceiverError;
use crate::host::HostEvent;
use crate::position::Position;
use crate::sessions::Refusal;

/// Events that may wait for the driver. Whoever has another one waits too.
pub(crate) const EVENTS_MAX: usize = 256;

/// Something that happened.
pub(crate) enum Event {
    Session(PeerId, SessionEvent),
    Link(LinkKind, Arrival),
    Command(Command),
    Host(HostEvent),
}

/// What a control stream reports.
pub(crate) enum SessionEvent {
    Joined {
        address: String,
        welcome: SessionWelcome,
        link: Arc<dyn ReceiverLink>,
        outbox: mpsc::Sender<ToWorker>,
        /// Set with the first lease that is given.
        leased: Arc<AtomicBool>,
        /// Dropped to give the session up.
        held: oneshot::Sender<()>,
    },
    Said(FromWorker),
    Ended {
        address: String,
        reason: String,
        hopeless: bool,
        /// Why there was none; `None`: it stood.
        refusal: Option<Refusal>,
    },
}

/// What the trainer's side asks for.
pub(crate) enum Command {
    /// Go on at another place.
    Seek(Position, oneshot::Sender<Result<(), ReceiverError>>),
    /// Weights from the next batch that the trainer takes.
    SetWeights(Vec<f64>, oneshot::Sender<Result<(), SamplerError>>),
    /// Take over a state and go on where it says.
    Restore(Box<State>, Vec<Term>, oneshot::Sender<Result<Restored, ReceiverError>>),
    /// The workers there should be.
    SetWorkers(Arc<[String]>),
    /// Whether nobody is going to take a batch for now.
    SetIdle(bool, oneshot::Sender<()>),
    /// Why no workers are found where they are looked for; empty: they are.
    WorkersMissing(String),
}

/// The trainer's way to the driver.
pub(crate) struct DriverHandle {
    pub(crate) events: mpsc::Sender<Event>,
    /// Rung when the trainer took something: there may be room.
    pub(crate) room: Arc<Notify>,
    stop: watch::Sender<bool>,
}

/// The driver's end of all ways.
pub(crate) struct DriverInbox {
    pub(crate) events: mpsc::Receiver<Event>,
    pub(crate) room: Arc<Notify>,
    /// Set, or its sender gone: the driver is to end.
    pub(crate) stop: watch::Receiver<bool>,
}

/// The ways to a driver.
pub(crate) fn ways() -> (DriverHandle, DriverInbox) {
    let (events, heard) = mpsc::channel(EVENTS_MAX);
    let (stop, stopped) = watch::channel(false);
    let room = Arc::new(Notify::new());
    (
        DriverHandle { events, room: Arc::clone(&room), stop },
        DriverInbox { events: heard, room, stop: stopped },
    )
}

// === impl DriverHandle ===

impl DriverHandle {
    /// Ends the driver. Never waits.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }
}
