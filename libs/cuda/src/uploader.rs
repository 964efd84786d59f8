//! What copies slots to one GPU, and back.

use std::sync::OnceLock;

use headwater_core::Dtype;
use headwater_core::cast::Normalise;

use crate::cubin_cache::CubinCache;
use crate::error::CudaError;
use crate::expander::Expander;
use crate::gpu::Gpu;
use crate::memory::DeviceAllocator;
use crate::peer_writes::PeerWrites;
use crate::reader::Readers;

/// Copies slots to one GPU.
pub struct Uploader {
    gpu: Gpu,
    allocator: Option<Box<dyn DeviceAllocator>>,
    expander: Option<Expander>,
    readers: Readers,
    peer_writes: OnceLock<Result<PeerWrites, CudaError>>,
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
        let (readers, peer_writes) = (Readers::new(gpu.context()), OnceLock::new());
        Ok(Self { gpu, allocator, expander: None, readers, peer_writes })
    }

    /// With a kernel that makes elements of `dtype` of levels: `bf16`, `f16` or `f32`.
    ///
    /// # Errors
    /// The kernel cannot be had; says what is missing.
    pub fn normalising(
        self,
        normalise: &Normalise,
        dtype: Dtype,
        cache: Option<&CubinCache>,
    ) -> Result<Self, CudaError> {
        let expander = Some(Expander::new(&self.gpu, normalise, dtype, cache)?);
        Ok(Self { expander, ..self })
    }

    /// The GPU.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Whether network cards can write to twins.
    ///
    /// # Errors
    /// They cannot; why.
    pub fn check_peer_writes(&self) -> Result<(), CudaError> {
        self.peer_writes().map(drop)
    }

    pub(crate) fn peer_writes(&self) -> Result<PeerWrites, CudaError> {
        self.peer_writes.get_or_init(|| PeerWrites::of(&self.gpu)).clone()
    }

    pub(crate) fn allocator(&self) -> Option<&dyn DeviceAllocator> {
        self.allocator.as_deref()
    }

    pub(crate) fn normalises(&self) -> bool {
        self.expander.is_some()
    }

    pub(crate) fn expander(&self) -> &Expander {
        self.expander.as_ref().expect("an uploader that normalises")
    }

    pub(crate) fn readers(&self) -> &Readers {
        &self.readers
    }
}
