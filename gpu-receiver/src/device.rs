//! Batches in a GPU's memory: each slot has a twin there, to which the batch is copied when it is whole.

use std::ops::Range;
use std::sync::Arc;

use headwater_core::cast::Normalise;
use headwater_core::recipe::TensorSpec;
use headwater_core::{Dtype, Layout, Recipe, Region, TensorLayout};
use headwater_cuda::{
    ConsumerStream, CubinCache, CudaError, DeviceAllocator, DeviceSlot, Expansion, Uploader,
};
use headwater_transport::SlotMemory;

use crate::config::{Device, DeviceConfig};
use crate::error::ReceiverError;

/// Makes slots' twins and says what lies where in them.
#[derive(Clone)]
pub(crate) struct DeviceSlots {
    uploader: Arc<Uploader>,
    /// What levels of images become.
    u8_as: Option<Dtype>,
    /// Bytes of a twin: the largest batch, and elements of its levels.
    len_bytes: u64,
}

/// A batch on a GPU. Its memory is read by streams that it was handed to; all else goes on without
/// waiting for anybody.
pub struct DeviceBatch {
    slot: Arc<DeviceSlot>,
    /// Of each tensor of the layout: type of its elements, and where they begin in the twin.
    places: Vec<(Dtype, u64)>,
    /// All bytes are in the slot too, as they came.
    is_on_host: bool,
}

// === impl DeviceSlots ===

impl DeviceSlots {
    /// What `receiver.device` asks for; `None` for the CPU.
    ///
    /// # Errors
    /// There is no such GPU, it cannot be used, or it makes other bytes than the processor; says what is
    /// missing or what differs.
    pub(crate) fn open(
        config: &DeviceConfig,
        recipe: &Recipe,
        batch_samples: u32,
        allocator: Option<Box<dyn DeviceAllocator>>,
    ) -> Result<Option<Self>, ReceiverError> {
        let Device::Cuda(ordinal) = config.parsed()? else { return Ok(None) };
        let u8_as = config.u8_as()?;
        let of_patches = |tensor: &&TensorSpec| recipe.sequences_of(&tensor.name).is_some();
        let patches = recipe.tensors.iter().find(of_patches);
        if let (Some(_), Some(TensorSpec { name, dtype: Dtype::U8, .. })) = (u8_as, patches) {
            let value = format!("given, and tensor `{name}` has patches of u8");
            let rule = "normalises whole images: give that tensor the dtype itself";
            return Err(ReceiverError::Config { key: "u8_as", value, rule });
        }
        let mut uploader = Uploader::open(ordinal, allocator)?;
        if let Some(dtype) = u8_as {
            let cache = CubinCache::in_folder(&config.cuda_cache_dir);
            uploader = uploader.normalising(&Normalise::of(recipe), dtype, cache.as_ref())?;
        }
        let gpu = uploader.gpu().name().to_owned();
        let uploader = Arc::new(uploader);
        uploader.prove()?;
        let mut twins = Self { uploader, u8_as, len_bytes: 0 };
        let layouts = recipe
            .each_bucket()
            .zip(0..)
            .map(|(of, bucket)| Layout::new(&of, recipe.samples_in_bucket(bucket, batch_samples)));
        twins.len_bytes = layouts.map(|layout| twins.plan(&layout).2).max().unwrap_or(0);
        tracing::info!(gpu, ordinal, bytes = twins.len_bytes, "batches land on a GPU");
        Ok(Some(twins))
    }

    /// The twin of a new slot.
    ///
    /// # Errors
    /// The GPU has no memory for it, or the slot cannot be locked in memory.
    pub(crate) fn of(&self, host: Arc<SlotMemory>) -> Result<Arc<DeviceSlot>, CudaError> {
        self.uploader.slot(host, self.len_bytes).map(Arc::new)
    }

    /// The same for workers that import it.
    ///
    /// # Errors
    /// As for [`DeviceSlots::of`], or the driver exports no memory.
    pub(crate) fn exportable(&self, host: Arc<SlotMemory>) -> Result<Arc<DeviceSlot>, CudaError> {
        self.uploader.exportable_slot(host, self.len_bytes).map(Arc::new)
    }

    /// Whether network cards can write to twins.
    ///
    /// # Errors
    /// They cannot; why.
    pub(crate) fn check_peer_writes(&self) -> Result<(), CudaError> {
        self.uploader.check_peer_writes()
    }

