//! How long each kernel takes on a part, and how many bytes it cannot do without.

use std::time::Duration;

use headwater_core::Recipe;
use headwater_core::draw::Extent;
use headwater_render::{PartSample, RenderError, RenderKey};

use super::arena::{Coded, padded};
use super::device::{Device, DeviceError, JpegError, JpegImage};
use super::launch::{Kernel, Launch};
use super::renderer::CudaRenderer;

/// A device whose work is timed by its own clock.
pub trait Stopwatch: Device {
    /// Runs kernels one after the other; how long each took.
    ///
    /// # Errors
    /// The device failed, now or before.
    fn time_launches(&mut self, launches: &[Launch]) -> Result<Vec<Duration>, DeviceError>;

    /// Copies the first half of the arena to the second one `times` times; returns how long all of
    /// that took. Each copy reads and writes [`Device::arena_bytes`] together.
    ///
    /// # Errors
    /// The device failed, now or before.
    fn time_copies(&mut self, times: u32) -> Result<Duration, DeviceError>;
}

/// What one kernel took over some rounds of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelTime {
    /// The kernel.
    pub kernel: Kernel,
    /// Blocks of one round.
    pub blocks: u64,
    /// Bytes of one round that must be read or written whatever the kernel does: each pixel that a
    /// view is made of once, each pixel and element of the view once. Not counted: taps, records,
    /// and pixels that are read again.
    pub necessary_bytes: u64,
    /// Rounds.
    pub rounds: u32,
    /// All rounds together.
    pub time: Duration,
}

/// Samples on a device, with all that kernels read of them.
struct Staged {
    launches: Vec<Launch>,
    /// Of each kernel, in the order of [`Kernel::VIEWS`].
    necessary_bytes: [u64; 3],
}

/// Why nothing was measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeasureError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A sample cannot be rendered.
    #[error("sample {number}: {reason}")]
    Sample {
        /// Its number among those that were given.
        number: usize,
        /// Why not.
        reason: RenderError,
    },
    /// The samples do not fit into the memory of a stream together.
    #[error(
        "sample {number} does not fit in the GPU's memory with the samples before it: raise \
         augment.cuda_memory_bytes or lower augment.threads"
    )]
    NoRoom {
        /// Number of the first that does not.
        number: usize,
    },
    /// There is no memory for a renderer.
    #[error(transparent)]
    Renderer(#[from] RenderError),
    /// The renderer has no device any more.
    #[error("the device has failed before")]
    Failed,
}

// === impl KernelTime ===

impl KernelTime {
    /// Necessary bytes per second.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        self.necessary_bytes as f64 * f64::from(self.rounds) / self.time.as_secs_f64()
    }

    /// One round.
    #[must_use]
    pub fn round(&self) -> Duration {
        self.time / self.rounds.max(1)
    }
}

// === impl CudaRenderer ===

impl<D: Stopwatch> CudaRenderer<D> {
    /// Runs the kernels of a part again and again, after one round that is not timed; the kernels in
    /// the order of [`Kernel::VIEWS`].
    ///
    /// # Errors
    /// The device fails, or a sample cannot be rendered or does not fit beside the others.
    pub fn measure(
        &mut self,
        recipe: &Recipe,
        samples: &[(RenderKey, &[u8])],
        rounds: u32,
    ) -> Result<Vec<KernelTime>, MeasureError> {
        let Staged { launches, necessary_bytes } = self.stage_all(recipe, samples)?;
        let device = self.device_mut().ok_or(MeasureError::Failed)?;
        let kernels: Vec<_> = Kernel::VIEWS.into_iter().zip(necessary_bytes).collect();
        time(device, &launches, &kernels, rounds)
    }

