//! What the driver does while others are busy.

use std::sync::mpsc as std_mpsc;

use headwater_core::sampler::{Sampler, SamplerConfig};
use headwater_core::{Digest, Dtype, Layout, SampleRef, ShardEntry};
use headwater_proto::WIRE_VERSION;
use headwater_proto::augment::{SessionHello, SessionWelcome};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::sequencer::NextBatch;
use super::*;
use crate::config::{GpuDirect, LeaseConfig, ReceiverConfig, WindowConfig};
use crate::events::{DriverHandle, ways};
use crate::host::HostWord;
use crate::ledger::{FinishedBatch, Serial};
use crate::mailbox::Found;
use crate::sample_order::Plan;
use crate::sessions::{DialError, Opened, Refusal};
use crate::simulation::{idle_link, scarce_link};
use crate::slots::SlotMaker;
use crate::stall::LastPart;

/// Far beyond what a loaded machine needs.
const LIMIT: Duration = Duration::from_secs(60);
const START: Position = Position { epoch: 0, step: 0 };

/// Nobody to be dialled: some addresses refuse, the others say nothing.
struct Nobody;

#[async_trait::async_trait]
impl Dial for Nobody {
    async fn dial(
        &self,
        address: &str,
        _: SessionHello,
        _: &[Arc<dyn ReceiverLink>],
    ) -> Result<Opened, DialError> {
        match address {
            "token:1" => Err(refused("the token is wrong", true)),
            "closed:1" => Err(refused("connection refused", false)),
            _ => std::future::pending().await,
        }
    }
}

fn refused(reason: &str, hopeless: bool) -> DialError {
    DialError { reason: reason.into(), hopeless, refusal: Refusal::Other }
}

fn order(recipe: &Recipe) -> (Arc<SampleOrder>, Arc<Manifest>) {
    let shard = ShardEntry { name: "a.tar".into(), samples: 1000, bytes: 1, digest: Digest(1) };
    let manifest = Manifest::new("d".into(), vec![], vec![shard]).expect("a manifest");
    let manifest = Arc::new(manifest);
    let mut config = SamplerConfig::new(1, 1, 0, 4);
    config.recipe = Some(recipe.digest());
    let sampler = Sampler::new(config, vec![Arc::clone(&manifest)]).expect("a sampler");
    (Arc::new(SampleOrder::new(sampler)), manifest)
}

/// A driver without workers, which runs.
fn start() -> (DriverHandle, Arc<SampleOrder>, Arc<Mailbox>) {
    let config = ReceiverConfig { batch_samples: 4, ..ReceiverConfig::default() };
    let (driver, handle, inbox) = make(&config);
    let order = Arc::clone(&driver.sessions.shared().order);
    let mailbox = Arc::clone(&driver.mailbox);
    tokio::spawn(driver.run(inbox));
    (handle, order, mailbox)
}

fn make(config: &ReceiverConfig) -> (Driver, DriverHandle, DriverInbox) {
    make_at(config, None)
}

/// With the service of a host, where one is given.
fn make_at(config: &ReceiverConfig, host: Option<HostLink>) -> (Driver, DriverHandle, DriverInbox) {
    make_over(config, host, Vec::new())
}

/// With slots that these links know.
fn make_over(
    config: &ReceiverConfig,
    host: Option<HostLink>,
    links: Vec<Arc<dyn ReceiverLink>>,
) -> (Driver, DriverHandle, DriverInbox) {
    let recipe = Recipe::preset("imagenet-eval", Dtype::U8).expect("a preset");
    let (order, manifest) = order(&recipe);
    let (handle, inbox) = ways();
    let make = SlotMaker {
        len_bytes: Layout::new(&recipe, 4).len_bytes(),
        shared: false,
        huge_pages: false,
        twins: None,
        exportable: false,
        gpudirect: GpuDirect::Off,
    };
    let scaling = Scaling::open(config, &recipe, None, START, None).expect("static scales");
    let parts = DriverParts {
        recipe,
        manifests: vec![manifest],
        order,
        mailbox: Arc::new(Mailbox::new(START)),
        stats: Arc::new(Stats::new()),
        scaling: Arc::new(scaling),
        links: Vec::new(),
        slots: SlotPool::new(make, links, config.window.slots_limit()),
        dial: Arc::new(Nobody),
        events: handle.events.clone(),
        start_cpu: on_a_thread,
        start: START,
        host,
    };
    (Driver::new(config, parts).expect("no masks"), handle, inbox)
}

