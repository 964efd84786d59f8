//! Decoding without the rest, to measure it: nothing is made of the pixels.

use headwater_render::decode::{DecodeLimits, Wanted};
use headwater_simd::Simd;

use crate::arena::{Room, padded};
use crate::decode::{Batch, Coder, Orders};
use crate::device::Device;
use crate::launch::Kernel;
use crate::measure::{KernelTime, MeasureError, Stopwatch, time};
use crate::renderer::CudaRenderer;

/// A JPEG and its entry points, as they are delivered with a sample.
pub type CodedImage<'a> = (&'a [u8], &'a [u8]);

/// The entry points of a JPEG as they are delivered; none where it has restart markers, is small or of another kind.
#[must_use]
pub fn entries_of(file: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut decoder = headwater_jpeg::Decoder::new(Simd::best());
    if let Ok(entries) = decoder.read(file).and_then(headwater_jpeg::Image::entries) {
        entries.write(&mut bytes);
    }
    bytes
}

/// What images were decoded by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    /// Kernels, from restart markers or delivered entry points, or as one segment.
    pub known: u64,
    /// Kernels, from entry points that they found.
    pub found: u64,
    /// Nothing: the processor has to.
    pub left: u64,
}

/// JPEGs on the device, ready to be decoded.
struct Ready {
    orders: Orders,
    /// Where the results lie, and their bytes.
    results: (u64, u64),
}

// === impl Ways ===

impl Ways {
    /// Those of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            known: self.known + other.known,
            found: self.found + other.found,
            left: self.left + other.left,
        }
    }
}

// === impl CudaRenderer ===

impl<D: Device> CudaRenderer<D> {
    /// Has kernels decode JPEGs side by side, as many of them as have room, and waits for that. Returns what has
    /// become of those with room.
    ///
    /// # Errors
    /// The device fails.
    pub fn decode_coded(&mut self, images: &[CodedImage<'_>]) -> Result<Ways, MeasureError> {
        let (ready, left) = self.ready(images)?;
        let Some(Ready { orders, results }) = ready else {
            return Ok(Ways { left, ..Ways::default() });
        };
        let device = self.device.as_mut().ok_or(MeasureError::Failed)?;
        orders.launches.iter().try_for_each(|launch| device.launch(launch))?;
        let batch: &Batch = &self.coder.batch;
        let results = device.download(results.0, results.1)?;
        let [known, found] = batch.decoded(results);
        Ok(Ways { known, found, left: left + batch.amiss(results).len() as u64 })
    }

    /// Copies them to the device, and how many of those with room kernels do not decode.
    fn ready(&mut self, images: &[CodedImage<'_>]) -> Result<(Option<Ready>, u64), MeasureError> {
        let Self { device, coder, .. } = self;
        let device = device.as_mut().ok_or(MeasureError::Failed)?;
        coder.batch.clear();
        let (mut end, mut records, mut unfit) = (0, 0, 0);
        for (number, image) in images.iter().enumerate() {
            let Some(staged) = coder.read(&DecodeLimits::default(), *image, Wanted::all) else {
                unfit += 1;
                continue;
            };
            let pixels = 3 * u64::from(staged.extent.width) * u64::from(staged.extent.height);
            let room = Room { pixels: end, scratch: end + padded(pixels) };
            let next = room.scratch + padded(staged.room.scratch);
            if next + padded(records + staged.room.records) > device.arena_bytes() {
                break;
            }
            let Coder { batch, bytes, .. } = coder;
            batch.push(number, &staged, bytes, room);
            (end, records) = (next, records + staged.room.records);
        }
        if coder.batch.is_empty() {
            return Ok((None, unfit));
        }
        let place = (end, end + padded(records));
        let orders = coder.batch.orders(place);
        device.upload_pieces(place.0, &coder.batch.pieces(&orders))?;
        let results_at = coder.batch.results_at(place.1);
        Ok((Some(Ready { orders, results: (results_at, place.1 - results_at) }), unfit))
    }
}

impl<D: Stopwatch> CudaRenderer<D> {
    /// Runs the kernels that decode JPEGs again and again, after one round that is not timed, and the number of segments
    /// that are known before; nothing where none can be decoded.
    ///
    /// # Errors
    /// The device fails.
    pub fn measure_decoding(
        &mut self,
        images: &[CodedImage<'_>],
        rounds: u32,
    ) -> Result<(Vec<KernelTime>, u64), MeasureError> {
        let (Some(Ready { orders, .. }), _) = self.ready(images)? else {
            return Ok((Vec::new(), 0));
        };
        let batch = &self.coder.batch;
        let kernels = Kernel::DECODING.map(|kernel| (kernel, batch.necessary_bytes(kernel)));
        let segments = batch.segments();
        let device = self.device.as_mut().ok_or(MeasureError::Failed)?;
        Ok((time(device, &orders.launches, &kernels, rounds)?, segments))
    }
}
