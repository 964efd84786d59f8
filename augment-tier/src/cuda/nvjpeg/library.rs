//! nvJPEG's functions, opened while the program runs: it starts where the library is absent.
//!
//! Types and numbers are those of `nvjpeg.h` 12.4 and 13.0, which agree in all that is used here.
#![allow(unsafe_code)]

use std::error::Error as _;
use std::ffi::{CStr, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// Names of the library: each is a major version with the same functions.
const NAMES: [&str; 3] = ["libnvjpeg.so.13", "libnvjpeg.so.12", "libnvjpeg.so"];

/// `NVJPEG_MAX_COMPONENT`.
const COMPONENTS_MAX: usize = 4;

/// `nvjpegHandle_t`, `nvjpegJpegState_t`, `nvjpegJpegStream_t`, `nvjpegDecodeParams_t`.
pub(super) type Opaque = *mut c_void;

/// `nvjpegImage_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Image {
    pub(super) channel: [*mut u8; COMPONENTS_MAX],
    pub(super) pitch: [usize; COMPONENTS_MAX],
}

/// `nvjpegDevAllocatorV2_t` and `nvjpegPinnedAllocatorV2_t`, whose fields are the same.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Allocator {
    pub(super) malloc:
        unsafe extern "C" fn(*mut c_void, *mut *mut c_void, usize, *mut c_void) -> c_int,
    pub(super) free: unsafe extern "C" fn(*mut c_void, *mut c_void, usize, *mut c_void) -> c_int,
    pub(super) context: *mut c_void,
}

/// `nvjpegBackend_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Backend {
    GpuHybrid = 2,
    Hardware = 3,
}

/// `NVJPEG_OUTPUT_RGBI`: interleaved, in the first channel.
pub(super) const OUTPUT_RGBI: c_int = 5;
/// `NVJPEG_CSS_420`, what cameras and the web make.
pub(super) const SUBSAMPLING_420: c_int = 2;
/// `NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION`: smooth chroma, as libjpeg-turbo has it.
pub(super) const SMOOTH_UPSAMPLING: c_uint = 1 << 5;

/// `nvjpegStatus_t`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status(pub(super) c_int);

/// Declares the table of functions and how it is filled from a library.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident: fn($($arg:ty),*) -> $ret:ty = $symbol:literal;)+) => {
        /// The functions that are used. Tests make a table of their own: everything above it cannot
        /// tell.
        #[derive(Clone, Debug)]
        pub(super) struct Library {
            $($(#[$doc])* pub(super) $name: unsafe extern "C" fn($($arg),*) -> $ret,)+
        }

        impl Library {
            fn fill(library: &libloading::Library) -> Result<Self, String> {
                let missing = |name: &CStr| format!("it has no {}", name.to_string_lossy());
                // SAFETY: the names are those of nvJPEG's functions, and the types are its header's.
                unsafe {
                    Ok(Self {
                        $($name: *library.get($symbol).map_err(|_| missing($symbol))?,)+
                    })
                }
            }
        }
    };
}

functions! {
    /// Back end, memory of the device, pinned memory, flags, handle.
    create: fn(Backend, *mut Allocator, *mut Allocator, c_uint, *mut Opaque) -> Status
        = c"nvjpegCreateExV2";
    destroy: fn(Opaque) -> Status = c"nvjpegDestroy";
    hardware: fn(Opaque, *mut c_uint, *mut c_uint) -> Status = c"nvjpegGetHardwareDecoderInfo";
    state_create: fn(Opaque, *mut Opaque) -> Status = c"nvjpegJpegStateCreate";
    state_destroy: fn(Opaque) -> Status = c"nvjpegJpegStateDestroy";
    stream_create: fn(Opaque, *mut Opaque) -> Status = c"nvjpegJpegStreamCreate";
    stream_destroy: fn(Opaque) -> Status = c"nvjpegJpegStreamDestroy";
    /// Handle, bytes, length, whether to keep metadata, whether to keep the bytes, stream.
    stream_parse: fn(Opaque, *const u8, usize, c_int, c_int, Opaque) -> Status
        = c"nvjpegJpegStreamParse";
    stream_size: fn(Opaque, *mut c_uint, *mut c_uint) -> Status
        = c"nvjpegJpegStreamGetFrameDimensions";
    stream_components: fn(Opaque, *mut c_uint) -> Status = c"nvjpegJpegStreamGetComponentsNum";
    params_create: fn(Opaque, *mut Opaque) -> Status = c"nvjpegDecodeParamsCreate";
    params_destroy: fn(Opaque) -> Status = c"nvjpegDecodeParamsDestroy";
    params_format: fn(Opaque, c_int) -> Status = c"nvjpegDecodeParamsSetOutputFormat";
    /// Handle, stream, params; 0 where the batched decoder takes the image.
    batch_supported: fn(Opaque, Opaque, Opaque, *mut c_int) -> Status
        = c"nvjpegDecodeBatchedSupportedEx";
    /// Handle, state, images, threads of the processor, format.
    batch_initialise: fn(Opaque, Opaque, c_int, c_int, c_int) -> Status
        = c"nvjpegDecodeBatchedInitialize";
    /// Handle, state, images, width, height, subsampling, format.
    batch_preallocate: fn(Opaque, Opaque, c_int, c_int, c_int, c_int, c_int) -> Status
        = c"nvjpegDecodeBatchedPreAllocate";
    /// Handle, state, bytes of each, lengths, places, stream of the GPU.
    batch_decode: fn(Opaque, Opaque, *const *const u8, *const usize, *mut Image, *mut c_void) -> Status
        = c"nvjpegDecodeBatched";
    /// Handle, state, bytes, length, format, place, stream of the GPU.
    decode: fn(Opaque, Opaque, *const u8, usize, c_int, *mut Image, *mut c_void) -> Status
        = c"nvjpegDecode";
}

