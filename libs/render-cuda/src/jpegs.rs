//! JPEGs that the device itself decodes: each gets a place at first, and all are decoded together.

use headwater_core::draw::Extent;
use headwater_render::{RenderError, Rendered};

use super::arena::{Coded, Room};
use super::device::{Device, DeviceError, JpegError, JpegImage};
use super::job::{Decoded, Job, Pending};
use super::renderer::CudaRenderer;

// === impl CudaRenderer ===

impl<D: Device> CudaRenderer<D> {
    /// Gives a JPEG that the device decodes a place there.
    pub(super) fn place(
        &mut self,
        job: &mut Job<'_, '_>,
        number: usize,
        extent: Extent,
    ) -> Result<(), DeviceError> {
        self.draws.draw(job.recipe, job.samples[number].key, extent);
        let image = Decoded { source: extent, extent, reduction: 1 };
        let placed = match self.make_room(job, number, image, Coded::default())? {
            Ok(Room { pixels: offset, .. }) => {
                self.pending.push(Pending { number, extent, offset });
                Ok(Rendered { source: extent })
            }
            // The processor would make other pixels of it.
            Err(_) => Err(RenderError::Device {
                reason: format!(
                    "an image of {} x {} pixels does not fit with its views: raise \
                     augment.cuda_memory_bytes or lower augment.threads",
                    extent.width, extent.height
                ),
            }),
        };
        job.note(number, placed);
        Ok(())
    }

    /// Has the device decode what waits for it; what it leaves, the processor decodes.
    pub(super) fn decode_pending(&mut self, job: &mut Job<'_, '_>) -> Result<(), DeviceError> {
        let Some(device) = self.device.as_mut().filter(|_| !self.pending.is_empty()) else {
            return Ok(());
        };
        let image = |&Pending { number, extent, offset }: &Pending| JpegImage {
            encoded: job.samples[number].encoded,
            extent,
            offset,
        };
        let images: Vec<JpegImage<'_>> = self.pending.iter().map(image).collect();
        let done = match device.decode_jpegs(&images, job.recipe.hw_decoder_load) {
            Ok(done) => done,
            Err(JpegError::Device(error)) => return Err(error),
            Err(JpegError::Memory(reason)) => {
                for pending in self.pending.drain(..) {
                    let reason = reason.clone();
                    job.note(pending.number, Err(RenderError::Device { reason }));
                }
                return Ok(());
            }
        };
        for (pending, _) in self.pending.drain(..).zip(done).filter(|(_, done)| !done) {
            match self.judge.decode(job.samples[pending.number].encoded) {
                Ok(image) => device.upload(pending.offset, image.pixels_in(&mut self.pixels))?,
                Err(error) => job.note(pending.number, Err(error.into())),
            }
        }
        Ok(())
    }
}
