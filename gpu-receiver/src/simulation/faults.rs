//! What befalls a fleet, and what came of it.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use headwater_core::Digester;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::fleet::{Fleet, FleetConfig, World};
use super::network::chance;
use super::shares::{MadeParts, Shares};
use super::trainer::{STEP, Trainer};
use super::wedged::Wedge;
use super::worker::Health;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weather {
    /// Nothing happens.
    Calm,
    /// Everything happens: see [`storm`].
    Storm,
    /// Every few seconds two workers are lost and two come back.
    Harsh,
    /// One worker comes or goes every half minute: 40, then 48, then 36 of them.
    Elastic,
    /// The hosts of all workers but the last one are gone from the start.
    OneLives,
    /// The last worker comes when all others have their sessions.
    Grown,
    /// See [`super::wedged`].
    Wedged(Wedge),
}

/// What a run was like.
pub(super) struct Outcome {
    seed: u64,
    expected: u64,
    delivered: Vec<(u32, u32)>,
    pub(super) batches: u64,
    pub(super) leases: u64,
    pub(super) withdrawals: u64,
    pub(super) answers: u64,
    pub(super) heartbeats: u64,
    pub(super) sessions: u64,
    /// Writes into a slot that had been given to another batch.
    pub(super) damage: u64,
    /// Writes that nobody wanted any more, whose slots had to be kept.
    pub(super) late_writers: u64,
    /// Virtual time from start to end.
    pub(super) lasted: Duration,
    /// Most steps that the first trial was before the last while both trained.
    pub(super) apart: u64,
    /// Share of their time for which trainers waited in the second half of the epoch.
    pub(super) stall: f64,
    /// The longest that a trainer waited for one batch.
    pub(super) longest_wait: Duration,
    /// Leases that each worker was given.
    pub(super) leases_of: Vec<u64>,
    /// Parts of trials.
    pub(super) made: MadeParts,
    /// Sessions that had to make room for receivers that came late.
    pub(super) asked: usize,
    /// The most sessions that each worker had at once.
    pub(super) sessions_of: Vec<usize>,
    /// For each fault: the longest wait of each rank's trainer in the seconds after it, sorted.
    waits: Vec<(&'static str, Vec<Duration>)>,
    /// Digest of all deliveries with their times.
    pub(super) trace: u128,
}

/// Virtual time after which an epoch counts as stuck: many times what any run takes.
const EPOCH_MAX: Duration = Duration::from_secs(1200);
/// Time after a fault in which waits are put down to it.
const AFTERMATH: Duration = Duration::from_secs(4);

/// When what happens, from the start.
const SCHEDULE: [(u64, &str); 6] = [
    (3000, "a tenth of the workers lost at once"),
    (7000, "a tenth of the storage nodes lost"),
    (9000, "a third of the receivers cut off from half of the workers"),
    (13_000, "one worker in twenty slow by 20"),
    (15_000, "rolling restart of all workers"),
    (19_000, "a tenth of the workers taken off the list"),
];

/// Workers that come later in [`Weather::Elastic`], and how often one comes or goes.
const LATER: Range<usize> = 40..48;
const CHANGE: Duration = Duration::from_secs(30);
/// When the last worker comes in [`Weather::Grown`].
const GROWN_AFTER: Duration = Duration::from_secs(5);

/// Runs a fleet through an epoch on virtual time.
pub(super) fn run(config: FleetConfig, weather: Weather) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let fleet = Arc::new(Fleet::new(config));
        let hidden = match weather {
            Weather::Wedged(wedge) => wedge.begin(&fleet.world),
            Weather::Grown => fleet.config.workers - 1,
            Weather::OneLives => {
                let gone = 0..fleet.config.workers - 1;
                gone.for_each(|worker| fleet.world.set_health(worker, Health::Silent));
                usize::MAX
            }
            Weather::Calm | Weather::Storm | Weather::Harsh | Weather::Elastic => usize::MAX,
        };
        if weather == Weather::Elastic {
            LATER.for_each(|worker| fleet.world.set_health(worker, Health::Dead));
        }
        let started = Instant::now();
        let trainers = fleet.start(|worker| worker >= hidden).await;
        let happening = tokio::spawn(happen(weather, Arc::clone(&fleet)));
        let mut ended = Vec::new();
        for trainer in trainers {
            let Ok(trainer) = timeout_at(started + EPOCH_MAX, trainer).await else {
                panic!("stuck: {:?}", fleet.world.scene.network.counts);
            };
            let trainer = trainer.expect("a trainer does not panic");
            ended.push(trainer);
        }
        let lasted = started.elapsed();
        happening.abort();
        let outcome = Outcome::of(&fleet, &ended, started, lasted);
        ended.iter().for_each(|trainer| fleet.stop(trainer.rank));
        sleep(Duration::from_secs(2)).await;
        outcome
    })
}

