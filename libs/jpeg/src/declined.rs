//! Why a file is left to libjpeg-turbo.

/// The file is not decoded here. No verdict: libjpeg-turbo may find nothing wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Declined {
    /// Markers that are rare, broken or of another kind of JPEG.
    #[error("its header is not that of a baseline image: {0}")]
    Header(&'static str),
    /// What is between the coded pixels and the end of the file is not as it should be.
    #[error("its scan is not followed by the end of the image, or has markers out of place")]
    Markers,
    /// Bits that are no code, or too few of them, or too many.
    #[error("its coded pixels are damaged")]
    Damage,
    /// Coefficients so large that libjpeg-turbo's own builds may differ in what they make of them.
    #[error("its coefficients are out of range")]
    Range,
    /// An entry point is not where decoding comes to; the image may be good.
    #[error("an entry point does not fit the image")]
    Entry,
}
