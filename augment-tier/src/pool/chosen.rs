//! The threads on the back end that the configuration names.

use std::sync::Arc;
use std::time::Instant;

use headwater_cuda::check_driver;
use headwater_jpeg::{Choice, Speeds};
use headwater_render::RenderError;
use headwater_render::backend::{Backend, CpuBackend};
use headwater_render::decode::{DecodedCache, EntryTable};
use headwater_render_cuda::CudaBackend;
use headwater_simd::Simd;
use headwater_transport::DeviceImports;

use super::Pool;
use crate::config::{AugmentConfig, BackendChoice};
use crate::error::AugmentError;

/// A back end, the threads that have their renderers of it, and what takes memory of receivers' GPUs for it, where it
/// is a GPU.
pub(crate) struct Started {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) pool: Pool,
    pub(crate) imports: Option<Arc<dyn DeviceImports>>,
}

/// Starts the threads. May take seconds where a GPU is opened for the first time.
///
/// A GPU has been taken only once it has made the processor's bytes in a proof and every thread has its
/// memory there: before that `auto` may still take the processor.
///
/// # Errors
/// A GPU is forced and not available (the error says why); or there are no threads, or no memory.
pub(crate) fn start(config: &AugmentConfig) -> Result<Started, AugmentError> {
    let started = match config.backend {
        BackendChoice::Cpu => on_processor(config),
        BackendChoice::Cuda => on_gpu(config),
        BackendChoice::Auto => match on_gpu(config) {
            Err(AugmentError::Gpu { reason }) if has_no_driver() => {
                tracing::info!(reason, "no GPU: the processor renders");
                on_processor(config)
            }
            Err(AugmentError::Gpu { reason }) => {
                tracing::warn!(reason, "the GPU cannot be used: the processor renders");
                on_processor(config)
            }
            started => started,
        },
    }?;
    tracing::info!(backend = started.backend.name(), "back end");
    let jpeg = Speeds::of(Simd::best());
    let Choice { streams, lanes_from, speculates_from, windows_from } = jpeg.choice;
    let took = jpeg.took;
    tracing::info!(streams, lanes_from, speculates_from, windows_from, measured = %jpeg, ?took, "ways to decode JPEGs");
    Ok(started)
}

/// Whether no file of the driver exists, as on most machines without a GPU.
fn has_no_driver() -> bool {
    check_driver().is_err_and(|error| error.is_absent())
}

fn on_processor(config: &AugmentConfig) -> Result<Started, AugmentError> {
    let decoding = &config.decoding;
    let cache = DecodedCache::open(&decoding.decoded_cache, decoding.keep(), config.threads());
    let cache = cache.map_err(AugmentError::DecodedCache)?;
    let processor = CpuBackend::sharing(EntryTable::new(decoding.jpeg_entries_bytes));
    on(Arc::new(processor.caching(cache).calling(config.python.modules())), config)
}

fn on_gpu(config: &AugmentConfig) -> Result<Started, AugmentError> {
    let opened = CudaBackend::open(&config.cuda.settings(config.threads()));
    let gpu = opened.map_err(|error| AugmentError::Gpu { reason: error.to_string() })?;
    if !config.decoding.decoded_cache.is_empty() {
        return Err(AugmentError::CacheOnGpu { backend: gpu.name() });
    }
    let started = Instant::now();
    let steps = gpu.prove().map_err(|error| {
        let reason = format!("{}: {error}", gpu.name());
        AugmentError::Gpu { reason }
    })?;
    tracing::info!(steps, took = ?started.elapsed(), "the GPU makes the processor's bytes");
    let gpu = gpu
        .sharing(EntryTable::new(config.decoding.jpeg_entries_bytes))
        .calling(config.python.modules());
    let imports: Arc<dyn DeviceImports> = Arc::new(gpu.imports());
    let started = on(Arc::new(gpu), config).map(|on| Started { imports: Some(imports), ..on });
    started.map_err(|error| match error {
        AugmentError::Renderer(
            error @ (RenderError::Device { .. } | RenderError::DeviceLost { .. }),
        ) => AugmentError::Gpu { reason: error.to_string() },
        error => error,
    })
}

fn on(backend: Arc<dyn Backend>, config: &AugmentConfig) -> Result<Started, AugmentError> {
    let pool = Pool::start(Arc::clone(&backend), config.threads())?;
    Ok(Started { backend, pool, imports: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(backend: BackendChoice) -> AugmentConfig {
        AugmentConfig { backend, threads: 1, ..AugmentConfig::default() }
    }

    fn name(backend: BackendChoice) -> String {
        start(&with(backend)).expect("a pool").backend.name()
    }

    #[test]
    fn the_processor_is_taken_where_it_is_asked_for() {
        assert!(name(BackendChoice::Cpu).starts_with("cpu "));
    }

    /// A machine with a driver has nothing to say here.
    #[test]
    fn without_a_driver_auto_takes_the_processor_and_cuda_says_what_is_missing() {
        if check_driver().is_ok() {
            return;
        }
        assert!(name(BackendChoice::Auto).starts_with("cpu "));
        let error = start(&with(BackendChoice::Cuda)).err().expect("there is no GPU");
        let sentence = error.to_string();
        for word in ["augment.backend is `cuda`", "driver (libcuda.so) is not found", "\"cpu\""] {
            assert!(sentence.contains(word), "{sentence}");
        }
    }
}
