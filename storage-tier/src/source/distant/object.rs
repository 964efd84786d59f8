//! An object of a distant source: its ranges by few requests, several at a time.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt, stream};
use headwater_storage_client::{Object, ObjectError};
use headwater_trace::{Span, Tier};

use super::super::Version;
use super::ahead::Pace;
use super::node::Node;
use super::{PIECE_BYTES_MAX, Remote};

/// Ranges with no more bytes than this between them are asked for together.
const GAP_BYTES_MAX: u64 = 128 << 10;
/// Requests in flight for one call; all calls together: `storage.source_requests_max`.
const REQUESTS_OF_A_CALL: usize = 16;

/// An object of a distant source, at one version.
#[derive(Debug)]
pub(super) struct DistantObject {
    remote: Arc<dyn Remote>,
    node: Arc<Node>,
    key: String,
    version: Version,
    /// Tells it from others in what was read ahead.
    number: u64,
    pace: Mutex<Pace>,
}

#[derive(Debug, thiserror::Error)]
#[error("bytes {} to {} were asked for, and it has {bytes}", range.start, range.end)]
struct BeyondTheEnd {
    range: Range<u64>,
    bytes: u64,
}

// === impl DistantObject ===

impl DistantObject {
    pub(super) fn new(
        remote: Arc<dyn Remote>,
        node: Arc<Node>,
        key: String,
        version: Version,
    ) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Self { remote, node, key, version, number, pace: Mutex::default() }
    }

    /// Spans that cover all ranges, in order: those near each other together, long ones cut.
    fn spans(&self, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        let mut sorted: Vec<_> = ranges.iter().filter(|r| !r.is_empty()).cloned().collect();
        sorted.sort_unstable_by_key(|range| range.start);
        let mut merged: Vec<Range<u64>> = Vec::new();
        for range in sorted {
            match merged.last_mut() {
                Some(last) if range.start <= last.end.saturating_add(GAP_BYTES_MAX) => {
                    last.end = last.end.max(range.end);
                }
                _ => merged.push(range),
            }
        }
        let cut = |span: Range<u64>| {
            let starts = (span.start..span.end).step_by(PIECE_BYTES_MAX as usize);
            starts.map(move |start| start..span.end.min(start + PIECE_BYTES_MAX))
        };
        merged.into_iter().flat_map(cut).collect()
    }

    /// Fetches spans, several at a time; their bytes in the same order.
    fn fetch_spans(&self, spans: &[Range<u64>]) -> Result<Vec<Bytes>, ObjectError> {
        self.node.wait(self.fetched(spans))
    }

    async fn fetched(&self, spans: &[Range<u64>]) -> Result<Vec<Bytes>, ObjectError> {
        let name = self.name();
        let fetch = |span: Range<u64>| {
            let name = &name;
            async move {
                let mut fetching = Span::on_lane(Tier::Storage, "fetch from source", "fetch");
                fetching.arg_with("object", || name.clone());
                fetching.arg("offset_bytes", span.start);
                fetching.arg("bytes", span.end - span.start);
                let get = || self.remote.get(&self.key, &self.version, span.clone());
                self.node.persist(name, get).await
            }
        };
        let fetched = stream::iter(spans.iter().cloned().map(fetch)).buffered(REQUESTS_OF_A_CALL);
        let fetched: Vec<Bytes> = fetched.try_collect().await?;
        crate::metrics::source_bytes(fetched.iter().map(|bytes| bytes.len() as u64).sum());
        Ok(fetched)
    }

    /// One range, on the runtime, and nothing ahead.
    pub(super) async fn read_now(&self, range: &Range<u64>) -> Result<Bytes, ObjectError> {
        self.check_range(range)?;
        let spans = self.spans(std::slice::from_ref(range));
        let fetched = self.fetched(&spans).await?;
        Ok(cut_out(range, &spans, &fetched))
    }

    fn check_range(&self, range: &Range<u64>) -> Result<(), ObjectError> {
        let bytes = self.version.bytes;
        if range.start <= range.end && range.end <= bytes {
            return Ok(());
        }
        let source = Box::new(BeyondTheEnd { range: range.clone(), bytes });
        Err(ObjectError::Read { name: self.name(), source })
    }

    /// One range, read ahead where reads go onwards.
    fn read_one(&self, range: &Range<u64>) -> Result<Bytes, ObjectError> {
        if let Some(bytes) = self.node.ahead.get(self.number, range) {
            return Ok(bytes);
        }
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        let span = pace.fetch(range, self.version.bytes);
        drop(pace);
        let spans = self.spans(std::slice::from_ref(&span));
        let fetched = self.fetch_spans(&spans)?;
        if span.end > range.end {
            // The last piece is what comes next.
            if let (Some(last), Some(bytes)) = (spans.last(), fetched.last()) {
                self.node.ahead.keep(self.number, last.start, bytes.clone());
            }
        }
        Ok(cut_out(range, &spans, &fetched))
    }
}

impl Object for DistantObject {
    fn name(&self) -> String {
        self.remote.name(&self.key)
    }

    fn bytes(&self) -> u64 {
        self.version.bytes
    }

    fn version(&self) -> String {
        self.version.tag.clone()
    }

    fn read_many(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, ObjectError> {
        ranges.iter().try_for_each(|range| self.check_range(range))?;
        if let [range] = ranges {
            return Ok(vec![self.read_one(range)?]);
        }
        let spans = self.spans(ranges);
        let fetched = self.fetch_spans(&spans)?;
        Ok(ranges.iter().map(|range| cut_out(range, &spans, &fetched)).collect())
    }

    /// Every read compares the version.
    fn check_unchanged(&self) -> Result<(), ObjectError> {
        Ok(())
    }
}

impl Drop for DistantObject {
    fn drop(&mut self) {
        self.node.ahead.forget(self.number);
    }
}

/// The bytes of a range out of those of spans that cover it.
fn cut_out(range: &Range<u64>, spans: &[Range<u64>], fetched: &[Bytes]) -> Bytes {
    if range.is_empty() {
        return Bytes::new();
    }
    let first = spans.partition_point(|span| span.end <= range.start);
    let part = |span: &Range<u64>, bytes: &Bytes| {
        let (from, to) = (range.start.max(span.start), range.end.min(span.end));
        bytes.slice((from - span.start) as usize..(to - span.start) as usize)
    };
    if range.end <= spans[first].end {
        let bytes = part(&spans[first], &fetched[first]);
        // A few bytes do not hold on to many.
        let few = bytes.len() < fetched[first].len() / 4;
        return if few { Bytes::copy_from_slice(&bytes) } else { bytes };
    }
    let mut whole = BytesMut::with_capacity((range.end - range.start) as usize);
    let pieces = spans[first..].iter().zip(&fetched[first..]);
    for (span, bytes) in pieces.take_while(|(span, _)| span.start < range.end) {
        whole.extend_from_slice(&part(span, bytes));
    }
    whole.freeze()
}
