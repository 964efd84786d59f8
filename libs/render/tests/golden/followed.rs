//! What is certified of masks, depth and boxes: the photographs of the presets' certificates with synthetic second
//! images and boxes of their size.

use bytes::Bytes;
use headwater_core::Recipe;
use headwater_core::draw::Extent;
use serde_json::{Value, json};

/// A recipe with every way to cut a view that can be followed, and with what follows it.
pub(crate) fn recipe() -> Recipe {
    let written = json!({
        "resize_passes": "pillow-13",
        "tensors": images(),
        "aligned": aligned(),
        "boxes": [
            boxes_of("boxes", "images"),
            strict(),
            boxes_of("after_boxes", "after"),
            boxes_of("eval_boxes", "eval"),
            boxes_of("whole_boxes", "whole"),
            boxes_of("padded_boxes", "padded"),
        ],
    });
    let recipe: Recipe = serde_json::from_value(written).expect("a recipe");
    recipe.validate().expect("a recipe that can be used");
    recipe
}

fn images() -> Value {
    let random = json!({"kind": "random_resized", "scale": [0.08, 1.0], "ratio": [0.75, 1.3333]});
    let flip = json!({"op": "flip", "p": 0.5});
    let down = json!({"op": "vertical_flip", "p": 0.5});
    let jitter = json!({"op": "color_jitter", "p": 0.8, "brightness": [0.6, 1.4],
        "contrast": [0.6, 1.4], "saturation": [0.6, 1.4], "hue": [-0.1, 0.1]});
    let tensor = |name: &str, height: u32, width: u32, views: Value| json!({"name": name, "dtype": "u8", "height": height, "width": width, "views": views});
    let view = json!({"crop": random, "ops": [flip, down, jitter]});
    let turned = json!({"crop": random, "ops": [
        {"op": "rotation", "p": 0.6, "degrees": [-90.0, 90.0], "interpolation": "bilinear"}, flip, down,
        {"op": "affine", "p": 0.6, "degrees": [-20.0, 20.0], "translate": [0.1, 0.1],
            "scale": [0.8, 1.2], "shear": [[-5.0, 5.0], [0.0, 0.0]]},
        {"op": "perspective", "p": 0.6, "distortion_scale": 0.4},
        {"op": "affine", "p": 0.4, "degrees": [0.0, 0.0], "scale": [0.7, 1.4]}]});
    let after =
        json!({"crop": {"kind": "random_after_resize", "resize": 100}, "ops": [flip, down]});
    let eval = json!({"crop": {"kind": "center_after_resize", "resize": 96}});
    let padded = json!({"crop": {"kind": "random", "padding": 48}, "ops": [flip, down]});
    let mirrored = json!({"crop": {"kind": "random", "padding": 9, "padding_mode": "reflect"}});
    json!([
        tensor("images", 96, 128, json!([view, view])),
        tensor("turned", 90, 110, json!([turned])),
        tensor("after", 64, 72, json!([after])),
        tensor("eval", 64, 64, json!([eval])),
        tensor("whole", 72, 60, json!([{"crop": {"kind": "resize"}, "ops": [flip, down]}])),
        tensor("padded", 416, 416, json!([padded])),
        tensor("reflected", 380, 380, json!([mirrored])),
    ])
}

fn aligned() -> Value {
    let mask = |name: &str, like: &str, height: u32, width: u32| {
        json!({"name": name, "field": "mask.png", "like": like, "dtype": "u8", "height": height,
            "width": width})
    };
    let depth = |name: &str, like: &str, height: u32, width: u32| {
        json!({"name": name, "field": "depth.png", "like": like, "dtype": "f32", "height": height,
            "width": width, "interpolation": "bilinear"})
    };
    let mut filled = mask("padded_masks", "padded", 416, 416);
    filled["fill"] = 255.into();
    let mut scaled = depth("depth", "images", 96, 128);
    scaled["scale"] = 0.001.into();
    scaled["offset"] = 0.5.into();
    let mut wide = mask("wide", "images", 40, 31);
    wide["field"] = "depth.png".into();
    wide["dtype"] = "i64".into();
    json!([
        mask("masks", "images", 96, 128),
        mask("small", "images", 24, 32),
        wide,
        scaled,
        {"name": "second", "field": "jpg", "like": "images", "dtype": "f32", "height": 96,
            "width": 128, "channels": 3, "interpolation": "bilinear"},
        mask("turned_masks", "turned", 90, 110),
        mask("after_masks", "after", 64, 72),
        depth("after_depth", "after", 64, 72),
        mask("eval_masks", "eval", 64, 64),
        depth("eval_depth", "eval", 64, 64),
        mask("whole_masks", "whole", 72, 60),
        depth("whole_depth", "whole", 300, 280),
        filled,
        depth("padded_depth", "padded", 416, 416),
        mask("reflected_masks", "reflected", 380, 380),
    ])
}

