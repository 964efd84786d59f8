//! Which GPU renders and decodes, and what it may take.

use headwater_config_derive::Section;
use headwater_cuda::CubinCache;
use headwater_render_cuda::{CudaSettings, NvJpegSettings};
use serde::{Deserialize, Serialize};

/// What decodes JPEGs where a GPU renders. The pixels are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CudaDecode {
    /// The processor.
    Host,
    /// The GPU, where decoding can begin at several places of an image; else the processor.
    #[default]
    Device,
}

/// Which GPU renders and decodes, and what it may take.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
pub struct CudaConfig {
    /// Number of the GPU.
    #[key(unit = "none")]
    pub cuda_device: u32,
    /// Memory of the GPU for images and views, shared evenly by the threads. A part that does not
    /// fit is rendered in pieces.
    #[key(unit = "bytes", default = 4 << 30)]
    pub cuda_memory_bytes: u64,
    /// What decodes JPEGs if a GPU renders. `host`: the processor. `device`: the GPU's kernels
    /// decode baseline JPEGs, and the processor the others. The bytes are the same.
    pub cuda_decode: CudaDecode,
    /// GPU memory for nvJPEG's kernels, shared evenly by the threads, in addition to
    /// `cuda_memory_bytes`; only with `recipe.decoder` `nvjpeg`. The engines take more, without a
    /// limit.
    #[key(unit = "bytes", default = 4 << 30)]
    pub nvjpeg_memory_bytes: u64,
    /// Columns, in pixels, of the largest image for which the engines reserve memory in advance; 0:
    /// by the images that come.
    #[key(unit = "pixels")]
    pub nvjpeg_width_hint: u32,
    /// Its rows, in pixels; 0: by the images that come.
    #[key(unit = "pixels")]
    pub nvjpeg_height_hint: u32,
    /// Folder for compiled kernels; empty: `headwater/cubin` in the user's cache folder.
    pub cuda_cache_dir: String,
}

// === impl CudaConfig ===

impl CudaConfig {
    /// What is wanted of the GPU, which `threads` share.
    #[must_use]
    pub fn settings(&self, threads: usize) -> CudaSettings {
        CudaSettings {
            device: self.cuda_device,
            memory_bytes: self.cuda_memory_bytes,
            streams: threads,
            cache_dir: CubinCache::folder(&self.cuda_cache_dir),
            decodes: self.cuda_decode == CudaDecode::Device,
            nvjpeg: NvJpegSettings {
                memory_bytes: self.nvjpeg_memory_bytes / threads.max(1) as u64,
                width_hint: self.nvjpeg_width_hint,
                height_hint: self.nvjpeg_height_hint,
            },
        }
    }
}
