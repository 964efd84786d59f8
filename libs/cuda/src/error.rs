//! Why there is no GPU to work on.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use headwater_dylib::DylibError;

/// Why a GPU cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// A library that is opened at run time is absent, or cannot be used.
    #[error(transparent)]
    Library(#[from] DylibError),
    /// The driver refuses the device.
    #[error("GPU {ordinal}: {doing}: {reason}")]
    Device {
        /// Its number.
        ordinal: u32,
        /// What was tried.
        doing: &'static str,
        /// What the driver said.
        reason: String,
    },
    /// The trainer's own allocator gives no memory.
    #[error("GPU {ordinal}: take memory for a slot: {reason}")]
    Allocator {
        /// Its number.
        ordinal: u32,
        /// What the allocator said.
        #[source]
        reason: AllocatorError,
    },
    /// The GPU does something otherwise than the processor.
    #[error("GPU {ordinal}: its proof failed: `{step}` {reason}")]
    Proof {
        /// Its number.
        ordinal: u32,
        /// What it did.
        step: &'static str,
        /// How it went wrong, and what to do.
        reason: String,
    },
    /// The kernels are not made for so old a GPU.
    #[error(
        "GPU {ordinal}, {name}, has architecture {architecture}, but the kernels need {least} or \
         later: use a newer GPU"
    )]
    TooOld {
        /// Its number.
        ordinal: u32,
        /// Its name.
        name: String,
        /// As in `sm_70`.
        architecture: String,
        /// The oldest one.
        least: String,
    },
    /// The kernels do not compile for the device.
    #[error("the kernels do not compile for {architecture}: {reason}")]
    Compile {
        /// As in `sm_90`.
        architecture: String,
        /// What the compiler said.
        reason: String,
    },
}

/// What an allocator said. Equal to its own clones only.
#[derive(Clone, Debug)]
pub struct AllocatorError(Arc<dyn Error + Send + Sync>);

// === impl AllocatorError ===

impl From<Box<dyn Error + Send + Sync>> for AllocatorError {
    fn from(said: Box<dyn Error + Send + Sync>) -> Self {
        Self(said.into())
    }
}

impl fmt::Display for AllocatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for AllocatorError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

impl PartialEq for AllocatorError {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for AllocatorError {}
