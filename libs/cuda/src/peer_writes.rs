//! A GPU's memory in the hands of network cards: may they write there, and when is it seen.
#![allow(unsafe_code)]

use std::os::fd::{FromRawFd, OwnedFd};

use cudarc::driver::result::DriverError;
use cudarc::driver::sys::{self, CUdevice_attribute};
use headwater_transport::Dmabuf;

use crate::current::Current;
use crate::error::CudaError;
use crate::gpu::{Gpu, said};

/// How a GPU takes what cards write to its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerWrites {
    /// Kernels and copies see what was written before only after a word to the driver.
    settle: bool,
    /// The driver hands memory out as dma-bufs.
    dmabuf: bool,
}

// === impl PeerWrites ===

impl PeerWrites {
    /// # Errors
    /// Cards cannot write there, or nobody would see when they have.
    pub(crate) fn of(gpu: &Gpu) -> Result<Self, CudaError> {
        let refused = |reason: String| CudaError::Device {
            ordinal: gpu.ordinal(),
            doing: "let network cards write to its memory",
            reason,
        };
        let asked =
            |attribute| gpu.context().attribute(attribute).map_err(|error| refused(said(error)));
        if asked(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED)? == 0 {
            return Err(refused("the driver does not support GPUDirect RDMA here".into()));
        }
        let ordering =
            asked(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING)?;
        let owner = sys::CUGPUDirectRDMAWritesOrdering::CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
        let settle = ordering < owner as i32;
        let options =
            asked(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS)?;
        let by_host =
            sys::CUflushGPUDirectRDMAWritesOptions::CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST;
        if settle && options & by_host as i32 == 0 {
            return Err(refused("what cards write cannot be flushed by the host".into()));
        }
        let dmabuf = asked(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED)? != 0;
        Ok(Self { settle, dmabuf })
    }

    /// After this whatever a card has written, and said so, is seen by all that the GPU is asked for.
    pub(crate) fn settle(self, gpu: &Gpu) -> Result<(), DriverError> {
        if !self.settle {
            return Ok(());
        }
        let _current = Current::of(gpu.context())?;
        let target = sys::CUflushGPUDirectRDMAWritesTarget::CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX;
        let scope = sys::CUflushGPUDirectRDMAWritesScope::CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER;
        // SAFETY: a context is current; it takes nothing else.
        unsafe { sys::cuFlushGPUDirectRDMAWrites(target, scope) }.result()
    }

    /// A descriptor of the whole pages around some memory of the GPU.
    pub(crate) fn dmabuf(self, gpu: &Gpu, address: u64, len_bytes: u64) -> Result<Dmabuf, String> {
        if !self.dmabuf {
            return Err(
                "the GPU's driver hands out no dma-buf (it needs open kernel modules)".into()
            );
        }
        let page = page_bytes();
        let start = address / page * page;
        let len = (address + len_bytes).next_multiple_of(page) - start;
        let mut descriptor: i32 = -1;
        let asked = Current::of(gpu.context()).and_then(|_current| {
            let kind = sys::CUmemRangeHandleType::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
            let place = std::ptr::from_mut(&mut descriptor).cast();
            // SAFETY: a context is current; the answer is an `int`, and its place is ours.
            unsafe { sys::cuMemGetHandleForAddressRange(place, start, len as usize, kind, 0) }
                .result()
        });
        asked.map_err(|error| format!("the GPU's driver gives no dma-buf: {}", said(error)))?;
        // SAFETY: the driver has just made it, for us.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(Dmabuf { descriptor, offset_bytes: address - start })
    }
}

/// What the driver's ranges are multiples of.
pub(crate) fn page_bytes() -> u64 {
    // SAFETY: it only asks.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(4096)
}
