//! An entry of `[[recipe.tensors]]`: an image tensor, or a tensor of another field that follows one.

use headwater_core::recipe::{
    AlignedSpec, BucketsSpec, Interpolation, SequencesSpec, TensorSpec, ViewSpec,
};
use headwater_core::{Dtype, Recipe};
use serde::{Deserialize, Serialize};

use crate::ConfigError;

/// As timm has it.
const BATCH_DIVISOR_DEFAULT: u32 = 8;

/// A tensor as it is written. With `field` and `like` it is made of that field, and its views are those of the tensor
/// `like`; without them it has `views` of the image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorEntry {
    /// Its name.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Rows of one view, in pixels. Of a tensor with `like` those of that tensor, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// Columns of one view, in pixels, as `height`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// Sizes in place of `height` and `width`, each a height and a width: the group of a batch chooses one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aspect_buckets: Option<Vec<[u32; 2]>>,
    /// Side of a patch, in place of `height` and `width`: views are sequences of patches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch_size: Option<u32>,
    /// Lengths of sequences, in patches: each batch has one of them, drawn for its step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence_lengths: Option<Vec<u32>>,
    /// What divides the samples of a batch of sequences over all ranks. Default: 8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_divisor: Option<u32>,
    /// The views of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub views: Option<Vec<ViewSpec>>,
    /// The sample's field that it is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The image tensor whose views it follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    /// 1: levels; 3: colours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<u32>,
    /// The filter of its resize; without it `nearest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interpolation: Option<Interpolation>,
    /// What levels of dtype `f32` are multiplied by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f32>,
    /// What is added then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<f32>,
    /// The level outside the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill: Option<u16>,
}

// === impl TensorEntry ===

impl From<TensorSpec> for TensorEntry {
    fn from(spec: TensorSpec) -> Self {
        let TensorSpec { name, dtype, height, width, views } = spec;
        Self {
            name,
            dtype,
            height: Some(height),
            width: Some(width),
            aspect_buckets: None,
            patch_size: None,
            sequence_lengths: None,
            batch_divisor: None,
            views: Some(views),
            field: None,
            like: None,
            channels: None,
            interpolation: None,
            scale: None,
            offset: None,
            fill: None,
        }
    }
}

impl TensorEntry {
    /// Whether it is made of the image.
    pub(crate) fn is_image(&self) -> bool {
        self.field.is_none() && self.like.is_none()
    }

    /// The tensor of the image.
    pub(crate) fn image(&self) -> Result<TensorSpec, ConfigError> {
        let Self { name, dtype, height, width, views, .. } = self;
        let only = [
            ("channels", self.channels.is_some()),
            ("interpolation", self.interpolation.is_some()),
            ("scale", self.scale.is_some()),
            ("offset", self.offset.is_some()),
            ("fill", self.fill.is_some()),
        ];
        if let Some((key, _)) = only.into_iter().find(|(_, is_given)| *is_given) {
            return Err(
                self.fault(&format!("has `{key}`, which is for tensors with `field` and `like`"))
            );
        }
        let missing = |key: &str| self.fault(&format!("has no `{key}`"));
        let sequences = self.sequence()?;
        let first = match &self.aspect_buckets {
            _ if sequences.is_some() => {
                sequences.map(|spec| spec.extent(spec.lengths.first().copied().unwrap_or(1)))
            }
            Some(_) if height.or(*width).is_some() => {
                return Err(
                    self.fault("has `height` or `width` beside `aspect_buckets`: leave them out")
                );
            }
            Some(sizes) => {
                let none = || self.fault("has `aspect_buckets` without a size");
                Some(*sizes.first().ok_or_else(none)?)
            }
            None => None,
        };
        let (height, width) = match first {
            Some([height, width]) => (Some(height), Some(width)),
            None => (*height, *width),
        };
        Ok(TensorSpec {
            name: name.clone(),
            dtype: *dtype,
            height: height.ok_or_else(|| missing("height"))?,
            width: width.ok_or_else(|| missing("width"))?,
            views: views.clone().ok_or_else(|| missing("views"))?,
        })
    }

    /// The tensor of patches among several.
    pub(crate) fn sequences(entries: &[Self]) -> Result<Option<SequencesSpec>, ConfigError> {
        let mut found = None;
        for entry in entries {
            if let Some(spec) = entry.sequence()? {
                if found.is_some() {
                    return Err(entry.fault("is the second one with `patch_size`: give one"));
                }
                found = Some(spec);
            }
        }
        Ok(found)
    }

