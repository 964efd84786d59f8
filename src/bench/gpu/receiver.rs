//! A batch's way to a receiver's GPU: the copy of a slot, and levels that are normalised there.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use headwater_core::cast::{Normalise, level_elements};
use headwater_core::{Dtype, Region};
use headwater_cuda::{CubinCache, DeviceSlot, Expansion, Uploader};
use headwater_transport::SlotMemory;

/// Views of a sample in the slot, and pixels of a side: with parts of 32, about a batch of 64 samples by `dinov2`.
const VIEWS_A_SAMPLE: u32 = 8;
const SIDE: u64 = 224;
/// What levels become.
const DTYPE: Dtype = Dtype::Bf16;

/// How long a batch takes.
pub(crate) struct Uploads {
    /// Bytes of levels.
    pub(crate) bytes: u64,
    /// Their copy from the slot to the GPU.
    pub(crate) copied: Duration,
    /// The same, and every level looked up and written as bf16.
    pub(crate) normalised: Duration,
}

// === impl Uploads ===

impl Uploads {
    /// Compares the GPU's normalised levels with the processor's table, and measures over `rounds`,
    /// at least 1, with a batch of `samples` samples.
    ///
    /// # Errors
    /// The GPU is not available, fails, or gives other values.
    pub(crate) fn measure(
        device: u32,
        cache_dir: Option<&Path>,
        rounds: u32,
        samples: u32,
    ) -> Result<Self> {
        let normalise = Normalise { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] };
        let cache = cache_dir.map(CubinCache::new);
        let uploader = Uploader::open(device, None)?;
        let uploader = Arc::new(uploader.normalising(&normalise, DTYPE, cache.as_ref())?);
        let (plane, planes) = (SIDE * SIDE, 3 * VIEWS_A_SAMPLE * samples);
        let bytes = plane * u64::from(planes);
        let host = Arc::new(SlotMemory::private(bytes, false)?);
        let levels: Vec<u8> = (0..bytes).map(|at| (at * at / 7 % 251) as u8).collect();
        host.copy_from(Region { offset_bytes: 0, len_bytes: bytes }, &levels);
        let len_bytes = bytes + bytes * DTYPE.size_bytes();
        let slot = uploader.slot(host, len_bytes).context("a slot on the GPU")?;
        let expansion = Expansion { levels: 0, elements: bytes, plane, planes };
        let normalised = time(&slot, bytes, &[expansion], rounds)?;
        let made = slot.read(bytes, len_bytes - bytes)?;
        let table = level_elements(&normalise, DTYPE, 1.0);
        let wanted = levels.iter().zip(0u64..).flat_map(|(&level, at)| {
            let element = table[(at / plane % 3) as usize][usize::from(level)];
            (element as u16).to_le_bytes()
        });
        ensure!(
            made.iter().copied().eq(wanted),
            "the GPU normalises to other values than the processor"
        );
        Ok(Self { bytes, copied: time(&slot, bytes, &[], rounds)?, normalised })
    }
}

/// Time of one upload, from when it is asked for until it is there.
fn time(slot: &DeviceSlot, bytes: u64, expansions: &[Expansion], rounds: u32) -> Result<Duration> {
    let copies = [Region { offset_bytes: 0, len_bytes: bytes }];
    let upload = || slot.upload(&copies, expansions).and_then(|()| slot.wait());
    upload()?; // The first one is not like the others.
    let started = Instant::now();
    for _ in 0..rounds {
        upload()?;
    }
    Ok(started.elapsed() / rounds)
}
