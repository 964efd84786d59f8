//! Where views lie, as tensors, beside the pixels of the views: the image has its columns and rows as colours, so that
//! each pixel of a view says where it came from.

use headwater_core::recipe::GeometrySpec;
use headwater_core::{Dtype, Layout, Recipe};
use headwater_render::part::{PartPlan, PartScales, render_part};
use headwater_render::{PartSample, RenderKey, Renderer};
use serde_json::{Value, json};
use std::sync::Arc;

const WIDTH: usize = 250;
const HEIGHT: usize = 180;

/// A picture whose red is the column and green the row of a pixel.
fn picture() -> Vec<u8> {
    let mut file = format!("P6 {WIDTH} {HEIGHT} 255\n").into_bytes();
    for y in 0..HEIGHT {
        (0..WIDTH).for_each(|x| file.extend([x as u8, y as u8, 128]));
    }
    file
}

/// Levels as they are, without an operation that changes them, and the tensors of geometry.
fn shown(mut recipe: Recipe) -> Recipe {
    let flips = |op: &headwater_core::op::OpSpec| ["flip", "vertical_flip"].contains(&op.name());
    for tensor in &mut recipe.tensors {
        tensor.dtype = Dtype::U8;
        tensor.views.iter_mut().for_each(|view| view.ops.retain(flips));
    }
    recipe.image_ops.clear();
    let named = |(number, tensor): (usize, &headwater_core::recipe::TensorSpec)| GeometrySpec {
        name: format!("geometry_{number}"),
        like: tensor.name.clone(),
    };
    recipe.geometry = recipe.tensors.iter().enumerate().map(named).collect();
    recipe.validate().expect("a recipe");
    recipe
}

fn custom(height: u32, width: u32, crops: &[Value]) -> Recipe {
    let ops = json!([{"op": "flip", "p": 0.5}, {"op": "vertical_flip", "p": 0.5}]);
    let views: Vec<Value> = crops.iter().map(|crop| json!({"crop": crop, "ops": ops})).collect();
    serde_json::from_value(json!({
        "tensors": [{"name": "images", "dtype": "u8", "height": height, "width": width, "views": views}],
    }))
    .expect("a recipe")
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|&four| f32::from_le_bytes(four)).collect()
}

/// Renders a sample, and compares each view with what its tensors say. How many views were flipped.
fn compare(recipe: &Recipe, seed: u64) -> usize {
    let layout = Layout::new(recipe, 1);
    let mut slot: Vec<Vec<u8>> = layout
        .part_regions(0, 1)
        .iter()
        .map(|region| vec![0xa5; region.len_bytes as usize])
        .collect();
    let mut regions: Vec<&mut [u8]> = slot.iter_mut().map(Vec::as_mut_slice).collect();
    let plan = PartPlan::new(Arc::new(recipe.clone()));
    let key = RenderKey { seed, epoch: 0, pass: 0, sample: headwater_core::SampleId(3) };
    let file = picture();
    let sample = PartSample::of_image(key, &file, -1);
    let scales = PartScales::of(plan.recipe());
    let mut renderer = Renderer::new().expect("a renderer");
    render_part(&mut renderer, &plan, &[sample], &scales, &mut regions).expect("a sample");
    // A region for each view, tensors in their order.
    let mut at = 0;
    let mut by_name = std::collections::BTreeMap::new();
    for tensor in layout.tensors() {
        let views = tensor.views as usize;
        by_name.insert(tensor.name.as_str(), &slot[at..at + views]);
        at += views;
    }
    let mut flipped = 0;
    for spec in &recipe.geometry {
        let extent = recipe.extent_of(&spec.like);
        let (width, height) = (extent.width as usize, extent.height as usize);
        let size: Vec<i64> = by_name[spec.size_name().as_str()][0]
            .as_chunks::<8>()
            .0
            .iter()
            .map(|&eight| i64::from_le_bytes(eight))
            .collect();
        assert_eq!(size, [HEIGHT as i64, WIDTH as i64]);
        for (view, pixels) in by_name[spec.like.as_str()].iter().enumerate() {
            let map = floats(&by_name[spec.name.as_str()][view]);
            let corners = floats(&by_name[spec.box_name().as_str()][view]);
            let flip = &by_name[spec.flip_name().as_str()][view];
            let place = |x: f32, y: f32| {
                [map[0] * x + map[1] * y + map[2], map[3] * x + map[4] * y + map[5]]
            };
            // The corners of the view are those of its box, exchanged where it is flipped.
            let (start, end) = (place(0.0, 0.0), place(width as f32, height as f32));
            for axis in 0..2 {
                let (least, greatest) = (corners[axis], corners[axis + 2]);
                let ends = [start[axis], end[axis]];
                let expected = if flip[axis] == 1 { [greatest, least] } else { [least, greatest] };
                assert!(
                    ends.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-3),
                    "{spec:?} {view}"
                );
                flipped += usize::from(flip[axis]);
            }
            for (y, x) in
                [(height / 2, width / 2), (height / 3, width / 4), (2 * height / 3, 3 * width / 4)]
            {
                let shown =
                    [0, 1].map(|plane| f32::from(pixels[plane * width * height + y * width + x]));
                let source = place(x as f32 + 0.5, y as f32 + 0.5);
                let inside = source[0] > 4.0
                    && source[0] < WIDTH as f32 - 4.0
                    && source[1] > 4.0
                    && source[1] < HEIGHT as f32 - 4.0;
                // Filters of several pixels and rounding; beyond the image there is no colour.
                let apart = [0, 1].map(|axis| (shown[axis] + 0.5 - source[axis]).abs());
                assert!(
                    !inside || apart.iter().all(|by| *by < 1.3),
                    "{spec:?} view {view} at {x}, {y}: {shown:?} is of {source:?}"
                );
            }
        }
    }
    flipped
}

