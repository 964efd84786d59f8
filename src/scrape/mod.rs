//! What other processes show on `/metrics`: `autoscale`, `run` and `monitor` read it.
//!
//! Deliberately absent: what the metrics mean, TLS (`/metrics` is served without), metrics of this
//! process.

mod fetch;
mod metrics;

pub(crate) use fetch::{Answer, fetch_all, scrape};
pub(crate) use metrics::Metrics;

/// The mean of the busiest tenth of workers, one at least, of the share of their time that each worked. A receiver
/// keeps sessions with a part of the workers: the mean of all hides that some have no time left.
pub(crate) fn busiest_tenth(mut shares: Vec<f64>) -> Option<f64> {
    shares.sort_by(|a, b| b.total_cmp(a));
    shares.truncate(shares.len().div_ceil(10));
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
}
