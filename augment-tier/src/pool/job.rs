//! Samples of one part in the pool.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use headwater_proto::augment::WorkTimes;
use headwater_render::part::{PartPlan, PartScales};
use headwater_render::{BadImage, PartSample, RenderError, RenderKey};
use headwater_trace::{Context, Span, Tier};
use headwater_transport::{PartBuffer, PartRow, RowDraft, RowMemory, WrittenRow};
use tokio::sync::oneshot;

use super::{PoolWork, Tools, Undone};

/// A sample that waits to be rendered, with the row that it goes to.
#[derive(Debug)]
pub(crate) struct QueuedSample {
    /// Its place in the part; the number of `row`.
    pub(crate) position: usize,
    pub(crate) input: RenderInput,
    pub(crate) row: PartRow,
}

/// What a row is made of.
#[derive(Debug)]
pub(crate) struct RenderInput {
    pub(crate) key: RenderKey,
    pub(crate) encoded: Bytes,
    pub(crate) entries: Bytes,
    pub(crate) extra_fields: Vec<Option<Bytes>>,
    pub(crate) label: i64,
}

/// A sample that is bad; its row is untouched.
#[derive(Debug)]
pub(crate) struct UndecodedSample {
    pub(crate) position: usize,
    pub(crate) row: PartRow,
    pub(crate) error: BadImage,
}

/// What became of a job.
#[derive(Debug)]
pub(crate) struct JobEnd {
    pub(crate) result: JobResult,
    pub(crate) spent: Spent,
}

/// Time spent on samples.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    /// Of threads.
    render: Duration,
    /// Of it: decoding.
    decode: Duration,
    /// When the first thread took a sample, and when the last was through.
    span: Option<(Instant, Instant)>,
}

#[derive(Debug)]
pub(crate) enum JobResult {
    /// The part is whole.
    Sealed { part: PartBuffer, checksum: u64 },
    /// These rows are written, those are to be written from other samples.
    Rows { good: Vec<WrittenRow>, bad: Vec<UndecodedSample> },
    /// The job was taken back; its memory has been let go.
    TakenBack,
    /// A bug: a sample did not end in a result.
    Broken { position: usize, reason: String },
    /// This worker cannot render this sample now; another one may, or this one later.
    Passing { position: usize, error: RenderError },
}

/// Some or all samples of one part.
pub(crate) struct RenderJob {
    plan: Arc<PartPlan>,
    scales: Arc<PartScales>,
    positions: Vec<usize>,
    /// Samples of a unit of the pool; the last one may have fewer.
    at_once: usize,
    state: Mutex<State>,
    /// The span of the lease that the threads' work is part of.
    span: Option<Context>,
}

struct State {
    /// Those that no thread has taken.
    queued: Vec<Option<QueuedSample>>,
    /// Samples without an end.
    left: usize,
    outcome: Outcome,
    done: Option<oneshot::Sender<JobEnd>>,
}

/// What became of a row.
enum Made {
    Good(WrittenRow),
    /// Another sample is to take its place.
    Bad(PartRow, BadImage),
    Failed(RenderError),
}

/// What the samples that ended have come to.
#[derive(Default)]
struct Outcome {
    good: Vec<WrittenRow>,
    bad: Vec<UndecodedSample>,
    /// With these samples the part is whole.
    completes: bool,
    taken_back: bool,
    broken: Option<(usize, String)>,
    passing: Option<(usize, RenderError)>,
    spent: Spent,
}

// === impl Spent ===

impl Spent {
    /// A thread's time from `started` to now.
    fn now(started: Instant, decode: Duration) -> Self {
        let ended = Instant::now();
        Self { render: ended - started, decode, span: Some((started, ended)) }
    }

    fn add(&mut self, other: Self) {
        self.render += other.render;
        self.decode += other.decode;
        self.span = match (self.span, other.span) {
            (Some((first, last)), Some((start, end))) => Some((first.min(start), last.max(end))),
            (span, other) => span.or(other),
        };
    }
}

// === impl JobEnd ===

impl JobEnd {
    /// Adds what was spent to a part's times.
    pub(crate) fn add_to(&self, times: &mut WorkTimes) {
        let micros = |time: Duration| time.as_micros() as u64;
        let Spent { render, decode, span } = self.spent;
        times.render_us += micros(render);
        times.decode_us += micros(decode);
        times.rendering_us += span.map_or(0, |(first, last)| micros(last - first));
    }
}

// === impl RenderInput ===

impl RenderInput {
    fn sample(&self) -> PartSample<'_> {
        let Self { key, encoded, entries, extra_fields, label } = self;
        PartSample { key: *key, encoded, entries, extra_fields, label: *label }
    }
}

// === impl RenderJob ===

impl RenderJob {
    /// Rendering of `samples`, at least one. `rest`: the other rows of the part, all written, where
    /// these samples make it whole; it is then sealed by the thread that ends last. `at_once`: how many
    /// of them a thread takes together.
    pub(crate) fn new(
        plan: Arc<PartPlan>,
        scales: Arc<PartScales>,
        at_once: usize,
        samples: Vec<QueuedSample>,
        rest: Option<Vec<WrittenRow>>,
        span: Option<Context>,
    ) -> (Arc<Self>, oneshot::Receiver<JobEnd>) {
        let (done, end) = oneshot::channel();
        let positions = samples.iter().map(|sample| sample.position).collect();
        let completes = rest.is_some();
        let good = rest.unwrap_or_default();
        let state = State {
            left: samples.len(),
            queued: samples.into_iter().map(Some).collect(),
            outcome: Outcome { completes, good, ..Outcome::default() },
            done: Some(done),
        };
        (Arc::new(Self { plan, scales, positions, at_once, state: Mutex::new(state), span }), end)
    }

