//! What came within some time, and how fast.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::tenbin::Tensor;

/// One batch, without its elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    tensors: Vec<Value>,
    /// The same for people.
    text: String,
    bytes: u64,
}

/// Batches that came since some time.
pub(crate) struct Window {
    since: Instant,
    batches: u64,
    bytes: u64,
    bad: u64,
    /// What was wrong with the last of the bad ones.
    error: Option<String>,
    /// The batch that came last, also from before this window.
    last: Seen,
}

// === impl Seen ===

impl Seen {
    pub(crate) fn new(tensors: &[Tensor]) -> Self {
        let json = |tensor: &Tensor| {
            let Tensor { code, info, shape, .. } = tensor;
            json!({ "info": info, "dtype": code, "shape": shape })
        };
        let text: Vec<String> = tensors.iter().map(ToString::to_string).collect();
        Self {
            tensors: tensors.iter().map(json).collect(),
            text: text.join(", "),
            bytes: tensors.iter().map(|tensor| tensor.data.len() as u64).sum(),
        }
    }
}

// === impl Window ===

impl Window {
    /// Begins at `since`, with nothing seen.
    pub(crate) fn new(since: Instant) -> Self {
        Self { since, batches: 0, bytes: 0, bad: 0, error: None, last: Seen::default() }
    }

    /// Begins anew at `since`; what a batch looked like last stays known.
    pub(crate) fn begin(&mut self, since: Instant) {
        let last = std::mem::take(&mut self.last);
        *self = Self { last, ..Self::new(since) };
    }

    pub(crate) fn add(&mut self, seen: Seen) {
        self.batches += 1;
        self.bytes += seen.bytes;
        self.last = seen;
    }

    pub(crate) fn add_bad(&mut self, error: String) {
        self.bad += 1;
        self.error = Some(error);
    }

    pub(crate) fn batches(&self) -> u64 {
        self.batches
    }

    /// Number of messages that were not in the format, and the error of the last one.
    pub(crate) fn bad(&self) -> Option<(u64, &str)> {
        self.error.as_deref().map(|error| (self.bad, error))
    }

    pub(crate) fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    /// Names, types and shapes of the batch that came last: `images f4 [64, 3, 224, 224], labels i4 [64]`.
    pub(crate) fn shapes(&self) -> &str {
        &self.last.text
    }

    /// Figures for people.
    pub(crate) fn text(&self, now: Instant) -> String {
        let (batches, bytes) = self.rates(now);
        format!("{batches:8.1} batches/s {:10.1} MB/s", bytes / 1e6)
    }

    /// Figures for programs.
    pub(crate) fn json(&self, url: &str, now: Instant) -> Value {
        let (batches_per_second, bytes_per_second) = self.rates(now);
        json!({
            "url": url,
            "seconds": self.elapsed(now).as_secs_f64(),
            "batches": self.batches,
            "bytes": self.bytes,
            "batches_per_second": batches_per_second,
            "bytes_per_second": bytes_per_second,
            "tensors": self.last.tensors,
            "bad_messages": self.bad,
            "error": self.error,
        })
    }

    /// Batches and bytes a second.
    fn rates(&self, now: Instant) -> (f64, f64) {
        let seconds = self.elapsed(now).as_secs_f64();
        let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        (rate(self.batches), rate(self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_window_and_shapes_those_of_the_last_batch() {
        let data = [0; 48];
        let (info, shape) = ("images".to_owned(), vec![2, 3, 2]);
        let tensor = Tensor { code: "f4", info, shape, data: &data };
        let begun = Instant::now();
        let later = |seconds| begun + Duration::from_secs(seconds);
        let mut window = Window::new(begun);
        for _ in 0..10 {
            window.add(Seen::new(std::slice::from_ref(&tensor)));
        }
        window.add_bad("no tensor".to_owned());
        let expected = json!({
            "url": "zsub://a:1", "seconds": 4.0, "batches": 10, "bytes": 480,
            "batches_per_second": 2.5, "bytes_per_second": 120.0,
            "tensors": [{ "info": "images", "dtype": "f4", "shape": [2, 3, 2] }],
            "bad_messages": 1, "error": "no tensor",
        });
        assert_eq!(window.json("zsub://a:1", later(4)), expected);
        window.begin(later(4));
        assert_eq!(window.shapes(), "images f4 [2, 3, 2]");
        assert_eq!(window.text(later(5)).split_whitespace().next(), Some("0.0"));
        assert_eq!(window.bad(), None);
    }
}
