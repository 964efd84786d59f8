//! Recipes that do one thing each, so that what a GPU does otherwise can be named.

use headwater_core::op::{ColorJitter, Flip, GaussianBlur, Grayscale, OpSpec};
use headwater_core::recipe::{BaseSpec, CropSpec, ResizePasses, TensorSpec, ViewSpec};
use headwater_core::{Dtype, Recipe};

/// A recipe of one step, and the step's name.
pub type Step = (&'static str, Recipe);

/// Side of the proof's views, in pixels; no whole number of blocks of MXFP8.
const SIDE: u32 = 40;
/// Side of a view that no block holds in shared memory.
const LARGE_SIDE: u32 = 288;

/// Each operation by itself, on a view of `side` x `side` in `dtype`, done to every sample.
///
/// # Panics
/// Never: the recipes are fixed.
#[must_use]
pub fn operations(side: u32, dtype: Dtype) -> Vec<Step> {
    let p = 1.0;
    let jitter = |brightness: f64, contrast: f64, saturation: f64, hue: f64| {
        let about_one = |by: f64| [1.0 - by, 1.0 + by];
        OpSpec::ColorJitter(ColorJitter {
            p,
            brightness: about_one(brightness),
            contrast: about_one(contrast),
            saturation: about_one(saturation),
            hue: [-hue, hue],
        })
    };
    let mut cases = vec![
        ("crop and resize", vec![]),
        ("hue", vec![jitter(0.0, 0.0, 0.0, 0.5)]),
        ("brightness", vec![jitter(0.4, 0.0, 0.0, 0.0)]),
        ("contrast", vec![jitter(0.0, 0.4, 0.0, 0.0)]),
        ("saturation", vec![jitter(0.0, 0.0, 0.4, 0.0)]),
    ];
    let examples = OpSpec::examples().into_iter().filter(OpSpec::has_kernel);
    cases.extend(examples.map(|op| (op.name(), vec![op])));
    // The resize does one that comes first. The second of two it cannot do.
    cases.push(("two flips", vec![Flip { p }.into(), Flip { p }.into()]));
    cases.into_iter().map(|(name, ops)| (name, one_view(side, dtype, ops))).collect()
}

/// Everything that kernels do: each operation, each cast, and each way to the image's pixels.
pub(super) fn all() -> Vec<Step> {
    let mut steps = operations(SIDE, Dtype::U8);
    let casts = [
        ("cast to bf16", Dtype::Bf16),
        ("cast to f16", Dtype::F16),
        ("cast to f32", Dtype::F32),
        ("cast to fp8_e4m3", Dtype::Fp8E4m3),
        ("cast to mxfp8_e4m3", Dtype::Mxfp8E4m3),
    ];
    steps.extend(casts.map(|(name, dtype)| (name, one_view(SIDE, dtype, vec![]))));
    steps.push(("horizontal pass first", flat_view(ResizePasses::HorizontalFirst)));
    steps.push(("vertical pass first", flat_view(ResizePasses::Pillow13)));
    let plain = || one_view(SIDE, Dtype::U8, vec![]);
    let image_ops = vec![OpSpec::Grayscale(Grayscale { p: 1.0 })];
    steps.push(("operations on the image", Recipe { image_ops, ..plain() }));
    steps.push(("window of a base", window_of_a_base(plain())));
    let blur = vec![OpSpec::GaussianBlur(GaussianBlur { p: 1.0, sigma: [1.0, 1.0] })];
    steps.push(("a view beyond shared memory", one_view(LARGE_SIDE, Dtype::U8, blur)));
    steps
}

fn one_view(side: u32, dtype: Dtype, ops: Vec<OpSpec>) -> Recipe {
    let crop = CropSpec::RandomResized { scale: [0.08, 1.0], ratio: [3.0 / 4.0, 4.0 / 3.0] };
    let views = vec![ViewSpec { crop, ops }];
    let (name, height, width) = ("images".into(), side, side);
    let base = Recipe::preset("imagenet-eval", dtype).expect("a preset");
    Recipe { tensors: vec![TensorSpec { name, dtype, height, width, views }], ..base }
}

/// A view for which the height loses far more pixels than the width.
fn flat_view(resize_passes: ResizePasses) -> Recipe {
    let mut recipe = Recipe { resize_passes, ..one_view(SIDE, Dtype::U8, vec![]) };
    let tensor = &mut recipe.tensors[0];
    tensor.height = SIDE / 4;
    tensor.views[0].crop = CropSpec::RandomResized { scale: [0.3, 0.5], ratio: [0.8, 1.0] };
    recipe
}

fn window_of_a_base(mut recipe: Recipe) -> Recipe {
    let (height, width) = (2 * SIDE, 2 * SIDE);
    let tensor = &mut recipe.tensors[0];
    let window = CropSpec::WindowOfBase { base: 0, within: 2 * SIDE, stride: 4 };
    let crop = std::mem::replace(&mut tensor.views[0].crop, window);
    recipe.bases = vec![BaseSpec { height, width, view: ViewSpec { crop, ops: vec![] } }];
    recipe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_has_a_recipe_that_is_valid_and_a_name_of_its_own() {
        let steps = all();
        for (number, (name, recipe)) in steps.iter().enumerate() {
            recipe.validate().unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(steps[..number].iter().all(|(other, _)| other != name), "{name}");
        }
    }
}