    /// Its units in the pool.
    pub(crate) fn units(&self) -> usize {
        self.positions.len().div_ceil(self.at_once)
    }

    /// The samples of some units.
    fn samples(&self, units: &Range<usize>) -> Range<usize> {
        let len = self.positions.len();
        let first = |unit: usize| unit.saturating_mul(self.at_once).min(len);
        first(units.start)..first(units.end)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that panics runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the end of samples; the last one ends the job, on the calling thread.
    fn settle(&self, samples: Range<usize>, note: impl FnOnce(&mut Outcome)) {
        let mut state = self.lock();
        note(&mut state.outcome);
        state.left -= samples.len();
        state.queued[samples].fill_with(|| None);
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
    fn do_unit(&self, unit: usize, Tools { renderer, rows: memory }: &mut Tools) {
        let range = self.samples(&(unit..unit + 1));
        let take = |sample: &mut Option<QueuedSample>| sample.take().expect("each is done once");
        let queued: Vec<QueuedSample> =
            self.lock().queued[range.clone()].iter_mut().map(take).collect();
        let started = Instant::now();
        let mut span = Span::on_thread(Tier::Augment, "render").within(self.span);
        span.arg("first_sample", self.positions[range.start]);
        span.arg("samples", range.len());
        let mut drafts: Vec<RowDraft> = Vec::with_capacity(queued.len());
        let mut inputs = Vec::with_capacity(queued.len());
        for QueuedSample { input, row, .. } in queued {
            drafts.push(row.draft(|| memory.pop().unwrap_or_default()));
            inputs.push(input);
        }
        let samples: Vec<PartSample<'_>> = inputs.iter().map(RenderInput::sample).collect();
        let mut places: Vec<&mut RowDraft> = drafts.iter_mut().collect();
        let rendered =
            self.plan.render_samples(&mut **renderer, &self.scales, &samples, &mut places);
        let decode = rendered.iter().filter_map(|rendered| rendered.as_ref().ok()).sum();
        // Here, where the rows' bytes are in this core's cache still.
        let made: Vec<Made> = drafts
            .into_iter()
            .zip(rendered)
            .map(|(draft, rendered)| {
                let (made, given_back) = Made::new(draft, rendered);
                memory.extend(given_back);
                made
            })
            .collect();
        span.end();
        let spent = Spent::now(started, decode);
        let positions = &self.positions[range.clone()];
        self.settle(range, |outcome| {
            outcome.spent.add(spent);
            positions.iter().zip(made).for_each(|(&position, made)| outcome.note(position, made));
        });
    }

    fn undone(&self, unit: usize, why: Undone) {
        // After the last sample's end only sealing can panic; the lease then sees a closed channel.
        if self.lock().left > 0 {
            let range = self.samples(&(unit..unit + 1));
            let position = self.positions[range.start];
            self.settle(range, |outcome| match why {
                Undone::Panic(reason) => outcome.broken = Some((position, reason)),
                Undone::NoRenderer(error) => outcome.passing = Some((position, error)),
            });
        }
    }

    fn taken_back(&self, units: Range<usize>) {
        let any = !units.is_empty();
        self.settle(self.samples(&units), |outcome| outcome.taken_back |= any);
    }
}

// === impl Made ===

impl Made {
    /// Ends the making of a row, and gives its memory back.
    fn new(draft: RowDraft, rendered: Result<Duration, RenderError>) -> (Self, Option<RowMemory>) {
        match rendered {
            Ok(_) => {
                let (row, memory) = draft.finish();
                (Self::Good(row), memory)
            }
            Err(RenderError::Bad(error)) => {
                let (row, memory) = draft.discard();
                (Self::Bad(row, error), memory)
            }
            Err(error) => (Self::Failed(error), draft.discard().1),
        }
    }
}

// === impl Outcome ===

impl Outcome {
    /// Notes what has become of the sample at a place of the part.
    fn note(&mut self, position: usize, made: Made) {
        match made {
            Made::Good(row) => self.good.push(row),
            Made::Bad(row, error) => self.bad.push(UndecodedSample { position, row, error }),
            Made::Failed(error @ RenderError::RowLength { .. }) => {
                self.broken = Some((position, error.to_string()));
            }
            // Not the sample's fault: no other sample would do better.
            Made::Failed(error) => self.passing = Some((position, error)),
        }
    }

    fn into_end(self) -> JobEnd {
        let Self { good, bad, completes, taken_back, broken, passing, spent } = self;
        let result = if let Some((position, reason)) = broken {
            JobResult::Broken { position, reason }
        } else if let Some((position, error)) = passing {
            JobResult::Passing { position, error }
        } else if taken_back {
            JobResult::TakenBack
        } else if completes && bad.is_empty() {
            let (part, checksum) =
                PartBuffer::from_rows(good).expect("the job holds every row of the part");
            JobResult::Sealed { part, checksum }
        } else {
            JobResult::Rows { good, bad }
        };
        JobEnd { result, spent }
    }
}