async fn ask<T>(
    handle: &DriverHandle,
    command: impl FnOnce(oneshot::Sender<T>) -> Command,
) -> oneshot::Receiver<T> {
    let (reply, answer) = oneshot::channel();
    handle.events.send(Event::Command(command(reply))).await.expect("a driver");
    answer
}

/// A driver that waited for samples to be drawn would hear of nothing meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_driver_answers_while_samples_are_drawn() {
    let (handle, order, mailbox) = start();
    let state = order.state(START).expect("a state");
    let (held, is_held) = std_mpsc::channel();
    let (go_on, let_go) = std_mpsc::channel::<()>();
    // Whoever restores holds the sampler until they agree.
    let holder = std::thread::spawn(move || {
        order.restore(&state, &[], |_| {
            held.send(()).expect("heard");
            let_go.recv().expect("told");
            Ok(())
        })
    });
    is_held.recv().expect("held");
    let there = Position { epoch: 0, step: 7 };
    let sought = ask(&handle, |reply| Command::Seek(there, reply)).await;
    timeout(LIMIT, sought).await.expect("an answer").expect("a driver").expect("a place");
    assert_eq!(mailbox.position(), there);

    let weighed = ask(&handle, |reply| Command::SetWeights(vec![2.0], reply)).await;
    let again = ask(&handle, |reply| Command::Seek(START, reply)).await;
    timeout(LIMIT, again).await.expect("an answer").expect("a driver").expect("a place");
    go_on.send(()).expect("told");
    timeout(LIMIT, weighed).await.expect("an answer").expect("a driver").expect("weights");
    holder.join().expect("no panic").expect("restored");
}

/// Has a batch drawn, and ordered of the workers or asked of the host's service.
async fn order_one(driver: &mut Driver) {
    driver.fill().expect("samples to draw");
    let drawn = driver.tasks.join_next().await.expect("a draw");
    driver.on_task(drawn);
    driver.fill().expect("a batch");
}

/// Its sessions with workers may be open, of a time when it made its batches by itself.
#[tokio::test]
async fn workers_hear_how_far_a_trial_is_that_its_host_gives_batches() {
    let (words, mut said) = mpsc::channel(ASKS_AHEAD);
    let link = HostLink { words, make_room: Box::new(|_| Ok(())) };
    let config = ReceiverConfig { batch_samples: 4, ..ReceiverConfig::default() };
    let (mut driver, _handle, _inbox) = make_at(&config, Some(link));
    let heard = driver.ordered();
    order_one(&mut driver).await;
    assert!(matches!(said.try_recv(), Ok(HostWord::Ask(ask)) if ask.at == START));
    assert_eq!(*heard.borrow(), Position { epoch: 0, step: 1 });
}

/// A worker that still writes to the only slot, for a batch that nobody wants any more.
#[tokio::test(start_paused = true)]
async fn slots_that_a_late_writer_keeps_are_reported_with_its_name() {
    let config = ReceiverConfig {
        batch_samples: 4,
        window: WindowConfig { window_batches: 1, slots_max: 1, ..WindowConfig::default() },
        leases: LeaseConfig { worker_wait_ms: 60_000, ..LeaseConfig::default() },
        ..ReceiverConfig::default()
    };
    let (mut driver, _handle, _inbox) = make(&config);
    driver.look_for_workers(["a:1".into()].into());
    let shared = Arc::clone(driver.sessions.shared());
    let open = shared.tries.begin(&[]);
    driver.on_session(open.peer, joined("rack-3:7402").0);
    order_one(&mut driver).await;
    driver.in_flight.assign(false);
    driver.seek(Position { epoch: 0, step: 3 }).expect("a place");
    let asked = Instant::now();
    let steps = |_| 100;
    for waited_s in [0, 59] {
        tokio::time::advance(Duration::from_secs(waited_s)).await;
        driver.look_for_trouble(Instant::now());
        assert!(matches!(driver.mailbox.take(asked, steps), Ok(Found::Nothing)), "{waited_s} s");
    }
    tokio::time::advance(Duration::from_secs(2)).await;
    driver.look_for_trouble(Instant::now());
    let Err(error) = driver.mailbox.take(asked, steps) else { panic!("not a word of it") };
    let said = error.to_string();
    assert!(said.starts_with("none of 1 slots is free: 1 of them"), "{said}");
    assert!(said.contains("(rack-3:7402)") && said.contains("receiver.slots_max"), "{said}");
}

