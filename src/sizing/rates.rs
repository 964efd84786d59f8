//! What one core and one link do, with where the figure comes from.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

/// CPU seconds that a GB over the `tcp` link takes at each end: half of the 0.51 of both.
/// Source: docs/benchmarks/links.md, the largest of three runs.
pub(super) const TCP_CPU_S_PER_GB: f64 = 0.255;
/// CPU seconds that a GB of samples over gRPC takes at each end. Not measured on its own: that of
/// the `tcp` link twice, since tonic moves about half as much beside a raw socket.
pub(super) const GRPC_CPU_S_PER_GB: f64 = 0.51;
/// Time to decode the photograph that rates were measured with, in ms, in a first epoch; grows with the pixels.
/// Source: docs/benchmarks/recipe.md, 1,403 images/s.
const DECODE_MS: f64 = 0.713;
/// Pixels of that photograph.
const DECODE_PIXELS: f64 = 500.0 * 375.0;
/// Microseconds of a core for an image that a GPU decodes and renders: headers, draws, taps and copies
/// (docs/benchmarks/gpu.md).
pub(super) const BESIDE_GPU_US: f64 = 226.0;
/// Processor time that a receiver takes for an image, in ms, apart from its link. Source: docs/benchmarks/pipeline.md.
pub(super) const RECEIVER_MS: f64 = 0.035;

/// Presets that were measured: milliseconds of a worker's core for a photograph of a first epoch.
/// Source: docs/benchmarks/pipeline.md.
const MEASURED: [(&str, f64); 8] = [
    ("dinov2", 1.424),
    ("dinov3", 1.639),
    ("imagenet-train", 0.625),
    ("imagenet-eval", 0.708),
    ("supervised-timm", 0.826),
    ("clip-train", 0.847),
    ("simclr", 1.208),
    ("mae", 0.688),
];

/// The mean photograph.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Photos {
    pub(crate) bytes: f64,
    pub(crate) pixels: f64,
}

/// Images per second of one core of an augment worker.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CoreRate {
    pub(crate) images_per_s: f64,
    pub(crate) source: String,
}

/// What `headwater bench pipeline --json` wrote.
#[derive(Debug, Deserialize)]
struct Benched {
    recipe: String,
    threads: f64,
    tiers_images_per_s: f64,
}

/// The rate of one core: the given one, or else a bench's measurement, or else the documentation's
/// rate of the recipe for photographs of that size.
///
/// # Errors
/// A recipe that was never measured; a bench of another recipe.
pub(crate) fn core_rate(
    said: Option<f64>,
    bench: Option<&Path>,
    recipe: &str,
    photos: Photos,
) -> Result<CoreRate> {
    if let Some(images_per_s) = said {
        ensure!(images_per_s > 0.0, "--core-rate is {images_per_s}: give images per second");
        return Ok(CoreRate { images_per_s, source: "--core-rate".to_owned() });
    }
    if let Some(path) = bench {
        return benched(path, recipe).with_context(|| path.display().to_string());
    }
    let known = MEASURED.iter().find(|(name, _)| *name == recipe);
    let Some((_, measured_ms)) = known else {
        bail!(
            "recipe `{recipe}` has no measured rate: run `headwater bench pipeline --threads 1 --json` \
             and give its file as --bench, or images per second of a core as --core-rate"
        );
    };
    // The time of decoding grows with the photograph; the time of its views, a third of all at least, does not.
    let more_decoding_ms = DECODE_MS * (photos.pixels / DECODE_PIXELS - 1.0);
    let ms = (measured_ms + more_decoding_ms).max(measured_ms / 3.0);
    let source = format!("docs/benchmarks/pipeline.md: {measured_ms} ms in a first epoch");
    Ok(CoreRate { images_per_s: 1000.0 / ms, source })
}

fn benched(path: &Path, recipe: &str) -> Result<CoreRate> {
    let text = std::fs::read_to_string(path)?;
    let benched: Benched = serde_json::from_str(&text)
        .context("is not what `headwater bench pipeline --json` writes")?;
    ensure!(
        benched.recipe == recipe,
        "measures recipe `{}`, and the job has `{recipe}`",
        benched.recipe
    );
    let images_per_s = benched.tiers_images_per_s / benched.threads;
    ensure!(images_per_s > 0.0, "measures nothing");
    Ok(CoreRate { images_per_s, source: path.display().to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHOTOS: Photos = Photos { bytes: 115_000.0, pixels: 187_500.0 };

    fn rate(recipe: &str, photos: Photos) -> f64 {
        core_rate(None, None, recipe, photos).unwrap().images_per_s
    }

    #[test]
    fn larger_photographs_take_longer_to_decode_and_no_longer_to_augment() {
        assert!((rate("dinov2", PHOTOS) - 1000.0 / 1.424).abs() < 0.1);
        let twice = rate("dinov2", Photos { pixels: 375_000.0, ..PHOTOS });
        // 1.424 ms and one more decode of 0.713 ms.
        assert!((twice - 1000.0 / 2.137).abs() < 0.1, "{twice}");
    }

    #[test]
    fn no_photograph_is_so_small_that_its_views_take_no_time() {
        for (recipe, measured_ms) in MEASURED {
            let small = rate(recipe, Photos { bytes: 1000.0, pixels: 4096.0 });
            assert!(
                (1000.0 / measured_ms..=3001.0 / measured_ms).contains(&small),
                "{recipe}: {small}"
            );
        }
    }

    #[test]
    fn what_was_never_measured_is_refused_with_how_to_measure_it() {
        let error = core_rate(None, None, "custom", PHOTOS).unwrap_err().to_string();
        assert!(error.contains("`custom`") && error.contains("--bench"), "{error}");
    }

    #[test]
    fn a_bench_counts_by_core_and_only_for_its_recipe() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bench.json");
        let text = r#"{"recipe": "dinov3", "threads": 4, "tiers_images_per_s": 1000.0,
                       "plain_images_per_s": 1100.0, "ratio": 0.91}"#;
        std::fs::write(&path, text).unwrap();
        let rate = core_rate(None, Some(&path), "dinov3", PHOTOS).unwrap();
        assert!((rate.images_per_s - 250.0).abs() < 1e-9);
        let error = core_rate(None, Some(&path), "dinov2", PHOTOS).unwrap_err();
        assert!(format!("{error:#}").contains("measures recipe `dinov3`"), "{error:#}");
    }
}
