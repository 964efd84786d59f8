//! A job in a few equations: what ranks would take, what workers can make, and what is measured.

use std::collections::VecDeque;
use std::time::Duration;

use headwater_autoscale::{Controller, Decision, Observation, Policy};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Seconds between two looks.
pub(crate) const LOOK_S: f64 = 15.0;

pub(crate) struct Plant {
    controller: Controller,
    pub(crate) asked: u32,
    pub(crate) serving: u32,
    /// When workers that were asked for begin to serve.
    starting: VecDeque<(f64, u32)>,
    pub(crate) now_s: f64,
    /// Images per second of one worker.
    pub(crate) worker_rate: f64,
    /// Time that a new worker takes to serve.
    pub(crate) start_s: f64,
    /// Relative error of what is measured.
    pub(crate) noise: f64,
    /// Images per second that storage delivers at most.
    pub(crate) storage_rate: f64,
    rng: ChaCha8Rng,
    pub(crate) changes: Vec<(f64, u32, u32)>,
}

impl Plant {
    pub(crate) fn new(policy: Policy, workers: u32) -> Self {
        Self {
            controller: Controller::new(policy).expect("a policy"),
            asked: workers,
            serving: workers,
            starting: VecDeque::new(),
            now_s: 0.0,
            worker_rate: 400.0,
            start_s: 30.0,
            noise: 0.0,
            storage_rate: f64::INFINITY,
            rng: ChaCha8Rng::seed_from_u64(7),
            changes: Vec::new(),
        }
    }

    /// Looks and decides for so long; `demand` says what ranks would take at a time.
    pub(crate) fn run(&mut self, seconds: f64, demand: impl Fn(f64) -> f64) {
        let end = self.now_s + seconds;
        while self.now_s < end {
            self.look(demand(self.now_s));
        }
    }

    pub(crate) fn look(&mut self, demand: f64) -> Decision {
        self.now_s += LOOK_S;
        while self.starting.front().is_some_and(|(at, _)| *at <= self.now_s) {
            let (_, workers) = self.starting.pop_front().expect("one that starts");
            self.serving = (self.serving + workers).min(self.asked);
        }
        let able = (f64::from(self.serving) * self.worker_rate).min(self.storage_rate);
        let rate = demand.min(able);
        let stall = if demand > 0.0 { 1.0 - rate / demand } else { 0.0 };
        let busy = match self.serving {
            0 => None,
            serving => Some(rate / (f64::from(serving) * self.worker_rate)),
        };
        let seen = Observation {
            at: Duration::from_secs_f64(self.now_s),
            asked: self.asked,
            serving: self.serving,
            stall: Some(self.measured(stall)),
            busy: busy.map(|busy| self.measured(busy).min(1.0)),
            busiest: busy,
        };
        let decision = self.controller.decide(&seen);
        self.follow(decision.workers);
        decision
    }

    fn measured(&mut self, value: f64) -> f64 {
        if self.noise == 0.0 {
            return value;
        }
        (value * (1.0 + self.rng.random_range(-self.noise..self.noise))).max(0.0)
    }

    fn follow(&mut self, workers: u32) {
        if workers == self.asked {
            return;
        }
        self.changes.push((self.now_s, self.asked, workers));
        if workers > self.asked {
            self.starting.push_back((self.now_s + self.start_s, workers - self.asked));
        }
        self.asked = workers;
        self.serving = self.serving.min(workers);
    }

    /// Some workers are gone; the back end puts others in their place.
    pub(crate) fn lose(&mut self, workers: u32) {
        self.serving -= workers;
        self.starting.push_back((self.now_s + self.start_s, workers));
    }

    /// How often the number went up after it had gone down, or down after up.
    pub(crate) fn turns(&self) -> usize {
        let up: Vec<bool> = self.changes.iter().map(|(_, from, to)| to > from).collect();
        up.windows(2).filter(|pair| pair[0] != pair[1]).count()
    }
}
