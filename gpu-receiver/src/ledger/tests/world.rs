//! Modelled workers and links around a real ledger.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use headwater_core::draw::{DrawKey, DrawRng};
use headwater_core::{Backoff, Dtype, Layout, Recipe, SampleId, SampleRef};
use headwater_proto::augment::{
    Failure, FailureKind, PartDone, PartLease, PartOrigin, Provenance, WorkTimes,
};
use headwater_transport::{LeaseId, LinkKind, PartPlace, PeerId, SlotId};

use super::super::{Action, BatchOrder, Landing, LateRule, Ledger, LedgerConfig, Serial};
use super::ms;
use crate::config::Verify;

const BATCH_SAMPLES: u32 = 20;
const PART_SAMPLES: u32 = 6;
const SLOTS: u32 = 7;

/// How the world is made.
pub(super) struct WorldConfig {
    pub(super) seed: u64,
    pub(super) workers: u32,
    pub(super) faults: Vec<Fault>,
    pub(super) window: usize,
}

/// Something that befalls one lease in `every`, by chance.
pub(super) struct Fault {
    pub(super) every: u64,
    pub(super) kind: FaultKind,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum FaultKind {
    /// The worker dies; another takes its place.
    Kill,
    /// The worker holds still for a long time, then goes on, and may write.
    Stall,
    /// The worker answers that it could not.
    FailRetry,
    /// Control stream breaks; the data path goes some time later.
    BreakPath,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Arrived(PeerId, LeaseId),
    Done(PeerId, LeaseId),
    Failed(PeerId, LeaseId),
    Quiet(PeerId, LeaseId),
    Left(PeerId),
    Gone(PeerId),
    Join,
}

pub(super) struct World {
    ledger: Ledger,
    rng: DrawRng,
    config: WorldConfig,
    now: Duration,
    agenda: BinaryHeap<std::cmp::Reverse<(Duration, u64, Happening)>>,
    agenda_number: u64,
    next_peer: u64,
    frozen: BTreeSet<PeerId>,
    peers: BTreeSet<PeerId>,
    leases: BTreeMap<LeaseId, (PartLease, SlotId)>,
    free_slots: Vec<SlotId>,
    waiting_slots: Vec<SlotId>,
    /// Slot and end of each write that will still happen.
    writers: BTreeMap<LeaseId, (PeerId, SlotId)>,
    next_step: u64,
    wanted: u64,
    delivered: Vec<(u64, Vec<String>)>,
    pub(super) leases_given: u64,
    pub(super) written_under_foot: u64,
    pub(super) stalled_writers: u64,
}

impl Default for WorldConfig {
    fn default() -> Self {
        Self { seed: 0, workers: 2, faults: Vec::new(), window: 4 }
    }
}

fn name_of(sample: &SampleRef) -> String {
    format!("{}/{}/{}/{}", sample.dataset, sample.shard, sample.index, sample.pass)
}

impl World {
    pub(super) fn new(config: WorldConfig) -> Self {
        let scope = super::scope();
        let ledger = Ledger::new(
            LedgerConfig {
                part_samples: PART_SAMPLES,
                late: LateRule { first: ms(100), median_multiple: 4.0, floor: ms(40) },
                verify: Verify::All,
                attempts_max: 1000,
                retry: Backoff { first: ms(5), longest: ms(50) },
            },
            scope,
        );
        let key = DrawKey { seed: config.seed, epoch: 0, pass: 0, sample: SampleId(0), stream: 99 };
        let mut world = Self {
            ledger,
            rng: key.rng(),
            now: Duration::ZERO,
            agenda: BinaryHeap::new(),
            agenda_number: 0,
            next_peer: 0,
            frozen: BTreeSet::new(),
            peers: BTreeSet::new(),
            leases: BTreeMap::new(),
            free_slots: (0..SLOTS).map(SlotId).collect(),
            waiting_slots: Vec::new(),
            writers: BTreeMap::new(),
            next_step: 0,
            wanted: 0,
            delivered: Vec::new(),
            leases_given: 0,
            written_under_foot: 0,
            stalled_writers: 0,
            config,
        };
        for _ in 0..world.config.workers {
            world.join_worker();
        }
        world
    }

