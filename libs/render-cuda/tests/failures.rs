//! A device that fails costs time and no byte.

use headwater_core::{Dtype, Recipe};
use headwater_render::Renderer;
use headwater_render_cuda::{CudaRenderer, Device, DeviceError, Launch};
use headwater_simd::Simd;

use super::emulation::{EmulatedDevice, Watch};
use super::pictures::PHOTOS;
use super::sinks::compare;

/// Fails at the call of a given number, and at all after it.
struct Failing {
    device: EmulatedDevice,
    calls_left: u32,
}

impl Failing {
    fn call(&mut self) -> Result<(), DeviceError> {
        self.calls_left = self.calls_left.checked_sub(1).ok_or_else(|| DeviceError {
            doing: "launch".to_owned(),
            reason: "an uncorrectable error of its memory".to_owned(),
        })?;
        Ok(())
    }
}

impl Device for Failing {
    fn name(&self) -> String {
        "one that fails".to_owned()
    }

    fn arena_bytes(&self) -> u64 {
        self.device.arena_bytes()
    }

    fn shared_bytes_max(&self) -> u32 {
        self.device.shared_bytes_max()
    }

    fn upload(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.call()?;
        self.device.upload(offset, bytes)
    }

    fn launch(&mut self, launch: &Launch) -> Result<(), DeviceError> {
        self.call()?;
        self.device.launch(launch)
    }

    fn download(&mut self, offset: u64, bytes: u64) -> Result<&[u8], DeviceError> {
        self.call()?;
        self.device.download(offset, bytes)
    }
}

#[test]
fn a_device_that_fails_at_any_moment_changes_no_byte() {
    let recipe = Recipe::preset("imagenet-train", Dtype::Bf16).unwrap();
    let mut plain = Renderer::with_simd(Simd::Plain).unwrap();
    for calls_left in 0.. {
        let device = EmulatedDevice::start(Watch::Nothing, 3 << 20);
        let mut kernels = CudaRenderer::new(Failing { device, calls_left }).unwrap();
        compare(&mut plain, &mut kernels, &recipe, &PHOTOS, &calls_left);
        compare(&mut plain, &mut kernels, &recipe, &PHOTOS, &(calls_left, "again"));
        let failed = kernels.has_failed();
        assert_eq!(kernels.counts().failures, u64::from(failed));
        // Of two parts of three, those that were handed out before the device failed.
        let on_device = if failed { u64::from(calls_left >= 7) * 3 } else { 6 };
        assert_eq!(kernels.counts().on_device, on_device, "{calls_left}");
        if !failed {
            // For each part three images, the records, two launches and the rows.
            assert_eq!(calls_left, 2 * 7);
            break;
        }
    }
}
