//! The worker's end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::adapter::Adapter;
use super::choices::RdmaConnect;
use super::connection::Connection;
use super::lane::Event;
use super::probe::PROBE_BYTES;
use super::session::Session;
use super::wire::{Answer, Offer, RemoteMemory, Request, VERSION};
use super::{locked, probe};
use crate::link::contract::{Exchange, SendsWhole, WorkerLink};
use crate::link::messages::{ToReceiver, ToWorker};
use crate::link::terms::{LinkError, LinkKind, LinkOffer, SessionKey};
use crate::memory::part::PartBuffer;
use crate::memory::place::{LeaseId, PartPlace};
use crate::metrics::{self, Direction};

/// Time for a leaving worker's parts and goodbye to reach the receiver.
const LEAVE_LIMIT: Duration = Duration::from_secs(2);
/// Time for stopped queue pairs to give back what they hold.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

/// A connected worker.
#[derive(Debug)]
pub(super) struct RdmaWorker {
    session: Arc<Session>,
    leave: Arc<Notify>,
}

// === impl RdmaWorker ===

impl RdmaWorker {
    pub(super) async fn connect(
        offer: &LinkOffer,
        key: &SessionKey,
        config: &RdmaConnect,
        exchange: &dyn Exchange,
    ) -> Result<Self, LinkError> {
        // That the version is another one it learns from the receiver's answer.
        let offer = Offer::decode(&offer.address);
        let adapter = Adapter::open(&config.port, offer.as_ref(), Connection::try_out);
        let adapter = adapter.map_err(setup)?;
        locked::check(config.part_bytes * config.staging_buffers as u64).map_err(setup)?;
        let answered = AtomicBool::new(false);
        let late = |_| setup(late(answered.load(Ordering::Relaxed)));
        let greet = greet(&adapter, offer.as_ref(), key, config, exchange, &answered);
        let (connection, early) =
            tokio::time::timeout(config.handshake_timeout, greet).await.map_err(late)??;
        let session = Session::new(Arc::clone(&connection), config.staging_buffers);
        for event in early {
            hear(&session, event).map_err(|reason| LinkKind::Rdma.closed(reason))?;
        }
        let session = Arc::new(session);
        let leave = Arc::new(Notify::new());
        tokio::spawn(keep(Arc::clone(&session), connection, Arc::clone(&leave)));
        Ok(Self { session, leave })
    }
}

#[async_trait]
impl WorkerLink for RdmaWorker {
    fn kind(&self) -> LinkKind {
        LinkKind::Rdma
    }

    async fn begin(&self, place: PartPlace) -> Result<PartBuffer, LinkError> {
        self.session.begin(place).await
    }

    async fn commit(&self, part: PartBuffer) -> Result<(), LinkError> {
        match self.session.send(part)?.await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.session.permits.closed().await),
        }
    }

    fn sends_whole(&self) -> Option<&dyn SendsWhole> {
        None // The card reads registered memory only.
    }

    fn withdraw(&self, lease: LeaseId) {
        self.session.permits.withdraw(lease);
    }

    async fn closed(&self) -> LinkError {
        self.session.permits.closed().await
    }
}

impl Drop for RdmaWorker {
    fn drop(&mut self) {
        // The task says goodbye and ends.
        self.leave.notify_one();
    }
}

/// Exchanges addresses, connects the pairs, and waits for the receiver to have seen the probe.
/// What it said beyond that comes back too.
async fn greet(
    adapter: &Arc<Adapter>,
    offer: Option<&Offer>,
    key: &SessionKey,
    config: &RdmaConnect,
    exchange: &dyn Exchange,
    answered: &AtomicBool,
) -> Result<(Arc<Connection>, Vec<Event>), LinkError> {
    let failed = |error: std::io::Error| {
        setup(format!("{} gives no queue pairs: {error}", adapter.describe()))
    };
    let towards = offer.map(|offer| &offer.gid);
    let made = Connection::new(adapter, config.queue_pairs, false, towards);
    let connection = made.map_err(failed)?;
    let endpoint = connection.endpoint();
    let request = Request { version: VERSION, key: key.0, endpoint };
    let answer = exchange.exchange(LinkKind::Rdma, request.encode()).await?;
    let (endpoint, probe) = match Answer::decode(&answer) {
        Some(Answer::Accepted { endpoint, probe }) => (endpoint, probe),
        Some(Answer::Refused { reason }) => return Err(LinkKind::Rdma.refused(reason)),
        None => {
            return Err(LinkKind::Rdma.refused("it answered something else than a receiver"));
        }
    };
    answered.store(true, Ordering::Relaxed);
    connection.endpoint().path.check_reach(&endpoint.path).map_err(setup)?;
    connection.connect(&endpoint).map_err(failed)?;
    connection.probe(probe, |pair| probe::pattern(&key.0, pair)).map_err(failed)?;
    loop {
        let mut events = connection.events().await.into_iter();
        while let Some(event) = events.next() {
            match event {
                Event::Message(bytes) if is_standing(&bytes) => {
                    return Ok((Arc::new(connection), events.collect()));
                }
                Event::Broken(reason) => {
                    return Err(setup(lost(&reason)));
                }
                Event::Message(_) => {
                    let reason = "it answered the probe with something else";
                    return Err(LinkKind::Rdma.refused(reason));
                }
                Event::Written(_) | Event::Ended(..) => {}
            }
        }
    }
}

