//! What is counted of a device's work, and the figures that are made of its clock.

use std::time::Duration;

use headwater_core::recipe::{CropSpec, ViewSpec};
use headwater_core::{Dtype, Recipe};
use headwater_render_cuda::{
    Counts, CudaRenderer, Device, DeviceError, Kernel, Launch, MeasureError, Stopwatch,
};

use super::emulation::{EmulatedDevice, Watch};
use super::operations::{recipe, tensor};
use super::pictures::{PHOTOS, random_png, rng};
use super::recipes::ARENA_BYTES;
use super::sinks::{key, render};

const RESIZE: Duration = Duration::from_millis(3);
const FINISH: Duration = Duration::from_millis(5);

/// Has a clock by which every launch of a kernel takes the same time.
struct Clocked(EmulatedDevice);

impl Device for Clocked {
    fn name(&self) -> String {
        self.0.name()
    }

    fn arena_bytes(&self) -> u64 {
        self.0.arena_bytes()
    }

    fn shared_bytes_max(&self) -> u32 {
        self.0.shared_bytes_max()
    }

    fn upload(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.0.upload(offset, bytes)
    }

    fn launch(&mut self, launch: &Launch) -> Result<(), DeviceError> {
        self.0.launch(launch)
    }

    fn download(&mut self, offset: u64, bytes: u64) -> Result<&[u8], DeviceError> {
        self.0.download(offset, bytes)
    }
}

impl Stopwatch for Clocked {
    fn time_launches(&mut self, launches: &[Launch]) -> Result<Vec<Duration>, DeviceError> {
        let time = |launch: &Launch| {
            self.0.launch(launch)?;
            Ok(if launch.kernel == Kernel::ResizeTiles { RESIZE } else { FINISH })
        };
        launches.iter().map(time).collect()
    }

    fn time_copies(&mut self, times: u32) -> Result<Duration, DeviceError> {
        Ok(Duration::from_secs(2) * times)
    }
}

fn clocked(arena_bytes: u64) -> CudaRenderer<Clocked> {
    let device = EmulatedDevice::start(Watch::Nothing, arena_bytes);
    CudaRenderer::new(Clocked(device)).unwrap()
}

#[test]
fn necessary_bytes_are_each_pixel_and_each_element_once() {
    let mut rng = rng(1);
    let (same, twice) = (random_png(&mut rng, 64, 64), random_png(&mut rng, 128, 128));
    let view = ViewSpec { crop: CropSpec::CenterAfterResize { resize: 64 }, ops: Vec::new() };
    let recipe = recipe(vec![tensor(Dtype::F32, (64, 64), view)]);
    let samples: Vec<_> = (0..).map(key).zip([&same[..], &twice[..], &same[..]]).collect();
    let times = clocked(ARENA_BYTES).measure(&recipe, &samples, 7).unwrap();
    let planes = 3 * 64 * 64;
    let resize = times.iter().find(|time| time.kernel == Kernel::ResizeTiles).unwrap();
    assert_eq!(resize.necessary_bytes, 2 * planes + 3 * 128 * 128 + 3 * planes);
    assert_eq!((resize.time, resize.round()), (7 * RESIZE, RESIZE));
    let finish = times.iter().find(|time| time.kernel == Kernel::FinishViews).unwrap();
    assert_eq!(finish.necessary_bytes, 3 * (planes + 4 * planes));
    assert_eq!((finish.time, finish.blocks), (7 * FINISH, 3));
    let speed = finish.necessary_bytes as f64 / FINISH.as_secs_f64();
    assert!((finish.bytes_per_s() / speed - 1.0).abs() < 1e-9);
}

#[test]
fn a_copy_reads_and_writes_half_of_the_arena_each() {
    let speed = clocked(8 << 20).copy_bytes_per_s(5).unwrap();
    assert!((speed - f64::from(4 << 20)).abs() < 1e-3, "{speed}");
}

#[test]
fn samples_that_do_not_fit_together_are_not_measured_in_part() {
    let recipe = Recipe::preset("dinov2", Dtype::Bf16).unwrap();
    let samples: Vec<_> = (0..).map(key).zip(PHOTOS).collect();
    let error = clocked(4 << 20).measure(&recipe, &samples, 1).unwrap_err();
    assert!(matches!(error, MeasureError::NoRoom { .. }), "{error}");
    let broken = [(key(0), PHOTOS[0]), (key(1), &b"no image"[..])];
    let error = clocked(ARENA_BYTES).measure(&recipe, &broken, 1).unwrap_err();
    assert!(error.to_string().starts_with("sample 1: "), "{error}");
}

#[test]
fn counts_tell_kernels_from_the_processor_in_their_place() {
    let recipe = Recipe::preset("imagenet-eval", Dtype::F32).unwrap();
    let mut kernels = clocked(3 << 20);
    let large = random_png(&mut rng(3), 1200, 1000);
    let files = [PHOTOS[0], &large, PHOTOS[1], b"no image"];
    render(&mut kernels, &recipe, &files);
    assert_eq!(
        kernels.counts(),
        Counts { on_device: 2, beside_device: 1, written: 0, decoded: 0, found: 0, failures: 0 }
    );
}
