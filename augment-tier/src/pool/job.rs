//! Samples of one part in the pool.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use headwater_transport::{PartBuffer, PartRow};
use tokio::sync::oneshot;

use super::PoolWork;
use crate::backend::SampleRenderer;
use crate::part::{PartPlan, PartSample, PartScales, SampleRow};
use crate::render::{RenderError, RenderKey};

/// One sample to be rendered.
#[derive(Debug)]
pub(crate) struct RenderUnit {
    /// Its place in the part; the number of `row`.
    pub(crate) position: usize,
    pub(crate) key: RenderKey,
    pub(crate) encoded: Bytes,
    pub(crate) label: i64,
    pub(crate) row: PartRow,
}

// === impl RenderUnit ===

impl SampleRow for RenderUnit {
    type Row = PartRow;

    fn split(&mut self) -> (PartSample<'_>, &mut PartRow) {
        let sample = PartSample { key: self.key, encoded: &self.encoded, label: self.label };
        (sample, &mut self.row)
    }
}

/// A sample that cannot be decoded; its row is untouched.
#[derive(Debug)]
pub(crate) struct BadUnit {
    pub(crate) position: usize,
    pub(crate) row: PartRow,
    pub(crate) error: RenderError,
}

/// What became of a job.
#[derive(Debug)]
pub(crate) struct JobEnd {
    pub(crate) result: JobResult,
    /// Thread time spent.
    pub(crate) render: Duration,
}

#[derive(Debug)]
pub(crate) enum JobResult {
    /// The part is whole.
    Sealed { part: PartBuffer, checksum: u64 },
    /// These rows are written, those are to be written from other samples.
    Rows { good: Vec<PartRow>, bad: Vec<BadUnit> },
    /// The job was taken back; its memory has been let go.
    TakenBack,
    /// A bug: a sample did not end in a result.
    Broken { position: usize, reason: String },
    /// This worker's device cannot render this sample; another worker may.
    Device { position: usize, error: RenderError },
}

/// Some or all samples of one part.
pub(crate) struct RenderJob {
    plan: Arc<PartPlan>,
    scales: Arc<PartScales>,
    positions: Vec<usize>,
    /// Samples of a unit; the last one may have fewer.
    at_once: usize,
    state: Mutex<State>,
}

struct State {
    units: Vec<Option<RenderUnit>>,
    /// Units without an end.
    left: usize,
    outcome: Outcome,
    done: Option<oneshot::Sender<JobEnd>>,
}

/// What the units that ended have come to.
#[derive(Default)]
struct Outcome {
    good: Vec<PartRow>,
    bad: Vec<BadUnit>,
    /// With these samples the part is whole.
    completes: bool,
    taken_back: bool,
    broken: Option<(usize, String)>,
    device: Option<(usize, RenderError)>,
    render: Duration,
}

// === impl RenderJob ===

impl RenderJob {
    /// Rendering of `units`, at least one. `rest`: the other rows of the part, all written, where
    /// these units make it whole; it is then sealed by the thread that ends last. `at_once`: how many
    /// of them a thread takes together.
    pub(crate) fn new(
        plan: Arc<PartPlan>,
        scales: Arc<PartScales>,
        at_once: usize,
        units: Vec<RenderUnit>,
        rest: Option<Vec<PartRow>>,
    ) -> (Arc<Self>, oneshot::Receiver<JobEnd>) {
        let (done, end) = oneshot::channel();
        let positions = units.iter().map(|unit| unit.position).collect();
        let completes = rest.is_some();
        let good = rest.unwrap_or_default();
        let state = State {
            left: units.len(),
            units: units.into_iter().map(Some).collect(),
            outcome: Outcome { completes, good, ..Outcome::default() },
            done: Some(done),
        };
        (Arc::new(Self { plan, scales, positions, at_once, state: Mutex::new(state) }), end)
    }

    /// How many times a thread takes some of it.
    pub(crate) fn turns(&self) -> usize {
        self.positions.len().div_ceil(self.at_once)
    }

    /// The samples of turns of threads.
    fn samples(&self, turns: &Range<usize>) -> Range<usize> {
        let len = self.positions.len();
        let first = |turn: usize| turn.saturating_mul(self.at_once).min(len);
        first(turns.start)..first(turns.end)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that panics runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the end of `units` samples; the last one ends the job, on the calling thread.
    fn settle(&self, units: Range<usize>, note: impl FnOnce(&mut Outcome)) {
        let mut state = self.lock();
        note(&mut state.outcome);
        state.left -= units.len();
        state.units[units].fill_with(|| None);
        if state.left > 0 {
            return;
        }
        let Some(done) = state.done.take() else { return };
        let outcome = std::mem::take(&mut state.outcome);
        drop(state);
        // Where nobody waits the part is abandoned, which is what dropping it means.
        let _ = done.send(outcome.into_end());
    }
}

impl PoolWork for RenderJob {
    fn run(&self, turn: usize, renderer: &mut dyn SampleRenderer) {
        let range = self.samples(&(turn..turn + 1));
        let take = |unit: &mut Option<RenderUnit>| unit.take().expect("each unit is run once");
        let mut units: Vec<RenderUnit> =
            self.lock().units[range.clone()].iter_mut().map(take).collect();
        let started = Instant::now();
        let rendered = self.plan.render_samples(renderer, &self.scales, &mut units);
        for (unit, _) in units.iter_mut().zip(&rendered).filter(|(_, rendered)| rendered.is_ok()) {
            // Here, where its bytes are in this core's cache still.
            unit.row.checksum();
        }
        let took = started.elapsed();
        self.settle(range, |outcome| {
            outcome.render += took;
            for (RenderUnit { position, row, .. }, rendered) in units.into_iter().zip(rendered) {
                match rendered {
                    Ok(()) => outcome.good.push(row),
                    Err(error) if error.is_of_sample() => {
                        outcome.bad.push(BadUnit { position, row, error });
                    }
                    // Not the sample's fault: no other sample would do better.
                    Err(error) if error.is_of_device() => outcome.device = Some((position, error)),
                    Err(error) => outcome.broken = Some((position, error.to_string())),
                }
            }
        });
    }

    fn broken(&self, turn: usize, reason: String) {
        // After the last unit's end only sealing can panic; the lease then sees a closed channel.
        if self.lock().left > 0 {
            let range = self.samples(&(turn..turn + 1));
            let position = self.positions[range.start];
            self.settle(range, |outcome| outcome.broken = Some((position, reason)));
        }
    }

    fn taken_back(&self, turns: Range<usize>) {
        let any = !turns.is_empty();
        self.settle(self.samples(&turns), |outcome| outcome.taken_back |= any);
    }
}

// === impl Outcome ===

impl Outcome {
    fn into_end(self) -> JobEnd {
        let Self { good, bad, completes, taken_back, broken, device, render } = self;
        let result = if let Some((position, reason)) = broken {
            JobResult::Broken { position, reason }
        } else if let Some((position, error)) = device {
            JobResult::Device { position, error }
        } else if taken_back {
            JobResult::TakenBack
        } else if completes && bad.is_empty() {
            let (part, checksum) =
                PartBuffer::from_rows(good).expect("the job holds every row of the part");
            JobResult::Sealed { part, checksum }
        } else {
            JobResult::Rows { good, bad }
        };
        JobEnd { result, render }
    }
}
