//! Why a GPU is not fit to render.

use headwater_render::RenderError;

use super::device::DeviceError;

/// What the proof calls its checksums.
pub(super) const SUMS_STEP: &str = "checksums of rows";

/// Why a GPU is not fit to render.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// It makes something else than the definitions.
    #[error(
        "its proof failed: `{step}` gives other bytes than the processor ({differ} of {bytes} differ): \
         compare another driver and another GPU, and report it"
    )]
    Differs {
        /// What it does otherwise.
        step: &'static str,
        /// Bytes that differ.
        differ: usize,
        /// Bytes that were compared.
        bytes: usize,
    },
    /// It fails while it does something.
    #[error("its proof failed: `{step}`: {source}")]
    Device {
        /// What it was to do.
        step: &'static str,
        /// What the driver said.
        source: DeviceError,
    },
    /// A sample was not rendered, or not by kernels.
    #[error("its proof failed: `{step}`: {reason}")]
    Sample {
        /// What was to be done.
        step: &'static str,
        /// Why not.
        reason: String,
    },
    /// It makes other checksums.
    #[error(
        "its proof failed: `{}` gives other checksums than the processor ({differ} of {rows} differ): \
         compare another driver and another GPU, and report it",
        SUMS_STEP
    )]
    Sums {
        /// Rows whose checksums differ.
        differ: usize,
        /// Rows that were summed.
        rows: usize,
    },
    /// There is no memory for it.
    #[error("its proof cannot be made: {0}")]
    Renderer(#[from] RenderError),
}
