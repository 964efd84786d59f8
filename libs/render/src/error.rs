//! What can be wrong with a sample, and with rendering it.

use crate::decode::{DecodeError, DecodeFailure};

/// A verdict on a sample's bytes: they follow the recipe nowhere. Only this may put another sample in
/// its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadImage {
    /// The bytes are no image that is read here.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A Python function of the recipe raised what says that it is bad.
    #[error("{said}")]
    Python {
        /// Name of the function, and what it raised.
        said: String,
    },
    /// A field beside the image cannot be delivered.
    #[error(transparent)]
    Field(#[from] FieldFault),
    /// The recipe delivers encoded bytes, and these are too many.
    #[error(
        "has {bytes} bytes, more than {bytes_max}: raise recipe.raw_bytes_max, or leave it out"
    )]
    TooManyBytes {
        /// Bytes of the sample.
        bytes: usize,
        /// What the recipe allows.
        bytes_max: u32,
    },
}

/// Why a sample could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The sample is bad. Nothing has been written.
    #[error(transparent)]
    Bad(#[from] BadImage),
    /// Something is short for now, such as memory. Nothing has been written.
    #[error("{reason}")]
    Passing {
        /// What was said.
        reason: String,
    },
    /// The device cannot do it: it lacks memory, or the decoder that the recipe asks for. Nothing
    /// has been written.
    #[error("{reason}")]
    Device {
        /// What its driver said.
        reason: String,
    },
    /// The only device that can do it has failed for good. Nothing has been written.
    #[error("the GPU has failed: {reason}")]
    DeviceLost {
        /// What its driver said.
        reason: String,
    },
    /// The sink gave a row of another length than the recipe says. A fault of the caller.
    #[error(
        "row of tensor {tensor}, view {view} has {found_bytes} bytes, not {expected_bytes}: \
         the layout is not the recipe's"
    )]
    RowLength {
        /// The tensor.
        tensor: usize,
        /// The view in the tensor.
        view: usize,
        /// Bytes the recipe asks for.
        expected_bytes: usize,
        /// Bytes the sink gave.
        found_bytes: usize,
    },
}

/// Why a field of a sample cannot be delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field `{name}`: {reason}")]
pub struct FieldFault {
    /// Name of the field in the recipe.
    pub name: String,
    /// What is wrong with the sample's bytes.
    pub reason: String,
}

// === impl RenderError ===

impl From<DecodeFailure> for RenderError {
    fn from(failure: DecodeFailure) -> Self {
        match failure {
            DecodeFailure::Bytes(error) => Self::Bad(error.into()),
            DecodeFailure::Passing { .. } => Self::Passing { reason: failure.to_string() },
        }
    }
}
