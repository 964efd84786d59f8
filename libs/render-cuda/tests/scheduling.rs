//! What is launched, and what becomes of samples that do not fit.

use std::sync::{Arc, Mutex};

use headwater_core::{Dtype, Recipe};
use headwater_render::Renderer;
use headwater_render_cuda::{CudaRenderer, Device, DeviceError, Kernel, Launch};
use headwater_simd::Simd;

use super::emulation::{EmulatedDevice, Watch};
use super::pictures::{PHOTOS, random_png, rng};
use super::recipes::ARENA_BYTES;
use super::sinks::{compare, render};

/// Notes what it is asked for.
struct Noted {
    device: EmulatedDevice,
    launches: Arc<Mutex<Vec<Launch>>>,
}

impl Device for Noted {
    fn name(&self) -> String {
        self.device.name()
    }

    fn arena_bytes(&self) -> u64 {
        self.device.arena_bytes()
    }

    fn shared_bytes_max(&self) -> u32 {
        self.device.shared_bytes_max()
    }

    fn upload(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.device.upload(offset, bytes)
    }

    fn launch(&mut self, launch: &Launch) -> Result<(), DeviceError> {
        self.launches.lock().unwrap().push(*launch);
        self.device.launch(launch)
    }

    fn download(&mut self, offset: u64, bytes: u64) -> Result<&[u8], DeviceError> {
        self.device.download(offset, bytes)
    }
}

fn noted(arena_bytes: u64) -> (CudaRenderer<Noted>, Arc<Mutex<Vec<Launch>>>) {
    let device = EmulatedDevice::start(Watch::Nothing, arena_bytes);
    let launches = Arc::default();
    let noted = Noted { device, launches: Arc::clone(&launches) };
    (CudaRenderer::new(noted).unwrap(), launches)
}

#[test]
fn all_views_of_all_samples_take_one_launch_of_each_kind_and_size() {
    let recipe = Recipe::preset("dinov2-paper", Dtype::Bf16).unwrap();
    let (mut kernels, launches) = noted(ARENA_BYTES);
    let (_, ends) = render(&mut kernels, &recipe, &PHOTOS);
    assert!(ends.iter().all(Result::is_ok));
    let launches = launches.lock().unwrap();
    assert_eq!(launches[0].kernel, Kernel::ResizeTiles);
    let finish: Vec<&Launch> = launches[1..].iter().collect();
    assert!(finish.iter().all(|launch| launch.kernel == Kernel::FinishViews));
    assert_eq!(finish.iter().map(|launch| launch.blocks).sum::<u32>(), 30);
    // Global and local views; those that never look beyond a pixel need less memory.
    assert!(finish.len() <= 4, "{finish:?}");
}

#[test]
fn a_part_that_does_not_fit_is_rendered_piece_by_piece() {
    let recipe = Recipe::preset("dinov2", Dtype::Bf16).unwrap();
    let (mut kernels, launches) = noted(4 << 20);
    let mut plain = Renderer::with_simd(Simd::Plain).unwrap();
    compare(&mut plain, &mut kernels, &recipe, &PHOTOS, &"in pieces");
    let launches = launches.lock().unwrap();
    let pieces = launches.iter().filter(|launch| launch.kernel == Kernel::ResizeTiles).count();
    let views = launches.iter().filter(|launch| launch.kernel == Kernel::FinishViews);
    assert!(pieces > 1, "{launches:?}");
    assert_eq!(views.map(|launch| launch.blocks).sum::<u32>(), 30, "none beside the device");
}

#[test]
fn a_sample_that_never_fits_is_rendered_by_the_processor_among_others_that_do() {
    let recipe = Recipe::preset("imagenet-eval", Dtype::F32).unwrap();
    let (mut kernels, launches) = noted(3 << 20);
    let mut plain = Renderer::with_simd(Simd::Plain).unwrap();
    let large = random_png(&mut rng(3), 1200, 1000);
    let files = [PHOTOS[0], &large, PHOTOS[1]];
    compare(&mut plain, &mut kernels, &recipe, &files, &"one is too large");
    let launches = launches.lock().unwrap();
    let views = launches.iter().filter(|launch| launch.kernel == Kernel::FinishViews);
    assert_eq!(views.map(|launch| launch.blocks).sum::<u32>(), 2);
}

#[test]
fn a_broken_sample_is_named_and_leaves_its_rows_and_the_others_alone() {
    let recipe = Recipe::preset("imagenet-train", Dtype::U8).unwrap();
    let (mut kernels, _) = noted(ARENA_BYTES);
    let mut plain = Renderer::with_simd(Simd::Plain).unwrap();
    let files = [PHOTOS[0], &PHOTOS[1][..500], b"no image", PHOTOS[2]];
    compare(&mut plain, &mut kernels, &recipe, &files, &"two are broken");
    let (rows, ends) = render(&mut kernels, &recipe, &files);
    assert!(ends[1].is_err() && ends[2].is_err());
    assert!(rows[1].rows.iter().chain(&rows[2].rows).flatten().all(|&byte| byte == 0xcd));
}
