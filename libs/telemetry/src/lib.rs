//! What every Headwater process says about itself: log lines, metrics, `/metrics` and `/healthz`.
//!
//! A process calls [`start_logs`] once, then [`start_metrics`], and tells [`Health`] when it serves and
//! when it drains. Each tier describes its own metrics when it is opened.
//!
//! Deliberately absent: metric names (each tier has its own `metrics.rs`), HTTP clients, TLS,
//! pushing to anything, sampling of logs. Without an address nothing listens and nothing is
//! recorded: the macros of the `metrics` crate then cost next to nothing.
#![forbid(unsafe_code)]

mod config;
mod error;
mod escaping;
mod health;
mod logs;
mod recorder;
mod server;

pub use config::{LogFormat, TelemetryConfig, local_rank};
pub use error::TelemetryError;
pub use health::{Health, Phase};
pub use logs::start_logs;
pub use recorder::SECONDS_BUCKETS;
pub use server::{MetricsServer, start_metrics};