/// The trainer holds no batch.
#[tokio::test(start_paused = true)]
async fn a_slot_that_cannot_be_made_anew_is_reported_with_the_lost_worker_and_the_reason() {
    let config = ReceiverConfig {
        batch_samples: 4,
        window: WindowConfig { window_batches: 1, slots_max: 1, ..WindowConfig::default() },
        ..ReceiverConfig::default()
    };
    let (mut driver, _handle, _inbox) =
        make_over(&config, None, vec![scarce_link(LinkKind::Cuda, 1)]);
    driver.look_for_workers(["a:1".into()].into());
    let shared = Arc::clone(driver.sessions.shared());
    let open = shared.tries.begin(&[]);
    let (mut session, _given_up) = joined("rack-3:7402");
    if let SessionEvent::Joined { link, .. } = &mut session {
        *link = idle_link(LinkKind::Cuda);
    }
    driver.on_session(open.peer, session);
    order_one(&mut driver).await;
    driver.in_flight.assign(false);
    driver.end_session(open.peer);
    driver.on_path_gone(open.peer, LinkKind::Cuda, "its process has ended");
    driver.seek(Position { epoch: 0, step: 3 }).expect("a place");
    // The session's task ends, too.
    while !driver.in_flight.slots().is_exhausted() {
        timeout(LIMIT, order_one(&mut driver)).await.expect("a try to make a slot");
    }
    let asked = Instant::now();
    driver.look_for_trouble(asked);
    tokio::time::advance(Duration::from_secs(6)).await;
    driver.look_for_trouble(Instant::now());
    let Err(error) = driver.mailbox.take(asked, |_| 100) else { panic!("not a word of it") };
    let said = error.to_string();
    assert!(said.starts_with("none of 0 slots is free, and 1 cannot be made anew"), "{said}");
    assert!(
        said.contains("the loss of worker rack-3:7402: ") && said.contains("locked memory"),
        "{said}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_receiver_without_workers_says_whom_it_waits_for_and_what_keeps_each() {
    let config = ReceiverConfig {
        batch_samples: 4,
        leases: LeaseConfig { worker_wait_ms: 7000, workers_max: 0, ..LeaseConfig::default() },
        ..ReceiverConfig::default()
    };
    let (driver, handle, inbox) = make(&config);
    let mailbox = Arc::clone(&driver.mailbox);
    tokio::spawn(driver.run(inbox));
    let command = |command| handle.events.send(Event::Command(command));
    let wait = async || {
        let asked = Instant::now();
        tokio::time::sleep(Duration::from_secs(8)).await;
        let Err(error) = mailbox.take(asked, |_| 100) else { panic!("not a word of it") };
        error.to_string()
    };
    let trouble = "`dns:workers:1` gives no addresses: no such name".to_owned();
    command(Command::WorkersMissing(trouble)).await.expect("a driver");
    let said = wait().await;
    assert!(said.contains(" s: `dns:workers:1` gives no addresses: no such name; start"), "{said}");

    command(Command::WorkersMissing(String::new())).await.expect("a driver");
    let workers = ["closed:1", "silent:1", "token:1"].map(str::to_owned).into();
    command(Command::SetWorkers(workers)).await.expect("a driver");
    let said = wait().await;
    let each =
        "closed:1: connection refused; silent:1: no answer yet; token:1: the token is wrong;";
    assert!(said.contains(each), "{said}");
    assert!(!said.contains("dns:workers") && said.contains("receiver.workers"), "{said}");

    let many = (0..20).map(|number| format!("silent-{number:02}:1")).collect();
    command(Command::SetWorkers(many)).await.expect("a driver");
    let said = wait().await;
    assert!(said.contains("silent-07:1: no answer yet; and 12 more;"), "{said}");
    assert!(!said.contains("closed:1"), "{said}");
}

/// The driver hears of both ends of each link: that of the try that is over, and that of one under way.
#[tokio::test]
async fn nothing_is_kept_of_a_hundred_thousand_failed_sessions() {
    let (mut driver, _handle, _inbox) = make(&ReceiverConfig::default());
    let shared = Arc::clone(driver.sessions.shared());
    for _ in 0..100_000 {
        let open = shared.tries.begin(&[]);
        let peer = open.peer;
        driver.on_path_gone(peer, LinkKind::Shm, "closed");
        assert_eq!(shared.tries.open(), 1);
        drop(open);
        let (address, reason) = ("dead:1".to_owned(), "connection refused".to_owned());
        driver.on_session(
            peer,
            SessionEvent::Ended { address, reason, hopeless: false, refusal: Some(Refusal::Other) },
        );
        driver.on_path_gone(peer, LinkKind::Tcp, "dropped");
    }
    assert_eq!(shared.tries.open(), 0);
    assert_eq!(driver.sessions.kept(), [0; 4]);
}

/// What a session with this worker, which came about, tells the driver.
fn joined(worker: &str) -> (SessionEvent, oneshot::Receiver<()>) {
    let (held, given_up) = oneshot::channel();
    let welcome = SessionWelcome {
        wire_version: WIRE_VERSION,
        worker: worker.into(),
        link: "shm".into(),
        refused_links: Vec::new(),
        credits: 1,
        backend: "none".into(),
        shares: false,
    };
    let (address, link, outbox) = ("a:1".into(), idle_link(LinkKind::Shm), mpsc::channel(1).0);
    let leased = Arc::default();
    (SessionEvent::Joined { address, welcome, link, outbox, leased, held }, given_up)
}

/// It would hold back all others of its stream: a trial after its last epoch, and a service that no trial asks.
#[tokio::test]
async fn a_receiver_of_which_no_batch_is_wanted_has_no_sessions_and_misses_no_worker() {
    let config = ReceiverConfig {
        batch_samples: 4,
        epochs: 2,
        window: WindowConfig { max_lead: 4, ..WindowConfig::default() },
        ..ReceiverConfig::default()
    };
    let end = Position { epoch: 1, step: 250 };
    let (mut driver, _handle, _inbox) = make(&config);
    let shared = Arc::clone(driver.sessions.shared());
    driver.look_for_workers(["a:1".into()].into());
    let idle = |idle| Event::Command(Command::SetIdle(idle, oneshot::channel().0));
    for turn in 0..2 {
        let open = shared.tries.begin(&[]);
        let (event, mut given_up) = joined("worker");
        driver.on_session(open.peer, event);
        driver.on_tick(0);
        let is_left = |driver: &Driver| {
            let [sessions, keepers, ..] = driver.sessions.kept();
            [sessions == 0, keepers == 0, driver.sessions.alone().is_none()]
        };
        assert_eq!(is_left(&driver), [false, false, true]);
        match turn {
            0 => driver.on_event(idle(true)),
            _ => driver.seek(end).expect("a place"),
        }
        driver.on_tick(0);
        assert_eq!(is_left(&driver), [true; 3]);
        assert_eq!(given_up.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        // Workers that are found meanwhile are there when they are needed.
        driver.look_for_workers(["a:1".into()].into());
        assert_eq!(is_left(&driver), [true; 3]);
        match turn {
            0 => driver.on_event(idle(false)),
            _ => driver.seek(START).expect("a place"),
        }
        driver.on_tick(0);
        assert_eq!(is_left(&driver), [true, false, false], "it looks for its worker again");
    }
}

#[tokio::test]
async fn a_session_whose_link_is_gone_before_its_welcome_is_heard_is_given_up() {
    let (mut driver, _handle, _inbox) = make(&ReceiverConfig::default());
    driver.look_for_workers(["a:1".into()].into());
    let shared = Arc::clone(driver.sessions.shared());
    for (gone, stays) in [(LinkKind::Tcp, true), (LinkKind::Shm, false)] {
        let open = shared.tries.begin(&[]);
        driver.on_path_gone(open.peer, gone, "closed");
        let (event, mut given_up) = joined("worker");
        driver.on_session(open.peer, event);
        assert_eq!(driver.sessions.of(open.peer).is_some(), stays, "{gone} is gone");
        let is_given_up = given_up.try_recv() == Err(oneshot::error::TryRecvError::Closed);
        assert_eq!(is_given_up, !stays);
    }
}

/// Nobody would say that its link is gone: its slots would be kept for good.
#[tokio::test]
async fn a_session_that_is_over_before_its_welcome_is_heard_does_not_join() {
    let (mut driver, _handle, _inbox) = make(&ReceiverConfig::default());
    let shared = Arc::clone(driver.sessions.shared());
    let open = shared.tries.begin(&[]);
    let peer = open.peer;
    drop(open);
    driver.on_path_gone(peer, LinkKind::Shm, "dropped");
    driver.on_session(peer, joined("worker").0);
    assert_eq!(driver.sessions.kept(), [0; 4]);
    assert_eq!(driver.in_flight.ledger().workers().count(), 0);
}

#[tokio::test]
async fn what_is_known_of_a_worker_goes_with_its_address() {
    let (mut driver, _handle, _inbox) = make(&ReceiverConfig::default());
    let shared = Arc::clone(driver.sessions.shared());
    for number in 0..1000 {
        let address = format!("silent-{number}:1");
        driver.look_for_workers([address.clone()].into());
        shared.trials.on_end(&address, LinkKind::Rdma, false, Instant::now());
        let reason = String::new();
        driver.on_session(
            PeerId(0),
            SessionEvent::Ended { address, reason, hopeless: false, refusal: Some(Refusal::Other) },
        );
    }
    let [_, keepers, _, refusals] = driver.sessions.kept();
    assert_eq!([keepers, refusals, shared.trials.in_vain()], [1; 3]);
}

#[tokio::test]
async fn links_that_failed_are_left_out_after_a_rest_too() {
    let (mut driver, _handle, _inbox) = make(&ReceiverConfig::default());
    let shared = Arc::clone(driver.sessions.shared());
    let idle = |idle| Event::Command(Command::SetIdle(idle, oneshot::channel().0));
    driver.look_for_workers(["a:1".into(), "b:1".into()].into());
    for address in ["a:1", "b:1"] {
        shared.trials.on_end(address, LinkKind::Rdma, false, Instant::now());
    }
    driver.on_event(idle(true));
    assert_eq!(driver.sessions.kept(), [0; 4]);
    assert_eq!(shared.trials.in_vain(), 2);
    driver.look_for_workers(["b:1".into()].into());
    assert_eq!(shared.trials.in_vain(), 1, "one is no worker any more");
    driver.on_event(idle(false));
    assert_eq!((driver.sessions.kept()[1], shared.trials.in_vain()), (1, 1));
}

/// It would have workers make batches that nobody can take.
#[tokio::test(start_paused = true)]
async fn a_driver_whose_stream_the_trainer_has_ended_ends() {
    let (driver, _handle, inbox) = make(&ReceiverConfig::default());
    let mailbox = Arc::clone(&driver.mailbox);
    let runs = tokio::spawn(driver.run(inbox));
    tokio::time::sleep(2 * TICK).await;
    assert!(!runs.is_finished());
    mailbox.cut(ReceiverError::Closed { reason: "its scales are unknown".into() });
    timeout(LIMIT, runs).await.expect("it goes on").expect("no panic");
    let Err(error) = mailbox.take(Instant::now(), |_| 100) else { panic!("the stream goes on") };
    assert!(error.to_string().contains("its scales are unknown"), "{error}");
}

/// Every batch after it would stand in the wrong place, too.
#[tokio::test]
async fn a_batch_that_comes_in_the_place_of_another_ends_the_stream() {
    let config = ReceiverConfig { batch_samples: 4, ..ReceiverConfig::default() };
    let (mut driver, _handle, _inbox) = make(&config);
    for (serial, step) in [(0, 1), (1, 0)] {
        let samples = vec![SampleRef { dataset: 0, shard: 0, index: 0, pass: 0 }; 4];
        let plan = Plan { at: Position { epoch: 0, step }, group: None, samples };
        let next = NextBatch { serial: Serial(serial), plan, bucket: 0, fp8_scales: Vec::new() };
        let slot = driver.in_flight.take_slot().expect("memory").expect("a slot");
        let order = driver.sequencer.order_of(next, slot);
        let (on_host, provenance, fp8_amaxes) = Default::default();
        let last = LastPart::default();
        let finished = FinishedBatch { order, on_host, provenance, fp8_amaxes, last };
        driver.deliver(finished).expect("no GPU");
    }
    for _ in 0..2 {
        let taken = driver.mailbox.take(Instant::now(), |_| 100);
        let Err(error) = taken else { panic!("the stream goes on") };
        let said = error.to_string();
        assert!(said.contains("step 1 came in the place of epoch 0, step 0"), "{said}");
    }
    assert_eq!((driver.mailbox.position(), driver.mailbox.ready()), (START, 0));
}
