//! Spans to an OpenTelemetry collector, by OTLP over gRPC.
//!
//! A thread of its own sends them, so that a collector that is slow or away holds up no file. What it cannot
//! take in time is dropped and counted.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, UNIX_EPOCH};

use headwater_trace::{Arg, Clock, Context, Event, LaneName, Process, Sink};
use opentelemetry::trace::{
    Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};

/// Batches of spans that may wait to be sent; one comes every 200 ms.
const BATCHES_MAX: usize = 16;
/// Spans of one message.
const SPANS_AT_ONCE: usize = 512;
/// Time for the collector to take a message.
const SEND_LIMIT: Duration = Duration::from_secs(5);
/// Time for what waits when the trace ends.
const END_LIMIT: Duration = Duration::from_secs(5);
/// Between two lines of the log that say that a collector takes nothing.
const SAY_EVERY: Duration = Duration::from_secs(60);

struct OtlpSink {
    batches: Option<SyncSender<Vec<SpanData>>>,
    sender: Option<JoinHandle<()>>,
    lanes: BTreeMap<u32, String>,
    scope: InstrumentationScope,
    clock: Clock,
    dropped: Arc<AtomicU64>,
}

/// A sink that sends to the collector at `endpoint`.
///
/// # Errors
/// A sentence: the endpoint is no URL, or there is no thread.
pub(crate) fn sink(endpoint: &str, tier: &str, process: &Process) -> Result<Box<dyn Sink>, String> {
    let resource = Resource::builder_empty().with_attributes([
        KeyValue::new("service.name", format!("headwater-{tier}")),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", process.name.clone()),
        KeyValue::new("process.pid", i64::from(std::process::id())),
    ]);
    let (batches, waiting) = sync_channel(BATCHES_MAX);
    let (resource, endpoint, dropped) =
        (resource.build(), endpoint.to_owned(), Arc::<AtomicU64>::default());
    let (lost, (told, begun)) = (Arc::clone(&dropped), sync_channel(1));
    let send = move || {
        match Sending::new(&endpoint, resource) {
            Ok(sending) => {
                let _ = told.send(Ok(()));
                sending.send_all(&waiting, &lost);
            }
            Err(reason) => drop(told.send(Err(reason))),
        };
    };
    let thread = std::thread::Builder::new().name("hw-otlp".to_owned()).spawn(send);
    let sender = thread.map_err(|error| format!("there is no thread for it: {error}"))?;
    begun.recv().map_err(|error| error.to_string())??;
    Ok(Box::new(OtlpSink {
        batches: Some(batches),
        sender: Some(sender),
        lanes: BTreeMap::new(),
        scope: InstrumentationScope::builder("headwater").build(),
        clock: Clock::get(),
        dropped,
    }))
}

/// The sending thread's own.
struct Sending {
    runtime: tokio::runtime::Runtime,
    exporter: SpanExporter,
    endpoint: String,
}

// === impl Sending ===

impl Sending {
    fn new(endpoint: &str, resource: Resource) -> Result<Self, String> {
        let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = built.map_err(|error| error.to_string())?;
        let mut exporter = {
            let _within = runtime.enter();
            let built = SpanExporter::builder()
                .with_tonic()
                .with_endpoint(endpoint)
                .with_timeout(SEND_LIMIT)
                .build();
            built.map_err(|error| {
                format!(
                    "telemetry.otlp_endpoint `{endpoint}` is not usable: {error}; write for example \
                     `http://127.0.0.1:4317`"
                )
            })?
        };
        exporter.set_resource(&resource);
        Ok(Self { runtime, exporter, endpoint: endpoint.to_owned() })
    }

    /// Sends what comes until nobody has more.
    fn send_all(self, waiting: &Receiver<Vec<SpanData>>, lost: &AtomicU64) {
        let mut said: Option<Instant> = None;
        while let Ok(batch) = waiting.recv() {
            for spans in batch.chunks(SPANS_AT_ONCE) {
                let sent = self.runtime.block_on(async {
                    tokio::time::timeout(SEND_LIMIT, self.exporter.export(spans.to_vec())).await
                });
                let error = match sent {
                    Ok(Ok(())) => continue,
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => format!("no answer within {} s", SEND_LIMIT.as_secs()),
                };
                let lost = lost.fetch_add(spans.len() as u64, Ordering::Relaxed);
                if said.is_none_or(|said| said.elapsed() > SAY_EVERY) {
                    said = Some(Instant::now());
                    let (endpoint, lost) = (&self.endpoint, lost + spans.len() as u64);
                    tracing::warn!(
                        endpoint,
                        lost,
                        error,
                        "spans are lost: the collector does not take them"
                    );
                }
            }
        }
    }
}

// === impl OtlpSink ===

impl OtlpSink {
    fn span(&self, event: &Event) -> SpanData {
        let at = |instant| UNIX_EPOCH + self.clock.unix(instant);
        let mut attributes: Vec<KeyValue> = event
            .args
            .iter()
            .map(|(key, value)| match value {
                Arg::Number(number) => {
                    KeyValue::new(*key, i64::try_from(*number).unwrap_or(i64::MAX))
                }
                Arg::Flag(flag) => KeyValue::new(*key, *flag),
                Arg::Word(word) => KeyValue::new(*key, *word),
                Arg::Text(text) => KeyValue::new(*key, text.to_string()),
            })
            .collect();
        if let Some(lane) = self.lanes.get(&event.lane) {
            attributes.push(KeyValue::new("thread.name", lane.clone()));
        }
        let mut links = SpanLinks::default();
        // A lease's own spans are of its trace; others point at what they are about.
        if !event.is_of_lease {
            let flows = event.flows.iter();
            links.links = flows.map(|flow| Link::new(remote(*flow), Vec::new(), 0)).collect();
        }
        SpanData {
            span_context: remote(event.context),
            parent_span_id: event.parent.map_or(SpanId::INVALID, |parent| parent.span().into()),
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: Cow::Borrowed(event.name),
            start_time: at(event.start),
            end_time: at(event.end),
            attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links,
            status: Status::Unset,
            instrumentation_scope: self.scope.clone(),
        }
    }
}

fn remote(context: Context) -> SpanContext {
    let (trace, span) = (TraceId::from(context.trace()), SpanId::from(context.span()));
    SpanContext::new(trace, span, TraceFlags::SAMPLED, true, TraceState::default())
}

impl Sink for OtlpSink {
    fn write(&mut self, lanes: &[LaneName], events: &[Event]) -> Result<(), String> {
        self.lanes.extend(lanes.iter().map(|named| (named.lane, named.name.clone())));
        if events.is_empty() {
            return Ok(());
        }
        let spans = events.iter().map(|event| self.span(event)).collect();
        let Some(batches) = &self.batches else { return Ok(()) };
        match batches.try_send(spans) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(spans)) => {
                self.dropped.fetch_add(spans.len() as u64, Ordering::Relaxed);
                Ok(())
            }
            Err(TrySendError::Disconnected(_)) => {
                Err("the thread that sends spans has ended".into())
            }
        }
    }

    fn finish(&mut self, _: u64) -> Result<(), String> {
        self.batches = None;
        let began = Instant::now();
        let Some(sender) = self.sender.take() else { return Ok(()) };
        while !sender.is_finished() && began.elapsed() < END_LIMIT {
            std::thread::sleep(Duration::from_millis(5));
        }
        match self.dropped.load(Ordering::Relaxed) {
            0 => Ok(()),
            lost => {
                Err(format!("{lost} spans did not reach the collector of telemetry.otlp_endpoint"))
            }
        }
    }
}