// === impl Library ===

impl Library {
    /// The system's nvJPEG, opened once and never closed: it keeps threads.
    pub(super) fn system() -> Result<&'static Self, String> {
        static SYSTEM: OnceLock<Result<Library, String>> = OnceLock::new();
        SYSTEM.get_or_init(|| Self::open_any(&NAMES)).as_ref().map_err(Clone::clone)
    }

    fn open_any(names: &[&str]) -> Result<Self, String> {
        let mut refusals = Vec::new();
        for name in names {
            // SAFETY: nvJPEG's constructors prepare its own tables alone; whoever puts another
            // library of this name in the search path runs code in this process in any case.
            match unsafe { libloading::Library::new(*name) } {
                Ok(library) => {
                    let functions = Self::fill(&library);
                    std::mem::forget(library);
                    return functions
                        .map_err(|error| format!("{name} is not nvJPEG 12 or 13: {error}"));
                }
                Err(error) => {
                    let source = error.source().map(ToString::to_string);
                    refusals.push(source.unwrap_or_else(|| error.to_string()));
                }
            }
        }
        Err(format!(
            "nvJPEG ({}) is not found ({}): install the CUDA toolkit or PyPI's nvidia-nvjpeg, and \
             put its folder into LD_LIBRARY_PATH",
            names[0],
            refusals.first().map_or("", String::as_str)
        ))
    }
}

// === impl Status ===

impl Status {
    /// `NVJPEG_STATUS_SUCCESS`.
    pub(super) const SUCCESS: Self = Self(0);
    /// `NVJPEG_STATUS_ALLOCATOR_FAILURE`.
    pub(super) const ALLOCATOR_FAILURE: Self = Self(5);

    /// Whether the image is at fault, not the device: bad, not supported, or incomplete.
    pub(super) fn is_of_image(self) -> bool {
        matches!(self.0, 3 | 4 | 9 | 10)
    }

    /// Its name in the header.
    pub(super) fn name(self) -> String {
        const NAMES: [&str; 11] = [
            "SUCCESS",
            "NOT_INITIALIZED",
            "INVALID_PARAMETER",
            "BAD_JPEG",
            "JPEG_NOT_SUPPORTED",
            "ALLOCATOR_FAILURE",
            "EXECUTION_FAILED",
            "ARCH_MISMATCH",
            "INTERNAL_ERROR",
            "IMPLEMENTATION_NOT_SUPPORTED",
            "INCOMPLETE_BITSTREAM",
        ];
        let name = usize::try_from(self.0).ok().and_then(|number| NAMES.get(number));
        name.map_or_else(|| format!("status {}", self.0), |name| format!("NVJPEG_STATUS_{name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named_with_the_remedy() {
        let error = Library::open_any(&["libnvjpeg-not-there.so"]).unwrap_err();
        for word in ["libnvjpeg-not-there.so", "nvidia-nvjpeg", "LD_LIBRARY_PATH"] {
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_library_that_is_another_one_is_named_with_what_it_lacks() {
        let error = Library::open_any(&["libc.so.6"]).unwrap_err();
        assert!(error.contains("libc.so.6") && error.contains("nvjpegCreateExV2"), "{error}");
    }

    #[test]
    fn images_are_told_from_devices_that_fail() {
        let of_images: Vec<c_int> = (0..12).filter(|&n| Status(n).is_of_image()).collect();
        assert_eq!(of_images, [3, 4, 9, 10]);
        assert_eq!(Status(5).name(), "NVJPEG_STATUS_ALLOCATOR_FAILURE");
        assert_eq!(Status(77).name(), "status 77");
    }

    /// Sizes of the structures on 64 bits, as a C compiler has them.
    #[test]
    fn structures_have_the_sizes_of_the_header() {
        assert_eq!((size_of::<Image>(), size_of::<Allocator>()), (64, 24));
    }
}
