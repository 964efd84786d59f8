//! Images as sequences of patches: a tensor whose views have any size, and batches of several lengths.

use serde::{Deserialize, Serialize};

use super::error::{RecipeError, wrong};
use super::spec::{CropSpec, Recipe, TensorSpec};
use crate::Dtype;
use crate::draw::ViewParams;
use crate::geometry::Extent;
use crate::sampler::Lengths;

/// Most lengths that batches choose from.
const LENGTHS_MAX: usize = 256;
/// Longest side of a patch, and longest sequence.
const PATCH_MAX: u32 = 256;
const LENGTH_MAX: u32 = 1 << 16;
/// Most pixels of a view.
const PIXELS_MAX: u64 = 1 << 24;
/// Largest divisor of a batch.
const DIVISOR_MAX: u32 = 1 << 16;

/// Which image tensor has sequences of patches, and how long they are.
///
/// A view keeps its aspect ratio, as far as whole patches allow, and has as many patches as a sequence has room for at
/// most. In a batch of `B` samples and length `L`: `NAME`, `dtype[views * B, L, patch_size * patch_size * 3]`, each patch by
/// rows, columns and channels; `NAME_coord`, `i64[views * B, L, 2]`, row and column of each patch; `NAME_valid`,
/// `bool[views * B, L]`. What is behind the last patch is 0.
///
/// The length of a batch is drawn for its step. Samples are as many as fit the tokens of a batch of the first length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SequencesSpec {
    /// Name of the image tensor. Its height is the side of a patch, and its width that of all patches of the first length in a
    /// row.
    pub tensor: String,
    /// Side of a patch, in pixels.
    pub patch_size: u32,
    /// Lengths of sequences, in patches; a batch has one of them.
    pub lengths: Vec<u32>,
    /// What divides the number of samples of a batch over all ranks.
    pub batch_divisor: u32,
}

// === impl SequencesSpec ===

impl SequencesSpec {
    /// Height and width of the tensor with sequences of this length: its elements, if not its shape.
    #[must_use]
    pub fn extent(&self, length: u32) -> [u32; 2] {
        [self.patch_size, self.patch_size.saturating_mul(length)]
    }

    /// Name of the tensor of rows and columns of patches.
    #[must_use]
    pub fn coord_name(&self) -> String {
        format!("{}_coord", self.tensor)
    }

    /// Name of the tensor that tells patches from padding.
    #[must_use]
    pub fn valid_name(&self) -> String {
        format!("{}_valid", self.tensor)
    }

    /// The lengths as the order of samples has them.
    #[must_use]
    pub fn sampled(&self) -> Lengths {
        Lengths { lengths: self.lengths.clone(), divisor: self.batch_divisor }
    }
}

// === impl Recipe ===

impl Recipe {
    /// How a tensor has sequences of patches, if it has.
    #[must_use]
    pub fn sequences_of(&self, tensor: &str) -> Option<&SequencesSpec> {
        self.sequences.as_ref().filter(|spec| spec.tensor == tensor)
    }

    /// Size of a view of a tensor: the tensor's own, or what was drawn for the view.
    #[must_use]
    pub fn view_extent(&self, tensor: &TensorSpec, view: &ViewParams) -> Extent {
        match self.sequences_of(&tensor.name) {
            Some(_) => view.resized,
            None => tensor.extent(),
        }
    }

    /// Most samples of a batch of a bucket on a rank whose batches have `samples` of the first one.
    #[must_use]
    pub fn samples_in_bucket(&self, bucket: u32, samples: u32) -> u32 {
        let Some(spec) = &self.sequences else { return samples };
        let tokens = u64::from(samples) * u64::from(spec.lengths[0]);
        u32::try_from(tokens / u64::from(spec.lengths[bucket as usize])).unwrap_or(u32::MAX)
    }

