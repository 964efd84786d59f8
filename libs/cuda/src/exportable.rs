//! Memory of a GPU that other processes can import.
#![allow(unsafe_code)]

use std::os::fd::{FromRawFd as _, OwnedFd};

use cudarc::driver::result::DriverError;
use cudarc::driver::sys::{self, CUdevice_attribute, CUmemAllocationHandleType};
use headwater_transport::GpuUuid;

use crate::error::CudaError;
use crate::gpu::{Gpu, said};
use crate::libraries::check_sharing;
use crate::mapped::{Handle, Mapped, on_device};

/// By which memory leaves the process: a descriptor of a file.
const BY_FILE: CUmemAllocationHandleType =
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// Memory that is this process's until it exports it. Other processes that have imported it keep the memory, though not
/// this mapping, until they have let go of it or their contexts have ended.
pub(crate) struct ExportableMemory {
    gpu: GpuUuid,
    mapped: Mapped,
    handle: Handle,
}

// === impl ExportableMemory ===

impl ExportableMemory {
    /// At least this number of bytes of a GPU, rounded up to the driver's granules. They are not initialised.
    ///
    /// # Errors
    /// The driver exports no memory, or the GPU has too little memory.
    pub(crate) fn take(gpu: &Gpu, len_bytes: u64) -> Result<Self, CudaError> {
        check_sharing()?;
        let context = gpu.context();
        let refused = |reason: String| CudaError::Device {
            ordinal: gpu.ordinal(),
            doing: "take memory that other processes can import",
            reason,
        };
        let has = |attribute| context.attribute(attribute).map_err(|error| refused(said(error)));
        for attribute in [
            CUdevice_attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
            CUdevice_attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
        ] {
            if has(attribute)? == 0 {
                return Err(refused(format!("the driver says no: {attribute:?}")));
            }
        }
        // Else no card could write to it where both links are in use.
        let of_cards =
            has(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)?;
        let made = || -> Result<Self, DriverError> {
            let prop = sys::CUmemAllocationProp {
                type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
                requestedHandleTypes: BY_FILE,
                location: on_device(context.cu_device()),
                win32HandleMetaData: std::ptr::null_mut(),
                allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
                    compressionType: 0,
                    gpuDirectRDMACapable: u8::from(of_cards != 0),
                    usage: 0,
                    reserved: [0; 4],
                },
            };
            let least = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
            let mut granule = 0;
            // SAFETY: the properties live until the call returns, and the place for the answer is ours.
            unsafe { sys::cuMemGetAllocationGranularity(&mut granule, &prop, least) }.result()?;
            let len = (len_bytes as usize).next_multiple_of(granule.max(1));
            let mut handle = 0;
            // SAFETY: as above.
            unsafe { sys::cuMemCreate(&mut handle, len, &prop, 0) }.result()?;
            let handle = Handle::new(handle);
            let mapped = Mapped::new(context, &handle, len)?;
            Ok(Self { gpu: gpu.uuid()?, mapped, handle })
        };
        made().map_err(|error| refused(said(error)))
    }

    pub(crate) fn gpu(&self) -> GpuUuid {
        self.gpu
    }

    pub(crate) fn address(&self) -> u64 {
        self.mapped.address()
    }

    pub(crate) fn len_bytes(&self) -> u64 {
        self.mapped.len_bytes()
    }

    /// A descriptor by which another process imports all of it.
    ///
    /// # Errors
    /// The driver refuses; why.
    pub(crate) fn export(&self) -> Result<OwnedFd, String> {
        let mut descriptor: i32 = -1;
        let place = std::ptr::from_mut(&mut descriptor).cast();
        // SAFETY: the answer for this kind of handle is an `int`, and its place is ours.
        unsafe { sys::cuMemExportToShareableHandle(place, self.handle.raw(), BY_FILE, 0) }
            .result()
            .map_err(|error| format!("the GPU's driver does not export it: {}", said(error)))?;
        // SAFETY: the driver has just made it, for us.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }
}
