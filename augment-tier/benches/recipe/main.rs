//! Images per second of one core for decode alone and for whole recipes, and the share of each
//! stage, over the JPEG files of a folder of tars.
//!
//! usage: `HEADWATER_BENCH_PHOTOS=/folder cargo bench -p headwater-augment --bench recipe [rounds] [set] [preset]`
//! where the set is one of `plain`, `avx2` and `avx512`, all that the processor has without it; and
//! the preset names the recipe, `dinov2` without it.
//!
//! Each photo's stages are timed on their own, every round; the least time of all rounds counts,
//! so that what else the machine does is left out.

#[path = "../support/photos.rs"]
mod photos;
mod stages;

use headwater_augment::simd::Simd;
use headwater_core::recipe::PRESETS;
use headwater_core::{Dtype, Recipe};

fn main() {
    let Some(photos) = photos::read() else { return };
    let rounds = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(5);
    println!("{} photos, {rounds} rounds", photos.len());
    let wanted = |simd: &&Simd| {
        let named =
            Simd::available().iter().filter(|s| std::env::args().any(|arg| arg == s.name()));
        named.clone().count() == 0 || named.clone().any(|s| s == *simd)
    };
    let named = PRESETS.iter().find(|(name, _)| std::env::args().any(|arg| arg == *name));
    let (name, _) = named.unwrap_or(&PRESETS[0]);
    let recipe = Recipe::preset(name, Dtype::Bf16).expect("a preset");
    for simd in Simd::available().iter().filter(wanted) {
        stages::measure(&photos, &recipe, *simd, rounds);
    }
}
