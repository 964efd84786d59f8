//! Recipes as data: their digests, the DINOv3 options, and what is refused.

use headwater_core::draw::{DrawKey, Extent, Origin, SampleParams};
use headwater_core::op::OpSpec;
use headwater_core::recipe::{CropSpec, Dinov3, PRESETS};
use headwater_core::{Dtype, Recipe, SampleId};
use serde_json::{Value, json};

const PHOTO: Extent = Extent { width: 500, height: 375 };

fn draws(recipe: &Recipe, sample: u64) -> SampleParams {
    let mut drawn = SampleParams::default();
    let key = |stream| DrawKey { seed: 1, epoch: 2, pass: 0, sample: SampleId(sample), stream };
    drawn.draw(recipe, PHOTO, |stream| key(stream).rng());
    drawn
}

fn with(options: &Dinov3) -> Recipe {
    Recipe::dinov3("dinov3", options, Dtype::Bf16).expect("options that fit")
}

/// Sizes and numbers of views.
fn tensors(recipe: &Recipe) -> Vec<(&str, u32, usize)> {
    recipe.tensors.iter().map(|t| (t.name.as_str(), t.height, t.views.len())).collect()
}

#[test]
fn the_digests_of_presets_never_change() {
    let known = [
        ("dinov2", "024f600f79c7bf9a20d81d3d9d15fd90"),
        ("dinov2-paper", "fbd425523468fa5ea4bf5ab16ec60cb0"),
        ("dinov3", "32ba5af3da7ec8e43fc2c27337cda49d"),
        ("dinov3-gram", "9eb06f194563708d4b0ebbbdfbabfe27"),
        // The same recipe as dinov2.
        ("dinov3-vitl", "024f600f79c7bf9a20d81d3d9d15fd90"),
        ("imagenet-train", "f661e5630c9512896df8f394571274a5"),
        ("imagenet-eval", "3dc4fc9335ba3bfa1c8a8dc2530b9119"),
        ("mae", "37d2f560e028ba04783750d3f5514bbf"),
        ("clip-train", "15994ff8c879024c2269ce2652ffb930"),
        ("clip-eval", "f9acef5e3669b3d3c0334490f9a3fb9a"),
        ("siglip", "7f855265c4786e2415beab5b4ab2d521"),
        ("ijepa", "878c0bc6ae72138c652f980b42b7bbfe"),
        ("supervised-timm", "11a7d72c891c1338875fbbd177da1db9"),
        ("torchvision-v2", "4788d87980ecd1df64c12193d1f78097"),
        ("simclr", "5a4367dcc4de3ced0dd2acc84710680f"),
        ("mocov3", "c681532d2593f68c6e773ebfeafe8e6c"),
        // The same recipe as mocov3.
        ("byol", "c681532d2593f68c6e773ebfeafe8e6c"),
        ("ibot", "9157df0401e6996a26626a088d70fa89"),
        ("swav", "fbb2244985bfed2f23f101dba1250c32"),
        ("raw", "574356c706ec32ac4e4bcfac48891db7"),
    ];
    let digest = |name| Recipe::preset(name, Dtype::Bf16).expect("a preset").digest().to_string();
    assert!(PRESETS.iter().map(|(name, _)| *name).eq(known.map(|(name, _)| name)));
    assert_eq!(known.map(|(name, _)| (name, digest(name))), known.map(|(n, d)| (n, d.to_owned())));
}

#[test]
fn a_preset_is_valid_and_survives_json() {
    for (name, _) in PRESETS {
        let recipe = Recipe::preset(name, Dtype::U8).expect("a preset");
        recipe.validate().unwrap_or_else(|error| panic!("{name}: {error}"));
        let text = serde_json::to_string(&recipe).expect("plain data");
        assert_eq!(serde_json::from_str::<Recipe>(&text).expect("a recipe"), recipe);
        assert_eq!(text.contains("bases"), *name == "dinov3-gram", "{text}");
    }
}

#[test]
fn the_presets_of_dinov3_have_the_views_of_its_configurations() {
    let preset = |name| Recipe::preset(name, Dtype::Bf16).expect("a preset");
    let (seven, gram, vitl) = (preset("dinov3"), preset("dinov3-gram"), preset("dinov3-vitl"));
    assert_eq!(tensors(&seven), [("global_crops", 256, 2), ("local_crops", 112, 8)]);
    let with_gram = [("global_crops", 256, 2), ("local_crops", 112, 8), ("gram_crops", 512, 2)];
    assert_eq!(tensors(&gram), with_gram);
    assert_eq!((gram.bases.len(), gram.bases[0].height), (2, 512));
    assert!(gram.tensors[2].views.iter().all(|view| view.ops.is_empty()));
    // But for its flips and sizes a ViT-L trains with the views of DINOv2.
    assert_eq!(vitl, preset("dinov2"));
    let flips = |recipe: &Recipe| {
        let views = recipe.tensors.iter().flat_map(|tensor| &tensor.views);
        views.flat_map(|view| &view.ops).filter(|op| matches!(op, OpSpec::Flip(_))).count()
    };
    assert_eq!((flips(&seven), flips(&gram), flips(&vitl)), (0, 0, 10));
}

