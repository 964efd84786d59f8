//! The recorder behind the `metrics` macros.

use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::TelemetryError;
use crate::health::READY;

/// Upper bounds of the buckets of every histogram named `*_seconds`.
pub const SECONDS_BUCKETS: [f64; 16] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    10.0, 60.0,
];

/// How often samples of histograms are folded into their buckets when nobody scrapes; without it
/// they would pile up.
const UPKEEP: Duration = Duration::from_secs(5);

/// Installs the recorder for the whole process.
pub(crate) fn install() -> Result<PrometheusHandle, TelemetryError> {
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS_BUCKETS)
        .unwrap_or_else(|error| unreachable!("there are buckets: {error}"))
        .build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder)
        .map_err(|_| TelemetryError::Twice { what: "metrics" })?;
    describe_metrics();
    metrics::gauge!("headwater_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    Ok(handle)
}

/// Says what the metrics mean to the recorder there is.
pub fn describe_metrics() {
    metrics::describe_gauge!("headwater_build_info", "Always 1; the version is a label");
    metrics::describe_gauge!(READY, "1 while the process serves, 0 while it starts or drains");
}

/// Keeps the recorder small. Never returns.
pub(crate) async fn keep_up(handle: PrometheusHandle) {
    let mut tick = tokio::time::interval(UPKEEP);
    loop {
        tick.tick().await;
        handle.run_upkeep();
    }
}
