//! Kernels for one architecture, by NVRTC. Needs no GPU.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char};

use cudarc::nvrtc::result::{self, NvrtcError};
use cudarc::nvrtc::sys;

use crate::error::CudaError;
use crate::kernels::KernelSource;
use crate::libraries::check_nvrtc;

/// A program of NVRTC's.
struct Program(sys::nvrtcProgram);

/// Compiles kernels to machine code of `architecture`, as in `sm_90`.
///
/// # Errors
/// NVRTC is absent, cannot be used, or refuses.
pub fn compile(source: &KernelSource, architecture: &str) -> Result<Vec<u8>, CudaError> {
    check_nvrtc()?;
    let failed = |reason: String| CudaError::Compile { architecture: architecture.into(), reason };
    let text = CString::new(source.text).expect("the kernels' text has no zero byte");
    let program = result::create_program(&text, Some(c"headwater.cu"));
    let program = Program(program.map_err(|error| failed(error.to_string()))?);
    program.compile(source.options, architecture).map_err(failed)?;
    program.machine_code().map_err(|error| failed(error.to_string()))
}

// === impl Program ===

impl Program {
    fn compile(&self, options: &[&str], architecture: &str) -> Result<(), String> {
        let mut options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        options.push(format!("--gpu-architecture={architecture}"));
        // SAFETY: the program was created and is destroyed by `drop` alone.
        unsafe { result::compile_program(self.0, &options) }.map_err(|error| {
            // SAFETY: as above.
            let log = unsafe { result::get_program_log(self.0) }.unwrap_or_default();
            let log: Vec<u8> =
                log.into_iter().map(|char: c_char| char as u8).take_while(|&c| c != 0).collect();
            format!("{error}: {}", String::from_utf8_lossy(&log).trim())
        })
    }

    fn machine_code(&self) -> Result<Vec<u8>, NvrtcError> {
        let mut bytes = 0;
        // SAFETY: the program is alive, and the place for its size is ours.
        unsafe { sys::nvrtcGetCUBINSize(self.0, &mut bytes) }.result()?;
        let mut code = vec![0u8; bytes];
        // SAFETY: the vector has as many bytes as NVRTC has just said it writes.
        unsafe { sys::nvrtcGetCUBIN(self.0, code.as_mut_ptr().cast()) }.result()?;
        Ok(code)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: it was created, and nobody uses it after this.
        let destroyed = unsafe { result::destroy_program(self.0) };
        if let Err(error) = destroyed {
            tracing::debug!(%error, "NVRTC kept a program");
        }
    }
}