    pub(super) fn parts_per_batch(&self) -> u64 {
        u64::from(BATCH_SAMPLES.div_ceil(PART_SAMPLES))
    }

    pub(super) fn join_worker(&mut self) {
        let peer = PeerId(self.next_peer);
        self.next_peer += 1;
        self.peers.insert(peer);
        self.ledger.on_worker_joined(peer, format!("worker-{}", peer.0), LinkKind::Tcp, 4);
    }

    pub(super) fn freeze_worker(&mut self, peer: u64) {
        self.frozen.insert(PeerId(peer));
    }

    /// Runs until `count` further batches are delivered.
    pub(super) fn run_batches(&mut self, count: u64) {
        self.wanted += count;
        let limit = self.now + Duration::from_secs(600);
        while (self.delivered.len() as u64) < self.wanted {
            self.order_up_to_window();
            self.turn();
            assert!(self.now < limit, "seed {}: stuck", self.config.seed);
        }
    }

    pub(super) fn advance(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.turn();
        }
    }

    fn turn(&mut self) {
        self.ledger.assign(self.now);
        self.perform();
        let next_tick = self.now + ms(5);
        match self.agenda.peek() {
            Some(std::cmp::Reverse((at, _, _))) if *at <= next_tick => {
                let std::cmp::Reverse((at, _, happening)) = self.agenda.pop().expect("peeked");
                self.now = self.now.max(at);
                self.happen(happening);
            }
            _ => self.now = next_tick,
        }
        self.perform();
        self.settle_slots();
    }

    fn plan(&mut self, after: Duration, happening: Happening) {
        self.agenda_number += 1;
        self.agenda.push(std::cmp::Reverse((self.now + after, self.agenda_number, happening)));
    }

    pub(super) fn order_up_to_window(&mut self) {
        while self.ledger.open_batches() < self.config.window && self.next_step < self.wanted.max(1)
        {
            let Some(slot) = self.free_slots.pop() else { break };
            if self.writers.values().any(|(_, written)| *written == slot) {
                self.written_under_foot += 1;
            }
            let step = self.next_step;
            self.next_step += 1;
            let recipe = Recipe::preset("imagenet-eval", Dtype::U8).expect("a preset");
            let samples = (0..BATCH_SAMPLES)
                .map(|i| SampleRef { dataset: 0, shard: step as u32, index: i, pass: 0 })
                .collect();
            self.ledger.order(BatchOrder {
                serial: Serial(step),
                epoch: 0,
                step,
                job_step: step,
                slot,
                layout: Arc::new(Layout::new(&recipe, BATCH_SAMPLES)),
                group: None,
                bucket: 0,
                samples,
                fp8_scales: Vec::new(),
            });
        }
    }

    fn settle_slots(&mut self) {
        let (quiet, waiting): (Vec<_>, Vec<_>) =
            self.waiting_slots.drain(..).partition(|&slot| self.ledger.slot_is_quiet(slot));
        self.free_slots.extend(quiet);
        self.waiting_slots = waiting;
    }

    fn perform(&mut self) {
        while let Some(action) = self.ledger.next_action() {
            match action {
                Action::Lease { peer, lease, place } => self.leased(peer, lease, &place),
                Action::Withdraw { peer, lease } => {
                    // A frozen or stalled writer says nothing until it goes on.
                    if !self.writers.contains_key(&lease) {
                        self.ledger.on_quiet(peer, lease);
                    }
                }
                Action::Count { .. } => {}
                Action::Verify { place, .. } => {
                    self.ledger.on_verified(place.lease, true, self.now);
                }
                Action::Deliver(finished) => {
                    let keys = finished.provenance.iter().map(|p| p.key.clone()).collect();
                    self.delivered.push((finished.order.step, keys));
                    self.waiting_slots.push(finished.order.slot);
                }
                Action::Fail(error) => panic!("seed {}: {error}", self.config.seed),
            }
        }
    }

