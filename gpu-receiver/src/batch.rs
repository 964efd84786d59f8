//! A ready batch, as the trainer gets it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use headwater_core::{
    Digest, Digester, Dtype, Layout, Masks, Mixing, PatchMasks, Region, SampleRef, TensorLayout,
};
use headwater_proto::augment::Provenance;
use headwater_trace::{Context, Span};
use headwater_transport::{SlotId, SlotMemory};
use tokio::sync::mpsc::Sender;

use crate::device::DeviceBatch;
use crate::error::ReceiverError;
use crate::held::{HeldContent, HeldWatch};
use crate::host::Delivery;
use crate::ledger::{FinishedBatch, Serial};
use crate::masking::Masking;
use crate::position::Position;
use crate::stall::History;

/// A batch. Clones share it; the slot goes back to the receiver when the last clone is dropped,
/// and no sooner, so tensors that point into it stay valid as long as they hold a clone.
#[derive(Clone)]
pub struct Batch {
    inner: Arc<Inner>,
}

/// What travels with an FP8 tensor. Its values are about `element / scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fp8Meta {
    /// What normalised values were multiplied by before they were rounded.
    pub scale: f32,
    /// The largest magnitude of this batch's values before that.
    pub amax: f32,
}

/// Where a batch lies, and who takes its memory back.
pub(crate) struct Home {
    pub(crate) memory: Arc<SlotMemory>,
    pub(crate) device: Option<DeviceBatch>,
    pub(crate) hold: Hold,
    pub(crate) spans: BatchSpans,
}

/// What keeps a batch's memory from being used again.
pub(crate) enum Hold {
    /// A slot of this receiver, which goes back through this. It has a place for every slot.
    Slot(Sender<SlotId>),
    /// A slot of this host's service, which does not touch it as long as this is there.
    Delivery(#[expect(dead_code, reason = "its end is what counts")] Delivery),
}

/// What the trace shows of a batch until it is taken.
pub(crate) struct BatchSpans {
    /// The wait for the trainer within the batch's own span.
    open: Mutex<Option<(Span, Span)>>,
    /// The leases that brought its parts.
    leases: Vec<Context>,
}

struct Inner {
    finished: FinishedBatch,
    home: Home,
    slot: SlotId,
    made_in: u32,
    masking: Option<Arc<Masking>>,
    history: History,
    masks: OnceLock<Option<Masks>>,
    patches: OnceLock<Option<PatchMasks>>,
    mixing: OnceLock<Option<Mixing>>,
    /// Set where batches are watched while the trainer has them.
    held: OnceLock<HeldContent>,
}

// === impl BatchSpans ===

impl BatchSpans {
    /// `batch` goes on until the batch is taken.
    pub(crate) fn new(batch: Span, leases: Vec<Context>) -> Self {
        Self { open: Mutex::new(Some((batch.child("batch ready"), batch))), leases }
    }

    /// The batch is taken by `next`, where the flows of its leases end.
    fn on_taken(&self, next: &mut Span) {
        drop(self.open.lock().unwrap_or_else(PoisonError::into_inner).take());
        next.end_of(self.leases.iter().copied());
    }
}

// === impl Fp8Meta ===

impl Fp8Meta {
    /// What elements are multiplied by to have normalised values again: 1 / scale.
    #[must_use]
    pub fn scale_inv(&self) -> f32 {
        1.0 / self.scale
    }
}

// === impl Batch ===

impl Batch {
    pub(crate) fn new(
        finished: FinishedBatch,
        home: Home,
        masking: Option<Arc<Masking>>,
        history: History,
    ) -> Self {
        let slot = finished.order.slot;
        let (made_in, masks) = (std::process::id(), OnceLock::new());
        let (patches, mixing) = (OnceLock::new(), OnceLock::new());
        let inner = Inner {
            finished,
            home,
            slot,
            made_in,
            masking,
            history,
            masks,
            patches,
            mixing,
            held: OnceLock::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Its place in the order of delivery.
    pub(crate) fn serial(&self) -> Serial {
        self.inner.finished.order.serial
    }

    /// Where it was before it was ready.
    pub(crate) fn history(&self) -> &History {
        &self.inner.history
    }

    /// The trainer has it: `next` is its span.
    pub(crate) fn trace_taken(&self, next: &mut Span) {
        next.arg("epoch", self.epoch());
        next.arg("step", self.step());
        next.arg("samples", self.len());
        self.inner.home.spans.on_taken(next);
    }

    /// From here on the trainer has it: what it holds then is compared with what it lets go of.
    ///
    /// # Errors
    /// As for [`Batch::tensor_bytes`].
    pub(crate) fn watch(&self, watch: &Arc<HeldWatch>) -> Result<(), ReceiverError> {
        let content = HeldContent::new(watch, self.inner.content()?);
        // Whoever else has it has set the same.
        let _ = self.inner.held.set(content);
        Ok(())
    }

    /// The slot that it lies in.
    pub(crate) fn slot(&self) -> SlotId {
        self.inner.slot
    }

    /// That slot's memory.
    pub(crate) fn memory(&self) -> &SlotMemory {
        &self.inner.home.memory
    }

    /// The scale of each FP8 tensor, in order.
    pub(crate) fn fp8_scales(&self) -> &[f32] {
        &self.inner.finished.order.fp8_scales
    }

    /// Epoch.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.inner.finished.order.epoch
    }

    /// Step within the epoch.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.inner.finished.order.step
    }

