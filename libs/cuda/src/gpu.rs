//! A GPU, opened.
#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::result::DriverError;
use cudarc::driver::sys;
use cudarc::driver::{CudaContext, CudaModule};
use cudarc::nvrtc::Ptx;

use crate::compile::compile;
use crate::cubin_cache::CubinCache;
use crate::error::{CudaError, Library};
use crate::kernels::KernelSource;
use crate::libraries;

/// A GPU of this machine with its primary context, which whoever else uses CUDA in this process
/// shares.
#[derive(Clone, Debug)]
pub struct Gpu {
    ordinal: u32,
    context: Arc<CudaContext>,
    name: String,
    architecture: String,
}

// === impl Gpu ===

impl Gpu {
    /// Opens GPU number `ordinal`, where the driver is there and each of the `needed` libraries.
    ///
    /// # Errors
    /// A library is not there, or the driver refuses.
    pub fn open(ordinal: u32, needed: &[Library]) -> Result<Self, CudaError> {
        libraries::check(needed)?;
        let context = CudaContext::new(ordinal as usize)
            .map_err(|error| failed(ordinal, "open it")(error))?;
        let asked = || Ok((context.compute_capability()?, context.name()?));
        let ((major, minor), name) = asked().map_err(failed(ordinal, "ask about it"))?;
        Ok(Self { ordinal, context, name, architecture: format!("sm_{major}{minor}") })
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

    /// The context.
    #[must_use]
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// Puts kernels on it: from the cache, or compiled and then put there.
    ///
    /// # Errors
    /// They do not compile, or the driver does not load them.
    pub fn load(
        &self,
        source: &KernelSource,
        cache: Option<&CubinCache>,
    ) -> Result<Arc<CudaModule>, CudaError> {
        let code = self.machine_code(source, cache)?;
        let module = self.context.load_module(Ptx::from_binary(code));
        module.map_err(self.failed("load kernels"))
    }

    fn machine_code(
        &self,
        source: &KernelSource,
        cache: Option<&CubinCache>,
    ) -> Result<Vec<u8>, CudaError> {
        let Some(cache) = cache else { return compile(source, &self.architecture) };
        let path = cache.path(source, &self.architecture, driver_version());
        if let Some(code) = CubinCache::read(&path) {
            return Ok(code);
        }
        let code = compile(source, &self.architecture)?;
        if let Err(error) = cache.write(&path, &code) {
            tracing::warn!(path = %path.display(), %error, "compiled kernels are not kept");
        }
        Ok(code)
    }

    /// An error of the driver's as one of this GPU; `doing`: what was tried.
    pub fn failed(&self, doing: &'static str) -> impl FnOnce(DriverError) -> CudaError + use<> {
        failed(self.ordinal, doing)
    }
}

fn failed(ordinal: u32, doing: &'static str) -> impl FnOnce(DriverError) -> CudaError {
    move |error| CudaError::Device { ordinal, doing, reason: said(error) }
}

/// As in 13000 for CUDA 13.0; 0 where the driver does not say.
fn driver_version() -> i32 {
    let mut version = 0;
    // SAFETY: the driver was opened before, and the place for the number is ours.
    match unsafe { sys::cuDriverGetVersion(&mut version) }.result() {
        Ok(()) => version,
        Err(_) => 0,
    }
}

/// What the driver says of an error.
#[must_use]
pub fn said(error: DriverError) -> String {
    let text = error.error_string().map(|text| text.to_string_lossy().into_owned());
    text.unwrap_or_else(|_| format!("{error:?}"))
}
