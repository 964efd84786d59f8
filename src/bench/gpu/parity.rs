//! The GPU's bytes beside the processor's: whole recipes in each dtype, and operations one by one.

use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use headwater_core::recipe::{PRESETS, TensorSpec};
use headwater_core::{Dtype, Recipe, error_chain, pluralize};
use headwater_render::backend::Backend as _;
use headwater_render::part::{PartPlan, SampleRows};
use headwater_render::{RenderError, Rendered};

use super::rows::{PartInMemory, render};
use super::{Gpu, Pass, operations};

const DTYPES: [Dtype; 6] =
    [Dtype::Bf16, Dtype::F16, Dtype::F32, Dtype::U8, Dtype::Fp8E4m3, Dtype::Mxfp8E4m3];

fn failed(error: &anyhow::Error) -> String {
    format!("FAILED: {}", error_chain(error.as_ref()))
}

// === impl Gpu ===

impl Gpu {
    /// Renders the first `images` images on both by every recipe that has kernels for all it does; `said`
    /// gets a line for each group, and for each recipe that is left to the processor. One that differs keeps no
    /// other from being compared: which ones do says where to look.
    ///
    /// # Errors
    /// A byte differs, or the GPU has left samples to the processor.
    pub(crate) fn compare(&self, images: usize, mut said: impl FnMut(String)) -> Result<()> {
        let mut failures = Vec::new();
        for (name, _) in PRESETS {
            let (mut views, mut direct, before) = (0, 0, failures.len());
            for dtype in DTYPES {
                let recipe = Recipe::preset(name, dtype)?;
                if let Some(operation) = recipe.without_kernel() {
                    said(format!("{name}: left to the processor, GPUs have no `{operation}`"));
                    break;
                }
                if !recipe.tensors.is_empty() {
                    let what = format!("{name} in {dtype}");
                    match self.compare_by(&recipe, images, &what) {
                        Ok(compared) => views += compared,
                        Err(error) => failures.push(error),
                    }
                    match self.compare_parts(&recipe, images, &what) {
                        Ok(samples) => direct += samples,
                        Err(error) => failures.push(error),
                    }
                }
            }
            failures[before..].iter().for_each(|error| said(failed(error)));
            if views > 0 && failures.len() == before {
                let dtypes = DTYPES.len();
                said(format!(
                    "{name}: {} in {dtypes} types, no byte differs; {} written to parts by the GPU, no checksum \
                     differs",
                    pluralize(views, "view"),
                    pluralize(direct as usize, "sample")
                ));
            }
        }
        for (name, recipe) in operations() {
            match self.compare_by(&recipe, images, name) {
                Ok(views) => {
                    said(format!("{name} alone: {}, no byte differs", pluralize(views, "view")))
                }
                Err(error) => {
                    said(failed(&error));
                    failures.push(error);
                }
            }
        }
        for pass in Pass::ALL {
            match self.compare_decoding(pass, images) {
                Ok((decoded, images)) => said(format!(
                    "{decoded} of {} decoded by kernels, {}, no byte differs",
                    pluralize(images, "image"),
                    pass.name()
                )),
                Err(error) => {
                    said(failed(&error));
                    failures.push(error);
                }
            }
        }
        let failed = failures.len();
        match failures.into_iter().next() {
            Some(first) => Err(first.context(format!("{failed} comparisons failed"))),
            None => Ok(()),
        }
    }

    fn compare_by(&self, recipe: &Recipe, images: usize, what: &str) -> Result<usize> {
        let before = self.cuda.counts();
        let (mut cuda, mut cpu) = (self.cuda.renderer()?, self.cpu.renderer()?);
        let (mut samples, mut views) = (0, 0);
        let images = &self.images[..images.min(self.images.len())];
        for (part, images) in images.chunks(self.part_samples).enumerate() {
            let first = part * self.part_samples;
            let fresh = || vec![SampleRows::new(recipe, 0); images.len()];
            let (mut expected, mut found) = (fresh(), fresh());
            let encoded = || images.iter().map(Vec::as_slice);
            let ends = render(&mut *cpu, recipe, encoded(), first, &mut expected);
            let found_ends = render(&mut *cuda, recipe, encoded(), first, &mut found);
            for (at, (expected, found)) in expected.iter().zip(&found).enumerate() {
                if differs(&ends[at], &found_ends[at]) {
                    bail!("{what}, image {}: only one of GPU and processor refuses it", first + at);
                }
                compare_rows(expected, found, &format!("{what}, image {}", first + at))?;
                samples += u64::from(ends[at].is_ok());
                views += expected.rows.len();
            }
        }
        self.check_counts(before, samples, what)?;
        Ok(views)
    }

