//! Sessions with workers: opened, kept alive, given up and begun again.
//!
//! Refuses to know gRPC: how a worker is reached is behind [`Dial`].

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use headwater_core::{Backoff, Digest, Digester};
use headwater_proto::augment::{
    FromWorker, Heartbeat, SessionHello, SessionWelcome, StreamNews, ToWorker,
};
use headwater_transport::{LinkKind, PeerId, ReceiverLink, SessionKey};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, interval, timeout, timeout_at};
use tokio_stream::{Stream, StreamExt as _};

use crate::breadth::Breadth;
use crate::config::HEARTBEATS_MISSED_MAX;
use crate::events::{Event, SessionEvent};
use crate::link_trials::LinkTrials;
use crate::names::WorkerNames;
use crate::position::Position;
use crate::sample_order::SampleOrder;
use crate::tries::Tries;

/// Time to reach a worker and be welcomed; includes the worker's own look at the storage tier.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for a worker to end a session that the receiver leaves.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(500);
/// Pauses between tries to open a session.
pub(crate) const TRIES: Backoff =
    Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(5) };

/// Longest pause before another try at a worker that keeps a place for this receiver.
const PLACE_TRY: Duration = Duration::from_secs(1);
/// A session that ends earlier has not stood.
const STANDS: Duration = Duration::from_secs(10);

/// The way to workers.
#[async_trait]
pub(crate) trait Dial: Send + Sync + 'static {
    /// Says hello to the worker at `host:port` and returns what it answers. Cancelled when it
    /// takes too long. Offers `links` to the worker.
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
    pub(crate) refusal: Refusal,
}

/// Who there is where no session comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A worker that has as many sessions as it may.
    Full,
    /// The same, and a place will be free for this receiver.
    Place,
    /// Anything else, or nobody.
    Other,
}

/// What the sessions of a receiver have in common.
pub(crate) struct SessionShared {
    /// All but the session's key and the links, which the way to the worker decides.
    pub(crate) hello: SessionHello,
    pub(crate) dial: Arc<dyn Dial>,
    pub(crate) links: Vec<Arc<dyn ReceiverLink>>,
    pub(crate) events: mpsc::Sender<Event>,
    pub(crate) heartbeat: Duration,
    pub(crate) tries: Tries,
    pub(crate) names: WorkerNames,
    /// Links that workers are not offered for a while.
    pub(crate) trials: LinkTrials,
    /// The place that is ordered next. Workers hear of it.
    pub(crate) ordered: watch::Receiver<Position>,
    pub(crate) order: Arc<SampleOrder>,
    pub(crate) breadth: Breadth,
    /// Set once: the receiver is about to end.
    pub(crate) leaving: watch::Receiver<bool>,
}

/// How a try to keep a session ended.
struct SessionEnd {
    reason: String,
    /// It stood, over this link.
    stood: Option<LinkKind>,
    /// It delivered a part; `None`: it had none to deliver.
    delivered: Option<bool>,
    /// Another try with the same program and configuration would end the same way.
    hopeless: bool,
    /// Where it did not stand.
    refusal: Refusal,
}

/// Keeps a session with the worker at `address` for as long as the task lives: connects, passes
/// messages, and begins again with a new key and peer number when it ends.
pub(crate) async fn keep_session(shared: Arc<SessionShared>, address: String) {
    let mut leaving = shared.leaving.clone();
    let mut failures = 0;
    let mut last_reason = String::new();
    loop {
        let begun = Instant::now();
        let links = shared.trials.offered(&address, &shared.links, Instant::now());
        let open = shared.tries.begin(&links);
        let peer = open.peer;
        let end = run_session(&shared, &links, &address, peer).await;
        drop(open);
        if *leaving.borrow() {
            return;
        }
        match (end.stood, end.delivered) {
            // A worker that is full has not looked at the links.
            (None, _) if end.refusal != Refusal::Other => {}
            (None, _) => shared.trials.on_refusal(&address),
            (Some(link), Some(delivered)) => {
                shared.trials.on_end(&address, link, delivered, Instant::now());
            }
            (Some(_), None) => {}
        }
        if end.stood.is_some() || end.reason != last_reason {
            tracing::warn!(worker = address, reason = end.reason, "no session with worker");
        }
        last_reason.clone_from(&end.reason);
        // A session that stood and delivered nothing is no better than one that did not come about.
        let was_good = end.stood.is_some() && end.delivered != Some(false);
        let SessionEnd { reason, stood, hopeless, refusal, .. } = end;
        // One that breaks off at once is no better than none.
        let refusal = (stood.is_none() || begun.elapsed() < STANDS).then_some(refusal);
        let ended = SessionEvent::Ended { address: address.clone(), reason, hopeless, refusal };
        if shared.events.send(Event::Session(peer, ended)).await.is_err() {
            return;
        }
        failures = if was_good { 1 } else { failures + 1 };
        let draw = pause_draw(&shared.hello.receiver, &address, peer.0);
        tokio::select! {
            () = tokio::time::sleep(pause(failures, draw, refusal)) => {}
            () = asked_to_leave(&mut leaving) => return,
        }
    }
}

