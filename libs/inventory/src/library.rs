//! What libraries that are opened at run time say about themselves: their version, and what they see.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;

use headwater_dylib::{Dylib, DylibError, Opened};
use serde::Serialize;

/// A library that is open.
#[derive(Clone, Copy, Debug)]
pub struct Library(Opened);

/// What NVIDIA's management library says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Nvml {
    /// Version of the kernel driver.
    pub driver: String,
    /// Each GPU's name.
    pub gpus: Vec<String>,
}

/// JPEG decoders in a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct JpegEngines {
    /// Engines.
    pub engines: u32,
    /// Decoders of each.
    pub cores_per_engine: u32,
}

/// NVML's longest strings (NVML_DEVICE_NAME_V2_BUFFER_SIZE).
const NVML_TEXT_BYTES: usize = 96;
/// `NVJPEG_BACKEND_HARDWARE` of nvjpeg.h.
const NVJPEG_BACKEND_HARDWARE: c_int = 3;

// === impl Library ===

impl Library {
    /// Opens a library.
    ///
    /// # Errors
    /// It is absent, or cannot be opened.
    pub fn open(library: &Dylib) -> Result<Self, DylibError> {
        library.open().map(Self)
    }

    /// The file name under which it was found.
    #[must_use]
    pub fn soname(&self) -> &'static str {
        self.0.soname()
    }

    /// Whether it has a function of this name.
    #[must_use]
    pub fn has(&self, symbol: &str) -> bool {
        self.0.has(symbol)
    }

    /// Version of CUDA that the driver can run, as in `13.0`.
    #[must_use]
    pub fn cuda_version(&self) -> Option<String> {
        type Get = unsafe extern "C" fn(*mut c_int) -> c_int;
        let mut version = 0;
        // SAFETY: `CUresult cuDriverGetVersion(int *)` of cuda.h, which needs no initialisation and
        // writes one int.
        let status = unsafe { self.0.function::<Get>("cuDriverGetVersion")?(&raw mut version) };
        (status == 0).then(|| format!("{}.{}", version / 1000, version % 1000 / 10))
    }

    /// Version of NVRTC, as in `13.0`.
    #[must_use]
    pub fn nvrtc_version(&self) -> Option<String> {
        type Get = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: `nvrtcResult nvrtcVersion(int *, int *)` of nvrtc.h writes two ints.
        let status =
            unsafe { self.0.function::<Get>("nvrtcVersion")?(&raw mut major, &raw mut minor) };
        (status == 0).then(|| format!("{major}.{minor}"))
    }

    /// Version of nvJPEG, as in `13.0.4`.
    #[must_use]
    pub fn nvjpeg_version(&self) -> Option<String> {
        type Get = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;
        // SAFETY: `nvjpegStatus_t nvjpegGetProperty(libraryPropertyType, int *)` of nvjpeg.h.
        let get = unsafe { self.0.function::<Get>("nvjpegGetProperty")? };
        let property = |number: c_int| {
            let mut value = 0;
            // SAFETY: 0, 1 and 2 are the properties of library_types.h; one int is written.
            let status = unsafe { get(number, &raw mut value) };
            (status == 0).then_some(value)
        };
        Some(format!("{}.{}.{}", property(0)?, property(1)?, property(2)?))
    }

    /// JPEG engines of the first GPU. To be asked only where a driver is: makes a context on it.
    ///
    /// # Errors
    /// The number of the status with which nvJPEG refuses; 7 (`ARCH_MISMATCH`) and 9 mean that the
    /// GPU has none.
    pub fn jpeg_engines(&self) -> Result<JpegEngines, c_int> {
        type Create = unsafe extern "C" fn(
            c_int,
            *mut c_void,
            *mut c_void,
            c_uint,
            *mut *mut c_void,
        ) -> c_int;
        type Info = unsafe extern "C" fn(*mut c_void, *mut c_uint, *mut c_uint) -> c_int;
        type Destroy = unsafe extern "C" fn(*mut c_void) -> c_int;
        const NOT_SUPPORTED: c_int = 9;
        let check = |status: c_int| if status == 0 { Ok(()) } else { Err(status) };
        // SAFETY: the three types are those of nvjpegCreateEx, nvjpegGetHardwareDecoderInfo and
        // nvjpegDestroy in nvjpeg.h.
        let functions = unsafe {
            let create = self.0.function::<Create>("nvjpegCreateEx");
            let info = self.0.function::<Info>("nvjpegGetHardwareDecoderInfo");
            create.zip(info).zip(self.0.function::<Destroy>("nvjpegDestroy"))
        };
        let ((create, info), destroy) = functions.ok_or(NOT_SUPPORTED)?;
        let (mut handle, mut engines, mut cores_per_engine) = (ptr::null_mut(), 0, 0);
        // SAFETY: null allocators stand for the library's own; `handle` is written on success.
        check(unsafe {
            create(NVJPEG_BACKEND_HARDWARE, ptr::null_mut(), ptr::null_mut(), 0, &raw mut handle)
        })?;
        // SAFETY: the handle was made above; two unsigned ints are written.
        let status = unsafe { info(handle, &raw mut engines, &raw mut cores_per_engine) };
        // SAFETY: made above and used for the last time.
        unsafe { destroy(handle) };
        check(status).map(|()| JpegEngines { engines, cores_per_engine })
    }

    /// Version of UCX, as in `1.13.1`.
    #[must_use]
    pub fn ucx_version(&self) -> Option<String> {
        type Get = unsafe extern "C" fn(*mut c_uint, *mut c_uint, *mut c_uint);
        let (mut major, mut minor, mut release) = (0, 0, 0);
        // SAFETY: `void ucp_get_version(unsigned *, unsigned *, unsigned *)` of ucp.h writes three.
        unsafe {
            let get = self.0.function::<Get>("ucp_get_version")?;
            get(&raw mut major, &raw mut minor, &raw mut release);
        }
        Some(format!("{major}.{minor}.{release}"))
    }

    /// What NVML sees.
    ///
    /// # Errors
    /// The number of NVML's status; 9 (`DRIVER_NOT_LOADED`) where there is no driver.
    pub fn nvml(&self) -> Result<Nvml, c_int> {
        type Plain = unsafe extern "C" fn() -> c_int;
        type Version = unsafe extern "C" fn(*mut c_char, c_uint) -> c_int;
        type Count = unsafe extern "C" fn(*mut c_uint) -> c_int;
        type Handle = unsafe extern "C" fn(c_uint, *mut *mut c_void) -> c_int;
        type Name = unsafe extern "C" fn(*mut c_void, *mut c_char, c_uint) -> c_int;
        const FUNCTION_NOT_FOUND: c_int = 13;
        let check = |status: c_int| if status == 0 { Ok(()) } else { Err(status) };
        // SAFETY: the types are those of nvml.h for these functions.
        let functions = unsafe {
            let ends = self.0.function::<Plain>("nvmlInit_v2").zip(self.0.function("nvmlShutdown"));
            let asks = self
                .0
                .function::<Version>("nvmlSystemGetDriverVersion")
                .zip(self.0.function::<Count>("nvmlDeviceGetCount_v2"));
            let gpus = self
                .0
                .function::<Handle>("nvmlDeviceGetHandleByIndex_v2")
                .zip(self.0.function::<Name>("nvmlDeviceGetName"));
            ends.zip(asks).zip(gpus)
        };
        let (((init, shutdown), (version, count)), (handle, name)) =
            functions.ok_or(FUNCTION_NOT_FOUND)?;
        let shutdown: Plain = shutdown;
        // SAFETY: takes nothing; everything below stands between it and its shutdown.
        check(unsafe { init() })?;
        let ask = || {
            // SAFETY: at most as many bytes as are said are written, with a zero at their end.
            let driver = text(|bytes, length| unsafe { version(bytes, length) })?;
            let mut gpus = 0;
            // SAFETY: one unsigned int is written.
            check(unsafe { count(&raw mut gpus) })?;
            let one = |index| {
                let mut device = ptr::null_mut();
                // SAFETY: one pointer is written.
                check(unsafe { handle(index, &raw mut device) })?;
                // SAFETY: the device was just given; as for the version.
                text(|bytes, length| unsafe { name(device, bytes, length) })
            };
            let gpus = (0..gpus).map(one).collect::<Result<_, c_int>>()?;
            Ok(Nvml { driver, gpus })
        };
        let said = ask();
        // SAFETY: ends what `init` began.
        unsafe { shutdown() };
        said
    }
}

/// A text that a function of NVML writes.
fn text(write: impl FnOnce(*mut c_char, c_uint) -> c_int) -> Result<String, c_int> {
    let mut bytes = [0_u8; NVML_TEXT_BYTES];
    let status = write(bytes.as_mut_ptr().cast(), NVML_TEXT_BYTES as c_uint);
    let text = CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into_owned());
    if status == 0 { Ok(text.unwrap_or_default()) } else { Err(status) }
}
