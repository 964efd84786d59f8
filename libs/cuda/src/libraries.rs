//! Whether CUDA's libraries can be used on this machine.
//!
//! cudarc panics at the first call of a library that is absent or lacks a function, so every way into
//! it asks here first. cudarc looks for the driver's file names in the same order.
#![allow(unsafe_code)]

use std::sync::OnceLock;

use cudarc::driver::sys;
use headwater_dylib::{CUDA_DRIVER, DylibError};

use crate::nvrtc::Nvrtc;

/// Functions of the driver that this project calls, through cudarc too.
pub const DRIVER_FUNCTIONS: &[&str] = &[
    "cuCtxGetCurrent",
    "cuCtxPopCurrent_v2",
    "cuCtxPushCurrent_v2",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxGetState",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFlushGPUDirectRDMAWrites",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAlloc_v2",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetHandleForAddressRange",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoH_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyHtoD_v2",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuPointerGetAttribute",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuThreadExchangeStreamCaptureMode",
];

/// Not in drivers before CUDA 12.8, and only needed to time kernels.
const CLOCK_FUNCTION: &str = "cuEventElapsedTime_v2";

/// What memory is shared with: needed by the cuda link only.
const SHARING_FUNCTIONS: &[&str] = &[
    "cuDeviceCanAccessPeer",
    "cuDeviceGetCount",
    "cuDeviceGetUuid_v2",
    "cuMemAddressFree",
    "cuMemAddressReserve",
    "cuMemCreate",
    "cuMemExportToShareableHandle",
    "cuMemGetAllocationGranularity",
    "cuMemImportFromShareableHandle",
    "cuMemMap",
    "cuMemRelease",
    "cuMemSetAccess",
    "cuMemUnmap",
];

/// Checks that the NVIDIA driver is installed and has every function that is called.
///
/// # Errors
/// It is absent or cannot be used; the error says why.
pub fn check_driver() -> Result<(), DylibError> {
    static CHECKED: OnceLock<Result<(), DylibError>> = OnceLock::new();
    CHECKED.get_or_init(|| CUDA_DRIVER.open_with(DRIVER_FUNCTIONS).map(drop)).clone()
}

/// Checks that the driver can say how long a kernel took.
///
/// # Errors
/// The driver cannot be used, or is older than CUDA 12.8.
pub fn check_clock() -> Result<(), DylibError> {
    CUDA_DRIVER.open_with(&[CLOCK_FUNCTION]).map(drop)
}

/// Checks that the driver can share memory with other processes.
///
/// # Errors
/// The driver cannot be used, or lacks a function.
pub(crate) fn check_sharing() -> Result<(), DylibError> {
    check_driver()?;
    CUDA_DRIVER.open_with(SHARING_FUNCTIONS).map(drop)
}

/// The CUDA release that the driver is made for, as in 12040 for CUDA 12.4; 0 where there is none, or it does not say.
#[must_use]
pub fn driver_version() -> i32 {
    if check_driver().is_err() {
        return 0;
    }
    let mut version = 0;
    // SAFETY: the driver has just been found to have the function, and the place for the number is ours.
    match unsafe { sys::cuDriverGetVersion(&mut version) }.result() {
        Ok(()) => version,
        Err(_) => 0,
    }
}

/// Checks that there is an NVRTC whose machine code the driver takes; without a driver, that there is one.
///
/// # Errors
/// It is absent, cannot be used, or is newer than the driver; the error says why.
pub fn check_nvrtc() -> Result<(), DylibError> {
    Nvrtc::for_driver(driver_version()).map(drop)
}
