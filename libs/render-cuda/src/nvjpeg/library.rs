//! nvJPEG's functions, opened while the program runs: it starts where the library is absent.
//!
//! Types and numbers are those of `nvjpeg.h` 12.4 and 13.0, which agree in all that is used here.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_void};
use std::sync::OnceLock;

use headwater_dylib::{DylibError, NVJPEG};

/// `NVJPEG_MAX_COMPONENT`.
const COMPONENTS_MAX: usize = 4;

/// `nvjpegHandle_t`, `nvjpegJpegState_t`, `nvjpegBufferPinned_t` and all others of its kind.
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
/// `NVJPEG_CSS_444`, for which most memory is taken.
pub(super) const SUBSAMPLING_444: c_int = 0;
/// `NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION`: smooth chroma, as libjpeg-turbo has it.
pub(super) const SMOOTH_UPSAMPLING: c_uint = 1 << 5;

/// `nvjpegStatus_t`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status(pub(super) c_int);

headwater_dylib::functions! {
    /// The functions that are used. Tests make a table of their own: everything above it cannot tell.
    #[derive(Clone, Debug)]
    pub(super) struct Library;
    // SAFETY: names and types are those of `nvjpeg.h`, see the top of this file.
    unsafe extern "C" {
        /// Back end, memory of the device, pinned memory, flags, handle. Null: the library's own memory.
        create: fn(Backend, *mut c_void, *mut c_void, c_uint, *mut Opaque) -> Status = "nvjpegCreateEx";
        destroy: fn(Opaque) -> Status = "nvjpegDestroy";
        hardware: fn(Opaque, *mut c_uint, *mut c_uint) -> Status = "nvjpegGetHardwareDecoderInfo";
        state_create: fn(Opaque, *mut Opaque) -> Status = "nvjpegJpegStateCreate";
        state_destroy: fn(Opaque) -> Status = "nvjpegJpegStateDestroy";
        stream_create: fn(Opaque, *mut Opaque) -> Status = "nvjpegJpegStreamCreate";
        stream_destroy: fn(Opaque) -> Status = "nvjpegJpegStreamDestroy";
        /// Handle, bytes, length, whether to keep metadata, whether to keep the bytes, stream.
        stream_parse: fn(Opaque, *const u8, usize, c_int, c_int, Opaque) -> Status
            = "nvjpegJpegStreamParse";
        stream_size: fn(Opaque, *mut c_uint, *mut c_uint) -> Status
            = "nvjpegJpegStreamGetFrameDimensions";
        stream_components: fn(Opaque, *mut c_uint) -> Status = "nvjpegJpegStreamGetComponentsNum";
        params_create: fn(Opaque, *mut Opaque) -> Status = "nvjpegDecodeParamsCreate";
        params_destroy: fn(Opaque) -> Status = "nvjpegDecodeParamsDestroy";
        params_format: fn(Opaque, c_int) -> Status = "nvjpegDecodeParamsSetOutputFormat";
        /// Handle, stream, params; 0 where the batched decoder takes the image.
        batch_supported: fn(Opaque, Opaque, Opaque, *mut c_int) -> Status
            = "nvjpegDecodeBatchedSupportedEx";
        /// Handle, state, images, threads of the processor, format.
        batch_initialise: fn(Opaque, Opaque, c_int, c_int, c_int) -> Status
            = "nvjpegDecodeBatchedInitialize";
        /// Handle, state, images, width, height, subsampling, format.
        batch_preallocate: fn(Opaque, Opaque, c_int, c_int, c_int, c_int, c_int) -> Status
            = "nvjpegDecodeBatchedPreAllocate";
        /// Handle, state, bytes of each, lengths, places, stream of the GPU.
        batch_decode: fn(Opaque, Opaque, *const *const u8, *const usize, *mut Image, *mut c_void) -> Status
            = "nvjpegDecodeBatched";
        decoder_create: fn(Opaque, Backend, *mut Opaque) -> Status = "nvjpegDecoderCreate";
        decoder_destroy: fn(Opaque) -> Status = "nvjpegDecoderDestroy";
        /// Decoder, stream, params; 0 where the decoder takes the image.
        decoder_supported: fn(Opaque, Opaque, Opaque, *mut c_int) -> Status
            = "nvjpegDecoderJpegSupported";
        /// Handle, decoder, state, which is destroyed as any.
        decoder_state_create: fn(Opaque, Opaque, *mut Opaque) -> Status = "nvjpegDecoderStateCreate";
        device_buffer_create: fn(Opaque, *mut Allocator, *mut Opaque) -> Status
            = "nvjpegBufferDeviceCreateV2";
        device_buffer_destroy: fn(Opaque) -> Status = "nvjpegBufferDeviceDestroy";
        pinned_buffer_create: fn(Opaque, *mut Allocator, *mut Opaque) -> Status
            = "nvjpegBufferPinnedCreateV2";
        pinned_buffer_destroy: fn(Opaque) -> Status = "nvjpegBufferPinnedDestroy";
        /// State, buffer.
        attach_device_buffer: fn(Opaque, Opaque) -> Status = "nvjpegStateAttachDeviceBuffer";
        attach_pinned_buffer: fn(Opaque, Opaque) -> Status = "nvjpegStateAttachPinnedBuffer";
        /// Handle, decoder, state, params, stream.
        decode_host: fn(Opaque, Opaque, Opaque, Opaque, Opaque) -> Status = "nvjpegDecodeJpegHost";
        /// Handle, decoder, state, stream, stream of the GPU.
        decode_transfer: fn(Opaque, Opaque, Opaque, Opaque, *mut c_void) -> Status
            = "nvjpegDecodeJpegTransferToDevice";
        /// Handle, decoder, state, place, stream of the GPU.
        decode_device: fn(Opaque, Opaque, Opaque, *mut Image, *mut c_void) -> Status
            = "nvjpegDecodeJpegDevice";
    }
}

// === impl Library ===

impl Library {
    /// The system's nvJPEG, opened once.
    pub(super) fn system() -> Result<&'static Self, String> {
        static SYSTEM: OnceLock<Result<Library, DylibError>> = OnceLock::new();
        let opened = SYSTEM.get_or_init(|| NVJPEG.load().map(|(functions, _)| functions));
        opened.as_ref().map_err(ToString::to_string)
    }
}

// === impl Status ===

impl Status {
    /// `NVJPEG_STATUS_SUCCESS`.
    pub(super) const SUCCESS: Self = Self(0);
    /// `NVJPEG_STATUS_ALLOCATOR_FAILURE`.
    pub(super) const ALLOCATOR_FAILURE: Self = Self(5);

    /// Whether the GPU has nothing for a back end: `ARCH_MISMATCH`, `IMPLEMENTATION_NOT_SUPPORTED`.
    pub(super) fn is_of_architecture(self) -> bool {
        matches!(self.0, 7 | 9)
    }

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
    use headwater_dylib::Dylib;

    use super::*;

    #[test]
    fn another_library_under_its_name_is_named_with_what_it_lacks() {
        let another = Dylib { sonames: &["libc.so.6"], ..NVJPEG };
        let error = another.load::<Library>().map(drop).unwrap_err().to_string();
        for word in ["nvJPEG", "libc.so.6", "nvjpegCreateEx", "nvidia-nvjpeg", "LD_LIBRARY_PATH"] {
            assert!(error.contains(word), "{error}");
        }
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
