//! What copies slots to one GPU, and back.

use std::sync::OnceLock;

use headwater_core::Dtype;
use headwater_core::cast::Normalise;

use crate::cubin_cache::CubinCache;
use crate::current::Restored;
use crate::error::CudaError;
use crate::expander::Expander;
use crate::gpu::Gpu;
use crate::memory::DeviceAllocator;
use crate::peer_writes::PeerWrites;
use crate::reader::Readers;

/// Copies slots to one GPU.
///
/// Opened, used and dropped on any thread, a trainer's too: each has the current GPU afterwards that it had before.
pub struct Uploader {
    /// Gone once it is dropped.
    parts: Option<Parts>,
    peer_writes: OnceLock<Result<PeerWrites, CudaError>>,
}

/// What cudarc gives back.
struct Parts {
    gpu: Gpu,
    allocator: Option<Box<dyn DeviceAllocator>>,
    expander: Option<Expander>,
    readers: Readers,
}

// === impl Uploader ===

impl Uploader {
    /// Opens a GPU for copies of slots.
    ///
    /// # Errors
    /// There is no such GPU, or it cannot be used; says what is missing.
    pub fn open(
        ordinal: u32,
        allocator: Option<Box<dyn DeviceAllocator>>,
    ) -> Result<Self, CudaError> {
        let gpu = Gpu::open(ordinal)?;
        let readers = Readers::new(gpu.context());
        let parts = Parts { gpu, allocator, expander: None, readers };
        Ok(Self { parts: Some(parts), peer_writes: OnceLock::new() })
    }

    /// With a kernel that makes elements of `dtype` of levels: `bf16`, `f16` or `f32`.
    ///
    /// # Errors
    /// The kernel is not available; says what is missing.
    pub fn normalising(
        mut self,
        normalise: &Normalise,
        dtype: Dtype,
        cache: Option<&CubinCache>,
    ) -> Result<Self, CudaError> {
        let _restored = Restored::when_dropped();
        let expander = Expander::new(self.gpu(), normalise, dtype, cache)?;
        if let Some(parts) = &mut self.parts {
            parts.expander = Some(expander);
        }
        Ok(self)
    }

    /// The GPU.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.parts().gpu
    }

    fn parts(&self) -> &Parts {
        self.parts.as_ref().expect("it is not dropped")
    }

    /// Whether network cards can write to twins.
    ///
    /// # Errors
    /// They cannot; why.
    pub fn check_peer_writes(&self) -> Result<(), CudaError> {
        self.peer_writes().map(drop)
    }

    pub(crate) fn peer_writes(&self) -> Result<PeerWrites, CudaError> {
        self.peer_writes.get_or_init(|| PeerWrites::of(self.gpu())).clone()
    }

    /// What [`Uploader::check_peer_writes`] found, if it was asked.
    pub(crate) fn known_peer_writes(&self) -> Option<PeerWrites> {
        self.peer_writes.get().and_then(|found| found.as_ref().ok().copied())
    }

    pub(crate) fn allocator(&self) -> Option<&dyn DeviceAllocator> {
        self.parts().allocator.as_deref()
    }

    pub(crate) fn normalises(&self) -> bool {
        self.parts().expander.is_some()
    }

    pub(crate) fn expander(&self) -> &Expander {
        self.parts().expander.as_ref().expect("an uploader that normalises")
    }

    pub(crate) fn readers(&self) -> &Readers {
        &self.parts().readers
    }
}

impl Drop for Uploader {
    fn drop(&mut self) {
        let Some(parts) = self.parts.take() else { return };
        let (context, device) = (parts.gpu.context().cu_ctx(), parts.gpu.context().cu_device());
        let restored = Restored::when_dropped();
        drop(parts);
        restored.unless_released(context, device);
    }
}
