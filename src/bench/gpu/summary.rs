//! What `headwater bench gpu --json` prints.

use serde::{Deserialize, Serialize};

/// Everything that was compared and measured. Parts that were not requested are empty or null.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) gpu: String,
    pub(crate) threads: usize,
    pub(crate) images: usize,
    /// Sentences on the results with the same bytes.
    pub(crate) parity: Vec<String>,
    /// Bytes read and written by copies within the GPU's memory.
    pub(crate) copy_bytes_per_s: Option<f64>,
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) uploads: Vec<Upload>,
    pub(crate) speeds: Vec<Speed>,
    pub(crate) ways: Vec<JpegWays>,
    pub(crate) nvjpeg: Vec<Nvjpeg>,
    /// A sentence on each thing that cannot be done here.
    pub(crate) absent: Vec<String>,
}

/// A kernel by one recipe.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Kernel {
    pub(crate) recipe: String,
    pub(crate) kernel: String,
    pub(crate) blocks: u64,
    /// Microseconds.
    pub(crate) part_us: f64,
    pub(crate) bytes_per_s: f64,
}

/// A batch on its way to a receiver's GPU.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Upload {
    pub(crate) what: String,
    /// Bytes of the batch.
    pub(crate) bytes: u64,
    pub(crate) ms: f64,
}

/// Images per second of one way to make them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Speed {
    pub(crate) what: String,
    /// Whether the GPU does it.
    pub(crate) on_gpu: bool,
    pub(crate) images_per_s: f64,
}

/// What images of one pass were decoded by: shares of all of them, of 1.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct JpegWays {
    pub(crate) pass: String,
    /// Kernels, from entry points that were delivered, from restart markers, or as one segment.
    pub(crate) known: f64,
    /// Kernels, from entry points that they found.
    pub(crate) found: f64,
    /// The processor.
    pub(crate) left: f64,
}

/// nvJPEG with a share of images for the engines.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Nvjpeg {
    pub(crate) engine_share: f64,
    /// Levels.
    pub(crate) mean_difference: f64,
    pub(crate) largest_difference: u8,
    pub(crate) decoded_images_per_s: f64,
    /// Images that were left to the processor, of 1.
    pub(crate) left_share: f64,
    pub(crate) whole_images_per_s: f64,
}
