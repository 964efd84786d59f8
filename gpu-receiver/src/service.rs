//! One worker's control stream. The only place of this crate that knows gRPC.

use std::sync::Arc;
use std::time::Duration;

use headwater_access::{Access, Caller};
use headwater_proto::augment::{FromWorker, LinkOffer, SessionHello, SessionWelcome, ToWorker};
use headwater_proto::v1::augment_client::AugmentClient;
use headwater_proto::{MESSAGE_MAX_BYTES, WIRE_VERSION};
use headwater_transport::{LinkKind, PeerId, ReceiverLink, SessionKey};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, interval, timeout, timeout_at};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use tonic::{Code, Streaming};

use crate::config::HEARTBEATS_MISSED_MAX;
use crate::driver::{Event, SessionEvent};

/// Time to reach a worker and be welcomed; includes the worker's own look at the storage tier.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Messages on their way to one worker; leases are bounded by its credits long before.
const OUTBOX_MESSAGES: usize = 4096;
/// Time for a worker to end a session that the receiver leaves.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(500);
/// Bounds of the pause before another try.
const BACKOFF: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];

/// What the sessions of a receiver have in common.
pub(crate) struct SessionShared {
    /// All but the session's key.
    pub(crate) hello: SessionHello,
    pub(crate) access: Access,
    pub(crate) links: Vec<Arc<dyn ReceiverLink>>,
    pub(crate) events: mpsc::UnboundedSender<Event>,
    pub(crate) heartbeat: Duration,
    pub(crate) next_peer: std::sync::atomic::AtomicU64,
    /// Set once: the receiver is about to end.
    pub(crate) leaving: watch::Receiver<bool>,
}

/// Ends a peer's admission when the session ends, also when its task is aborted.
struct Admitted<'a> {
    links: &'a [Arc<dyn ReceiverLink>],
    peer: PeerId,
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        for link in self.links {
            link.drop_peer(self.peer);
        }
    }
}

/// How a try to keep a session ended.
struct SessionEnd {
    reason: String,
    /// It stood: the pauses begin again with the shortest.
    stood: bool,
    /// Another try with the same program and configuration would end the same way.
    hopeless: bool,
}

/// Keeps a session with the worker at `address` for as long as the task lives: connects, passes
/// messages, and begins again with a new key and peer number when it ends.
pub(crate) async fn keep_session(shared: Arc<SessionShared>, address: String) {
    let mut leaving = shared.leaving.clone();
    let mut pause = BACKOFF[0];
    let mut last_reason = String::new();
    loop {
        let number = shared.next_peer.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let peer = PeerId(number);
        let admitted = Admitted { links: &shared.links, peer };
        let end = run_session(&shared, &address, peer).await;
        drop(admitted);
        if *leaving.borrow() {
            return;
        }
        if end.stood || end.reason != last_reason {
            tracing::warn!(worker = address, reason = end.reason, "no session with worker");
        }
        last_reason.clone_from(&end.reason);
        let SessionEnd { reason, stood, hopeless } = end;
        let ended = SessionEvent::Ended { address: address.clone(), reason, hopeless };
        if shared.events.send(Event::Session(peer, ended)).is_err() {
            return;
        }
        if stood {
            pause = BACKOFF[0];
        }
        // Spread by the peer number, so that many receivers do not come back in step.
        let spread = pause.mul_f64(0.25 * f64::from((number % 16) as u32) / 16.0);
        tokio::select! {
            () = tokio::time::sleep(pause + spread) => {}
            () = asked_to_leave(&mut leaving) => return,
        }
        pause = (pause * 2).min(BACKOFF[1]);
    }
}

async fn run_session(shared: &SessionShared, address: &str, peer: PeerId) -> SessionEnd {
    let failed = |reason: String, hopeless| SessionEnd { reason, stood: false, hopeless };
    let key = match SessionKey::random() {
        Ok(key) => key,
        Err(error) => return failed(format!("no random numbers: {error}"), true),
    };
    for link in &shared.links {
        link.admit(peer, key.clone());
    }
    let opened = timeout(CONNECT_TIMEOUT, open(shared, address, &key)).await;
    let (outbox, inbox, welcome) = match opened {
        Ok(Ok(opened)) => opened,
        Ok(Err(failure)) => return failed(failure.reason, failure.hopeless),
        Err(_) => {
            return failed(format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()), false);
        }
    };
    let Some(link) = LinkKind::from_name(&welcome.link)
        .and_then(|kind| shared.links.iter().find(|link| link.kind() == kind))
    else {
        return failed(format!("worker chose link `{}`, which is not offered", welcome.link), true);
    };
    for other in shared.links.iter().filter(|other| other.kind() != link.kind()) {
        other.drop_peer(peer);
    }
    for refused in &welcome.refused_links {
        tracing::info!(worker = address, refused, "a better link was not taken");
    }
    let joined = SessionEvent::Joined {
        address: address.to_owned(),
        welcome,
        link: Arc::clone(link),
        outbox: outbox.clone(),
    };
    if shared.events.send(Event::Session(peer, joined)).is_err() {
        return failed("the receiver is closed".into(), true);
    }
    let reason = pass_messages(shared, peer, outbox, inbox).await;
    SessionEnd { reason, stood: true, hopeless: false }
}

