//! Runs the tests that a GPU must pass before a worker or a receiver uses it.

use std::sync::Arc;
use std::thread;

use headwater_config::Config;
use headwater_core::Dtype;
use headwater_core::cast::Normalise;
use headwater_cuda::{CubinCache, Uploader};
use headwater_receiver::Device;
use headwater_render::backend::Backend as _;
use headwater_render_cuda::CudaBackend;

use crate::doctor::Check;

/// Renders on the GPU, and copies to it; compares the bytes with the processor's.
pub(crate) fn checks(config: &Config) -> Vec<Check> {
    // On a separate thread: a worker leaves its context current on its thread, and the receiver
    // would find it released.
    let worker = thread::scope(|scope| scope.spawn(|| worker(config)).join());
    let mut checks = vec![worker.unwrap_or_else(|panic| std::panic::resume_unwind(panic))];
    checks.extend(receiver(config).unwrap_or_else(|reason| {
        let remedy = "set receiver.device = \"cpu\" until it is mended";
        vec![Check::wrong("gpu proof of a receiver", reason, remedy)]
    }));
    checks
}

fn worker(config: &Config) -> Check {
    let check = "gpu proof of a worker";
    let cuda = config.augment.cuda.settings(config.augment.threads());
    let opened = CudaBackend::open(&cuda).map_err(|error| error.to_string());
    let proved = opened.and_then(|gpu| {
        let steps = gpu.prove().map_err(|error| format!("{}: {error}", gpu.name()))?;
        Ok(format!("{} makes the processor's bytes in {steps} steps", gpu.name()))
    });
    match proved {
        Ok(found) => Check::ok(check, found),
        Err(reason) => {
            Check::wrong(check, reason, "set augment.backend = \"cpu\" until it is mended")
        }
    }
}

fn receiver(config: &Config) -> Result<Vec<Check>, String> {
    let receiver = &config.receiver;
    let ordinal = match receiver.device.parsed().map_err(|error| error.to_string())? {
        Device::Cuda(ordinal) => ordinal,
        Device::Cpu => config.augment.cuda.cuda_device,
    };
    let recipe = config.recipe.recipe().map_err(|error| error.to_string())?;
    let dtype = receiver.device.u8_as().map_err(|error| error.to_string())?.unwrap_or(Dtype::Bf16);
    let cache = CubinCache::in_folder(&receiver.device.cuda_cache_dir);
    let opened = Uploader::open(ordinal, None)
        .and_then(|uploader| uploader.normalising(&Normalise::of(&recipe), dtype, cache.as_ref()));
    let uploader = Arc::new(opened.map_err(|error| error.to_string())?);
    let steps = uploader.prove().map_err(|error| error.to_string())?;
    let name = uploader.gpu().name();
    let found = format!("{name} makes the processor's bytes: {}", steps.join(", "));
    let peer_writes = match uploader.check_peer_writes() {
        Ok(()) => Check::ok("gpu peer writes", "the driver allows them; a receiver tries one out"),
        Err(error) => {
            let remedy = "keep receiver.gpudirect = \"off\": batches go through the host's memory";
            Check::absent("gpu peer writes", error.to_string(), remedy)
        }
    };
    Ok(vec![Check::ok("gpu proof of a receiver", found), peer_writes])
}
