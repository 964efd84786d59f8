//! libjpeg-turbo's TurboJPEG interface, as far as it is needed here. The safe crates over it
//! decode whole images only.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};
use std::ptr::NonNull;

use headwater_core::draw::{CropBox, Extent};
use turbojpeg_sys as sys;

use crate::decode::{Wanted, scan};

/// What is said of a header without a size.
pub(super) const NO_SIZE: &str = "the header has no size";

/// Beginnings of the messages of libjpeg's warnings (`jerror.h`, `JWRN_*`). The library says `TJERR_WARNING` also of an
/// error that comes after a warning; the text is then the error's.
const WARNINGS: &[&str] = &[
    "Application transferred too many scanlines",
    "Corrupt JPEG data",
    "Inconsistent progression sequence",
    "Invalid SOS parameters for sequential JPEG",
    "Premature end of JPEG file",
    "Unknown Adobe color transform code",
    "Warning: unknown JFIF revision",
];

/// One decompressor of the library.
#[derive(Debug)]
pub(super) struct Turbo {
    handle: NonNull<c_void>,
}

/// An image whose header has been read.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    turbo: &'a mut Turbo,
    encoded: &'a [u8],
    header: Header,
}

/// What a header says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    /// Size in pixels.
    pub(super) extent: Extent,
    /// Order of the colours that it can be decoded to.
    pub(super) format: Format,
    /// Whether each scan refines the whole image.
    pub(super) progressive: bool,
    /// Columns of the blocks that are decoded as one; none where no part can be decoded by itself.
    pub(super) block_columns: Option<u32>,
    /// Whether the library found something amiss in the header, and went on.
    pub(super) warned: bool,
}

/// What to decode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    /// Size and part.
    pub(super) wanted: Wanted,
    /// Order of the colours in a pixel.
    pub(super) format: Format,
}

/// Order of the colours in a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Rgb,
    Cmyk,
    /// A lossless gray image; the library has no conversions for lossless ones.
    Gray,
}

/// The library's own sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(super) struct TurboError {
    pub(super) text: String,
    /// It went on to the end all the same.
    pub(super) is_warning: bool,
}

// SAFETY: the handle is owned by this value only, and the library keeps nothing by thread but the
// texts of errors that belong to no handle.
unsafe impl Send for Turbo {}

// === impl Turbo ===

impl Turbo {
    /// A decompressor that refuses more than `scans_max` scans.
    pub(super) fn new(scans_max: u32) -> Result<Self, TurboError> {
        // SAFETY: the call asks nothing of its caller.
        let handle = unsafe { sys::tj3Init(sys::TJINIT_TJINIT_DECOMPRESS as c_int) };
        let handle = NonNull::new(handle).ok_or_else(|| TurboError::new("no memory for it"))?;
        let turbo = Self { handle };
        let scans_max = c_int::try_from(scans_max).unwrap_or(c_int::MAX);
        turbo.set(sys::TJPARAM_TJPARAM_SCANLIMIT, scans_max)?;
        // Colour profiles would be copied for each image, and nobody looks at them.
        turbo.set(sys::TJPARAM_TJPARAM_SAVEMARKERS, 0)?;
        Ok(turbo)
    }

    /// Reads the header of an image.
    pub(super) fn open<'a>(&'a mut self, encoded: &'a [u8]) -> Result<Frame<'a>, TurboError> {
        // SAFETY: the handle is alive; the pointer and the length are those of one slice.
        let code = unsafe {
            let (bytes, len) = (encoded.as_ptr(), encoded.len());
            sys::tj3DecompressHeader(self.handle.as_ptr(), bytes, len as sys::size_t)
        };
        let warned = match self.check(code) {
            Err(error) if error.is_warning => true,
            checked => checked.map(|()| false)?,
        };
        let side = |param| u32::try_from(self.get(param)).unwrap_or(0);
        let colours = self.get(sys::TJPARAM_TJPARAM_COLORSPACE);
        let is_any = |spaces: &[_]| spaces.iter().any(|&space| space as c_int == colours);
        let format = if is_any(&[sys::TJCS_TJCS_CMYK, sys::TJCS_TJCS_YCCK]) {
            Format::Cmyk
        } else if self.is_lossless() && is_any(&[sys::TJCS_TJCS_GRAY]) {
            Format::Gray
        } else {
            Format::Rgb
        };
        let (width, height) =
            (side(sys::TJPARAM_TJPARAM_JPEGWIDTH), side(sys::TJPARAM_TJPARAM_JPEGHEIGHT));
        if width == 0 || height == 0 {
            return Err(TurboError::new(NO_SIZE));
        }
        let header = Header {
            extent: Extent { width, height },
            format,
            progressive: self.get(sys::TJPARAM_TJPARAM_PROGRESSIVE) != 0,
            block_columns: self.block_columns(encoded),
            warned,
        };
        Ok(Frame { turbo: self, encoded, header })
    }

    fn is_lossless(&self) -> bool {
        self.get(sys::TJPARAM_TJPARAM_LOSSLESS) != 0
    }

