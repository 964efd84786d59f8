//! What every Headwater process says about itself: log lines, metrics, `/metrics`, `/healthz`, `/readyz`, traces.
//!
//! A process calls [`start_logs`] once, then [`start_metrics`], and tells [`Health`] when it serves and
//! when it drains. Each tier describes its own metrics when it is opened.
//!
//! Deliberately absent: metric names (each tier has its own `metrics.rs`), the recording of spans
//! (`libs/trace`), HTTP clients, TLS, pushing to anything but a collector of spans, sampling of logs, what a
//! batch is. Without an address nothing listens and nothing is
//! recorded: the macros of the `metrics` crate then cost next to nothing.
#![forbid(unsafe_code)]

mod batches;
mod callers;
mod config;
mod error;
mod escaping;
mod health;
mod logs;
#[cfg(feature = "otlp")]
mod otlp;
mod posting;
mod recorder;
mod server;
mod targets;
mod traces;

pub use batches::{Answer, BatchQuestion, ShowBatch};
pub use callers::means_this_host;
pub use config::{LogFormat, TelemetryConfig, local_rank};
pub use error::TelemetryError;
pub use health::{Health, Phase};
pub use logs::start_logs;
pub use posting::Target;
pub use recorder::{SECONDS_BUCKETS, describe_metrics};
pub use server::{MetricsServer, serve, start_metrics};
pub use targets::{
    FoundTargets, JOB_LABEL, RANK_LABEL, TIER_LABEL, TargetGroup, read_targets, targets_dir,
};
pub use traces::{Traced, Traces, start_traces};