    /// Sends what is in the slot of a whole batch, the rows of the samples `on_host`, on its way to the
    /// twin; a card has written the other rows there.
    ///
    /// # Errors
    /// The GPU fails.
    pub(crate) fn upload(
        &self,
        slot: &Arc<DeviceSlot>,
        layout: &Layout,
        on_host: &[Range<u32>],
    ) -> Result<DeviceBatch, CudaError> {
        let (places, expansions, _) = self.plan(layout);
        let all = 0..layout.samples();
        let is_on_host = on_host == std::slice::from_ref(&all);
        if is_on_host {
            let whole = Region { offset_bytes: 0, len_bytes: layout.len_bytes() };
            slot.upload(&[whole], &expansions)?;
        } else {
            let rows = |range: &Range<u32>| layout.part_regions(range.start, range.len() as u32);
            let copies: Vec<Region> = on_host.iter().flat_map(rows).collect();
            slot.upload_beside_card(&copies, &expansions)?;
        }
        Ok(DeviceBatch { slot: Arc::clone(slot), places, is_on_host })
    }

    /// Types and places of a layout's tensors in a twin, what to normalise, and the end of all.
    /// Elements of levels come after what is copied.
    fn plan(&self, layout: &Layout) -> (Vec<(Dtype, u64)>, Vec<Expansion>, u64) {
        let mut end = layout.len_bytes();
        let mut expansions = Vec::new();
        let mut places = Vec::with_capacity(layout.tensors().len());
        for tensor in layout.tensors() {
            let (Some(dtype), Some(pixels)) = (self.u8_as, pixels_of_levels(tensor)) else {
                places.push((tensor.dtype, tensor.offset_bytes));
                continue;
            };
            let planes = 3 * tensor.views * layout.samples();
            let (levels, elements) = (tensor.offset_bytes, end);
            expansions.push(Expansion { levels, elements, plane: pixels, planes });
            places.push((dtype, elements));
            let bytes = u64::from(planes) * pixels * dtype.size_bytes();
            end = (end + bytes).next_multiple_of(headwater_core::layout::TENSOR_ALIGN_BYTES);
        }
        (places, expansions, end)
    }
}

/// Pixels of one plane, of tensors of levels of images.
fn pixels_of_levels(tensor: &TensorLayout) -> Option<u64> {
    match (tensor.dtype, tensor.row_shape.as_slice()) {
        (Dtype::U8, &[3, height, width]) if tensor.is_image => {
            Some(u64::from(height) * u64::from(width))
        }
        _ => None,
    }
}

// === impl DeviceBatch ===

impl DeviceBatch {
    /// Number of the GPU.
    #[must_use]
    pub fn ordinal(&self) -> u32 {
        self.slot.ordinal()
    }

    /// Type of the elements there of tensor number `index` of the layout.
    #[must_use]
    pub fn dtype(&self, index: usize) -> Dtype {
        self.places[index].0
    }

    /// Address on the GPU of that tensor's first element; of use to streams that
    /// [`DeviceBatch::hand_to`] was called for. C order.
    #[must_use]
    pub fn address(&self, index: usize) -> u64 {
        self.slot.address() + self.places[index].1
    }

    /// Lets a stream read the batch: what it is asked for from now on comes after the copy. The memory
    /// is not used again before that stream has done what it was asked for while a clone of the batch
    /// lived.
    ///
    /// # Errors
    /// The GPU fails.
    pub fn hand_to(&self, stream: ConsumerStream) -> Result<(), CudaError> {
        self.slot.hand_to(stream)
    }

    /// Sleeps until the batch is there, for a consumer who names no stream and sees to order itself.
    ///
    /// # Errors
    /// The GPU fails.
    pub fn wait(&self) -> Result<(), CudaError> {
        self.slot.wait()
    }

    pub(crate) fn is_on_host(&self) -> bool {
        self.is_on_host
    }

    /// Bytes of a region of the layout, as they are there when the copy has ended.
    ///
    /// # Errors
    /// The GPU fails.
    pub(crate) fn read(&self, region: Region) -> Result<Vec<u8>, CudaError> {
        self.slot.read(region.offset_bytes, region.len_bytes)
    }

    /// The same piece by piece.
    ///
    /// # Errors
    /// The GPU fails.
    pub(crate) fn for_each_chunk(
        &self,
        region: Region,
        look: impl FnMut(&[u8]),
    ) -> Result<(), CudaError> {
        self.slot.wait()?;
        self.slot.for_each_chunk(region, look)
    }

    pub(crate) fn let_go(&self) {
        self.slot.let_go();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raw_batchs_bytes_are_no_levels_of_images() {
        let tensor = |dtype, row_shape: &[u32]| TensorLayout {
            is_image: true,
            name: "a".into(),
            dtype,
            views: 1,
            row_shape: row_shape.to_vec(),
            offset_bytes: 0,
            row_bytes: 0,
        };
        assert_eq!(pixels_of_levels(&tensor(Dtype::U8, &[3, 4, 5])), Some(20));
        assert_eq!(pixels_of_levels(&tensor(Dtype::Bf16, &[3, 4, 5])), None);
        assert_eq!(pixels_of_levels(&tensor(Dtype::U8, &[1000])), None);
    }
}
