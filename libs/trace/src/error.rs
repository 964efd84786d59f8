//! Why a trace cannot be written.

use std::io;

/// What stands in the way of a trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The name says no format.
    #[error(
        "trace `{path}` has an unknown ending: use `.json` (trace events, for \
         https://ui.perfetto.dev) or `.pfw.gz` (DFTracer)"
    )]
    Kind {
        /// The path.
        path: String,
    },
    /// The name holds a placeholder that there is not.
    #[error(
        "trace `{path}` has the unknown placeholder `%{letter}`: %r is the rank, %t the tier, %h \
         the host, %p the process, %% a percent sign"
    )]
    Placeholder {
        /// The path.
        path: String,
        /// What follows the percent sign.
        letter: String,
    },
    /// The file cannot be made.
    #[error("cannot write trace `{path}`: {source}; choose another path")]
    Open {
        /// The path.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// Somebody writes to the file.
    #[error(
        "trace `{path}` is being written by another process: put %t, %r or %p, the tier, rank or \
         process, into its name"
    )]
    Busy {
        /// The path.
        path: String,
    },
    /// There is no thread to write.
    #[error("cannot start the thread that writes traces: {0}")]
    Thread(io::Error),
    /// The process was forked from one that records.
    #[error(
        "this process was forked from process {made_in} while that process was writing a trace: \
         start tracing after the fork, or start processes by `spawn`"
    )]
    Forked {
        /// The process that records.
        made_in: u32,
    },
    /// A trace for a merge cannot be read.
    #[error("cannot read trace `{path}`: {reason}")]
    Read {
        /// The path.
        path: String,
        /// Why not.
        reason: String,
    },
}
