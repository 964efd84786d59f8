//! libwebp's decoder, as far as it is needed here.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use libwebp_sys::{
    VP8StatusCode, WEBP_CSP_MODE, WebPBitstreamFeatures, WebPDecBuffer__bindgen_ty_1, WebPDecode,
    WebPDecoderConfig, WebPGetFeatures, WebPRGBABuffer,
};

use super::{DecodeError, DecodeFailure};

/// What a header says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    /// Size in pixels, at most 16383 for an image and 2^24 for an animation.
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) is_animated: bool,
}

// === impl Header ===

impl Header {
    pub(super) fn read(encoded: &[u8]) -> Result<Self, DecodeFailure> {
        let mut features = MaybeUninit::<WebPBitstreamFeatures>::zeroed();
        // SAFETY: it reads as many bytes as it is given, and writes the features, which are numbers.
        let status =
            unsafe { WebPGetFeatures(encoded.as_ptr(), encoded.len(), features.as_mut_ptr()) };
        checked(status)?;
        // SAFETY: zeros are numbers, and so is what was written over them.
        let features = unsafe { features.assume_init() };
        let side = |side: i32| u32::try_from(side).map_err(|_| DecodeError::corrupt("its size"));
        Ok(Self {
            width: side(features.width)?,
            height: side(features.height)?,
            is_animated: features.has_animation != 0,
        })
    }
}

/// Decodes an image that is not animated, of the size that its header says: R G B, row by row without padding.
///
/// # Panics
/// There is not room for exactly that.
pub(super) fn decode(
    encoded: &[u8],
    header: Header,
    pixels: &mut [u8],
) -> Result<(), DecodeFailure> {
    let bytes = 3 * header.width as usize * header.height as usize;
    assert_eq!(pixels.len(), bytes, "bytes of {header:?}");
    decode_window(encoded, Window { width: header.width, is_corner: false }, pixels)
}

/// Decodes the first pixel of an image that is not animated, for the verdict on what comes before the pixels.
pub(super) fn decode_corner(encoded: &[u8]) -> Result<(), DecodeFailure> {
    decode_window(encoded, Window { width: 1, is_corner: true }, &mut [0; 3])
}

/// Which pixels of an image are decoded.
struct Window {
    width: u32,
    /// Only the first pixel; otherwise all.
    is_corner: bool,
}

/// Decodes a window of an image that is not animated.
fn decode_window(
    encoded: &[u8],
    Window { width, is_corner }: Window,
    pixels: &mut [u8],
) -> Result<(), DecodeFailure> {
    let mut config = WebPDecoderConfig::new().map_err(|()| DecodeFailure::Passing {
        reason: "libwebp has another version than its header".into(),
    })?;
    if is_corner {
        config.options.use_cropping = 1;
        (config.options.crop_width, config.options.crop_height) = (1, 1);
    }
    config.output.colorspace = WEBP_CSP_MODE::MODE_RGB;
    config.output.is_external_memory = 1;
    let stride = i32::try_from(3 * width).map_err(|_| DecodeError::corrupt("its width"))?;
    let size = pixels.len();
    config.output.u = WebPDecBuffer__bindgen_ty_1 {
        RGBA: WebPRGBABuffer { rgba: pixels.as_mut_ptr(), stride, size },
    };
    // SAFETY: it reads as many bytes as it is given. It writes to the memory of the caller's pixels, no more than `size` bytes,
    // and refuses a window that has another size than these hold. It keeps none of the pointers, and has no memory of its own
    // once it is back, as the output is not its own.
    checked(unsafe { WebPDecode(encoded.as_ptr(), encoded.len(), &raw mut config) })
}

fn checked(status: VP8StatusCode) -> Result<(), DecodeFailure> {
    Err(match status {
        VP8StatusCode::VP8_STATUS_OK => return Ok(()),
        VP8StatusCode::VP8_STATUS_OUT_OF_MEMORY => {
            return Err(DecodeFailure::Passing { reason: "libwebp has no memory".into() });
        }
        VP8StatusCode::VP8_STATUS_NOT_ENOUGH_DATA | VP8StatusCode::VP8_STATUS_SUSPENDED => {
            DecodeError::truncated("unexpected end of WebP file")
        }
        VP8StatusCode::VP8_STATUS_UNSUPPORTED_FEATURE => {
            DecodeError::unsupported("a feature that libwebp does not decode")
        }
        VP8StatusCode::VP8_STATUS_BITSTREAM_ERROR
        | VP8StatusCode::VP8_STATUS_INVALID_PARAM
        | VP8StatusCode::VP8_STATUS_USER_ABORT => DecodeError::corrupt("libwebp cannot decode it"),
    }
    .into())
}
