//! Why bytes are not an image, and why it could not be found out.

/// Why an image was not decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeFailure {
    /// A verdict on its bytes.
    #[error(transparent)]
    Bytes(#[from] DecodeError),
    /// It says nothing about the bytes: there is no memory, or the library has said something that is
    /// not known to follow from them. Another time or another worker may decode them.
    #[error("the image decoder failed: {reason}")]
    Passing {
        /// What it said.
        reason: String,
    },
}

/// Why bytes cannot be decoded: a verdict, which follows from nothing but them and the limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The image ends before all of its pixels.
    #[error("image is truncated: {detail}")]
    Truncated {
        /// What the decoder said.
        detail: String,
    },
    /// Nothing that is known here begins like this.
    #[error("not an image: its {len_bytes} bytes are not JPEG, PNG, WebP, GIF, BMP, TIFF or PNM")]
    NotAnImage {
        /// Number of bytes. What they are stays untold: whose they are is not known here.
        len_bytes: usize,
    },
    /// More pixels than the limits allow.
    #[error("image is too large: {width}x{height} pixels, at most {pixels_max} in all")]
    TooLarge {
        /// Columns, as the header says.
        width: u64,
        /// Rows, as the header says.
        height: u64,
        /// The limit.
        pixels_max: u64,
    },
    /// Of a known format, yet damaged.
    #[error("image is corrupt: {detail}")]
    Corrupt {
        /// What the decoder said.
        detail: String,
    },
    /// Of a known format, in a variant that is not read here.
    #[error("image is not supported: {detail}")]
    Unsupported {
        /// What it is.
        detail: String,
    },
}

/// The kinds of [`DecodeError`], for metrics and provenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DecodeErrorKind {
    /// [`DecodeError::Truncated`].
    Truncated,
    /// [`DecodeError::NotAnImage`].
    NotAnImage,
    /// [`DecodeError::TooLarge`].
    TooLarge,
    /// [`DecodeError::Corrupt`].
    Corrupt,
    /// [`DecodeError::Unsupported`].
    Unsupported,
}

// === impl DecodeError ===

impl DecodeError {
    /// Which kind it is.
    #[must_use]
    pub fn kind(&self) -> DecodeErrorKind {
        match self {
            Self::Truncated { .. } => DecodeErrorKind::Truncated,
            Self::NotAnImage { .. } => DecodeErrorKind::NotAnImage,
            Self::TooLarge { .. } => DecodeErrorKind::TooLarge,
            Self::Corrupt { .. } => DecodeErrorKind::Corrupt,
            Self::Unsupported { .. } => DecodeErrorKind::Unsupported,
        }
    }

    pub(super) fn not_an_image(encoded: &[u8]) -> Self {
        Self::NotAnImage { len_bytes: encoded.len() }
    }

    pub(super) fn truncated(detail: impl ToString) -> Self {
        Self::Truncated { detail: detail.to_string() }
    }

    pub(super) fn corrupt(detail: impl ToString) -> Self {
        Self::Corrupt { detail: detail.to_string() }
    }

    pub(super) fn unsupported(detail: impl ToString) -> Self {
        Self::Unsupported { detail: detail.to_string() }
    }
}

// === impl DecodeErrorKind ===

impl DecodeErrorKind {
    /// The kind as a label of a metric.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::NotAnImage => "not_an_image",
            Self::TooLarge => "too_large",
            Self::Corrupt => "corrupt",
            Self::Unsupported => "unsupported",
        }
    }
}
