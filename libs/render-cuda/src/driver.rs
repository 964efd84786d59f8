//! A GPU with the kernels on it, by the driver's interface, which cudarc opens at run time.

use std::sync::Arc;

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};
use cudarc::driver::{CudaContext, CudaFunction};
use headwater_cuda::{CubinCache, CudaError};

use super::launch::Kernel;
use super::nvjpeg::Handles;
use super::source::SOURCE;

/// A GPU with the kernels on it. Streams share it.
pub(super) struct Gpu {
    /// Dropped before the context that they were made in.
    pub(super) jpegs: Handles,
    pub(super) gpu: headwater_cuda::Gpu,
    /// In the order of [`Kernel::ALL`].
    pub(super) kernels: Vec<CudaFunction>,
    pub(super) shared_bytes_max: u32,
}

// === impl Gpu ===

impl Gpu {
    /// The context that all its streams share.
    pub(super) fn context(&self) -> &Arc<CudaContext> {
        self.gpu.context()
    }

    /// Opens GPU number `ordinal` and puts the kernels on it: from the cache, or compiled and then
    /// put there.
    ///
    /// # Errors
    /// The driver is not there or refuses, or the kernels are not available.
    pub(super) fn open(ordinal: u32, cache: Option<&CubinCache>) -> Result<Self, CudaError> {
        let gpu = headwater_cuda::Gpu::open(ordinal)?;
        let shared = Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        let shared_bytes_max =
            gpu.context().attribute(shared).map_err(gpu.failed("ask about it"))?;
        let module = gpu.load(&SOURCE, cache)?;
        // Opening has left the thread's own context current.
        gpu.context().bind_to_thread().map_err(gpu.failed("use it"))?;
        let kernel = |kernel: Kernel| {
            let function = module.load_function(kernel.name())?;
            let most = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            function.set_attribute(most, shared_bytes_max)?;
            Ok(function)
        };
        let kernels = Kernel::ALL.into_iter().map(kernel).collect::<Result<_, _>>();
        let kernels = kernels.map_err(gpu.failed("load kernels"))?;
        let shared_bytes_max = shared_bytes_max as u32;
        Ok(Self { jpegs: Handles::default(), gpu, kernels, shared_bytes_max })
    }

    /// Its name: `NVIDIA H200`.
    #[must_use]
    pub(super) fn name(&self) -> &str {
        self.gpu.name()
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // The kernels are unloaded next, perhaps on a thread that has had nothing to do with the GPU. A
        // failure that streams have left behind would keep the context from becoming this thread's, once.
        let _ = self.context().check_err();
        let _ = self.context().bind_to_thread();
    }
}
