//! Kernels for one architecture, by NVRTC. Needs no GPU.

use std::ffi::CString;

use crate::error::CudaError;
use crate::kernels::KernelSource;
use crate::nvrtc::{Nvrtc, Program};

/// Compiles kernels to machine code of `architecture`, as in `sm_90`, which a driver of `driver_version` takes, as in
/// 12040 for CUDA 12.4; 0: there is no driver yet, and the newest NVRTC compiles.
///
/// # Errors
/// NVRTC is absent, cannot be used, is newer than the driver, or refuses.
pub fn compile(
    source: &KernelSource,
    architecture: &str,
    driver_version: i32,
) -> Result<Vec<u8>, CudaError> {
    let nvrtc = Nvrtc::for_driver(driver_version)?;
    let failed = |reason: String| CudaError::Compile { architecture: architecture.into(), reason };
    let text = CString::new(source.text()).expect("the kernels' text has no zero byte");
    let option = |text: &str| CString::new(text).expect("options have no zero byte");
    let mut options: Vec<CString> = source.options.iter().copied().map(option).collect();
    options.push(option(&format!("--gpu-architecture={architecture}")));
    let program = Program::new(&nvrtc, &text).map_err(failed)?;
    program.compile(&options).map_err(failed)?;
    program.machine_code().map_err(failed)
}