    /// The group that its samples have in the list that is the order; none where the order has no groups.
    #[must_use]
    pub fn group(&self) -> Option<u32> {
        self.inner.finished.order.group
    }

    /// Number of the size of its tensors, of those in the recipe's `aspect_buckets`; 0 where the recipe has none.
    #[must_use]
    pub fn bucket(&self) -> u32 {
        self.inner.finished.order.bucket
    }

    /// Samples in the batch.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.finished.order.samples.len()
    }

    /// Never: a batch has a sample at least.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Dtypes, shapes and places of the tensors.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.inner.finished.order.layout
    }

    /// The samples that were asked for, in order.
    #[must_use]
    pub fn samples(&self) -> &[SampleRef] {
        &self.inner.finished.order.samples
    }

    /// What stands in the batch for each of them: key, label, substitution.
    #[must_use]
    pub fn provenance(&self) -> &[Provenance] {
        &self.inner.finished.provenance
    }

    /// The tensor of a name.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&TensorLayout> {
        self.layout().tensors().iter().find(|tensor| tensor.name == name)
    }

    /// The batch on a GPU, where `receiver.device` names one.
    #[must_use]
    pub fn device(&self) -> Option<&DeviceBatch> {
        self.inner.home.device.as_ref()
    }

    /// Address in the host's memory of a tensor's first element, as it arrived; valid while a clone of
    /// the batch lives. C order. `None` where a network card has written the batch to a GPU's memory.
    #[must_use]
    pub fn tensor_ptr(&self, tensor: &TensorLayout) -> Option<*mut u8> {
        let start = self.inner.home.memory.as_ptr();
        self.inner.elsewhere().is_none().then(|| start.wrapping_add(tensor.offset_bytes as usize))
    }

    /// What an FP8 tensor's elements were multiplied by, and what they were before; `None` for other
    /// types.
    #[must_use]
    pub fn fp8(&self, tensor: &TensorLayout) -> Option<Fp8Meta> {
        let tensors = self.layout().tensors().iter();
        let number = tensors.filter(|t| t.dtype == Dtype::Fp8E4m3).position(|t| t == tensor)?;
        let FinishedBatch { order, fp8_amaxes, .. } = &self.inner.finished;
        Some(Fp8Meta { scale: order.fp8_scales[number], amax: fp8_amaxes[number] })
    }

    /// The amax of each FP8 tensor, in order.
    pub(crate) fn fp8_amaxes(&self) -> &[f32] {
        &self.inner.finished.fp8_amaxes
    }

    /// A copy of a tensor's bytes, as they arrived. Of a batch that a network card has written to a GPU's
    /// memory they are copied back from there.
    ///
    /// # Errors
    /// That GPU fails.
    pub fn tensor_bytes(&self, tensor: &TensorLayout) -> Result<Vec<u8>, ReceiverError> {
        let region = self.layout().tensor_region(tensor);
        match self.inner.elsewhere() {
            Some(device) => Ok(device.read(region)?),
            None => Ok(self.inner.home.memory.read(region)),
        }
    }

    /// Identity of each sample's content, in order: its rows of all tensors, the scales of those of
    /// FP8, and its key. Unlike
    /// [`Batch::digest`] it does not depend on how many samples share a rank's batch, so that the
    /// batches of runs on different numbers of ranks can be compared.
    ///
    /// # Errors
    /// As for [`Batch::tensor_bytes`].
    pub fn sample_digests(&self) -> Result<Vec<Digest>, ReceiverError> {
        let digest = |(position, sample): (u32, &Provenance)| {
            let mut digester = Digester::new("headwater sample 1");
            for region in self.layout().part_regions(position, 1) {
                digester.number(region.len_bytes).bytes(&self.inner.hash(region)?.to_le_bytes());
            }
            for scale in &self.inner.finished.order.fp8_scales {
                digester.number(scale.to_bits().into());
            }
            Ok(digester.bytes(sample.key.as_bytes()).finish())
        };
        (0..).zip(self.provenance()).map(digest).collect()
    }

    /// The batch's masks, where `receiver.masks` asks for them. Drawn on the first call.
    #[must_use]
    pub fn masks(&self) -> Option<&Masks> {
        let masking = self.inner.masking.as_ref()?;
        let draw = || masking.masks(self.epoch(), self.step(), self.len() as u32);
        self.inner.masks.get_or_init(draw).as_ref()
    }

    /// The batch's patches, where `receiver.patches` asks for them. Drawn on the first call.
    #[must_use]
    pub fn patches(&self) -> Option<&PatchMasks> {
        let masking = self.inner.masking.as_ref()?;
        let draw = || masking.patches(self.epoch(), self.step(), self.len() as u32);
        self.inner.patches.get_or_init(draw).as_ref()
    }

    /// How to mix the batch, where `receiver.mixing` asks for it. Drawn on the first call.
    #[must_use]
    pub fn mixing(&self) -> Option<&Mixing> {
        let masking = self.inner.masking.as_ref()?;
        let draw = || masking.mixing(self.epoch(), self.step(), self.len() as u32);
        self.inner.mixing.get_or_init(draw).as_ref()
    }

    /// Identity of the batch's content: names, dtypes, shapes and bytes of all tensors, scales and
    /// amaxes of those of FP8, the masks, the patches, the mixing, and the samples' keys. Equal for equal coordinates, whoever made it.
    ///
    /// # Errors
    /// As for [`Batch::tensor_bytes`].
    pub fn digest(&self) -> Result<Digest, ReceiverError> {
        let mut digester = Digester::new("headwater batch 1");
        for tensor in self.layout().tensors() {
            digester.bytes(tensor.name.as_bytes()).bytes(tensor.dtype.name().as_bytes());
            for dim in tensor.shape(self.layout().samples()) {
                digester.number(dim);
            }
            let hash = self.inner.hash(self.layout().tensor_region(tensor))?;
            digester.bytes(&hash.to_le_bytes());
            if let Some(Fp8Meta { scale, amax }) = self.fp8(tensor) {
                digester.number(scale.to_bits().into()).number(amax.to_bits().into());
            }
        }
        for sample in self.provenance() {
            digester.bytes(sample.key.as_bytes());
        }
        if let Some(masks) = self.masks() {
            digester.number(masks.patches() as u64).bytes(masks.cells());
        }
        for tensor in self.patches().iter().flat_map(|patches| patches.tensors()) {
            digester.bytes(tensor.name.as_bytes());
            tensor.shape.iter().for_each(|side| _ = digester.number(*side));
            tensor.values.iter().for_each(|at| _ = digester.number(*at as u64));
        }
        if let Some(mixing) = self.mixing() {
            let drawn = mixing.partner().iter().zip(mixing.lam()).zip(mixing.boxes());
            for ((partner, lam), cut) in drawn {
                digester.number(*partner as u64).number(lam.to_bits().into());
                cut.iter().for_each(|side| _ = digester.number(*side as u64));
            }
        }
        Ok(digester.finish())
    }
}

