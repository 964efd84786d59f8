//! Why logs or metrics cannot start.

/// What stands in the way of logs or metrics.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// A log filter that cannot be parsed.
    #[error(
        "log filter `{filter}` ({from}) is not usable: {reason}; write for example \
         `headwater_receiver=debug,info`"
    )]
    Filter {
        /// The filter.
        filter: String,
        /// The file, variable, flag or keyword that set it.
        from: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Logs or metrics were already started in this process.
    #[error("{what} were already started in this process: start them once")]
    Twice {
        /// Which of them.
        what: &'static str,
    },
    /// There is no port for the metrics of a rank.
    #[error(
        "telemetry.metrics_listen `{address}` cannot be used by local rank {local_rank}, which adds \
         its number to the port: {reason}; choose `host:port` with a lower port, or port 0"
    )]
    Port {
        /// The address configured.
        address: String,
        /// Number of the rank among those of its host.
        local_rank: u32,
        /// What is wrong.
        reason: String,
    },
    /// The launcher's word on the local rank is no number.
    #[error("${name} is `{text}`: {reason}; it is the number of this rank among those of its host")]
    LocalRank {
        /// The variable.
        name: &'static str,
        /// Its value.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nothing can listen on the address.
    #[error(
        "cannot listen on `{address}` for metrics: {source}; choose another \
         telemetry.metrics_listen (`host:port`, port 0: any); a training rank adds its local rank \
         to the port"
    )]
    Listen {
        /// The address asked for.
        address: String,
        /// Why not.
        source: std::io::Error,
    },
}