    /// Puts samples on the device, which must have room for all of them, with their records.
    fn stage_all(
        &mut self,
        recipe: &Recipe,
        samples: &[(RenderKey, &[u8])],
    ) -> Result<Staged, MeasureError> {
        self.load.clear();
        self.tables.begin();
        self.tables.choose(recipe, |_| None);
        for (number, (key, encoded)) in samples.iter().enumerate() {
            let sample = PartSample::of_image(*key, encoded, -1);
            let image = self.decode(recipe, &sample);
            let image = image.map_err(|reason| MeasureError::Sample { number, reason })?;
            let room = self.add(recipe, number, image, Coded::default());
            let room = room.map_err(|_| MeasureError::NoRoom { number })?;
            let device = self.device.as_mut().ok_or(MeasureError::Failed)?;
            device.upload(room.pixels, self.decoder.image().pixels_in(&mut self.pixels))?;
        }
        let sealed = self.load.seal(&self.tables);
        let device = self.device.as_mut().ok_or(MeasureError::Failed)?;
        device.upload(sealed.records.0, &sealed.records.1)?;
        let necessary_bytes = Kernel::VIEWS.map(|kernel| self.load.necessary_bytes(kernel));
        self.load.clear();
        let launches = sealed.launches.into_iter().chain(sealed.sums.launch).collect();
        Ok(Staged { launches, necessary_bytes })
    }

    /// Has the device decode JPEGs side by side, as many of them as have room, and waits for that.
    /// Returns for each that had room whether the device has decoded it.
    ///
    /// # Errors
    /// The device fails, or has no decoder.
    pub fn decode_jpegs(
        &mut self,
        files: &[&[u8]],
        engine_load: f64,
    ) -> Result<Vec<bool>, MeasureError> {
        let sized = files.iter().filter_map(|file| Some((*file, self.jpeg_extent(file).ok()??)));
        let sized: Vec<(&[u8], Extent)> = sized.collect();
        let device = self.device_mut().ok_or(MeasureError::Failed)?;
        let mut end = 0;
        let mut images = Vec::with_capacity(sized.len());
        for (encoded, extent) in sized {
            let offset = end;
            end += padded(3 * u64::from(extent.width) * u64::from(extent.height));
            if end > device.arena_bytes() {
                break;
            }
            images.push(JpegImage { encoded, extent, offset });
        }
        let decoded = match device.decode_jpegs(&images, engine_load) {
            Ok(decoded) => decoded,
            Err(JpegError::Device(error)) => return Err(error.into()),
            Err(JpegError::Memory(reason)) => return Err(RenderError::Device { reason }.into()),
        };
        device.download(0, 1)?;
        Ok(decoded)
    }

    /// Bytes read and written per second by copies within the device's memory.
    ///
    /// # Errors
    /// The device fails.
    pub fn copy_bytes_per_s(&mut self, times: u32) -> Result<f64, MeasureError> {
        let device = self.device_mut().ok_or(MeasureError::Failed)?;
        device.time_copies(1)?;
        let took = device.time_copies(times)?;
        Ok(device.arena_bytes() as f64 * f64::from(times) / took.as_secs_f64())
    }
}

/// Times launches, after one round that is not counted, and says of each kernel with its necessary bytes how long all of
/// its launches took.
pub(super) fn time(
    device: &mut impl Stopwatch,
    launches: &[Launch],
    kernels: &[(Kernel, u64)],
    rounds: u32,
) -> Result<Vec<KernelTime>, MeasureError> {
    let unmeasured = |&(kernel, necessary_bytes): &(Kernel, u64)| {
        let blocks = of(kernel, launches).map(|(_, launch)| u64::from(launch.blocks)).sum();
        KernelTime { kernel, blocks, necessary_bytes, rounds, time: Duration::ZERO }
    };
    let mut times: Vec<KernelTime> = kernels.iter().map(unmeasured).collect();
    for round in 0..=rounds {
        let took = device.time_launches(launches)?;
        if round == 0 {
            continue;
        }
        for time in &mut times {
            time.time += of(time.kernel, launches).map(|(at, _)| took[at]).sum::<Duration>();
        }
    }
    Ok(times)
}

fn of(kernel: Kernel, launches: &[Launch]) -> impl Iterator<Item = (usize, &Launch)> {
    launches.iter().enumerate().filter(move |(_, launch)| launch.kernel == kernel)
}
