//! Sessions with workers: opened, kept alive, given up and begun again.
//!
//! Refuses to know gRPC: how a worker is reached is behind [`Dial`].

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use headwater_core::Digester;
use headwater_proto::augment::{FromWorker, LinkOffer, SessionHello, SessionWelcome, ToWorker};
use headwater_transport::{LinkKind, PeerId, ReceiverLink, SessionKey};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, interval, timeout, timeout_at};
use tokio_stream::{Stream, StreamExt as _};

use crate::config::HEARTBEATS_MISSED_MAX;
use crate::driver::{Event, SessionEvent};

/// Time to reach a worker and be welcomed; includes the worker's own look at the storage tier.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for a worker to end a session that the receiver leaves.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(500);
/// Bounds of the pause before another try.
const BACKOFF: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];

/// The way to workers.
#[async_trait]
pub(crate) trait Dial: Send + Sync + 'static {
    /// Says hello to the worker at `host:port` and returns what it answers. Cancelled when it
    /// takes too long. What a connecting link asks meanwhile, `links` answer.
    async fn dial(
        &self,
        address: &str,
        hello: SessionHello,
        links: &[Arc<dyn ReceiverLink>],
    ) -> Result<Opened, DialError>;
}

/// What a worker says, in order, until the stream ends or breaks; the error says why.
pub(crate) type Inbox = Pin<Box<dyn Stream<Item = Result<FromWorker, String>> + Send>>;

/// A worker that has welcomed this receiver.
pub(crate) struct Opened {
    /// Ends the receiver's half of the session when the last sender is dropped.
    pub(crate) outbox: mpsc::Sender<ToWorker>,
    pub(crate) inbox: Inbox,
    pub(crate) welcome: SessionWelcome,
}

/// Why there is no session.
pub(crate) struct DialError {
    pub(crate) reason: String,
    /// Another try with the same program and configuration would end the same way.
    pub(crate) hopeless: bool,
}

/// What the sessions of a receiver have in common.
pub(crate) struct SessionShared {
    /// All but the session's key and links.
    pub(crate) hello: SessionHello,
    pub(crate) dial: Arc<dyn Dial>,
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
        let pause_now = pause.mul_f64(spread(&shared.hello.receiver, &address, number));
        tokio::select! {
            () = tokio::time::sleep(pause_now) => {}
            () = asked_to_leave(&mut leaving) => return,
        }
        pause = (pause * 2).min(BACKOFF[1]);
    }
}

/// What share of a pause is kept, from a half to all of it: receivers that lost a worker at the
/// same time do not come back at the same time. Follows from who calls whom, so that a run replays.
fn spread(receiver: &str, address: &str, try_number: u64) -> f64 {
    let mut digester = Digester::new("headwater session pause 1");
    digester.bytes(receiver.as_bytes()).bytes(address.as_bytes());
    let draw = digester.number(try_number).finish();
    0.5 + f64::from(draw.0 as u32) / f64::from(u32::MAX) / 2.0
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
    let mut hello = shared.hello.clone();
    hello.session_key = key.0;
    hello.links = shared
        .links
        .iter()
        .map(|link| link.offer())
        .map(|offer| LinkOffer { kind: offer.kind.name().into(), address: offer.address })
        .collect();
    let dialled = shared.dial.dial(address, hello, &shared.links);
    let opened = timeout(CONNECT_TIMEOUT, dialled).await;
    let Opened { outbox, inbox, welcome } = match opened {
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
    let (held, given_up) = oneshot::channel();
    let joined = SessionEvent::Joined {
        address: address.to_owned(),
        welcome,
        link: Arc::clone(link),
        outbox: outbox.clone(),
        held,
    };
    if shared.events.send(Event::Session(peer, joined)).is_err() {
        return failed("the receiver is closed".into(), true);
    }
    let reason = pass_messages(shared, peer, outbox, inbox, given_up).await;
    SessionEnd { reason, stood: true, hopeless: false }
}

/// Passes what the worker says to the driver until the stream ends, a message is not one, the
/// worker is silent for too long, or the driver gives it up. Returns why it ended.
async fn pass_messages(
    shared: &SessionShared,
    peer: PeerId,
    outbox: mpsc::Sender<ToWorker>,
    mut inbox: Inbox,
    mut given_up: oneshot::Receiver<()>,
) -> String {
    let mut beat = interval(shared.heartbeat);
    let patience = shared.heartbeat * HEARTBEATS_MISSED_MAX;
    let mut sequence = 0;
    let mut silent_at = Instant::now() + patience;
    let mut leaving = shared.leaving.clone();
    loop {
        let message = tokio::select! {
            // In this order: whatever is ready, the same run goes the same way.
            biased;
            () = asked_to_leave(&mut leaving) => {
                drop(outbox);
                return leave(inbox).await;
            }
            // By dropping the other end; there is nothing to be sent.
            _ = &mut given_up => return "this receiver gave it up".into(),
            _ = beat.tick() => {
                sequence += 1;
                // A full outbox means that the worker does not read: silence ends the session.
                let _ = outbox.try_send(ToWorker::Heartbeat(sequence));
                continue;
            }
            message = timeout_at(silent_at, inbox.next()) => message,
        };
        silent_at = Instant::now() + patience;
        let message = match message {
            Ok(Some(Ok(FromWorker::Heartbeat(_)))) => continue,
            Ok(Some(Ok(message))) => message,
            Ok(None) => return "worker ended the session".into(),
            Ok(Some(Err(reason))) => return reason,
            Err(_) => return format!("silent for {} ms", patience.as_millis()),
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
async fn leave(mut inbox: Inbox) -> String {
    let ended = async { while let Some(Ok(_)) = inbox.next().await {} };
    let _ = timeout(LEAVE_TIMEOUT, ended).await;
    "the receiver left".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_that_lose_a_worker_together_do_not_come_back_together() {
        let shares: Vec<f64> =
            (0..64).map(|rank| spread(&format!("job/{rank}"), "worker:7402", 1)).collect();
        assert!(shares.iter().all(|share| (0.5..=1.0).contains(share)), "{shares:?}");
        let (mut tenths, mut sorted) = ([0; 5], shares);
        sorted.sort_by(f64::total_cmp);
        sorted.iter().for_each(|share| tenths[(((share - 0.5) * 10.0) as usize).min(4)] += 1);
        assert!(tenths.iter().all(|number| *number > 0), "not spread: {tenths:?}");
        sorted.dedup();
        assert_eq!(sorted.len(), 64, "two of them wait alike");
        assert_ne!(spread("job/0", "worker:7402", 1), spread("job/0", "worker:7402", 2));
    }
}
