//! Traces: what a process did and when, span by span, written while it runs.
//!
//! Code says what it does with a [`Span`]. A span goes to the buffer of the thread that ends it; one
//! writer thread empties all buffers and gives the spans to every [`Sink`]: files of Chrome's trace
//! events, DFTracer's files, and what other crates bring. Leases have a [`Context`] that all tiers
//! compute alike, by which their spans are joined. Without a sink a span costs one relaxed load.
//!
//! Deliberately absent: gRPC and OTLP (a sink of `libs/telemetry`), configuration, sampling, log lines, and
//! anything that could stop the process: what cannot be written is dropped and counted.
#![forbid(unsafe_code)]

mod clock;
mod context;
mod error;
mod event;
mod lanes;
mod merge;
mod names;
mod recorder;
mod sink;
mod span;

pub use clock::Clock;
pub use context::{Context, TRACEPARENT};
pub use error::TraceError;
pub use event::{Arg, Event, FlowStep, Tier};
pub use lanes::{Lane, LaneName};
pub use merge::merge;
pub use names::{Names, TracePath};
pub use recorder::{Recording, is_on, start};
pub use sink::{Process, Sink, file_sink};
pub use span::Span;
