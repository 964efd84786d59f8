//! What nvJPEG needs of a GPU: a stream, and memory.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::result;
use cudarc::driver::{CudaContext, CudaStream};
use headwater_cuda::said;

use super::nvjpeg::{JpegHost, Kind, Memory, NvJpeg, NvJpegSettings};

/// A stream of a GPU for nvJPEG.
pub(super) struct JpegsOnGpu {
    pub(super) context: Arc<CudaContext>,
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
        self.context.bind_to_thread().map_err(said)?;
        let memory = |kind| {
            let (context, stream) = (Arc::clone(&self.context), Arc::clone(&self.stream));
            Box::new(ContextMemory { context, stream, kind }) as Box<_>
        };
        NvJpeg::open(self.stream.cu_stream().cast(), self.settings, memory)
    }

    fn settle(&mut self) -> Result<(), String> {
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
            // Whoever asks the stream next is told so.
            tracing::debug!(%error, "the stream has failed");
        }
    }
}
