//! The libraries that Headwater opens.

use crate::Dylib;

/// NVIDIA's driver for programs. `cudarc` looks for the names in this order too.
pub const CUDA_DRIVER: Dylib = Dylib {
    what: "the NVIDIA driver (libcuda.so)",
    sonames: &["libcuda.so", "libcuda.so.1"],
    remedy: "install it; in a container, ask for the GPU, and NVIDIA's runtime mounts it",
};

/// The run-time compiler of CUDA kernels, the newest first. All names have the functions that are used.
pub const NVRTC: Dylib = Dylib {
    what: "NVRTC (libnvrtc.so)",
    sonames: &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"],
    remedy: "install the CUDA toolkit or PyPI's nvidia-cuda-nvrtc, and put its folder into \
             LD_LIBRARY_PATH",
};

/// The JPEG decoder on GPUs. All three names have the functions that are used.
pub const NVJPEG: Dylib = Dylib {
    what: "nvJPEG (libnvjpeg.so)",
    sonames: &["libnvjpeg.so.13", "libnvjpeg.so.12", "libnvjpeg.so"],
    remedy: "install the CUDA toolkit or PyPI's nvidia-nvjpeg, and put its folder into \
             LD_LIBRARY_PATH",
};

/// NVIDIA's management library.
pub const NVML: Dylib = Dylib {
    what: "NVML (libnvidia-ml.so)",
    sonames: &["libnvidia-ml.so.1"],
    remedy: "it comes with NVIDIA's driver; in a container, NVIDIA's runtime mounts it",
};

/// RDMA verbs. Version 1 is the ABI of the types in `libs/transport`.
pub const IBVERBS: Dylib = Dylib {
    what: "libibverbs",
    sonames: &["libibverbs.so.1"],
    remedy: "install rdma-core's libibverbs1 and ibverbs-providers",
};

/// UCX. 0 is the ABI of the types in `libs/transport`.
pub const UCX: Dylib = Dylib {
    what: "UCX (libucp.so)",
    sonames: &["libucp.so.0"],
    remedy: "apt-get install libucx0, or UCX's own packages",
};