    /// `None` as well for lossless images, and for those whose sampling has no name: the library cannot decode a part
    /// of one by itself. Names say how components compare: 4:4:4 may have any number of columns.
    fn block_columns(&self, encoded: &[u8]) -> Option<u32> {
        if self.is_lossless()
            || self.get(sys::TJPARAM_TJPARAM_SUBSAMP) == sys::TJSAMP_TJSAMP_UNKNOWN
        {
            return None;
        }
        scan::columns_of_mcu(encoded)
    }

    /// Sets what the next call decodes; everything without a window.
    fn aim(&self, reduction: u32, window: Option<CropBox>) -> Result<(), TurboError> {
        let factor = sys::tjscalingfactor { num: 1, denom: reduction as c_int };
        // SAFETY: the handle is alive.
        let code = unsafe { sys::tj3SetScalingFactor(self.handle.as_ptr(), factor) };
        self.check(code)?;
        let everything = sys::tjregion { x: 0, y: 0, w: 0, h: 0 };
        let region = window.map_or(everything, |window| sys::tjregion {
            x: window.left as c_int,
            y: window.top as c_int,
            w: window.width as c_int,
            h: window.height as c_int,
        });
        // SAFETY: the handle is alive.
        let code = unsafe { sys::tj3SetCroppingRegion(self.handle.as_ptr(), region) };
        self.check(code)
    }

    fn get(&self, param: sys::TJPARAM) -> c_int {
        // SAFETY: the handle is alive.
        unsafe { sys::tj3Get(self.handle.as_ptr(), param as c_int) }
    }

    fn set(&self, param: sys::TJPARAM, value: c_int) -> Result<(), TurboError> {
        // SAFETY: the handle is alive.
        let code = unsafe { sys::tj3Set(self.handle.as_ptr(), param as c_int, value) };
        self.check(code)
    }

    fn check(&self, code: c_int) -> Result<(), TurboError> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the handle is alive, and the text it gives ends with a zero and stays as it is
        // until the next call with this handle.
        let (text, code) = unsafe {
            let handle = self.handle.as_ptr();
            (CStr::from_ptr(sys::tj3GetErrorStr(handle)), sys::tj3GetErrorCode(handle))
        };
        let text = text.to_string_lossy().into_owned();
        let is_warning = code == sys::TJERR_TJERR_WARNING as c_int
            && WARNINGS.iter().any(|warning| text.starts_with(warning));
        Err(TurboError { text, is_warning })
    }
}

impl Drop for Turbo {
    fn drop(&mut self) {
        // SAFETY: the handle is alive and used no more.
        unsafe { sys::tj3Destroy(self.handle.as_ptr()) };
    }
}

// === impl TurboError ===

impl TurboError {
    fn new(text: &str) -> Self {
        Self { text: text.to_owned(), is_warning: false }
    }
}

// === impl Frame ===

impl Frame<'_> {
    /// What the header says.
    pub(super) fn header(&self) -> Header {
        self.header
    }

    /// Decodes what is ordered. `pixels` are those of the window, row by row without padding.
    ///
    /// # Panics
    /// `pixels` are not as many as the window has, it is not within the image at its reduced size or does
    /// not begin where a block does, or less than everything is wanted of an image that has no blocks.
    pub(super) fn decode(self, order: &Order, pixels: &mut [u8]) -> Result<(), TurboError> {
        let Self { turbo, encoded, header } = self;
        let Wanted { reduction, window } = order.wanted;
        let whole = Wanted::reduced(header.extent, reduction).window;
        let (width, height) = (whole.width, whole.height);
        let CropBox { left, top, width: columns, height: rows } = window;
        let depth = order.format.bytes();
        let row_bytes = columns as usize * depth;
        assert_eq!(pixels.len(), row_bytes * rows as usize, "bytes of {columns}x{rows} pixels");
        assert!(columns > 0 && left + columns <= width, "{window:?} of {width} columns");
        assert!(rows > 0 && top + rows <= height, "{window:?} of {height} rows");
        let blocks = header.block_columns.map(|block| block / reduction);
        let aligned = blocks.is_some_and(|block| left.is_multiple_of(block));
        let everything = order.wanted == Wanted::all(header.extent);
        assert!(everything || aligned, "{:?} in blocks of {blocks:?}", order.wanted);
        turbo.aim(reduction, (window != whole).then_some(window))?;
        let pitch = c_int::try_from(row_bytes).expect("rows of a JPEG are short");
        // SAFETY: the handle is alive; the header of these very bytes has been read with it, and
        // with the factor and the region that were set the library writes `rows` rows of `columns` pixels, `pitch`
        // bytes apart, which the assertions have found within `pixels`.
        let code = unsafe {
            let to = pixels.as_mut_ptr();
            let (bytes, len) = (encoded.as_ptr(), encoded.len() as sys::size_t);
            let format = order.format.code();
            sys::tj3Decompress8(turbo.handle.as_ptr(), bytes, len, to, pitch, format)
        };
        turbo.check(code)
    }
}

// === impl Format ===

impl Format {
    /// Bytes of a pixel.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Rgb => 3,
            Self::Cmyk => 4,
            Self::Gray => 1,
        }
    }

    fn code(self) -> c_int {
        match self {
            Self::Rgb => sys::TJPF_TJPF_RGB,
            Self::Cmyk => sys::TJPF_TJPF_CMYK,
            Self::Gray => sys::TJPF_TJPF_GRAY,
        }
    }
}
