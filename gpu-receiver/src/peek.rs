//! A copy of a batch for somebody who looks on, made when the trainer takes the batch.
//!
//! As long as nobody asks, the trainer's thread reads one flag for each batch and copies nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headwater_core::{Dtype, Layout, Recipe, SampleRef, TensorLayout};
use headwater_proto::augment::Provenance;
use tokio::sync::oneshot;

use crate::batch::Batch;
use crate::metrics;

/// Samples of a batch that are copied at most: a page's worth.
const SAMPLES_MAX: u32 = 16;

/// Asks a receiver for copies of batches. Clones ask the same receiver.
#[derive(Clone, Debug)]
pub struct Peek {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    is_asked: AtomicBool,
    door: Mutex<Door>,
    recipe: Recipe,
}

#[derive(Debug)]
enum Door {
    /// The receiver hands out batches. Holds who waits for the next one.
    Open(Option<oneshot::Sender<Result<Peeked, PeekError>>>),
    /// The receiver has ended.
    Closed,
}

/// The first samples of a batch as they were handed to the trainer, at most 16.
#[derive(Clone, Debug)]
pub struct Peeked {
    epoch: u32,
    step: u64,
    bucket: u32,
    batch_samples: usize,
    samples: Vec<SampleRef>,
    provenance: Vec<Provenance>,
    /// That of a batch of `batch_samples` samples.
    layout: Layout,
    bytes: Vec<u8>,
    /// 1 / scale of each FP8 tensor, in order.
    fp8_scales_inv: Vec<f32>,
}

/// Why there is no copy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeekError {
    /// One copy at a time.
    #[error("somebody else is waiting for the next batch: ask again in a moment")]
    Busy,
    /// The trainer took nothing meanwhile.
    #[error(
        "the trainer took no batch within {seconds} s: ask again when it takes batches, or see what \
         it waits for"
    )]
    NoBatch {
        /// How long it was waited for.
        seconds: u64,
    },
    /// A network card or another GPU wrote the batch to a GPU's memory.
    #[error(
        "batches of this rank lie in a GPU's memory only, where a network card or a worker's GPU writes them, and \
         cannot be shown: set receiver.gpudirect = \"off\" and leave \"cuda\" out of receiver.links to see some"
    )]
    OnDevice,
    /// There are no more batches.
    #[error("the receiver of this rank has ended: there are no more batches")]
    Ended,
}

// === impl Peek ===

impl Peek {
    pub(crate) fn new(recipe: Recipe) -> Self {
        let (is_asked, door) = (AtomicBool::new(false), Mutex::new(Door::Open(None)));
        Self { inner: Arc::new(Inner { is_asked, door, recipe }) }
    }

    /// A copy of the batch that the trainer takes next, waited for up to `limit`. Dropping the future
    /// takes the question back.
    ///
    /// # Errors
    /// See [`PeekError`].
    pub async fn next(&self, limit: Duration) -> Result<Peeked, PeekError> {
        let (asker, answer) = oneshot::channel();
        match &mut *self.lock() {
            Door::Closed => return Err(PeekError::Ended),
            Door::Open(Some(other)) if !other.is_closed() => return Err(PeekError::Busy),
            Door::Open(place) => *place = Some(asker),
        }
        self.inner.is_asked.store(true, Ordering::Release);
        match tokio::time::timeout(limit, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(PeekError::Ended),
            Err(_) => Err(PeekError::NoBatch { seconds: limit.as_secs() }),
        }
    }

    /// Called with each batch before the trainer gets it.
    pub(crate) fn on_taken(&self, batch: &Batch) {
        if !self.inner.is_asked.load(Ordering::Relaxed) {
            return;
        }
        self.inner.is_asked.store(false, Ordering::Relaxed);
        let asker = match &mut *self.lock() {
            Door::Open(place) => place.take(),
            Door::Closed => None,
        };
        // Whoever went away meanwhile costs no copy.
        if let Some(asker) = asker.filter(|asker| !asker.is_closed()) {
            let _ = asker.send(Peeked::copy(batch, &self.inner.recipe));
        }
    }

    /// Answers whoever waits, and everybody later, that there is nothing more.
    pub(crate) fn close(&self) {
        *self.lock() = Door::Closed;
    }

    fn lock(&self) -> MutexGuard<'_, Door> {
        // Every change is complete before anything can panic.
        self.inner.door.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Peeked ===

impl Peeked {
    fn copy(batch: &Batch, recipe: &Recipe) -> Result<Self, PeekError> {
        if batch.device().is_some_and(|device| !device.is_on_host()) {
            return Err(PeekError::OnDevice);
        }
        metrics::batch_shown();
        let count = SAMPLES_MAX.min(batch.layout().samples());
        let layout = Layout::new(&recipe.in_bucket(batch.bucket()), count);
        let mut bytes = vec![0; layout.len_bytes() as usize];
        let (from, to) = (batch.layout().part_regions(0, count), layout.part_regions(0, count));
        for (from, to) in from.into_iter().zip(to) {
            let (start, len) = (to.offset_bytes as usize, to.len_bytes as usize);
            batch.memory().copy_to(from, &mut bytes[start..start + len]);
        }
        let count = count as usize;
        Ok(Self {
            epoch: batch.epoch(),
            step: batch.step(),
            bucket: batch.bucket(),
            batch_samples: batch.len(),
            samples: batch.samples()[..count].to_vec(),
            provenance: batch.provenance()[..count].to_vec(),
            layout,
            bytes,
            fp8_scales_inv: batch.fp8_scales().iter().map(|scale| 1.0 / scale).collect(),
        })
    }

    /// Epoch.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Step within the epoch.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Number of the size of its tensors, as [`Batch::bucket`] has it.
    #[must_use]
    pub fn bucket(&self) -> u32 {
        self.bucket
    }

    /// Samples of the whole batch.
    #[must_use]
    pub fn batch_samples(&self) -> usize {
        self.batch_samples
    }

    /// The samples that were asked for, those of the copy.
    #[must_use]
    pub fn samples(&self) -> &[SampleRef] {
        &self.samples
    }

    /// What stands in the batch for each of them.
    #[must_use]
    pub fn provenance(&self) -> &[Provenance] {
        &self.provenance
    }

    /// Dtypes, shapes and places of the copy's tensors.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The bytes of one of these tensors: the first rows of each of its views in the batch.
    #[must_use]
    pub fn tensor_bytes(&self, tensor: &TensorLayout) -> &[u8] {
        let region = self.layout.tensor_region(tensor);
        &self.bytes[region.offset_bytes as usize..][..region.len_bytes as usize]
    }

    /// What an FP8 tensor's elements are multiplied by to have normalised values; `None` for other types.
    #[must_use]
    pub fn fp8_scale_inv(&self, tensor: &TensorLayout) -> Option<f32> {
        let mut fp8 = self.layout.tensors().iter().filter(|t| t.dtype == Dtype::Fp8E4m3);
        fp8.position(|t| t == tensor).map(|number| self.fp8_scales_inv[number])
    }
}