/// Whoever is kept a place comes for it.
fn pause(failures: u32, draw: Digest, refusal: Option<Refusal>) -> Duration {
    let pause = TRIES.pause(failures, draw);
    if refusal == Some(Refusal::Place) { pause.min(PLACE_TRY) } else { pause }
}

/// Follows from who calls whom, so that a run replays.
pub(crate) fn pause_draw(receiver: &str, address: &str, try_number: u64) -> Digest {
    let mut digester = Digester::new("headwater session pause 1");
    digester.bytes(receiver.as_bytes()).bytes(address.as_bytes());
    digester.number(try_number).finish()
}

/// `links` are offered.
async fn run_session(
    shared: &SessionShared,
    links: &[Arc<dyn ReceiverLink>],
    address: &str,
    peer: PeerId,
) -> SessionEnd {
    let refusal = Refusal::Other;
    let failed = |reason: String, hopeless| SessionEnd {
        reason,
        stood: None,
        delivered: None,
        hopeless,
        refusal,
    };
    let key = match SessionKey::random() {
        Ok(key) => key,
        Err(error) => return failed(format!("no random numbers: {error}"), true),
    };
    for link in links {
        link.admit(peer, key.clone());
    }
    let mut hello = shared.hello.clone();
    hello.session_key = key.0;
    hello.sessions_held = Some(shared.breadth.held_for(address));
    let dialled = shared.dial.dial(address, hello, links);
    let opened = timeout(CONNECT_TIMEOUT, dialled).await;
    let Opened { outbox, inbox, welcome } = match opened {
        Ok(Ok(opened)) => opened,
        Ok(Err(DialError { reason, hopeless, refusal })) => {
            return SessionEnd { refusal, ..failed(reason, hopeless) };
        }
        Err(_) => {
            return failed(format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()), false);
        }
    };
    let _name = match shared.names.claim(&welcome.worker, address) {
        Ok(claimed) => claimed,
        Err(taken) => return failed(taken, false),
    };
    let Some(link) = LinkKind::from_name(&welcome.link)
        .and_then(|kind| links.iter().find(|link| link.kind() == kind))
    else {
        return failed(format!("worker chose link `{}`, which is not offered", welcome.link), true);
    };
    for other in links.iter().filter(|other| other.kind() != link.kind()) {
        other.drop_peer(peer);
    }
    for refused in &welcome.refused_links {
        tracing::info!(worker = address, refused, "a better link was not taken");
    }
    let (held, given_up) = oneshot::channel();
    let leased = Arc::new(AtomicBool::new(false));
    let joined = SessionEvent::Joined {
        address: address.to_owned(),
        welcome,
        link: Arc::clone(link),
        outbox: outbox.clone(),
        leased: Arc::clone(&leased),
        held,
    };
    if shared.events.send(Event::Session(peer, joined)).await.is_err() {
        return failed("the receiver is closed".into(), true);
    }
    let mut delivered = false;
    let reason = pass_messages(shared, peer, outbox, inbox, given_up, &mut delivered).await;
    let delivered = (delivered || leased.load(Ordering::Relaxed)).then_some(delivered);
    SessionEnd { reason, stood: Some(link.kind()), delivered, hopeless: false, refusal }
}

