//! What other processes show on `/metrics`: `autoscale`, `run` and `monitor` read it.
//!
//! Deliberately absent: what the metrics mean, TLS (`/metrics` is served without), metrics of this
//! process.

mod fetch;
mod metrics;

pub(crate) use fetch::{Answer, fetch_all, scrape};
pub(crate) use metrics::Metrics;
