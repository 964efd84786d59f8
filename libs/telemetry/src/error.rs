//! Why logs or metrics cannot start.

/// What stands in the way of logs or metrics.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// A log filter that cannot be parsed.
    #[error(
        "log filter `{filter}` (from {from}) is not usable: {reason}; write for example \
         `headwater_receiver=debug,info`"
    )]
    Filter {
        /// The filter.
        filter: String,
        /// The key or variable it came from.
        from: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// Logs or metrics were already started in this process.
    #[error("{what} were already started in this process: start them once")]
    Twice {
        /// Which of them.
        what: &'static str,
    },
    /// Nothing can listen on the address.
    #[error(
        "cannot listen on `{address}` for metrics: {source}; choose another \
         telemetry.metrics_listen (`host:port`, port 0: any)"
    )]
    Listen {
        /// The address asked for.
        address: String,
        /// Why not.
        source: std::io::Error,
    },
}
