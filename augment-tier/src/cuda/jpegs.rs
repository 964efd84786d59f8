//! JPEGs that the device itself decodes: each gets a place at first, and all are decoded together.

use headwater_core::Recipe;
use headwater_core::draw::Extent;

use super::device::{Device, DeviceError, JpegError, JpegImage};
use super::renderer::{CudaRenderer, Decoded, Outcomes};
use crate::backend::SampleJob;
use crate::render::{RenderError, Rendered};

/// A JPEG that has a place on the device, but no pixels there yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    /// Number of its sample.
    number: usize,
    extent: Extent,
    offset: u64,
}

// === impl CudaRenderer ===

impl<D: Device> CudaRenderer<D> {
    /// Gives a JPEG that the device decodes a place there.
    pub(super) fn place(
        &mut self,
        recipe: &Recipe,
        number: usize,
        extent: Extent,
        jobs: &mut [SampleJob<'_>],
        outcomes: &mut Outcomes,
    ) -> Result<(), DeviceError> {
        self.draws.draw(recipe, jobs[number].key, extent);
        let image = Decoded { source: extent, extent, reduction: 1 };
        outcomes[number] = Some(match self.make_room(recipe, number, image, jobs, outcomes)? {
            Ok(offset) => {
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
        });
        Ok(())
    }

    /// Has the device decode what waits for it; what it leaves, the processor decodes.
    pub(super) fn decode_pending(
        &mut self,
        recipe: &Recipe,
        jobs: &[SampleJob<'_>],
        outcomes: &mut Outcomes,
    ) -> Result<(), DeviceError> {
        let Some(device) = self.device.as_mut().filter(|_| !self.pending.is_empty()) else {
            return Ok(());
        };
        let image = |&Pending { number, extent, offset }: &Pending| JpegImage {
            encoded: jobs[number].encoded,
            extent,
            offset,
        };
        let images: Vec<JpegImage<'_>> = self.pending.iter().map(image).collect();
        let done = match device.decode_jpegs(&images, recipe.hw_decoder_load) {
            Ok(done) => done,
            Err(JpegError::Device(error)) => return Err(error),
            Err(JpegError::Memory(reason)) => {
                for pending in self.pending.drain(..) {
                    let reason = reason.clone();
                    outcomes[pending.number] = Some(Err(RenderError::Device { reason }));
                }
                return Ok(());
            }
        };
        for (pending, _) in self.pending.drain(..).zip(done).filter(|(_, done)| !done) {
            match self.judge.decode(jobs[pending.number].encoded) {
                Ok(image) => device.upload(pending.offset, image.pixels())?,
                Err(error) => outcomes[pending.number] = Some(Err(error.into())),
            }
        }
        Ok(())
    }
}