async fn happen(weather: Weather, fleet: Arc<Fleet>) {
    match weather {
        Weather::Calm | Weather::OneLives => {}
        Weather::Storm => storm(fleet).await,
        Weather::Harsh => lose_two_by_two(fleet).await,
        Weather::Elastic => grow_and_shrink(fleet).await,
        Weather::Grown => {
            sleep(GROWN_AFTER).await;
            fleet.tell_workers(|_| false).await;
        }
        Weather::Wedged(wedge) => wedge.go_on(&fleet).await,
    }
}

/// The schedule, each fault's victims drawn from the seed.
async fn storm(fleet: Arc<Fleet>) {
    let started = Instant::now();
    let (seed, world) = (fleet.config.seed, Arc::clone(&fleet.world));
    let workers = fleet.config.workers;
    let one_in = |what: &'static str, share: u64| {
        move |number: &usize| chance(seed, what, [*number as u64, 0], share) == 0
    };
    let at = |fault: usize| sleep_until(started + Duration::from_millis(SCHEDULE[fault].0));

    at(0).await;
    let lost: Vec<usize> = (0..workers).filter(one_in("lost", 10)).collect();
    for &worker in &lost {
        // Half of them with their hosts, which close no connection.
        let silent = chance(seed, "silent", [worker as u64, 0], 2) == 0;
        world.set_health(worker, if silent { Health::Silent } else { Health::Dead });
    }
    at(1).await;
    let nodes: Vec<usize> = (0..fleet.config.storage_nodes).filter(one_in("nodes", 10)).collect();
    nodes.iter().for_each(|&node| world.scene.storage.set_away(node, true));
    lost.iter().for_each(|&worker| world.set_health(worker, Health::Serves));
    at(2).await;
    let half: BTreeSet<usize> = (0..workers).filter(one_in("half", 2)).collect();
    let third = (0..fleet.config.receivers).filter(one_in("third", 3));
    world.scene.network.cut(third.flat_map(|r| half.iter().map(move |&worker| (r, worker))));
    sleep(Duration::from_millis(3500)).await;
    world.scene.network.heal();
    at(3).await;
    nodes.iter().for_each(|&node| world.scene.storage.set_away(node, false));
    for worker in (0..workers).filter(one_in("slow", 20)) {
        world.workers[worker].slowness.store(20, Ordering::Relaxed);
    }
    at(4).await;
    let rolling = tokio::spawn(restart_all(Arc::clone(&world), workers));
    at(5).await;
    fleet.tell_workers(|worker| one_in("unlisted", 10)(&worker)).await;
    sleep(Duration::from_secs(2)).await;
    fleet.tell_workers(|_| false).await;
    rolling.await.ok();
}

/// A worker is lost and one drains, every few seconds; each is back before the next goes.
async fn lose_two_by_two(fleet: Arc<Fleet>) {
    let world = Arc::clone(&fleet.world);
    for turn in 0.. {
        let [lost, drained] = [0, 1].map(|i| (turn * 7 + i * 3) % fleet.config.workers);
        sleep(Duration::from_secs(4)).await;
        world.set_health(lost, Health::Dead);
        world.set_health(drained, Health::Drains);
        sleep(Duration::from_secs(4)).await;
        [lost, drained].into_iter().for_each(|worker| world.set_health(worker, Health::Serves));
    }
}

/// Workers come one after the other, and then go: half of them lost, half of them drained.
async fn grow_and_shrink(fleet: Arc<Fleet>) {
    let world = Arc::clone(&fleet.world);
    for worker in LATER {
        sleep(CHANGE).await;
        world.set_health(worker, Health::Serves);
    }
    for turn in 0..12 {
        sleep(CHANGE).await;
        world.set_health(turn * 4, if turn % 2 == 0 { Health::Dead } else { Health::Drains });
    }
}

/// Drains and starts again a twentieth of the workers at a time.
async fn restart_all(world: Arc<World>, workers: usize) {
    for group in 0..20 {
        let members = || (0..workers).filter(|worker| worker % 20 == group);
        members().for_each(|worker| world.set_health(worker, Health::Drains));
        sleep(Duration::from_millis(300)).await;
        members().for_each(|worker| world.set_health(worker, Health::Dead));
        sleep(Duration::from_millis(100)).await;
        members().for_each(|worker| world.set_health(worker, Health::Serves));
    }
}

// === impl Outcome ===

impl Outcome {
    /// Every trial has every step.
    #[track_caller]
    pub(super) fn assert_each_trial_whole(&self) {
        assert_eq!(self.batches, self.expected, "seed {}: batches", self.seed);
        assert_eq!(self.damage, 0, "seed {}", self.seed);
    }

