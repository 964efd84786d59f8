//! What one node, or one client, has counted: a recorder of its own for its threads.

use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use tokio::time::sleep;

/// Metrics of some threads. Cheap to copy.
#[derive(Clone, Copy)]
pub(crate) struct Counts {
    recorder: &'static PrometheusRecorder,
    handle: &'static PrometheusHandle,
}

// === impl Counts ===

impl Counts {
    pub(crate) fn new() -> Self {
        let recorder = Box::leak(Box::new(PrometheusBuilder::new().build_recorder()));
        let handle = Box::leak(Box::new(recorder.handle()));
        Self { recorder, handle }
    }

    /// Counts here from now on, as long as the thread lives.
    pub(crate) fn count_on_this_thread(self) {
        std::mem::forget(metrics::set_default_local_recorder(self.recorder));
    }

    /// The sum of the values of a metric whose labels contain `label`.
    pub(crate) fn of(self, name: &str, label: &str) -> u64 {
        let text = self.handle.render();
        let lines = text.lines().filter(|line| {
            let rest = line.strip_prefix(name).filter(|rest| rest.starts_with([' ', '{']));
            rest.is_some_and(|rest| rest.contains(label))
        });
        let value = |line: &str| line.rsplit(' ').next().and_then(|v| v.parse::<f64>().ok());
        lines.filter_map(value).sum::<f64>() as u64
    }

    /// Waits until a metric is at a value.
    pub(crate) async fn becomes(self, name: &str, label: &str, value: u64) {
        let is = async {
            while self.of(name, label) != value {
                sleep(Duration::from_millis(2)).await;
            }
        };
        let limit = Duration::from_secs(60);
        if tokio::time::timeout(limit, is).await.is_err() {
            panic!("`{name}` is {}, not {value}", self.of(name, label));
        }
    }
}