#[test]
fn gram_views_change_no_draw_of_the_local_views() {
    let gram = with(&Dinov3 { gram_crops_size: Some(512), ..Dinov3::default() });
    let without = with(&Dinov3::default());
    for sample in 0..20 {
        let (a, b) = (draws(&gram, sample), draws(&without, sample));
        assert_eq!(a.views()[2..10], b.views()[2..10]);
        assert_eq!((a.views()[10].base, a.views()[11].base), (Some(0), Some(1)));
        assert_eq!(a.views()[10].resized, Extent { width: 512, height: 512 });
        assert!(a.views()[10].ops.is_empty());
    }
}

#[test]
fn colours_that_are_shared_are_drawn_once_and_in_no_view() {
    let recipe = with(&Dinov3 { share_color_jitter: Some(true), ..Dinov3::default() });
    assert_eq!(recipe.image_ops.len(), 2);
    let jittered = (0..4000).filter(|&s| !draws(&recipe, s).image_ops().is_empty()).count();
    // Jitter of 0.8 or grayscale of 0.2: 0.84; four deviations are 0.023.
    assert!((jittered as f64 / 4000.0 - 0.84).abs() < 0.023, "{jittered}");
    let ops = recipe.tensors.iter().flat_map(|t| &t.views).flat_map(|view| &view.ops);
    assert!(!ops.clone().any(|op| matches!(op, OpSpec::ColorJitter(_) | OpSpec::Grayscale(_))));
    assert_eq!(ops.count(), 10 + 1);
}

#[test]
fn windows_lie_at_multiples_of_the_patch_all_alike() {
    let options = Dinov3 {
        localcrops_subset_of_globalcrops: Some(true),
        gram_crops_size: Some(512),
        ..Dinov3::default()
    };
    let recipe = with(&options);
    assert_eq!(recipe.bases[0].width, 512);
    let bases: Vec<_> = recipe.tensors[1].views.iter().map(|view| view.crop.base()).collect();
    assert_eq!(bases, [[Some(0); 4], [Some(1); 4]].concat());
    // (256 - 112) / 16 = 9 places each way: 0 to 128, as `randint` leaves its bound out.
    let mut hits = [[0_u32; 9]; 9];
    for sample in 0..2000 {
        for view in &draws(&recipe, sample).views()[2..10] {
            let Origin { left, top } = view.cut.expect("a window");
            assert_eq!((left % 16, top % 16), (0, 0));
            assert_eq!(view.resized, Extent { width: 512, height: 512 });
            hits[top as usize / 16][left as usize / 16] += 1;
        }
    }
    let expected = 16_000.0 / 81.0;
    let chi: f64 =
        hits.as_flattened().iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
    // Chi squared with 80 degrees of freedom exceeds 136 once in 10,000.
    assert!(chi < 136.0, "{chi} of {hits:?}");
}

#[test]
fn an_option_that_does_not_fit_is_refused_by_its_key() {
    let subset = Dinov3 { localcrops_subset_of_globalcrops: Some(true), ..Dinov3::default() };
    let refused = |options: &Dinov3| {
        Recipe::dinov3("dinov3", options, Dtype::U8).expect_err("a wrong option").to_string()
    };
    for (options, message) in [
        (
            Dinov3 { global_crops_size: Some(0), ..Dinov3::default() },
            "dinov3.global_crops_size` is 0",
        ),
        (
            Dinov3 { gram_crops_size: Some(9000), ..Dinov3::default() },
            "dinov3.gram_crops_size` is 9000",
        ),
        (
            Dinov3 { local_crops_number: Some(0), ..Dinov3::default() },
            "dinov3.local_crops_number` is 0",
        ),
        (
            Dinov3 { local_crops_number: Some(7), ..subset.clone() },
            "local_crops_number` is 7: must be even",
        ),
        (
            Dinov3 { local_crops_size: Some(250), ..subset.clone() },
            "local_crops_size` is 250: must be smaller",
        ),
    ] {
        let error = refused(&options);
        assert!(error.contains(message), "{error}");
    }
    let error = Recipe::dinov3("dinov2", &subset, Dtype::U8).expect_err("no options").to_string();
    assert!(error.contains("`recipe.dinov3` is beside preset `dinov2`"), "{error}");
}

