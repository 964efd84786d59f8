//! The samples of the fixtures `views` and `dinov3`.

use headwater_core::draw::Extent;
use headwater_core::recipe::Dinov3;
use headwater_core::{Dtype, Recipe, SampleId};
use headwater_render::RenderKey;

use super::draws::Case;

/// Images of `tests/fixtures/views`, and their sizes.
const ASTRONAUT: (&str, Extent) = ("astronaut", Extent { width: 240, height: 170 });
const COFFEE: (&str, Extent) = ("coffee", Extent { width: 131, height: 197 });
const CHELSEA: (&str, Extent) = ("chelsea", Extent { width: 40, height: 23 });

fn case(image: (&'static str, Extent), number: u64, recipe: Recipe) -> Case {
    let sample = SampleId::new(2, 1000 + number);
    let key = RenderKey { seed: 2026, epoch: 3, pass: 1, sample };
    Case { image: image.0.to_owned(), extent: image.1, recipe, key }
}

/// The `dinov2` recipe with smaller views, in uint8; local ones have 3/7 of the side of the
/// global ones, as 96 of 224.
fn dinov2() -> Vec<Case> {
    let recipe = |global_side: u32| {
        let mut recipe = Recipe::preset("dinov2", Dtype::U8).expect("a preset");
        for (tensor, side) in recipe.tensors.iter_mut().zip([global_side, global_side * 3 / 7]) {
            (tensor.height, tensor.width) = (side, side);
        }
        recipe
    };
    let images = [(ASTRONAUT, 112), (COFFEE, 98), (CHELSEA, 56)];
    (0..).zip(images).map(|(number, (image, side))| case(image, number, recipe(side))).collect()
}

/// The options of `dinov3`: local views out of global ones; Gram views with jitter of the whole
/// image; all of it together. Samples are numbered so that gates open which seldom do.
fn dinov3() -> Vec<Case> {
    let recipe =
        |options: Dinov3| Recipe::dinov3("dinov3", &options, Dtype::U8).expect("options that fit");
    let subset = Dinov3 {
        global_crops_size: Some(96),
        local_crops_size: Some(48),
        local_crops_number: Some(4),
        localcrops_subset_of_globalcrops: Some(true),
        patch_size: Some(8),
        horizontal_flips: Some(true),
        ..Dinov3::default()
    };
    let gram = Dinov3 {
        global_crops_size: Some(64),
        local_crops_size: Some(40),
        local_crops_number: Some(2),
        gram_crops_size: Some(120),
        share_color_jitter: Some(true),
        horizontal_flips: Some(true),
        ..Dinov3::default()
    };
    let both = Dinov3 {
        global_crops_size: Some(48),
        local_crops_size: Some(24),
        gram_crops_size: Some(80),
        share_color_jitter: Some(true),
        horizontal_flips: Some(false),
        ..subset.clone()
    };
    vec![
        case(ASTRONAUT, 3, recipe(subset)),
        case(COFFEE, 3, recipe(gram)),
        case(CHELSEA, 10, recipe(both)),
    ]
}

/// Folders of the fixtures with their samples.
pub(crate) fn folders() -> [(&'static str, Vec<Case>); 2] {
    [("views", dinov2()), ("dinov3", dinov3())]
}