/// Passes what the worker says to the driver until the stream ends, a message is not one, the
/// worker is silent for too long, or the driver gives it up. Returns why it ended; `delivered` is set
/// with the first part that the worker says it has delivered.
async fn pass_messages(
    shared: &SessionShared,
    peer: PeerId,
    outbox: mpsc::Sender<ToWorker>,
    mut inbox: Inbox,
    mut given_up: oneshot::Receiver<()>,
    delivered: &mut bool,
) -> String {
    let mut beat = interval(shared.heartbeat);
    let patience = shared.heartbeat * HEARTBEATS_MISSED_MAX;
    let (mut sequence, mut news) = (0, StreamNews::default());
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
                let Position { epoch, step } = *shared.ordered.borrow();
                let step = shared.order.job_step(epoch, step);
                let sessions_held = Some(shared.breadth.held.load(Ordering::Relaxed));
                let width = shared.breadth.width.load(Ordering::Relaxed);
                let beat = Heartbeat { sequence, step, sessions_held, width };
                let _ = outbox.try_send(ToWorker::Heartbeat(beat));
                continue;
            }
            message = timeout_at(silent_at, inbox.next()) => message,
        };
        silent_at = Instant::now() + patience;
        let message = match message {
            Ok(Some(Ok(FromWorker::Heartbeat(answer)))) if answer.news == news => continue,
            Ok(Some(Ok(message))) => message,
            Ok(None) => return "worker ended the session".into(),
            Ok(Some(Err(reason))) => return reason,
            Err(_) => return format!("silent for {} ms", patience.as_millis()),
        };
        if let FromWorker::Heartbeat(answer) = &message {
            news = answer.news;
        }
        *delivered |= matches!(message, FromWorker::Done(_));
        let said = Event::Session(peer, SessionEvent::Said(message));
        if shared.events.send(said).await.is_err() {
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
    use std::sync::atomic::AtomicU64;

    use headwater_core::sampler::{Sampler, SamplerConfig};
    use headwater_core::{Dtype, Manifest, Recipe, ShardEntry};
    use headwater_proto::WIRE_VERSION;
    use headwater_transport::links::tcp;

    use super::*;
    use crate::config::ReceiverConfig;
    use crate::events::EVENTS_MAX;
    use crate::setup::hello;
    use crate::simulation::idle_link;

    #[test]
    fn receivers_that_lose_a_worker_together_do_not_come_back_together() {
        let pause = |rank: u32, number| {
            TRIES.pause(1, pause_draw(&format!("job/{rank}"), "worker:7402", number))
        };
        let mut pauses: Vec<Duration> = (0..64).map(|rank| pause(rank, 1)).collect();
        pauses.sort_unstable();
        pauses.dedup();
        assert_eq!(pauses.len(), 64, "two of them wait alike");
        assert_ne!(pause(0, 1), pause(0, 2));
    }

    fn welcome(worker: &str, link: LinkKind) -> SessionWelcome {
        SessionWelcome {
            wire_version: WIRE_VERSION,
            worker: worker.into(),
            link: link.name().into(),
            refused_links: Vec::new(),
            credits: 1,
            backend: "none".into(),
            shares: false,
        }
    }

    /// A worker that never stops talking, and counts what is read of it.
    struct Chatterbox(Arc<AtomicU64>);

    #[async_trait]
    impl Dial for Chatterbox {
        async fn dial(
            &self,
            _: &str,
            _: SessionHello,
            _: &[Arc<dyn ReceiverLink>],
        ) -> Result<Opened, DialError> {
            let welcome = welcome("chatterbox", LinkKind::Tcp);
            let read = Arc::clone(&self.0);
            let talk = std::iter::repeat_with(move || {
                read.fetch_add(1, Ordering::Relaxed);
                Ok(FromWorker::Credits { credits: 1, draining: false })
            });
            let (outbox, _) = mpsc::channel(1);
            Ok(Opened { outbox, inbox: Box::pin(tokio_stream::iter(talk)), welcome })
        }
    }

    /// What all sessions of a test share, and the driver's end of their events.
    fn shared(
        dial: Arc<dyn Dial>,
        links: Vec<Arc<dyn ReceiverLink>>,
    ) -> (Arc<SessionShared>, mpsc::Receiver<Event>, watch::Sender<bool>) {
        let recipe = Recipe::preset("imagenet-eval", Dtype::U8).unwrap();
        let (events, heard) = mpsc::channel(EVENTS_MAX);
        let (leaving, left) = watch::channel(false);
        let (_ordered, ordered) = watch::channel(Position { epoch: 0, step: 0 });
        let shard = ShardEntry { name: "a.tar".into(), samples: 100, bytes: 1, digest: Digest(1) };
        let manifest = Manifest::new("d".into(), vec![], vec![shard]).unwrap();
        let sampler = Sampler::new(SamplerConfig::new(1, 1, 0, 4), vec![Arc::new(manifest)]);
        let shared = SessionShared {
            hello: hello(&ReceiverConfig::default(), &recipe, &[]),
            dial,
            links,
            events,
            heartbeat: Duration::from_secs(1),
            tries: Tries::default(),
            names: WorkerNames::default(),
            trials: LinkTrials::default(),
            ordered,
            order: Arc::new(SampleOrder::new(sampler.unwrap())),
            breadth: Breadth::default(),
            leaving: left,
        };
        (Arc::new(shared), heard, leaving)
    }

    /// A worker that takes the first link it is offered, and says nothing over its session.
    struct Taker;

    #[async_trait]
    impl Dial for Taker {
        async fn dial(
            &self,
            _: &str,
            _: SessionHello,
            links: &[Arc<dyn ReceiverLink>],
        ) -> Result<Opened, DialError> {
            let welcome = welcome("taker", links[0].kind());
            let (outbox, mut queue) = mpsc::channel(8);
            tokio::spawn(async move { while queue.recv().await.is_some() {} });
            Ok(Opened { outbox, inbox: Box::pin(tokio_stream::pending()), welcome })
        }
    }

    /// Over rdma each session is leased a part and given up, as when the path loses it.
    #[tokio::test(start_paused = true)]
    async fn a_worker_whose_rdma_sessions_deliver_nothing_is_offered_tcp() {
        offered_tcp_after(LinkKind::Rdma).await;
    }

    /// The same where a worker cannot map the slots: its parts are not lost as often as ends a stream.
    #[tokio::test(start_paused = true)]
    async fn a_worker_whose_shm_sessions_deliver_nothing_is_offered_tcp() {
        offered_tcp_after(LinkKind::Shm).await;
    }

    async fn offered_tcp_after(fails: LinkKind) {
        let links = vec![idle_link(fails), idle_link(LinkKind::Tcp)];
        let (shared, mut heard, _leaving) = shared(Arc::new(Taker), links);
        let session = tokio::spawn(keep_session(shared, "worker:7402".into()));
        let started = Instant::now();
        let mut taken = Vec::new();
        while taken.last() != Some(&LinkKind::Tcp) {
            let event = heard.recv().await.expect("an event");
            let Event::Session(_, SessionEvent::Joined { link, leased, held, .. }) = event else {
                continue;
            };
            taken.push(link.kind());
            leased.store(link.kind() == fails, Ordering::Relaxed);
            drop(held);
        }
        assert_eq!(taken, [fails, fails, fails, LinkKind::Tcp]);
        assert!(started.elapsed() >= Duration::from_millis(50 + 100 + 200), "the pauses grow");
        session.abort();
    }

    #[tokio::test]
    async fn a_worker_that_talks_faster_than_the_driver_hears_is_read_no_further() {
        let (arrivals, _reported) = mpsc::unbounded_channel();
        let listen = tcp::TcpListen { bind: "127.0.0.1:0".parse().unwrap(), ..Default::default() };
        let link: Arc<dyn ReceiverLink> = tcp::listen(&listen, arrivals).await.unwrap();
        let read = Arc::new(AtomicU64::new(0));
        let (shared, mut heard, _leaving) =
            shared(Arc::new(Chatterbox(Arc::clone(&read))), vec![link]);
        let session = tokio::spawn(keep_session(shared, "worker:7402".into()));
        // The session has as many turns as it wants before this task has its next one.
        while heard.len() < EVENTS_MAX {
            tokio::task::yield_now().await;
        }
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        // One welcome among them, and one message that waits.
        assert_eq!(read.load(Ordering::Relaxed), EVENTS_MAX as u64);
        // Dropping the first event would give the session up.
        let joined = heard.recv().await;
        assert!(matches!(joined, Some(Event::Session(_, SessionEvent::Joined { .. }))));
        while read.load(Ordering::Relaxed) == EVENTS_MAX as u64 {
            tokio::task::yield_now().await;
        }
        drop(joined);
        session.abort();
    }
}
