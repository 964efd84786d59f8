//! Default values of a worker's configuration.

use headwater_access::AccessConfig;
use headwater_core::recipe::DecodeLimits;
use headwater_storage_client::LocalFiles;
use headwater_transport::LinkKind;
use headwater_transport::links::LinksConfig;

use super::{AugmentConfig, BackendChoice, CudaDecode};

const LISTEN_DEFAULT: &str = "127.0.0.1:7402";
const STORAGE_DEFAULT: &str = "127.0.0.1:7401";
const STORAGE_WAIT_MS_DEFAULT: u64 = 30_000;
const STORAGE_HEDGE_MS_DEFAULT: u64 = 100;
const STORAGE_HEDGE_PERCENT_DEFAULT: u32 = 5;
const LOCAL_SHARDS_MAX_DEFAULT: usize = 256;
/// Entry points of 400,000 images.
const JPEG_ENTRIES_BYTES_DEFAULT: u64 = 256 << 20;
const DECODED_CACHE_KEEP_MS_DEFAULT: u64 = 3_600_000;
const STAGING_BYTES_DEFAULT: u64 = 256 << 20;
const PART_BYTES_MAX_DEFAULT: u64 = 256 << 20;
const CUDA_MEMORY_BYTES_DEFAULT: u64 = 4 << 30;
const NVJPEG_MEMORY_BYTES_DEFAULT: u64 = 4 << 30;
const SESSIONS_MAX_DEFAULT: usize = 256;
const HELLO_TIMEOUT_MS_DEFAULT: u64 = 10_000;
const LINK_TIMEOUT_MS_DEFAULT: u64 = 10_000;
/// One more than a receiver's own bound, which should notice first.
const HEARTBEATS_MISSED_MAX_DEFAULT: u32 = 4;
const DRAIN_TIMEOUT_MS_DEFAULT: u64 = 20_000;
/// Frameworks take long to be imported.
const PYTHON_TIMEOUT_MS_DEFAULT: u64 = 60_000;
const PYTHON_BAD_SAMPLE_ERRORS_DEFAULT: [&str; 2] = ["ValueError", "UnicodeError"];

impl Default for AugmentConfig {
    fn default() -> Self {
        Self {
            listen: LISTEN_DEFAULT.to_owned(),
            advertise: String::new(),
            storage: vec![STORAGE_DEFAULT.to_owned()],
            storage_wait_ms: STORAGE_WAIT_MS_DEFAULT,
            storage_hedge_ms: STORAGE_HEDGE_MS_DEFAULT,
            storage_hedge_percent: STORAGE_HEDGE_PERCENT_DEFAULT,
            local_files: LocalFiles::Auto,
            local_roots: Vec::new(),
            local_shards_max: LOCAL_SHARDS_MAX_DEFAULT,
            dataset_folders: Vec::new(),
            threads: 0,
            cpus: String::new(),
            backend: BackendChoice::Auto,
            cuda_device: 0,
            cuda_memory_bytes: CUDA_MEMORY_BYTES_DEFAULT,
            cuda_decode: CudaDecode::Device,
            nvjpeg_memory_bytes: NVJPEG_MEMORY_BYTES_DEFAULT,
            nvjpeg_width_hint: 0,
            nvjpeg_height_hint: 0,
            cuda_cache_dir: String::new(),
            leases_in_flight: 0,
            queue_parts: 0,
            staging_bytes: STAGING_BYTES_DEFAULT,
            share_bytes: 0,
            jpeg_entries_bytes: JPEG_ENTRIES_BYTES_DEFAULT,
            decoded_cache: Vec::new(),
            decoded_cache_keep_ms: DECODED_CACHE_KEEP_MS_DEFAULT,
            tokenizers: Vec::new(),
            python_modules: Vec::new(),
            python: "python3".into(),
            python_path: Vec::new(),
            python_timeout_ms: PYTHON_TIMEOUT_MS_DEFAULT,
            python_bad_sample_errors: PYTHON_BAD_SAMPLE_ERRORS_DEFAULT.map(str::to_owned).into(),
            part_bytes_max: PART_BYTES_MAX_DEFAULT,
            links: LinkKind::usual(),
            image_pixels_max: DecodeLimits::PIXELS_MAX_DEFAULT,
            sessions_max: SESSIONS_MAX_DEFAULT,
            hello_timeout_ms: HELLO_TIMEOUT_MS_DEFAULT,
            link_timeout_ms: LINK_TIMEOUT_MS_DEFAULT,
            heartbeats_missed_max: HEARTBEATS_MISSED_MAX_DEFAULT,
            drain_timeout_ms: DRAIN_TIMEOUT_MS_DEFAULT,
            link_settings: LinksConfig::default(),
            security: AccessConfig::default(),
        }
    }
}
