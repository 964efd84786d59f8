//! What may be chosen of a preset without writing its tensors out: sizes and crops.

use serde::Serialize;

use super::error::{RecipeError, wrong};
use super::spec::{CropSpec, Recipe, TensorSpec};
use super::validate::{VIEW_SIDE_MAX, VIEWS_MAX};

/// Names of the tensors of the presets that cut views of two sizes.
const GLOBAL: &str = "global_crops";
const LOCAL: &str = "local_crops";

/// Sizes and crops of a preset; what is not given stays as published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PresetOptions {
    /// Side of the images, in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_size: Option<u32>,
    /// Length of the shorter side before the middle is cut out, in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resize_size: Option<u32>,
    /// Least and largest share of the image's area that a random crop takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop_scale: Option<[f64; 2]>,
    /// Side of the global views, in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_crops_size: Option<u32>,
    /// Their share of the image's area.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_crops_scale: Option<[f64; 2]>,
    /// Number of local views.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_crops_number: Option<u32>,
    /// Their side, in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_crops_size: Option<u32>,
    /// Their share of the image's area.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_crops_scale: Option<[f64; 2]>,
}

// === impl PresetOptions ===

impl PresetOptions {
    /// Puts the choices into a preset's recipe.
    ///
    /// # Errors
    /// A choice that the preset does not have, or that is out of its range. Both name the key.
    pub fn apply(&self, preset: &str, recipe: &mut Recipe) -> Result<(), RecipeError> {
        self.check()?;
        self.fit(preset, recipe)?;
        let chosen = self.resize_size.map(|_| "resize_size").unwrap_or("image_size");
        for tensor in &mut recipe.tensors {
            let (side, scale) = match tensor.name.as_str() {
                GLOBAL => (self.global_crops_size, self.global_crops_scale),
                LOCAL => (self.local_crops_size, self.local_crops_scale),
                _ => (self.image_size, self.crop_scale),
            };
            if let Some(side) = side {
                take_side(tensor, side);
            }
            for view in &mut tensor.views {
                match &mut view.crop {
                    CropSpec::RandomResized { scale: published, .. } => {
                        *published = scale.unwrap_or(*published);
                    }
                    CropSpec::CenterAfterResize { resize } => {
                        *resize = self.resize_size.unwrap_or(*resize);
                    }
                    _ => {}
                }
            }
            self.check_resize(chosen, tensor)?;
            if let Some(number) = self.local_crops_number.filter(|_| tensor.name == LOCAL) {
                tensor.views = vec![tensor.views[0].clone(); number as usize];
            }
        }
        Ok(())
    }

    /// Whether the preset has what is chosen.
    fn fit(&self, preset: &str, recipe: &Recipe) -> Result<(), RecipeError> {
        let chosen = serde_json::to_value(self).expect("choices are plain data");
        let has_crops = recipe.tensors.iter().any(|tensor| tensor.name == GLOBAL);
        let views = || recipe.tensors.iter().flat_map(|tensor| &tensor.views);
        for (key, value) in chosen.as_object().into_iter().flatten() {
            let is_there = match key.as_str() {
                "image_size" => !has_crops && views().next().is_some(),
                "resize_size" => {
                    views().any(|view| matches!(view.crop, CropSpec::CenterAfterResize { .. }))
                }
                "crop_scale" => {
                    !has_crops
                        && views().any(|view| matches!(view.crop, CropSpec::RandomResized { .. }))
                }
                _ => has_crops,
            };
            if !is_there {
                let rule = format!("preset `{preset}` does not have it (docs/recipes.md)");
                return Err(wrong(key.clone(), value, rule));
            }
        }
        Ok(())
    }

    /// The middle that is cut out lies within what was resized.
    fn check_resize(&self, key: &str, tensor: &TensorSpec) -> Result<(), RecipeError> {
        let side = tensor.height.max(tensor.width);
        for view in &tensor.views {
            if let CropSpec::CenterAfterResize { resize } = view.crop
                && !(side..=VIEW_SIDE_MAX).contains(&resize)
            {
                let rule = format!(
                    "the shorter side is {resize} before the middle is cut out, and must be from {side}, the side of \
                     the images, to {VIEW_SIDE_MAX}"
                );
                let value = self.resize_size.or(self.image_size).unwrap_or(resize);
                return Err(wrong(key.to_owned(), value, rule));
            }
        }
        Ok(())
    }

    /// Checks what does not depend on the preset.
    ///
    /// # Errors
    /// A choice out of its range; names the key.
    pub fn check(&self) -> Result<(), RecipeError> {
        let scales = [
            ("crop_scale", self.crop_scale),
            ("global_crops_scale", self.global_crops_scale),
            ("local_crops_scale", self.local_crops_scale),
        ];
        for (key, scale) in scales {
            if let Some([least, greatest]) = scale
                && !(least > 0.0 && least <= greatest && greatest <= 1.0)
            {
                let value = format!("[{least}, {greatest}]");
                let rule = "must be [least, greatest], shares of the area above 0 and up to 1";
                return Err(wrong(key.into(), value, rule));
            }
        }
        let sides = [
            ("image_size", self.image_size),
            ("resize_size", self.resize_size),
            ("global_crops_size", self.global_crops_size),
            ("local_crops_size", self.local_crops_size),
        ];
        for (key, side) in sides {
            if let Some(side) = side.filter(|side| !(1..=VIEW_SIDE_MAX).contains(side)) {
                return Err(wrong(key.into(), side, format!("must be from 1 to {VIEW_SIDE_MAX}")));
            }
        }
        let most = VIEWS_MAX as u32 - 4;
        if let Some(number) = self.local_crops_number.filter(|number| !(1..=most).contains(number))
        {
            let rule = format!("must be from 1 to {most}");
            return Err(wrong("local_crops_number".into(), number, rule));
        }
        Ok(())
    }
}

