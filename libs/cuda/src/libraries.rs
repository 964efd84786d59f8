//! Whether CUDA's libraries can be used on this machine.
//!
//! cudarc panics at the first call of a library that is absent or lacks a function, so every way into
//! it asks here first. cudarc looks for the same file names in the same order.

use std::sync::OnceLock;

use headwater_dylib::{CUDA_DRIVER, DylibError, NVRTC};

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

/// Functions of NVRTC that this project calls, through cudarc too.
const NVRTC_FUNCTIONS: &[&str] = &[
    "nvrtcCompileProgram",
    "nvrtcCreateProgram",
    "nvrtcDestroyProgram",
    "nvrtcGetCUBIN",
    "nvrtcGetCUBINSize",
    "nvrtcGetProgramLog",
    "nvrtcGetProgramLogSize",
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

/// Checks that NVRTC is installed and has every function that is called.
///
/// # Errors
/// It is absent or cannot be used; the error says why.
pub(crate) fn check_nvrtc() -> Result<(), DylibError> {
    static CHECKED: OnceLock<Result<(), DylibError>> = OnceLock::new();
    CHECKED.get_or_init(|| NVRTC.open_with(NVRTC_FUNCTIONS).map(drop)).clone()
}