type Opened = (mpsc::Sender<ToWorker>, Streaming<headwater_proto::v1::FromWorker>, SessionWelcome);

struct OpenFailure {
    reason: String,
    hopeless: bool,
}

async fn open(
    shared: &SessionShared,
    address: &str,
    key: &SessionKey,
) -> Result<Opened, OpenFailure> {
    let passing = |reason: String| OpenFailure { reason, hopeless: false };
    let mut client = AugmentClient::new(connect(&shared.access, address).await.map_err(passing)?)
        .max_decoding_message_size(MESSAGE_MAX_BYTES)
        .max_encoding_message_size(MESSAGE_MAX_BYTES);
    let (outbox, queue) = mpsc::channel::<ToWorker>(OUTBOX_MESSAGES);
    let mut hello = shared.hello.clone();
    hello.session_key = key.0;
    hello.links = shared
        .links
        .iter()
        .map(|link| link.offer())
        .map(|offer| LinkOffer { kind: offer.kind.name().into(), address: offer.address })
        .collect();
    let _ = outbox.try_send(ToWorker::Hello(Box::new(hello)));
    let messages = tokio_stream::StreamExt::map(
        ReceiverStream::new(queue),
        headwater_proto::v1::ToWorker::from,
    );
    let refused = |status: tonic::Status| OpenFailure {
        reason: status.message().to_owned(),
        hopeless: matches!(
            status.code(),
            Code::FailedPrecondition
                | Code::InvalidArgument
                | Code::PermissionDenied
                | Code::Unauthenticated
        ),
    };
    let mut inbox = client.work(messages).await.map_err(refused)?.into_inner();
    let first = inbox.message().await.map_err(refused)?;
    let first = first.ok_or_else(|| passing("worker closed the stream".into()))?;
    let welcome = match FromWorker::try_from(first) {
        Ok(FromWorker::Welcome(welcome)) => welcome,
        Ok(_) => return Err(passing("worker's first message was no welcome".into())),
        Err(error) => return Err(passing(error.to_string())),
    };
    if welcome.wire_version != WIRE_VERSION {
        let theirs = welcome.wire_version;
        let reason = format!(
            "worker speaks wire version {theirs}, this receiver {WIRE_VERSION}: \
             run the same release in all tiers"
        );
        return Err(OpenFailure { reason, hopeless: true });
    }
    Ok((outbox, inbox, welcome))
}

async fn connect(access: &Access, address: &str) -> Result<Caller, String> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .map_err(|error| format!("`{address}` is not host:port: {error}"))?;
    let endpoint = endpoint.tcp_nodelay(true).connect_timeout(CONNECT_TIMEOUT);
    access
        .connect(&endpoint)
        .await
        .map_err(|error| format!("cannot reach {address}: {}", root_cause(&error)))
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// Passes what the worker says to the driver until the stream ends, a message is not one, or the
/// worker is silent for too long. Returns why it ended.
async fn pass_messages(
    shared: &SessionShared,
    peer: PeerId,
    outbox: mpsc::Sender<ToWorker>,
    mut inbox: Streaming<headwater_proto::v1::FromWorker>,
) -> String {
    let mut beat = interval(shared.heartbeat);
    let patience = shared.heartbeat * HEARTBEATS_MISSED_MAX;
    let mut sequence = 0;
    let mut silent_at = Instant::now() + patience;
    let mut leaving = shared.leaving.clone();
    loop {
        let message = tokio::select! {
            () = asked_to_leave(&mut leaving) => {
                drop(outbox);
                return leave(inbox).await;
            }
            message = timeout_at(silent_at, inbox.message()) => message,
            _ = beat.tick() => {
                sequence += 1;
                // A full outbox means that the worker does not read: silence ends the session.
                let _ = outbox.try_send(ToWorker::Heartbeat(sequence));
                continue;
            }
        };
        silent_at = Instant::now() + patience;
        let message = match message {
            Ok(Ok(Some(message))) => message,
            Ok(Ok(None)) => return "worker ended the session".into(),
            Ok(Err(status)) => return format!("stream broke: {}", status.message()),
            Err(_) => return format!("silent for {} ms", patience.as_millis()),
        };
        let message = match FromWorker::try_from(message) {
            Ok(FromWorker::Heartbeat(_)) => continue,
            Ok(message) => message,
            Err(error) => return format!("protocol error: {error}"),
        };
        if shared.events.send(Event::Session(peer, SessionEvent::Said(message))).is_err() {
            return "the receiver is closed".into();
        }
    }
}

async fn asked_to_leave(leaving: &mut watch::Receiver<bool>) {
    // A driver that is gone asks for the same.
    let _ = leaving.wait_for(|leaving| *leaving).await;
}

/// The last sender of messages is dropped, which tells the worker that the receiver is through;
/// waits for it to end the session too, so that it need not take this for a fault.
async fn leave(mut inbox: Streaming<headwater_proto::v1::FromWorker>) -> String {
    let ended = async { while let Ok(Some(_)) = inbox.message().await {} };
    let _ = timeout(LEAVE_TIMEOUT, ended).await;
    "the receiver left".into()
}