/// The middle is cut from the same share of the shorter side as before, as timm's `crop_pct` does.
fn take_side(tensor: &mut TensorSpec, side: u32) {
    for view in &mut tensor.views {
        if let CropSpec::CenterAfterResize { resize } = &mut view.crop {
            *resize = (u64::from(*resize) * u64::from(side) / u64::from(tensor.height)) as u32;
        }
    }
    (tensor.height, tensor.width) = (side, side);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dtype;

    fn applied(preset: &str, options: PresetOptions) -> Result<Recipe, String> {
        let mut recipe = Recipe::preset(preset, Dtype::U8).expect("a preset");
        options.apply(preset, &mut recipe).map_err(|error| error.to_string())?;
        recipe.validate().map_err(|error| error.to_string())?;
        Ok(recipe)
    }

    #[test]
    fn a_preset_without_choices_is_the_published_one() {
        for (name, _) in crate::recipe::PRESETS {
            let published = Recipe::preset(name, Dtype::F32).expect("a preset");
            let mut recipe = published.clone();
            PresetOptions::default().apply(name, &mut recipe).expect("no choice");
            assert_eq!(recipe.digest(), published.digest(), "{name}");
        }
    }

    #[test]
    fn the_middle_is_cut_from_the_same_share_of_the_shorter_side() {
        // timm's transforms_imagenet_eval: floor(img_size / crop_pct), with 224 / 256 = 0.875.
        for (size, resize) in [(160, 182), (224, 256), (288, 329), (384, 438)] {
            let options = PresetOptions { image_size: Some(size), ..PresetOptions::default() };
            let recipe = applied("imagenet-eval", options).expect("a size");
            let tensor = &recipe.tensors[0];
            assert_eq!((tensor.height, tensor.width), (size, size));
            assert_eq!(tensor.views[0].crop, CropSpec::CenterAfterResize { resize });
            let options = PresetOptions { resize_size: Some(512), ..options };
            let recipe = applied("imagenet-eval", options).expect("two sizes");
            assert_eq!(
                recipe.tensors[0].views[0].crop,
                CropSpec::CenterAfterResize { resize: 512 }
            );
        }
    }

    #[test]
    fn crops_are_chosen_by_the_names_of_the_published_code() {
        let options = PresetOptions {
            global_crops_size: Some(128),
            global_crops_scale: Some([0.4, 1.0]),
            local_crops_number: Some(3),
            local_crops_size: Some(64),
            local_crops_scale: Some([0.1, 0.4]),
            ..PresetOptions::default()
        };
        for name in ["dinov2", "ibot", "swav"] {
            let recipe = applied(name, options).expect("choices");
            let [global, local] = &recipe.tensors[..] else { panic!("{name}") };
            assert_eq!((global.height, global.views.len()), (128, 2), "{name}");
            assert_eq!((local.height, local.views.len()), (64, 3), "{name}");
            let scale = |tensor: &TensorSpec| match tensor.views[0].crop {
                CropSpec::RandomResized { scale, .. } => scale,
                _ => panic!("{name}"),
            };
            assert_eq!((scale(global), scale(local)), ([0.4, 1.0], [0.1, 0.4]), "{name}");
        }
    }

    #[test]
    fn what_a_preset_does_not_have_is_refused_by_name() {
        let none = PresetOptions::default();
        let image = PresetOptions { image_size: Some(160), ..none };
        let resize = PresetOptions { resize_size: Some(160), ..none };
        let scale = PresetOptions { crop_scale: Some([0.5, 1.0]), ..none };
        let local = PresetOptions { local_crops_number: Some(4), ..none };
        for (preset, options, key) in [
            ("dinov2", image, "image_size"),
            ("raw", image, "image_size"),
            ("imagenet-train", resize, "resize_size"),
            ("imagenet-eval", scale, "crop_scale"),
            ("siglip", scale, "crop_scale"),
            ("imagenet-train", local, "local_crops_number"),
        ] {
            let text = applied(preset, options).expect_err(preset);
            assert!(text.contains(&format!("recipe.{key}")), "{text}");
            assert!(text.contains(&format!("preset `{preset}`")), "{text}");
        }
        let nothing = PresetOptions { image_size: Some(0), ..none };
        let text = applied("imagenet-train", nothing).expect_err("no pixel");
        assert_eq!(text, "`recipe.image_size` is 0: must be from 1 to 4096");
        let reversed = PresetOptions { crop_scale: Some([0.9, 0.1]), ..none };
        let text = applied("imagenet-train", reversed).expect_err("reversed");
        let said = "`recipe.crop_scale` is [0.9, 0.1]: must be [least, greatest], shares of the area above 0 and up to 1";
        assert_eq!(text, said);
        for (options, said) in [
            (
                PresetOptions { resize_size: Some(200), ..none },
                "`recipe.resize_size` is 200: the shorter side is 200 ",
            ),
            (
                PresetOptions { image_size: Some(4000), ..none },
                "`recipe.image_size` is 4000: the shorter side is 4571 ",
            ),
        ] {
            let text = applied("imagenet-eval", options).expect_err("a wrong size");
            assert!(text.starts_with(said), "{text}");
        }
    }
}