#[test]
fn the_pixels_of_a_view_are_those_of_the_places_that_its_geometry_names() {
    let random = json!({"kind": "random_resized", "scale": [0.05, 1.0], "ratio": [0.75, 1.33]});
    let padded = json!({"kind": "random", "padding": 20});
    let around = |resize: u32| json!({"kind": "center_after_resize", "resize": resize});
    let recipes = [
        custom(64, 80, &[random, around(100), json!({"kind": "resize"})]),
        custom(64, 80, &[json!({"kind": "random_after_resize", "resize": 90}), around(80)]),
        custom(150, 240, &[padded, json!({"kind": "random"}), json!({"kind": "center"})]),
        // Larger than the image.
        custom(200, 300, &[json!({"kind": "center"})]),
        Recipe::preset("dinov2", Dtype::U8).expect("a preset"),
        Recipe::dinov3("dinov3-gram", &small(), Dtype::U8).expect("a preset"),
    ];
    let mut flipped = 0;
    for recipe in recipes.into_iter().map(shown) {
        flipped += (0..12).map(|seed| compare(&recipe, seed)).sum::<usize>();
    }
    assert!(flipped > 100, "{flipped} flips");
}

/// Views out of crops, whose windows lie in the crops' upper left part.
fn small() -> headwater_core::recipe::Dinov3 {
    headwater_core::recipe::Dinov3 {
        global_crops_size: Some(96),
        local_crops_size: Some(48),
        gram_crops_size: Some(128),
        localcrops_subset_of_globalcrops: Some(true),
        horizontal_flips: Some(true),
        ..Default::default()
    }
}

#[test]
fn views_without_one_place_for_each_pixel_are_refused_by_name() {
    let mut recipe = custom(64, 64, &[json!({"kind": "resize"})]);
    let rotation = json!({"op": "rotation", "p": 1.0, "degrees": [-10.0, 10.0]});
    recipe.tensors[0].views[0].ops = vec![serde_json::from_value(rotation).expect("an operation")];
    recipe.geometry = vec![GeometrySpec { name: "where".into(), like: "images".into() }];
    let said = recipe.validate().expect_err("it turns").to_string();
    assert!(said.contains("fields.where.like") && said.contains("op rotation"), "{said}");
    recipe.tensors[0].views[0].ops.clear();
    recipe.validate().expect("it does not");
    assert_eq!(recipe.without_kernel(), Some("a field of kind geometry"));
    recipe.geometry[0].name = "images".into();
    let said = recipe.validate().expect_err("it is taken").to_string();
    assert!(said.contains("`images`: choose another one"), "{said}");
}