/// What did not come in time, before the receiver's answer or after it.
fn late(answered: bool) -> String {
    match answered {
        false => "the receiver did not answer in time".into(),
        true => lost("the receiver did not see it in time"),
    }
}

/// The probe did not get through; `how` that shows.
fn lost(how: &str) -> String {
    format!(
        "the probe of {PROBE_BYTES} bytes over each queue pair did not get through ({how}): either \
         packets of this size do not (do all switches between the two take the ports' MTU?), or none \
         do (another VLAN or subnet, a firewall on UDP port 4791)"
    )
}

fn is_standing(message: &[u8]) -> bool {
    ToWorker::<RemoteMemory>::decode(message) == Some(ToWorker::ConnectionAuth)
}

fn setup(reason: String) -> LinkError {
    LinkKind::Rdma.setup(reason)
}

/// Serves the queue pairs until the worker leaves or they break, and destroys them.
async fn keep(session: Arc<Session>, connection: Arc<Connection>, leave: Arc<Notify>) {
    let reason = tokio::select! {
        reason = serve(&session, &connection) => reason,
        () = leave.notified() => {
            // Parts whose `commit` was given up may be on their way; the goodbye comes after them.
            let left = tokio::time::timeout(LEAVE_LIMIT, say_goodbye(&session, &connection));
            left.await.unwrap_or_else(|_| "the receiver took no goodbye".into())
        }
    };
    // From here on nobody can send; what was sent is flushed, and only then are buffers let go of.
    session.close(&reason);
    connection.fail();
    connection
        .drain(DRAIN_LIMIT, |event| {
            settle(event, Some(&reason));
        })
        .await;
    connection.destroy();
}

async fn serve(session: &Session, connection: &Connection) -> String {
    loop {
        let mut ends = None;
        for event in connection.events().await {
            let end = hear(session, event).err();
            ends = ends.or(end);
        }
        if let Some(reason) = ends {
            return reason;
        }
        tokio::task::coop::consume_budget().await;
    }
}

async fn say_goodbye(session: &Session, connection: &Connection) -> String {
    let mut said = false;
    loop {
        if connection.is_idle() {
            if said {
                return "the worker left".into();
            }
            said = true;
            connection.send(ToReceiver::Bye.encode());
        }
        for event in connection.events().await {
            if let Err(reason) = hear(session, event) {
                return reason;
            }
        }
    }
}

/// `Err`: why the session ends.
fn hear(session: &Session, event: Event) -> Result<(), String> {
    match event {
        Event::Message(bytes) => session.hear(&bytes),
        Event::Broken(reason) => Err(reason),
        Event::Ended(..) => {
            settle(event, None);
            Ok(())
        }
        Event::Written(_) => Err("the receiver wrote to a worker".into()),
    }
}

/// Tells whoever committed a part how it ended, and lets go of its buffer.
fn settle(event: Event, closing: Option<&str>) {
    let Event::Ended(outgoing, outcome) = event else { return };
    let bytes = outgoing.part.len_bytes();
    let outcome =
        outcome.map_err(|reason| LinkKind::Rdma.closed(closing.map_or(reason, str::to_owned)));
    if outcome.is_ok() {
        metrics::part(LinkKind::Rdma, Direction::Out, bytes);
    }
    drop(outgoing.part);
    outgoing.done.send(outcome).ok();
}