fn boxes_of(name: &str, like: &str) -> Value {
    json!({"name": name, "field": "boxes.json", "path": "/found/boxes", "like": like,
        "boxes_max": 12, "labels_path": "/found/labels"})
}

fn strict() -> Value {
    let mut strict = boxes_of("strict", "images");
    strict["size_min"] = 8.0.into();
    strict["area_min"] = 200.0.into();
    strict
}

/// The sample's other fields, in the order of the recipe's: a mask of all levels in stripes and blobs, depth of 16
/// bits, the photograph once more, and boxes. Some boxes lie outside, or are empty or reversed.
pub(crate) fn extra_fields(
    recipe: &Recipe,
    photo: usize,
    image: Extent,
    jpg: &[u8],
) -> Vec<Option<Bytes>> {
    let fields = recipe.extra_fields().into_iter().map(|field| match field {
        "mask.png" => mask(photo as u32, image),
        "depth.png" => depth(photo as u32, image),
        "boxes.json" => boxes(photo as u32, image).into_bytes(),
        "jpg" => jpg.to_vec(),
        other => panic!("no field {other}"),
    });
    fields.map(|bytes| Some(Bytes::from(bytes))).collect()
}

fn mask(photo: u32, image: Extent) -> Vec<u8> {
    let level = |x: u32, y: u32| ((x * 7 + y * 13 + photo * 31) ^ (x * y / 97)) as u8;
    gray(image, png::BitDepth::Eight, |x, y, to| to.push(level(x, y)))
}

fn depth(photo: u32, image: Extent) -> Vec<u8> {
    let level = |x: u32, y: u32| (x * x * 3 + y * 211 + photo * 997 + (x ^ y) * 37) as u16;
    gray(image, png::BitDepth::Sixteen, |x, y, to| to.extend(level(x, y).to_be_bytes()))
}

fn gray(image: Extent, depth: png::BitDepth, level: impl Fn(u32, u32, &mut Vec<u8>)) -> Vec<u8> {
    let mut rows = Vec::new();
    for y in 0..image.height {
        (0..image.width).for_each(|x| level(x, y, &mut rows));
    }
    let mut file = Vec::new();
    let mut png = png::Encoder::new(&mut file, image.width, image.height);
    png.set_color(png::ColorType::Grayscale);
    png.set_depth(depth);
    png.set_compression(png::Compression::Fast);
    let mut writer = png.write_header().expect("a header");
    writer.write_image_data(&rows).expect("rows");
    writer.finish().expect("a file");
    file
}

/// Boxes at eighths of pixels.
fn boxes(photo: u32, image: Extent) -> String {
    let place = |seed: u32, side: u32| {
        let spread = f64::from(seed.wrapping_mul(2_654_435_761) >> 12) / f64::from(1 << 20);
        // A part of them lies beyond the image.
        ((spread * 1.3 - 0.15) * f64::from(side) * 8.0).floor() / 8.0
    };
    let one = |number: u32| {
        let at = |corner: u32, side: u32| place(photo * 997 + number * 17 + corner * 5 + 1, side);
        [at(0, image.width), at(1, image.height), at(2, image.width), at(3, image.height)]
    };
    let ordered = |[a, b, c, d]: [f64; 4]| [a.min(c), b.min(d), a.max(c), b.max(d)];
    // The last two are as they come, and may be reversed.
    let boxes: Vec<[f64; 4]> = (0..12)
        .map(|number| if number < 10 { ordered(one(number)) } else { one(number) })
        .collect();
    let labels: Vec<u32> = (0..12).map(|number| number * 3 + photo).collect();
    json!({"found": {"boxes": boxes, "labels": labels}}).to_string()
}