    fn leased(&mut self, peer: PeerId, lease: PartLease, place: &PartPlace) {
        self.leases_given += 1;
        let id = place.lease;
        assert_eq!(id.0, lease.lease);
        self.leases.insert(id, (lease, place.slot));
        if !self.peers.contains(&peer) {
            return;
        }
        self.writers.insert(id, (peer, place.slot));
        if self.frozen.contains(&peer) {
            return;
        }
        let mut took = ms(5 + self.rng.below(10));
        let fault = self.config.faults.iter().find(|f| self.rng.below(f.every) == 0);
        match fault.map(|f| f.kind) {
            None => {}
            Some(FaultKind::Kill) => {
                self.plan(took / 2, Happening::Left(peer));
                self.plan(took / 2 + ms(1), Happening::Gone(peer));
                self.plan(took, Happening::Join);
                return;
            }
            Some(FaultKind::BreakPath) => {
                self.plan(took / 2, Happening::Left(peer));
                self.plan(took + ms(300), Happening::Gone(peer));
                self.plan(took, Happening::Join);
                return;
            }
            Some(FaultKind::FailRetry) => {
                self.plan(took, Happening::Failed(peer, id));
                self.plan(took + ms(1), Happening::Quiet(peer, id));
                return;
            }
            Some(FaultKind::Stall) => {
                self.stalled_writers += 1;
                took += ms(400);
            }
        }
        let spread = ms(self.rng.below(4));
        let (first, second) = (took, took + spread);
        if self.rng.below(2) == 0 {
            self.plan(first, Happening::Arrived(peer, id));
            self.plan(second, Happening::Done(peer, id));
        } else {
            self.plan(first, Happening::Done(peer, id));
            self.plan(second, Happening::Arrived(peer, id));
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrived(peer, id) if self.peers.contains(&peer) => {
                self.writers.remove(&id);
                self.ledger.on_arrived(peer, id, Landing::Host, self.now);
            }
            Happening::Quiet(peer, id) if self.peers.contains(&peer) => {
                self.writers.remove(&id);
                self.ledger.on_quiet(peer, id);
            }
            Happening::Done(peer, id) if self.peers.contains(&peer) => {
                let samples = self.leases[&id].0.samples.iter().map(|sample| Provenance {
                    key: name_of(sample),
                    label: 0,
                    substituted: None,
                });
                let samples = samples.collect();
                let times = WorkTimes::default();
                let (checksum, fp8_amaxes) = (7, Vec::new());
                let done = PartDone {
                    lease: id.0,
                    checksum,
                    samples,
                    times,
                    fp8_amaxes,
                    origin: PartOrigin::Computed,
                };
                self.ledger.on_done(peer, done, self.now);
            }
            Happening::Failed(peer, id) if self.peers.contains(&peer) => {
                let message = "modelled".to_owned();
                let failure = Failure { lease: id.0, kind: FailureKind::Retry, message };
                self.ledger.on_failed(peer, failure, self.now);
            }
            Happening::Left(peer) if self.peers.remove(&peer) => {
                self.ledger.on_worker_left(peer, self.now);
            }
            Happening::Gone(peer) => {
                self.writers.retain(|_, (writer, _)| *writer != peer);
                self.ledger.on_gone(peer);
            }
            Happening::Join => self.join_worker(),
            _ => {}
        }
    }

    pub(super) fn assert_all_delivered_once(&self, count: u64) {
        let seed = self.config.seed;
        let steps: Vec<u64> = self.delivered.iter().map(|(step, _)| *step).collect();
        assert_eq!(steps, (0..count).collect::<Vec<_>>(), "seed {seed}");
        for (step, keys) in &self.delivered {
            let want: Vec<String> =
                (0..BATCH_SAMPLES).map(|index| format!("0/{step}/{index}/0")).collect();
            assert_eq!(*keys, want, "seed {seed}");
        }
    }
}
