//! Why there is no GPU to work on.

/// Why a GPU cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// A library that is opened at run time is not there.
    #[error("{} is not found: {}", .library.what(), .library.remedy())]
    Missing {
        /// Which.
        library: Library,
    },
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
    /// The kernels are not made for so old a GPU.
    #[error(
        "GPU {ordinal}, {name}, is of architecture {architecture}, and kernels are made for {least} \
         and later: take a newer one"
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

/// A library that is opened at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// The NVIDIA driver.
    Driver,
    /// The compiler of kernels.
    Nvrtc,
}

// === impl Library ===

impl Library {
    /// Its name and file.
    #[must_use]
    pub const fn what(self) -> &'static str {
        match self {
            Self::Driver => "the NVIDIA driver (libcuda.so)",
            Self::Nvrtc => "NVRTC (libnvrtc.so)",
        }
    }

    /// How to have it.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Driver => "install it, and in a container ask for the GPU",
            Self::Nvrtc => {
                "install the CUDA toolkit or PyPI's nvidia-cuda-nvrtc, and put its folder into \
                 LD_LIBRARY_PATH"
            }
        }
    }
}
