//! From one observation after another to a number of workers.
//!
//! Up: a rank that waits for the share `s` of its time would go on 1 / (1 - s) times as fast if it
//! did not wait, so as many times the workers are needed, and 1 / `busy_aim` of those that work.
//! Down: workers that work for the share `b` of their time do the work of `b` / `busy_aim` as many.
//!
//! Four things keep it from going to and fro: a gap between the shares that ask for more and that
//! allow fewer; a pause after each step up; the most that was wanted within a window counts, not the
//! last; and after a step down that had to be taken back none is tried for a while.

use std::collections::VecDeque;
use std::time::Duration;

use crate::{Policy, PolicyError};

/// What was seen since the observation before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// When, on a clock of the caller's that never goes back.
    pub at: Duration,
    /// Workers that were asked for, those included that wait for a node or cannot start.
    pub asked: u32,
    /// Workers that serve.
    pub serving: u32,
    /// Share of their time for which ranks waited; the mean over ranks. None: no rank is there.
    pub stall: Option<f64>,
    /// Share of their threads' time for which workers rendered. None: no worker told.
    pub busy: Option<f64>,
    /// The same share over the busiest tenth of the workers. A receiver keeps sessions with a part of them, so
    /// these may have no time left while others do.
    pub busiest: Option<f64>,
}

/// How many workers there should be, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Workers.
    pub workers: u32,
    /// Why this number.
    pub reason: Reason,
}

/// Why a number of workers is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Neither more nor fewer are needed.
    Enough,
    /// Ranks wait, and workers have no time left.
    RanksWait,
    /// Ranks wait, but workers have time left: storage or a network is short.
    OtherTierShort,
    /// Ranks wait for workers that have no time left, while others do: receivers spread over more of them.
    Uneven,
    /// Workers were asked for that do not serve yet.
    WorkersStart,
    /// Fewer would do, but not for long enough, or they did not a while ago.
    FewerLater,
    /// Fewer do.
    FewerDo,
    /// The number there is lies outside the bounds.
    Bounds,
    /// Nothing was reported.
    Unknown,
}

/// Decides. Keeps only what it has seen within its windows.
#[derive(Clone, Debug)]
pub struct Controller {
    policy: Policy,
    /// What was wanted lately, oldest first; within the window for steps down.
    wanted: VecDeque<(Duration, u32)>,
    first: Option<Duration>,
    stepped_up: Option<Duration>,
    /// When, and from how many.
    stepped_down: Option<(Duration, u32)>,
    /// Until when no fewer are tried, after fewer were too few.
    at_least: Option<(Duration, u32)>,
}

// === impl Reason ===

impl Reason {
    /// In words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Enough => "neither more nor fewer are needed",
            Self::RanksWait => "ranks wait and workers have no time left",
            Self::OtherTierShort => {
                "ranks wait though workers have time left: see storage, network"
            }
            Self::Uneven => {
                "ranks wait for busy workers though others have time left: receivers spread by themselves"
            }
            Self::WorkersStart => "workers that were asked for do not serve yet",
            Self::FewerLater => "fewer may do; waiting until that has held",
            Self::FewerDo => "fewer do",
            Self::Bounds => "the number lies outside its bounds",
            Self::Unknown => "neither ranks nor workers told anything",
        }
    }
}

// === impl Controller ===

impl Controller {
    /// A controller that has seen nothing.
    ///
    /// # Errors
    /// See [`Policy::validate`].
    pub fn new(policy: Policy) -> Result<Self, PolicyError> {
        policy.validate()?;
        Ok(Self {
            policy,
            wanted: VecDeque::new(),
            first: None,
            stepped_up: None,
            stepped_down: None,
            at_least: None,
        })
    }

    /// How many workers there should be now. Whoever calls has them made.
    pub fn decide(&mut self, seen: &Observation) -> Decision {
        let first = *self.first.get_or_insert(seen.at);
        let bounded = self.policy.bounded(seen.asked);
        if bounded != seen.asked {
            return Decision { workers: bounded, reason: Reason::Bounds };
        }
        let (wanted, reason) = self.wanted_by(seen);
        self.wanted.push_back((seen.at, wanted));
        let since = seen.at.saturating_sub(self.policy.down_window());
        while self.wanted.front().is_some_and(|(at, _)| *at < since) {
            self.wanted.pop_front();
        }
        if wanted > seen.asked {
            return self.up(seen, wanted, reason);
        }
        let most = self.wanted.iter().map(|(_, workers)| *workers).max().unwrap_or(wanted);
        if most >= seen.asked {
            let reason = if wanted < seen.asked { Reason::FewerLater } else { reason };
            return Decision { workers: seen.asked, reason };
        }
        // Nothing is known of the time before the first look.
        self.down(seen, most, seen.at.saturating_sub(first) >= self.policy.down_window())
    }

    /// What this observation on its own asks for.
    fn wanted_by(&self, seen: &Observation) -> (u32, Reason) {
        let Policy { stall_high, stall_low, busy_aim, busy_low, .. } = self.policy;
        let Some(busy) = seen.busy else {
            return (seen.asked, Reason::Unknown);
        };
        // Ranks that are not there do not wait.
        let stall = seen.stall.unwrap_or(0.0).clamp(0.0, 1.0);
        let serving = f64::from(seen.serving);
        if stall > stall_high {
            if seen.serving < seen.asked {
                return (seen.asked, Reason::WorkersStart);
            }
            if busy < busy_low && seen.busiest.is_some_and(|share| share > busy_aim) {
                return (seen.asked, Reason::Uneven);
            }
            if busy < busy_low {
                return (seen.asked, Reason::OtherTierShort);
            }
            let needed = serving * busy.min(1.0) / busy_aim / (1.0 - stall.min(0.9));
            let most = (serving * self.policy.growth_multiple).floor();
            let workers = (needed.min(most).ceil() as u32).max(seen.asked + 1);
            return (self.policy.bounded(workers), Reason::RanksWait);
        }
        if stall < stall_low {
            // Of those that serve: the others are not known to be needed, nor not to be.
            let needed = (serving * busy / busy_aim).ceil() as u32;
            let spare = seen.serving.saturating_sub(needed);
            return (self.policy.bounded(seen.asked.saturating_sub(spare)), Reason::Enough);
        }
        (seen.asked, Reason::Enough)
    }

    fn up(&mut self, seen: &Observation, wanted: u32, reason: Reason) -> Decision {
        let pause = self.policy.up_pause();
        if self.stepped_up.is_some_and(|at| seen.at < at + pause) {
            return Decision { workers: seen.asked, reason: Reason::WorkersStart };
        }
        // A step down that has to be taken back was a mistake.
        if let Some((at, before)) = self.stepped_down.take()
            && seen.at < at + self.policy.regret()
        {
            self.at_least = Some((seen.at + self.policy.regret(), before));
        }
        self.stepped_up = Some(seen.at);
        Decision { workers: wanted, reason }
    }

    fn down(&mut self, seen: &Observation, most: u32, looked_long: bool) -> Decision {
        let floor = match self.at_least {
            Some((until, workers)) if seen.at < until => workers,
            _ => 0,
        };
        let workers = most.max(floor);
        if !looked_long || workers >= seen.asked {
            return Decision { workers: seen.asked, reason: Reason::FewerLater };
        }
        self.stepped_down = Some((seen.at, seen.asked));
        // What was wanted of more workers says nothing about fewer.
        self.wanted.clear();
        self.wanted.push_back((seen.at, seen.asked));
        Decision { workers, reason: Reason::FewerDo }
    }
}
