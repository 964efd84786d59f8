//! Masks, depth and boxes in a recipe: they change no draw, have their places in the layout, and are refused by name.

use headwater_core::draw::{DrawKey, Extent, SampleParams};
use headwater_core::{Dtype, Layout, Recipe, SampleId};
use serde_json::{Value, json};

fn image_view() -> Value {
    json!({
        "crop": {"kind": "random_resized", "scale": [0.2, 1.0], "ratio": [0.75, 1.33]},
        "ops": [{"op": "flip", "p": 0.5}, {"op": "grayscale", "p": 0.5}],
    })
}

/// Two image tensors of 2 and 1 views, and what follows them.
fn written() -> Value {
    let mask = json!({"name": "masks", "field": "png", "like": "images", "dtype": "u8", "height": 8, "width": 9});
    let boxes = json!({"name": "boxes", "field": "json", "like": "images", "boxes_max": 3, "labels_path": "/labels"});
    json!({
        "tensors": [
            {"name": "images", "dtype": "u8", "height": 32, "width": 32, "views": [image_view(), image_view()]},
            {"name": "others", "dtype": "u8", "height": 16, "width": 16, "views": [image_view()]},
        ],
        "aligned": [mask],
        "boxes": [boxes],
    })
}

fn recipe(written: Value) -> Recipe {
    serde_json::from_value(written).expect("a recipe")
}

fn draws(recipe: &Recipe) -> SampleParams {
    let mut drawn = SampleParams::default();
    let key = |stream| DrawKey { seed: 5, epoch: 1, pass: 0, sample: SampleId(77), stream };
    drawn.draw(recipe, Extent { width: 300, height: 200 }, |stream| key(stream).rng());
    drawn
}

#[test]
fn what_follows_views_changes_no_draw_and_is_part_of_the_digest() {
    let with = recipe(written());
    with.validate().expect("a recipe that can be used");
    let mut without = with.clone();
    without.aligned.clear();
    without.boxes.clear();
    assert_eq!(draws(&with), draws(&without));
    assert_ne!(with.digest(), without.digest());
    let text = serde_json::to_string(&without).expect("plain data");
    assert!(!text.contains("aligned") && !text.contains("boxes"), "{text}");
    let again: Recipe =
        serde_json::from_str(&serde_json::to_string(&with).expect("data")).expect("a recipe");
    assert_eq!(again, with);
    assert_eq!(with.extra_fields(), ["png", "json"]);
}

#[test]
fn each_view_that_is_followed_has_its_rows() {
    let layout = Layout::new(&recipe(written()), 5);
    let found: Vec<_> = layout
        .tensors()
        .iter()
        .map(|tensor| (tensor.name.as_str(), tensor.dtype, tensor.shape(5)))
        .collect();
    assert_eq!(
        found,
        [
            ("images", Dtype::U8, vec![10, 3, 32, 32]),
            ("others", Dtype::U8, vec![5, 3, 16, 16]),
            ("masks", Dtype::U8, vec![10, 1, 8, 9]),
            ("boxes", Dtype::F32, vec![10, 3, 4]),
            ("boxes_count", Dtype::I64, vec![10]),
            ("boxes_index", Dtype::I64, vec![10, 3]),
            ("boxes_labels", Dtype::I64, vec![10, 3]),
            ("labels", Dtype::I64, vec![5]),
        ]
    );
}

/// What is said of the recipe with another value at a place.
fn refusal(pointer: &str, value: Value) -> String {
    let mut changed = written();
    let (parent, key) = pointer.rsplit_once('/').expect("a place");
    let parent = changed.pointer_mut(parent).and_then(Value::as_object_mut).expect("an object");
    parent.insert(key.to_owned(), value);
    recipe(changed).validate().expect_err("out of range").to_string()
}

#[test]
fn what_cannot_be_followed_is_refused_by_name() {
    let op = |op: Value| json!([{"crop": {"kind": "resize"}, "ops": [op]}, image_view()]);
    for (pointer, value, said) in [
        (
            "/aligned/0/like",
            json!("image"),
            "tensors.masks.like` is `image`: must be the name of an image tensor",
        ),
        ("/aligned/0/field", json!("png|"), "tensors.masks.field"),
        ("/aligned/0/channels", json!(2), "tensors.masks.channels` is 2"),
        ("/aligned/0/dtype", json!("bf16"), "tensors.masks.dtype` is bf16: must be u8, i64 or f32"),
        ("/aligned/0/interpolation", json!("bilinear"), "must be f32 with interpolation"),
        ("/aligned/0/interpolation", json!("bicubic"), "tensors.masks.interpolation"),
        ("/aligned/0/scale", json!(2.0), "belongs to levels of dtype f32"),
        ("/aligned/0/fill", json!(256), "must be at most 255"),
        ("/aligned/0/height", json!(0), "tensors.masks.height"),
        ("/aligned/0/name", json!("images"), "something else of the name `images`"),
        ("/aligned/0/name", json!("boxes_count"), "something else of the name `boxes_count`"),
        ("/aligned/0/name", json!("a b"), "letters, digits and _ only"),
        ("/boxes/0/boxes_max", json!(0), "fields.boxes.boxes_max` is 0"),
        ("/boxes/0/size_min", json!(0.5), "fields.boxes.size_min` is 0.5: must be 1 or more"),
        ("/boxes/0/path", json!("boxes"), "must be a JSON pointer"),
        ("/boxes/0/like", json!("labels"), "fields.boxes.like"),
        (
            "/tensors/0/views",
            op(json!({"op": "rand_augment"})),
            "has a view with op rand_augment, which masks",
        ),
        (
            "/tensors/0/views",
            op(json!({"op": "rotation", "p": 1.0, "degrees": [0.0, 9.0]})),
            "only views with crop random_resized or resize, and without rotation",
        ),
        (
            "/tensors/0/views",
            json!([{"crop": {"kind": "center_after_resize", "resize": 40}}, image_view()]),
            "must be 32 x 32, the size of `images`",
        ),
    ] {
        let found = refusal(pointer, value.clone());
        assert!(found.contains(said), "{pointer} = {value}: {found}");
    }
}

#[test]
fn boxes_do_not_follow_what_turns_a_view() {
    let mut written = written();
    written["aligned"] = json!([]);
    written["tensors"][0]["views"] = json!([{
        "crop": {"kind": "resize"},
        "ops": [{"op": "perspective", "p": 1.0, "distortion_scale": 0.2}],
    }]);
    let said = recipe(written.clone()).validate().expect_err("turned").to_string();
    assert!(said.contains("has a view with op perspective, which boxes cannot follow"), "{said}");
    written["tensors"][0]["views"] = json!([{
        "crop": {"kind": "random", "padding": 4, "padding_mode": "reflect"},
    }]);
    let mirrored = |written: &serde_json::Value| {
        recipe(written.clone()).validate().expect_err("mirrored").to_string()
    };
    let said = mirrored(&written);
    assert!(said.contains("padding_mode reflect"), "{said}");
    written["boxes"] = json!([]);
    written["geometry"] = json!([{"name": "places", "like": "images"}]);
    let said = mirrored(&written);
    assert!(said.contains("padding_mode reflect, which tensors of geometry"), "{said}");
}