    /// How it has sequences of patches, if it has.
    fn sequence(&self) -> Result<Option<SequencesSpec>, ConfigError> {
        let both = (self.patch_size, &self.sequence_lengths);
        let (Some(patch_size), Some(lengths)) = both else {
            let given = self.patch_size.is_some() || self.sequence_lengths.is_some();
            if given || self.batch_divisor.is_some() {
                return Err(self.fault(
                    "has some of `patch_size`, `sequence_lengths` and `batch_divisor`: give the first two, or none",
                ));
            }
            return Ok(None);
        };
        let beside = [
            ("height", self.height.is_some()),
            ("width", self.width.is_some()),
            ("aspect_buckets", self.aspect_buckets.is_some()),
            ("like", self.like.is_some()),
        ];
        if let Some((key, _)) = beside.into_iter().find(|(_, given)| *given) {
            return Err(
                self.fault(&format!("has `{key}` beside `patch_size`: leave one of them out"))
            );
        }
        Ok(Some(SequencesSpec {
            tensor: self.name.clone(),
            patch_size,
            lengths: lengths.clone(),
            batch_divisor: self.batch_divisor.unwrap_or(BATCH_DIVISOR_DEFAULT),
        }))
    }

    /// Its sizes, where it has several.
    pub(crate) fn buckets(&self) -> Option<BucketsSpec> {
        let sizes = self.aspect_buckets.clone()?;
        Some(BucketsSpec { tensor: self.name.clone(), sizes })
    }

    /// The tensor of another field, whose views are those of a tensor of `recipe`.
    pub(crate) fn aligned(&self, recipe: &Recipe) -> Result<AlignedSpec, ConfigError> {
        let both = (self.field.clone(), self.like.clone());
        let (Some(field), Some(like)) = both else {
            return Err(
                self.fault("has one of `field` and `like`: give both, or `views` of the image")
            );
        };
        if self.views.is_some() {
            return Err(self
                .fault("has `views` beside `like`: its views are that tensor's, leave them out"));
        }
        if self.aspect_buckets.is_some() {
            return Err(self.fault(
                "has `aspect_buckets` beside `like`: it has the sizes of that tensor, leave them out",
            ));
        }
        let followed = recipe.tensors.iter().find(|tensor| tensor.name == like);
        // Where there is no such tensor, the check of the recipe says so.
        let [height, width] = followed.map_or([1; 2], |tensor| [tensor.height, tensor.width]);
        Ok(AlignedSpec {
            name: self.name.clone(),
            field,
            like,
            channels: self.channels.unwrap_or(1),
            dtype: self.dtype,
            height: self.height.unwrap_or(height),
            width: self.width.unwrap_or(width),
            interpolation: self.interpolation.unwrap_or(Interpolation::Nearest),
            scale: self.scale.unwrap_or(1.0),
            offset: self.offset.unwrap_or(0.0),
            fill: self.fill.unwrap_or(0),
        })
    }

    fn fault(&self, what: &str) -> ConfigError {
        ConfigError::Place(format!("tensor `{}` of recipe.tensors {what}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::recipe::RecipeConfig;

    /// The recipe of image tensors and those that follow them, or what is said of them.
    fn recipe(tensors: Value) -> Result<headwater_core::Recipe, String> {
        let section = json!({"preset": "custom", "tensors": tensors});
        let config: RecipeConfig = serde_json::from_value(section).expect("a section");
        config.recipe().map_err(|error| error.to_string())
    }

    fn images(keys: Value) -> Value {
        let views = json!([{"crop": {"kind": "resize"}}]);
        let mut tensor = json!({"name": "images", "dtype": "u8", "views": views});
        tensor.as_object_mut().expect("a table").extend(keys.as_object().expect("a table").clone());
        tensor
    }

    #[test]
    fn sizes_stand_in_place_of_height_and_width_and_masks_follow_them() {
        let sizes = json!({"aspect_buckets": [[8, 16], [16, 8]]});
        let mask = json!({"name": "mask", "field": "png", "like": "images", "dtype": "u8"});
        let several = recipe(json!([images(sizes.clone()), mask])).expect("a recipe");
        for (bucket, (height, width)) in [(0, (8, 16)), (1, (16, 8))] {
            let one = images(json!({"height": height, "width": width}));
            assert_eq!(Ok(several.in_bucket(bucket)), recipe(json!([one, mask])));
        }
        let refused = |tensors: Value| recipe(tensors).expect_err("it is wrong");
        let said = refused(json!([images(json!({"aspect_buckets": [[8, 8]], "width": 8}))]));
        assert!(
            said.contains("tensor `images` of recipe.tensors has `height` or `width`"),
            "{said}"
        );
        let said = refused(json!([images(json!({"aspect_buckets": []}))]));
        assert!(said.contains("has `aspect_buckets` without a size"), "{said}");
        let mut own = mask.clone();
        own["aspect_buckets"] = json!([[8, 8]]);
        let said = refused(json!([images(sizes.clone()), own]));
        assert!(said.contains("tensor `mask`") && said.contains("beside `like`"), "{said}");
        let mut own = mask;
        own["height"] = 4.into();
        let said = refused(json!([images(sizes), own]));
        assert!(said.contains("`recipe.tensors.mask.height` is 4: must be left out"), "{said}");
    }
}
