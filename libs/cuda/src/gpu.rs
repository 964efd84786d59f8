//! A GPU, opened.
#![allow(unsafe_code)]

use std::path::Path;
use std::sync::Arc;

use cudarc::driver::result::DriverError;
use cudarc::driver::sys;
use cudarc::driver::{CudaContext, CudaModule};
use cudarc::nvrtc::Ptx;
use headwater_transport::GpuUuid;

use crate::compile::compile;
use crate::cubin_cache::CubinCache;
use crate::current::Restored;
use crate::error::CudaError;
use crate::kernels::KernelSource;
use crate::libraries::{check_driver, driver_version};

/// The oldest GPUs, by major and minor number, that kernels are compiled for: CUDA 13 knows no older
/// ones.
const CAPABILITY_LEAST: (i32, i32) = (7, 5);

/// A GPU of this machine with its primary context, which whoever else uses CUDA in this process
/// shares.
#[derive(Clone, Debug)]
pub struct Gpu {
    ordinal: u32,
    context: Arc<CudaContext>,
    name: String,
    /// Major and minor number of what it can do: 9 and 0 are `sm_90`.
    capability: (i32, i32),
}

// === impl Gpu ===

impl Gpu {
    /// Opens GPU number `ordinal`.
    ///
    /// # Errors
    /// The driver is absent, cannot be used, or refuses.
    pub fn open(ordinal: u32) -> Result<Self, CudaError> {
        check_driver()?;
        let _restored = Restored::when_dropped();
        let context = CudaContext::new(ordinal as usize)
            .map_err(|error| failed(ordinal, "open it")(error))?;
        let asked = || Ok((context.compute_capability()?, context.name()?));
        let (capability, name) = asked().map_err(failed(ordinal, "ask about it"))?;
        Ok(Self { ordinal, context, name, capability })
    }

    /// Its number.
    #[must_use]
    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// Its name: `NVIDIA H200`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its name in every process; of a part of a GPU (MIG), that part's.
    ///
    /// # Errors
    /// The driver does not say.
    pub fn uuid(&self) -> Result<GpuUuid, DriverError> {
        uuid_of(self.context.cu_device())
    }

    /// The context.
    #[must_use]
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// Puts kernels on it: from the cache, or compiled and then put there. The compiler is needed only
    /// where the cache has none that the driver takes.
    ///
    /// # Errors
    /// The GPU is too old, they do not compile, or the driver does not load them.
    pub fn load(
        &self,
        source: &KernelSource,
        cache: Option<&CubinCache>,
    ) -> Result<Arc<CudaModule>, CudaError> {
        let _restored = Restored::when_dropped();
        let architecture = architecture(self.capability);
        if self.capability < CAPABILITY_LEAST {
            let (ordinal, name) = (self.ordinal, self.name.clone());
            let least = self::architecture(CAPABILITY_LEAST);
            return Err(CudaError::TooOld { ordinal, name, architecture, least });
        }
        let kept = cache.map(|cache| (cache, cache.path(source, &architecture, driver_version())));
        if let Some((_, path)) = &kept
            && let Some(module) = self.load_kept(path)?
        {
            return Ok(module);
        }
        let code = compile(source, &architecture, driver_version())?;
        let module = self.context.load_module(Ptx::from_binary(code.clone()));
        let module = module.map_err(self.failed("load kernels"))?;
        // Only what the driver has taken is kept.
        if let Some((cache, path)) = &kept
            && let Err(error) = cache.write(path, &code)
        {
            tracing::warn!(path = %path.display(), %error, "compiled kernels are not kept");
        }
        Ok(module)
    }

    /// Kernels out of a file of the cache; `None` where it has none, or none that the driver takes.
    fn load_kept(&self, path: &Path) -> Result<Option<Arc<CudaModule>>, CudaError> {
        let Some(code) = CubinCache::read(path) else { return Ok(None) };
        match self.context.load_module(Ptx::from_binary(code)) {
            Ok(module) => Ok(Some(module)),
            Err(error) if is_of_the_code(error) => {
                let (path, reason) = (path.display(), said(error));
                tracing::warn!(%path, reason, "the driver refuses these kept kernels: made anew");
                Ok(None)
            }
            Err(error) => Err(self.failed("load kernels")(error)),
        }
    }

    /// An error of the driver's as one of this GPU; `doing`: what was tried.
    pub fn failed(&self, doing: &'static str) -> impl FnOnce(DriverError) -> CudaError + use<> {
        failed(self.ordinal, doing)
    }
}

/// The name of a device that the driver has given.
pub(crate) fn uuid_of(device: sys::CUdevice) -> Result<GpuUuid, DriverError> {
    let mut uuid = sys::CUuuid { bytes: [0; 16] };
    // SAFETY: the place for the answer is ours.
    unsafe { sys::cuDeviceGetUuid_v2(&mut uuid, device) }.result()?;
    Ok(GpuUuid(uuid.bytes.map(|byte| byte as u8)))
}

fn failed(ordinal: u32, doing: &'static str) -> impl FnOnce(DriverError) -> CudaError {
    move |error| CudaError::Device { ordinal, doing, reason: said(error) }
}

/// As in `sm_90`.
fn architecture((major, minor): (i32, i32)) -> String {
    format!("sm_{major}{minor}")
}

/// Whether the driver finds fault with machine code, rather than with the GPU or its memory.
fn is_of_the_code(error: DriverError) -> bool {
    use sys::CUresult as Error;
    matches!(
        error.0,
        Error::CUDA_ERROR_INVALID_VALUE
            | Error::CUDA_ERROR_INVALID_IMAGE
            | Error::CUDA_ERROR_NO_BINARY_FOR_GPU
            | Error::CUDA_ERROR_INVALID_PTX
            | Error::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
            | Error::CUDA_ERROR_INVALID_SOURCE
            | Error::CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND
            | Error::CUDA_ERROR_SHARED_OBJECT_INIT_FAILED
            | Error::CUDA_ERROR_NOT_FOUND
    )
}

/// What the driver says of an error.
#[must_use]
pub fn said(error: DriverError) -> String {
    let text = error.error_string().map(|text| text.to_string_lossy().into_owned());
    text.unwrap_or_else(|_| format!("{error:?}"))
}
