//! What nvJPEG needs of a GPU: a stream, and memory.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{CudaContext, CudaEvent, CudaStream, DriverError, result};
use headwater_cuda::said;

use super::driver::Gpu;
use super::nvjpeg::{JpegHost, Kind, Memory, NvJpeg, NvJpegSettings, Spot, Spots};

/// A stream of a GPU for nvJPEG.
pub(super) struct JpegsOnGpu {
    pub(super) gpu: Arc<Gpu>,
    pub(super) stream: Arc<CudaStream>,
    pub(super) settings: NvJpegSettings,
}

/// Memory from a GPU's driver.
struct ContextMemory {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    kind: Kind,
}

// === impl JpegsOnGpu ===

impl JpegHost for JpegsOnGpu {
    fn open(&mut self) -> Result<NvJpeg, String> {
        let Self { gpu, stream, settings } = self;
        gpu.context().bind_to_thread().map_err(said)?;
        let memory = |kind| {
            let (context, stream) = (Arc::clone(gpu.context()), Arc::clone(stream));
            Box::new(ContextMemory { context, stream, kind }) as Box<_>
        };
        let done = gpu.context().new_event(Some(CUevent_flags::CU_EVENT_BLOCKING_SYNC));
        let (done, waited_for) = (done.map_err(said)?, Arc::clone(stream));
        let settle = Box::new(move || settle(&waited_for, &done).map_err(said));
        let spots = Box::new(SpotsOnGpu { gpu: Arc::clone(gpu), stream: Arc::clone(stream) });
        NvJpeg::open(&gpu.jpegs, stream.cu_stream().cast(), *settings, settle, (memory, spots))
    }

    fn settle(&mut self) -> Result<(), String> {
        self.stream.synchronize().map_err(said)
    }
}

/// Waits until the stream has done all that was asked of it. The thread sleeps meanwhile.
fn settle(stream: &CudaStream, done: &CudaEvent) -> Result<(), DriverError> {
    done.record(stream)?;
    if done.try_is_complete()? { Ok(()) } else { done.synchronize() }
}

/// Small copies to a GPU and back, on one stream.
struct SpotsOnGpu {
    gpu: Arc<Gpu>,
    stream: Arc<CudaStream>,
}

// === impl SpotsOnGpu ===

impl Spots for SpotsOnGpu {
    fn write(&mut self, spots: &[Spot]) -> Result<(), String> {
        self.gpu.context().bind_to_thread().map_err(said)?;
        for Spot { at, bytes } in spots {
            // SAFETY: a place of an image in the arena, which lives as long as the stream. The bytes live until the
            // wait below has seen the copies' end, or the device has failed and copies no more.
            let copied = unsafe { result::memcpy_htod_async(*at, bytes, self.stream.cu_stream()) };
            copied.map_err(said)?;
        }
        self.stream.synchronize().map_err(said)
    }

    fn read(&mut self, spots: &mut [Spot]) -> Result<(), String> {
        self.gpu.context().bind_to_thread().map_err(said)?;
        for Spot { at, bytes } in spots {
            // SAFETY: as above.
            let copied = unsafe { result::memcpy_dtoh_async(bytes, *at, self.stream.cu_stream()) };
            copied.map_err(said)?;
        }
        self.stream.synchronize().map_err(said)
    }
}

// === impl ContextMemory ===

impl Memory for ContextMemory {
    fn take(&self, bytes: usize) -> Option<u64> {
        self.context.bind_to_thread().ok()?;
        // SAFETY: the context is current. What the memory holds does not matter to who asks.
        unsafe {
            match self.kind {
                Kind::Device => result::malloc_sync(bytes.max(1)).ok(),
                Kind::Pinned => Some(result::malloc_host(bytes.max(1), 0).ok()? as u64),
            }
        }
    }

    fn give_back(&self, address: u64) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: `take` gave it, and the budget gives each address back once. Freeing waits for
            // all work of the device.
            let freed = unsafe {
                match self.kind {
                    Kind::Device => result::free_sync(address),
                    Kind::Pinned => result::free_host(address as *mut c_void),
                }
            };
            if let Err(error) = freed {
                tracing::debug!(%error, "the driver kept memory of nvJPEG's");
            }
        }
    }

    fn settle(&self) {
        if self.kind == Kind::Pinned
            && let Err(error) = self.stream.synchronize()
        {
            // Whoever asks the stream next learns of it.
            tracing::debug!(%error, "the stream has failed");
        }
    }
}