    fn of(fleet: &Fleet, trainers: &[Trainer], started: Instant, lasted: Duration) -> Self {
        let config = &fleet.config;
        let counts = &fleet.world.scene.network.counts;
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let writes = trainers.iter().flat_map(|t| t.links.iter().map(|link| link.writes()));
        let writes: Vec<(u64, u64)> = writes.collect();
        let shares = fleet.world.scene.shares.as_ref();
        let mut trace = Digester::new("headwater simulation 1");
        for trainer in trainers {
            for (since, wait) in &trainer.waits {
                let at = *since + *wait - started;
                trace.number(trainer.rank as u64).number(at.as_nanos() as u64);
            }
        }
        Self {
            seed: config.seed,
            expected: (0..config.receivers).map(|rank| config.steps_of(rank)).sum(),
            delivered: trainers.iter().flat_map(|t| t.samples.iter().copied()).collect(),
            batches: trainers.iter().map(|trainer| trainer.batches).sum(),
            leases: load(&counts.leases),
            withdrawals: load(&counts.withdrawals),
            answers: load(&counts.answers),
            heartbeats: load(&counts.heartbeats),
            sessions: load(&counts.sessions),
            damage: writes.iter().map(|(damage, _)| damage).sum(),
            late_writers: writes.iter().map(|(_, late)| late).sum(),
            lasted,
            apart: apart(trainers),
            stall: stall(trainers),
            longest_wait: longest_wait(trainers),
            made: shares.map(Shares::made).unwrap_or_default(),
            leases_of: fleet.world.workers.iter().map(|worker| load(&worker.leases)).collect(),
            asked: fleet.world.workers.iter().map(|worker| worker.asked_to_leave()).sum(),
            sessions_of: fleet.world.workers.iter().map(|worker| worker.most_sessions()).collect(),
            waits: SCHEDULE.iter().map(|fault| waits(fault, trainers, started)).collect(),
            trace: trace.finish().0,
        }
    }

    /// Every rank has every step, and every sample of the epoch stands in one batch of one rank.
    #[track_caller]
    pub(super) fn assert_exactly_once(&self) {
        let seed = self.seed;
        assert_eq!(self.batches, self.expected, "seed {seed}: batches");
        let mut samples = self.delivered.clone();
        samples.sort_unstable();
        assert!(samples.windows(2).all(|pair| pair[0] != pair[1]), "seed {seed}: a sample twice");
        let all = self.expected * super::fleet::BATCH;
        assert_eq!(samples.len() as u64, all, "seed {seed}: samples of the epoch");
    }
}

/// Without the first half, in which windows are filled.
fn stall(trainers: &[Trainer]) -> f64 {
    let late = trainers.iter().flat_map(|trainer| &trainer.waits[trainer.waits.len() / 2..]);
    let waits: Vec<f64> = late.map(|(_, wait)| wait.as_secs_f64()).collect();
    let waited: f64 = waits.iter().sum();
    waited / (waited + waits.len() as f64 * STEP.as_secs_f64())
}

/// Of trainers that take the same batches.
fn apart(trainers: &[Trainer]) -> u64 {
    let mut takes: Vec<(Instant, usize)> = Vec::new();
    for (number, trainer) in trainers.iter().enumerate() {
        takes.extend(trainer.waits.iter().map(|(since, wait)| (*since + *wait, number)));
    }
    takes.sort_unstable();
    let mut taken = vec![0_u64; trainers.len()];
    let mut apart = 0;
    for (_, number) in takes {
        taken[number] += 1;
        let (first, last) = (taken.iter().max(), taken.iter().min());
        apart = apart.max(first.zip(last).map_or(0, |(first, last)| first - last));
    }
    apart
}

fn longest_wait(trainers: &[Trainer]) -> Duration {
    let waits = trainers.iter().flat_map(|trainer| &trainer.waits);
    waits.map(|(_, wait)| *wait).max().unwrap_or_default()
}

/// The longest wait of each rank after a fault.
fn waits(
    fault: &(u64, &'static str),
    trainers: &[Trainer],
    started: Instant,
) -> (&'static str, Vec<Duration>) {
    let (from, name) = (started + Duration::from_millis(fault.0), fault.1);
    let longest = |trainer: &Trainer| {
        let within = |since: &Instant| (from..from + AFTERMATH).contains(since);
        let waits = trainer.waits.iter().filter(|(since, wait)| within(&(*since + *wait)));
        waits.map(|(_, wait)| *wait).max().unwrap_or_default()
    };
    let mut longest: Vec<Duration> = trainers.iter().map(longest).collect();
    longest.sort_unstable();
    (name, longest)
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = |number: u64| number as f64 / self.batches as f64;
        writeln!(
            f,
            "{} batches in {:.1} s; a batch: {:.3} leases, {:.3} answers, {:.3} withdrawals, {:.1} \
             heartbeats; {} sessions, {} late writers, {} damage; trace {:032x}",
            self.batches,
            self.lasted.as_secs_f64(),
            each(self.leases),
            each(self.answers),
            each(self.withdrawals),
            each(self.heartbeats),
            self.sessions,
            self.late_writers,
            self.damage,
            self.trace,
        )?;
        for (name, waits) in &self.waits {
            let at = |percent: usize| waits[(waits.len() - 1) * percent / 100].as_millis();
            writeln!(
                f,
                "  {name}: wait {} / {} / {} ms (50 / 99 / 100 %)",
                at(50),
                at(99),
                at(100)
            )?;
        }
        Ok(())
    }
}
