//! JPEGs that kernels decode: how a renderer puts them on the device, and what it does with those that kernels refuse.

use std::time::Instant;

use headwater_render::decode::Wanted;
use headwater_render::{PartSample, Rendered};

use super::decode::{Coder, Staged};
use super::device::{Device, DeviceError};
use super::job::{Decoded, Job};
use super::renderer::CudaRenderer;

// === impl CudaRenderer ===

impl<D: Device> CudaRenderer<D> {
    /// Puts a JPEG on the device to be decoded there; none where the processor is to decode it.
    pub(super) fn stage_coded(
        &mut self,
        job: &mut Job<'_, '_>,
        number: usize,
    ) -> Result<Option<()>, DeviceError> {
        let started = Instant::now();
        let PartSample { encoded, entries, .. } = job.samples[number];
        let Some(staged) = self.read_coded(job, number, (encoded, entries)) else {
            return Ok(None);
        };
        let (source, took) = (staged.extent, started.elapsed());
        let image = Decoded { source, extent: source, reduction: 1 };
        let Ok(room) = self.make_room(job, number, image, staged.room)? else { return Ok(None) };
        let Coder { batch, bytes, .. } = &mut self.coder;
        batch.push(number, &staged, bytes, room);
        job.sinks[number].decoded(took);
        job.note(number, Ok(Rendered { source }));
        Ok(Some(()))
    }

    fn read_coded(
        &mut self,
        job: &Job<'_, '_>,
        number: usize,
        image: (&[u8], &[u8]),
    ) -> Option<Staged> {
        let Self { coder, draws, decoder, .. } = self;
        if decoder.turns(image.0) {
            return None;
        }
        let limits = &job.recipe.decode_limits;
        coder.read(limits, image, |extent| draws.draw(job.recipe, job.samples[number].key, extent))
    }

    /// Has the processor decode images in which kernels have found something amiss; they stay where they are.
    pub(super) fn decode_amiss(
        &mut self,
        job: &mut Job<'_, '_>,
        amiss: &[(usize, u64)],
    ) -> Result<(), DeviceError> {
        for &(number, place) in amiss {
            let PartSample { encoded, entries, .. } = job.samples[number];
            match self.judge.decode_from(encoded, entries, Wanted::all) {
                Ok(image) => {
                    let pixels = image.pixels_in(&mut self.pixels);
                    let Some(device) = &mut self.device else { return Ok(()) };
                    device.upload(place, pixels)?;
                }
                Err(error) => job.note(number, Err(error.into())),
            }
        }
        Ok(())
    }
}