    pub(super) fn validate_sequences(&self) -> Result<(), RecipeError> {
        let is_sequence = |crop: &CropSpec| crop.is_sequence();
        for (index, tensor) in self.tensors.iter().enumerate() {
            let has = self.sequences_of(&tensor.name).is_some();
            let other = tensor.views.iter().position(|view| is_sequence(&view.crop) != has);
            if let Some(view) = other {
                let rule = match has {
                    true => {
                        "must be sequence or random_resized_sequence in a tensor with `patch_size`"
                    }
                    false => "is for tensors with `patch_size`",
                };
                let key = format!("tensors[{index}].views[{view}].crop.kind");
                return Err(wrong(key, "given", rule));
            }
        }
        if let Some(at) = self.bases.iter().position(|base| is_sequence(&base.view.crop)) {
            let key = format!("bases[{at}].view.crop.kind");
            return Err(wrong(key, "given", "is for tensors with `patch_size`"));
        }
        let Some(spec) = &self.sequences else { return Ok(()) };
        let key = |name: &str| format!("tensors.{}.{name}", spec.tensor);
        let Some(tensor) = self.tensors.iter().find(|tensor| tensor.name == spec.tensor) else {
            let rule = "must belong to an image tensor of the recipe";
            return Err(wrong(key("patch_size"), spec.patch_size, rule));
        };
        if !(1..=PATCH_MAX).contains(&spec.patch_size) {
            return Err(wrong(key("patch_size"), spec.patch_size, "must be from 1 to 256"));
        }
        if !(1..=LENGTHS_MAX).contains(&spec.lengths.len()) {
            let value = format!("a list of {}", spec.lengths.len());
            return Err(wrong(key("sequence_lengths"), value, "give 1 to 256 lengths"));
        }
        for (at, &length) in spec.lengths.iter().enumerate() {
            let pixels = u64::from(length) * u64::from(spec.patch_size).pow(2);
            if !(1..=LENGTH_MAX).contains(&length) || pixels > PIXELS_MAX {
                let rule = "must be from 1 to 65536, with 16777216 pixels at most";
                return Err(wrong(key(&format!("sequence_lengths[{at}]")), length, rule));
            }
        }
        if !(1..=DIVISOR_MAX).contains(&spec.batch_divisor) {
            return Err(wrong(key("batch_divisor"), spec.batch_divisor, "must be from 1 to 65536"));
        }
        if tensor.dtype == Dtype::Mxfp8E4m3 {
            let rule = "has scales of blocks of a row, and patches have no rows: use another dtype";
            return Err(wrong(key("dtype"), tensor.dtype, rule));
        }
        if spec.extent(spec.lengths[0]) != [tensor.height, tensor.width] {
            let rule = "must begin with the length of the tensor's own height and width";
            let value = format!("{:?}", spec.lengths);
            return Err(wrong(key("sequence_lengths"), value, rule));
        }
        let buckets = self.aspect_buckets.first();
        if let Some(other) = buckets {
            let rule = "does not go with `patch_size`: the group of a batch chooses one of both";
            return Err(wrong(format!("tensors.{}.aspect_buckets", other.tensor), "given", rule));
        }
        let followers = self.aligned.iter().map(|spec| (&spec.name, &spec.like));
        let boxes = self.boxes.iter().map(|spec| (&spec.name, &spec.like));
        let geometry = self.geometry.iter().map(|spec| (&spec.name, &spec.like));
        let mut all = followers.chain(boxes).chain(geometry);
        if let Some((name, _)) = all.find(|(_, like)| **like == spec.tensor) {
            let rule = "is a tensor of patches, which nothing follows yet: name another tensor";
            return Err(wrong(format!("{name}.like"), format!("`{}`", spec.tensor), rule));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_have_as_many_samples_as_tokens_allow() {
        let spec = SequencesSpec {
            tensor: "patches".into(),
            patch_size: 16,
            lengths: vec![256, 128, 576, 1024],
            batch_divisor: 8,
        };
        // timm's `calculate_naflex_batch_size` of 16384 tokens.
        assert_eq!(spec.sampled().batches(64), [64, 128, 24, 16]);
        assert_eq!(spec.sampled().batches(4), [0, 8, 0, 0]);
        assert_eq!(spec.sampled().batches(u64::MAX)[1], u64::MAX - 7);
    }
}