/// A small recipe with everything in it, to be made wrong in one place.
fn whole() -> Value {
    json!({
        "mean": [0.4, 0.5, 0.6],
        "image_ops": [{"op": "grayscale", "p": 0.5}],
        "bases": [{"height": 64, "width": 48, "view": {
            "crop": {"kind": "random_resized", "scale": [0.3, 1.0], "ratio": [0.75, 1.3]},
            "ops": [{"op": "flip", "p": 0.5}],
        }}],
        "tensors": [{"name": "crops", "dtype": "u8", "height": 32, "width": 16, "views": [
            {"crop": {"kind": "base", "base": 0}},
            {"crop": {"kind": "window_of_base", "base": 0, "within": 48, "stride": 8}},
            {"crop": {"kind": "center_after_resize", "resize": 32}, "ops": [
                {"op": "color_jitter", "p": 1.0, "brightness": [0.5, 1.5], "contrast": [0.5, 1.5],
                 "saturation": [0.5, 1.5], "hue": [-0.1, 0.1]},
                {"op": "gaussian_blur", "p": 0.5, "sigma": [0.1, 2.0]},
            ]},
        ]}],
    })
}

#[test]
fn any_value_out_of_its_range_is_named_by_its_path() {
    let recipe: Recipe = serde_json::from_value(whole()).expect("a recipe");
    recipe.validate().expect("all values in range");
    let cases = [
        ("/image_ops/0", json!({"op": "flip", "p": 0.5}), "image_ops[0].op` is flip"),
        ("/image_ops/0/p", json!(1.5), "image_ops[0].p` is 1.5"),
        ("/bases/0/height", json!(0), "bases[0].height` is 0"),
        ("/bases/0/view/crop", json!({"kind": "base", "base": 0}), "bases[0].view.crop.base`"),
        ("/bases/0/view/ops/0/p", json!(-1.0), "bases[0].view.ops[0].p` is -1"),
        ("/tensors/0/name", json!("labels"), "tensors[0].name` is labels"),
        ("/tensors/0/name", json!("image_bytes"), "tensors[0].name` is image_bytes"),
        ("/tensors/0/name", json!("a b"), "tensors[0].name` is a b"),
        ("/tensors/0/dtype", json!("bool"), "tensors[0].dtype` is bool"),
        ("/tensors/0/width", json!(5000), "tensors[0].width` is 5000"),
        ("/tensors/0/views", json!([]), "tensors[0].views` is empty"),
        ("/tensors/0/views/0/crop/base", json!(1), "tensors[0].views[0].crop.base` is 1"),
        ("/tensors/0/views/1/crop/within", json!(49), "tensors[0].views[1].crop.within` is 49"),
        ("/tensors/0/views/1/crop/stride", json!(0), "tensors[0].views[1].crop.stride` is 0"),
        ("/tensors/0/views/1/crop/stride", json!(17), "tensors[0].views[1].crop.stride` is 17"),
        ("/tensors/0/views/2/crop/resize", json!(31), "tensors[0].views[2].crop.resize` is 31"),
        ("/mean", json!([0.4, 123.7, 0.4]), "mean[1]` is 123.7: must be a share of 255"),
        ("/tensors/0/views/2/ops/0/hue", json!([-0.6, 0.1]), "ops[0].hue` is [-0.6, 0.1]"),
        ("/tensors/0/views/2/ops/1/sigma", json!([2.0, 0.1]), "ops[1].sigma` is [2, 0.1]"),
    ];
    for (path, value, message) in cases {
        let mut wrong = whole();
        *wrong.pointer_mut(path).expect("a path") = value;
        let recipe: Recipe = serde_json::from_value(wrong).expect("of the right types");
        let error = recipe.validate().expect_err(path).to_string();
        assert!(error.contains(message), "{path}: {error}");
    }
    let mut unused = recipe;
    unused.tensors[0].views.truncate(0);
    let crop = CropSpec::RandomResized { scale: [0.3, 1.0], ratio: [0.75, 1.3] };
    unused.tensors[0].views.push(headwater_core::recipe::ViewSpec { crop, ops: Vec::new() });
    let error = unused.validate().expect_err("a base for nothing").to_string();
    assert!(error.contains("bases[0]` is not used"), "{error}");
}

#[test]
fn keys_that_are_not_known_are_refused() {
    for path in ["", "/image_ops/0", "/bases/0", "/bases/0/view", "/tensors/0/views/1/crop"] {
        let mut wrong = whole();
        let table = wrong.pointer_mut(path).and_then(Value::as_object_mut).expect("a table");
        table.insert("extra".into(), json!(1));
        let error = serde_json::from_value::<Recipe>(wrong).expect_err(path).to_string();
        assert!(error.contains("extra"), "{path}: {error}");
    }
}
