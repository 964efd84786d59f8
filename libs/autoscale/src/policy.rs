//! Between which bounds, and how fast.

use std::time::Duration;

use headwater_config_derive::Keys;
use serde::{Deserialize, Serialize};

/// What a controller aims at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Keys)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Minimum number of workers.
    #[key(unit = "workers")]
    pub workers_min: u32,
    /// Maximum number of workers.
    #[key(unit = "workers")]
    pub workers_max: u32,
    /// If ranks wait for more than this share of their time, workers are added.
    #[key(unit = "none")]
    pub stall_high: f64,
    /// Workers are only removed while ranks wait for less than this share.
    #[key(unit = "none")]
    pub stall_low: f64,
    /// Share of their time that workers should work: the number of workers is chosen to reach it.
    #[key(unit = "none")]
    pub busy_aim: f64,
    /// Below this share workers have time left: ranks then wait for something else, storage or a
    /// network, and more workers would not help.
    #[key(unit = "none")]
    pub busy_low: f64,
    /// Maximum number of workers after one step, as a multiple of the present number.
    #[key(unit = "times")]
    pub growth_multiple: f64,
    /// Time until new workers show in the measurements, in s: no second step up before that.
    #[key(unit = "seconds")]
    pub up_pause_s: f64,
    /// How long fewer workers must have been enough before any is removed, in s.
    #[key(unit = "seconds")]
    pub down_window_s: f64,
    /// How long no step down is tried after one had to be reversed, in s.
    #[key(unit = "seconds")]
    pub regret_s: f64,
}

/// A value that makes no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`scaling.{key}` is {value}: {rule}")]
pub struct PolicyError {
    /// Key of `[scaling]`.
    pub key: &'static str,
    /// Its value.
    pub value: f64,
    /// What it must be.
    pub rule: &'static str,
}

// === impl Policy ===

impl Default for Policy {
    fn default() -> Self {
        Self {
            workers_min: 1,
            workers_max: 8,
            stall_high: 0.05,
            stall_low: 0.02,
            busy_aim: 0.8,
            busy_low: 0.6,
            growth_multiple: 2.0,
            up_pause_s: 60.0,
            down_window_s: 300.0,
            regret_s: 1800.0,
        }
    }
}

impl Policy {
    /// Checks that the values fit each other.
    ///
    /// # Errors
    /// The first that does not.
    pub fn validate(&self) -> Result<(), PolicyError> {
        let rules = [
            ("workers_min", f64::from(self.workers_min), self.workers_min > 0, "at least 1"),
            (
                "workers_max",
                f64::from(self.workers_max),
                self.workers_max >= self.workers_min,
                "not below workers_min",
            ),
            ("stall_high", self.stall_high, share(self.stall_high), "between 0 and 1"),
            (
                "stall_low",
                self.stall_low,
                share(self.stall_low) && self.stall_low < self.stall_high,
                "between 0 and stall_high: between the two nothing is changed",
            ),
            ("busy_aim", self.busy_aim, share(self.busy_aim), "between 0 and 1"),
            (
                "busy_low",
                self.busy_low,
                share(self.busy_low) && self.busy_low < self.busy_aim,
                "between 0 and busy_aim",
            ),
            (
                "growth_multiple",
                self.growth_multiple,
                self.growth_multiple > 1.0 && self.growth_multiple <= 100.0,
                "more than 1, and at most 100",
            ),
            ("up_pause_s", self.up_pause_s, time(self.up_pause_s), "a time of 0 or more"),
            ("down_window_s", self.down_window_s, time(self.down_window_s), "a time of 0 or more"),
            ("regret_s", self.regret_s, time(self.regret_s), "a time of 0 or more"),
        ];
        match rules.into_iter().find(|(_, _, holds, _)| !holds) {
            None => Ok(()),
            Some((key, value, _, rule)) => Err(PolicyError { key, value, rule }),
        }
    }

    pub(crate) fn bounded(&self, workers: u32) -> u32 {
        workers.clamp(self.workers_min, self.workers_max)
    }

    /// Time until new workers show in the measurements.
    #[must_use]
    pub fn up_pause(&self) -> Duration {
        Duration::from_secs_f64(self.up_pause_s)
    }

    pub(crate) fn down_window(&self) -> Duration {
        Duration::from_secs_f64(self.down_window_s)
    }

    pub(crate) fn regret(&self) -> Duration {
        Duration::from_secs_f64(self.regret_s)
    }
}

fn share(value: f64) -> bool {
    value > 0.0 && value < 1.0
}

fn time(value: f64) -> bool {
    (0.0..=1e9).contains(&value)
}
