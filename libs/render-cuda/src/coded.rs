//! JPEGs that kernels decode: how a renderer puts them on the device, and what it does with those that kernels refuse.

use std::time::Instant;

use headwater_render::decode::Wanted;
use headwater_render::{PartSample, Rendered};

use super::arena::{Row, Sealed};
use super::decode::{Coder, Staged};
use super::device::{Device, DeviceError};
use super::job::{Decoded, Job};
use super::renderer::CudaRenderer;
use super::rows::{DirectRows, Left, deliver};
use super::sums;

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

    /// Has the processor decode images in which kernels have found something amiss, and kernels make their views again;
    /// how many samples that were. What is right already is neither made nor copied again.
    pub(super) fn finish_amiss(
        &mut self,
        job: &mut Job<'_, '_>,
        sealed: &Sealed,
        amiss: &[(usize, u64)],
        direct: Option<&DirectRows>,
    ) -> Result<u64, DeviceError> {
        let samples = self.decode_amiss(job, amiss)?;
        let Some(device) = self.device.as_mut().filter(|_| !samples.is_empty()) else {
            return Ok(0);
        };
        let again = self.load.again(sealed, &samples, direct.is_some());
        again.lists.iter().try_for_each(|(place, list)| device.upload(*place, list))?;
        again.launches.iter().try_for_each(|launch| device.launch(launch))?;
        if let Some(direct) = direct {
            let mut direct = direct.of_samples(self.load.rows(), &samples);
            if direct.are_in_windows() {
                direct = direct.begun(job.sinks, |_| true);
            }
            let bytes = sealed.sums.launch.map_or(0, |_| sums::sums_bytes(again.rows.len()));
            let mut sums = sums::read(device.download_rows(&direct, sealed.sums.at, bytes)?);
            for row in &again.rows {
                deliver(job, row, Left { bytes: None, sum: sums.next() });
            }
            return Ok(samples.len() as u64);
        }
        let are_side_by_side = |one: &Row, other: &Row| one.offset + one.bytes == other.offset;
        for rows in again.rows.chunk_by(are_side_by_side) {
            let (start, bytes) = (rows[0].offset, rows.iter().map(|row| row.bytes).sum());
            let found = device.download(sealed.rows.0 + start, bytes)?;
            for row in rows {
                let bytes = &found[(row.offset - start) as usize..][..row.bytes as usize];
                deliver(job, row, Left { bytes: Some(bytes), sum: None });
            }
        }
        Ok(samples.len() as u64)
    }

    /// Has the processor decode images, which stay where they are; the samples of those that can be decoded.
    fn decode_amiss(
        &mut self,
        job: &mut Job<'_, '_>,
        amiss: &[(usize, u64)],
    ) -> Result<Vec<usize>, DeviceError> {
        let mut samples = Vec::with_capacity(amiss.len());
        for &(number, place) in amiss {
            let PartSample { encoded, entries, .. } = job.samples[number];
            match self.judge.decode_from(encoded, entries, Wanted::all) {
                Ok(image) => {
                    let pixels = image.pixels_in(&mut self.pixels);
                    let Some(device) = &mut self.device else { return Ok(Vec::new()) };
                    device.upload(place, pixels)?;
                    samples.push(number);
                }
                Err(error) => job.note(number, Err(error.into())),
            }
        }
        Ok(samples)
    }
}
