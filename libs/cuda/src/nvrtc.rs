//! NVRTC's functions, opened while the program runs.
//!
//! Not through cudarc, which takes the first file that opens: machine code of a newer major release than the
//! driver's is refused by the driver, so a machine with NVRTC 12 and 13 needs the one that fits.
//!
//! Types and numbers are those of `nvrtc.h` 12.0 and 13.0, which agree in all that is used here.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use headwater_dylib::{DylibError, NVRTC};

/// `nvrtcProgram`.
type Opaque = *mut c_void;

headwater_dylib::functions! {
    /// The functions that are used.
    #[derive(Clone, Debug)]
    pub(crate) struct Nvrtc;
    // SAFETY: names and types are those of `nvrtc.h`, see the top of this file.
    unsafe extern "C" {
        /// Major and minor number.
        version: fn(*mut c_int, *mut c_int) -> c_int = "nvrtcVersion";
        error_string: fn(c_int) -> *const c_char = "nvrtcGetErrorString";
        /// Program, source, name, headers, their texts, their names.
        create: fn(
            *mut Opaque, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char,
        ) -> c_int = "nvrtcCreateProgram";
        destroy: fn(*mut Opaque) -> c_int = "nvrtcDestroyProgram";
        compile: fn(Opaque, c_int, *const *const c_char) -> c_int = "nvrtcCompileProgram";
        code_size: fn(Opaque, *mut usize) -> c_int = "nvrtcGetCUBINSize";
        code: fn(Opaque, *mut c_char) -> c_int = "nvrtcGetCUBIN";
        log_size: fn(Opaque, *mut usize) -> c_int = "nvrtcGetProgramLogSize";
        log: fn(Opaque, *mut c_char) -> c_int = "nvrtcGetProgramLog";
    }
}

/// A program of NVRTC's.
pub(crate) struct Program<'a> {
    nvrtc: &'a Nvrtc,
    program: Opaque,
}

// === impl Nvrtc ===

impl Nvrtc {
    /// The newest one of the system whose machine code a driver takes. `driver_version` is the driver's word on
    /// itself, as in 12040 for CUDA 12.4; 0: any is taken.
    ///
    /// # Errors
    /// It is absent, cannot be used, or is newer than the driver.
    pub(crate) fn for_driver(driver_version: i32) -> Result<Self, DylibError> {
        let fits = |nvrtc: &Self| nvrtc.check(driver_version);
        NVRTC.load_accepted(fits).map(|(nvrtc, _)| nvrtc)
    }

    fn check(&self, driver_version: i32) -> Result<(), String> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both places are ours.
        let status = unsafe { (self.version)(&mut major, &mut minor) };
        if status != 0 {
            return Err(self.said(status));
        }
        let (of_driver, of_driver_minor) = (driver_version / 1000, driver_version % 1000 / 10);
        if driver_version == 0 || major <= of_driver {
            return Ok(());
        }
        Err(format!(
            "it is of CUDA {major}.{minor}, and the driver takes CUDA {of_driver}.{of_driver_minor}: install \
             NVRTC {of_driver} beside it"
        ))
    }

    fn said(&self, status: c_int) -> String {
        // SAFETY: the library gives a text that is never freed, or null.
        let text = unsafe { (self.error_string)(status) };
        if text.is_null() {
            return format!("NVRTC status {status}");
        }
        // SAFETY: as above, it ends with a zero byte.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    fn checked(&self, status: c_int) -> Result<(), String> {
        if status == 0 { Ok(()) } else { Err(self.said(status)) }
    }
}

// === impl Program ===

impl<'a> Program<'a> {
    /// A program of a text without headers.
    ///
    /// # Errors
    /// What NVRTC said.
    pub(crate) fn new(nvrtc: &'a Nvrtc, text: &CStr) -> Result<Self, String> {
        let mut program = ptr::null_mut();
        let (name, none) = (c"headwater.cu".as_ptr(), ptr::null());
        // SAFETY: both texts end with a zero byte, the library copies them, and the place is ours.
        let status = unsafe { (nvrtc.create)(&mut program, text.as_ptr(), name, 0, none, none) };
        nvrtc.checked(status)?;
        Ok(Self { nvrtc, program })
    }

    /// Compiles it.
    ///
    /// # Errors
    /// What NVRTC said, with its log.
    pub(crate) fn compile(&self, options: &[CString]) -> Result<(), String> {
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = options.len() as c_int;
        // SAFETY: the program is alive, and so are as many options as are said.
        let status = unsafe { (self.nvrtc.compile)(self.program, count, options.as_ptr()) };
        self.nvrtc.checked(status).map_err(|error| format!("{error}: {}", self.log()))
    }

    /// The machine code.
    ///
    /// # Errors
    /// What NVRTC said.
    pub(crate) fn machine_code(&self) -> Result<Vec<u8>, String> {
        self.read(self.nvrtc.code_size, self.nvrtc.code)
    }

    fn log(&self) -> String {
        let log = self.read(self.nvrtc.log_size, self.nvrtc.log).unwrap_or_default();
        let text = log.split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).trim().to_owned()
    }

    /// Bytes whose number one function gives and which the other one writes.
    fn read(
        &self,
        size: unsafe extern "C" fn(Opaque, *mut usize) -> c_int,
        read: unsafe extern "C" fn(Opaque, *mut c_char) -> c_int,
    ) -> Result<Vec<u8>, String> {
        let mut bytes = 0;
        // SAFETY: the program is alive, and the place for its size is ours.
        self.nvrtc.checked(unsafe { size(self.program, &mut bytes) })?;
        let mut read_bytes = vec![0u8; bytes];
        // SAFETY: the vector has as many bytes as NVRTC has just said it writes.
        self.nvrtc.checked(unsafe { read(self.program, read_bytes.as_mut_ptr().cast()) })?;
        Ok(read_bytes)
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: it was created, and nobody uses it after this.
        let status = unsafe { (self.nvrtc.destroy)(&mut self.program) };
        if status != 0 {
            tracing::debug!(error = self.nvrtc.said(status), "NVRTC kept a program");
        }
    }
}