// === impl Inner ===

impl Inner {
    /// The GPU's memory, where only that has all of the batch.
    fn elsewhere(&self) -> Option<&DeviceBatch> {
        self.home.device.as_ref().filter(|device| !device.is_on_host())
    }

    fn hash(&self, region: Region) -> Result<u128, ReceiverError> {
        let mut hash = xxhash_rust::xxh3::Xxh3Default::new();
        match self.elsewhere() {
            Some(device) => device.for_each_chunk(region, |chunk| hash.update(chunk))?,
            None => self.home.memory.for_each_chunk(region, |chunk| hash.update(chunk)),
        }
        Ok(hash.digest128())
    }

    /// Identity of the bytes of all tensors.
    fn content(&self) -> Result<Digest, ReceiverError> {
        let mut digester = Digester::new("headwater held batch 1");
        for tensor in self.finished.order.layout.tensors() {
            let region = self.finished.order.layout.tensor_region(tensor);
            digester.bytes(&self.hash(region)?.to_le_bytes());
        }
        Ok(digester.finish())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A forked child has a copy of the channel, whose locks nobody would ever open again there.
        if std::process::id() != self.made_in {
            return;
        }
        if let Some(held) = self.held.get() {
            let order = &self.finished.order;
            let at = Position { epoch: order.epoch, step: order.step };
            match self.content() {
                Ok(found) => held.compare(at, found),
                Err(error) => tracing::warn!(%error, "a held batch cannot be compared"),
            }
        }
        if let Some(device) = &self.home.device {
            device.let_go();
        }
        // The receiver may be gone already: then the memory goes with this batch.
        // It cannot be full: each slot is in one batch.
        if let Hold::Slot(releases) = &self.home.hold {
            let _ = releases.try_send(self.slot);
        }
    }
}