    /// Renders a part on both to memory as workers have it, where the GPU may write rows and sum them by itself;
    /// how many samples it has written so.
    fn compare_parts(&self, recipe: &Recipe, images: usize, what: &str) -> Result<u64> {
        let before = self.cuda.counts();
        let images: Vec<&[u8]> =
            self.part().into_iter().map(|(_, image)| image).take(images).collect();
        let count = images.len();
        let plan = PartPlan::new(Arc::new(recipe.clone()));
        let mut sums = Vec::new();
        for mut renderer in [self.cpu.renderer()?, self.cuda.renderer()?] {
            let mut part = PartInMemory::new(&plan, count)?;
            let encoded = images.iter().map(|image| (*image, &[][..]));
            let rendered = part.render(&mut *renderer, encoded, 0);
            ensure!(rendered == count as u64, "{what}: {rendered} of {count} images were rendered");
            sums.extend(part.checksums());
        }
        let [_, expected, said, found] = &sums[..] else { unreachable!("two of each") };
        let differ = |sums: &[u64]| sums.iter().zip(expected).filter(|(a, b)| a != b).count();
        ensure!(differ(found) == 0, "{what}: {} of {count} rows of a part differ", differ(found));
        ensure!(
            differ(said) == 0,
            "{what}: the GPU's checksums of {} of {count} rows are wrong",
            differ(said)
        );
        self.check_counts(before, count as u64, what)?;
        let written = self.cuda.counts().written - before.written;
        let has_more_behind =
            |tensor: &TensorSpec| matches!(tensor.dtype, Dtype::Fp8E4m3 | Dtype::Mxfp8E4m3);
        ensure!(
            written == count as u64 || recipe.tensors.iter().any(has_more_behind),
            "{what}: only {written} of {count} samples were written directly by the GPU, because the driver does not pin \
             the worker's memory (cuMemHostRegister)"
        );
        Ok(written)
    }

    /// Checks that this number of further samples was rendered, all of them by kernels.
    pub(super) fn check_counts(
        &self,
        before: headwater_render_cuda::Counts,
        samples: u64,
        what: &str,
    ) -> Result<()> {
        let now = self.cuda.counts();
        let by_kernels = now.on_device - before.on_device;
        let failures = now.failures - before.failures;
        ensure!(
            by_kernels == samples && failures == 0,
            "{what}: of {samples} samples the GPU has rendered {by_kernels}, and {failures} streams have \
             failed: the processor has done the rest, which shows nothing of the GPU; the log says \
             why, and --images or augment.cuda_memory_bytes may be too large or too small"
        );
        Ok(())
    }
}

pub(super) fn differs(
    a: &Result<Rendered, RenderError>,
    b: &Result<Rendered, RenderError>,
) -> bool {
    a.as_ref().ok() != b.as_ref().ok()
}

pub(super) fn compare_rows(expected: &SampleRows, found: &SampleRows, what: &str) -> Result<()> {
    let pairs = expected.rows.iter().zip(&found.rows);
    let scales = expected.scales.iter().zip(&found.scales);
    for (view, (expected, found)) in pairs.enumerate().chain(scales.enumerate()) {
        let differ = expected.iter().zip(found).filter(|(a, b)| a != b).count();
        ensure!(
            differ == 0,
            "{what}, view {view}: {differ} of {} bytes differ between GPU and processor",
            expected.len()
        );
    }
    ensure!(expected.amaxes == found.amaxes, "{what}: the amaxes differ");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_of_one_view_is_named() {
        let recipe = Recipe::preset("imagenet-eval", Dtype::Mxfp8E4m3).unwrap();
        let expected = SampleRows::new(&recipe, 0);
        compare_rows(&expected, &expected.clone(), "same").unwrap();
        for part in 0..3 {
            let mut found = expected.clone();
            match part {
                0 => found.rows[0][77] = 1,
                1 => found.scales[0][5] = 1,
                _ => found.amaxes[0] = 1,
            }
            let error = compare_rows(&expected, &found, "image 3").unwrap_err().to_string();
            assert!(error.starts_with("image 3") && error.contains("differ"), "{error}");
        }
    }
}
