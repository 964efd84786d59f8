//! A recipe with every kind of field, and with tensors that follow its views: what holds for pixels must hold for
//! all of them.

use headwater_core::recipe::CropSpec;
use headwater_core::{Dtype, Recipe};
use serde_json::{Value, json};

use super::data;
use super::fleet::Fleet;

/// Samples of the shard that has all of these fields.
pub const SAMPLES: usize = 24;

/// Sides of the views, in which the smallest boxes are larger than a pixel.
const SIDE: u32 = 256;

/// Fields of every kind, as `recipe.fields` has them.
fn fields() -> Value {
    let tokenizer = data("fields/bert-tokenizer.json");
    json!([
        {"name": "count", "kind": "int", "default": -1},
        {"name": "score", "kind": "float"},
        {"name": "exact", "kind": "float", "field": "score", "dtype": "f64"},
        {"name": "caption", "kind": "text", "field": "txt|text", "bytes_max": 200},
        {"name": "blob", "kind": "bytes", "bytes_max": 64},
        {"name": "width", "kind": "json", "field": "json", "path": "/width", "as": "int"},
        {"name": "good", "kind": "json", "field": "json", "path": "/good", "as": "bool"},
        {"name": "said", "kind": "json", "field": "json", "path": "/caption", "as": "text"},
        {"name": "places", "kind": "json", "field": "json", "path": "/deep/0/boxes", "as": "array",
         "shape": [2, 4]},
        {"name": "frame", "kind": "npy", "field": "box.npy", "dtype": "f32", "shape": [2, 3]},
        {"name": "latent", "kind": "npz", "field": "latent.npz", "member": "latent", "dtype": "i16",
         "shape": [4, 2]},
        {"name": "tags", "kind": "multi_hot", "classes": 7},
        {"name": "ids", "kind": "tokens", "field": "txt", "tokenizer": tokenizer, "length": 12},
        // An array's 152 bytes as 76 tokens.
        {"name": "words", "kind": "sequence", "field": "box.npy", "length": 75, "eod": 0,
         "reset_attention_mask": true},
    ])
}

/// Boxes that follow the views; in these files they are about half a pixel of the image wide.
fn boxes() -> Value {
    json!({"name": "found", "field": "json", "path": "/deep/0/boxes", "format": "xywh", "like": "images", 
           "boxes_max": 3})
}

/// A second image that follows the views: the same file.
fn aligned() -> Value {
    json!({"name": "second", "field": "jpg", "like": "images", "channels": 3, "dtype": "u8",
           "height": SIDE, "width": SIDE})
}

/// A recipe with every kind of field; its image is flipped or not, and boxes and a second image follow it.
pub fn recipe() -> Recipe {
    let mut recipe = Recipe::preset("imagenet-train", Dtype::U8).expect("a preset");
    (recipe.tensors[0].height, recipe.tensors[0].width) = (SIDE, SIDE);
    recipe.tensors[0].views[0].crop = CropSpec::Resize {};
    recipe.fields = serde_json::from_value(fields()).expect("fields");
    recipe.boxes = vec![serde_json::from_value(boxes()).expect("boxes")];
    recipe.aligned = vec![serde_json::from_value(aligned()).expect("a tensor")];
    recipe.aligned[0].interpolation = recipe.interpolation;
    recipe
}

/// Lines of a worker's `[augment]`: the tokenizer of the recipe.
pub fn tokenizer() -> String {
    let tokenizer = data("fields/bert-tokenizer.json").display().to_string();
    format!("tokenizers = [{tokenizer:?}]")
}

/// Nodes over the shard of fields; `extra` are further lines of workers that know the tokenizer.
pub fn fleet(workers: usize, extra: &str) -> Fleet {
    let mut fleet = Fleet::without_workers(data("fields/fields.tar"));
    for _ in 0..workers {
        fleet.add_worker(&format!("{}\n{extra}", tokenizer()));
    }
    fleet
}

/// Arguments of a process that has the same recipe, but for its crop.
pub fn arguments() -> Vec<String> {
    super::set_flags(settings())
}

/// The same as `KEY=VALUE`.
pub fn settings() -> Vec<String> {
    let mut kinds = fields();
    let mut boxes = boxes();
    boxes["kind"] = "boxes".into();
    kinds.as_array_mut().expect("a list").push(boxes);
    // In TOML a table has `=` where JSON has `:`; strings, lists and numbers are the same.
    vec![
        "recipe.preset=imagenet-eval".to_owned(),
        "recipe.dtype=u8".to_owned(),
        format!("recipe.fields={}", toml(&kinds)),
        format!("recipe.tensors={}", toml(&json!([without_size(aligned())]))),
    ]
}

fn without_size(mut tensor: Value) -> Value {
    let keys = tensor.as_object_mut().expect("a table");
    keys.retain(|key, _| !["height", "width"].contains(&key.as_str()));
    tensor
}

/// A value as TOML writes it in one line.
pub fn toml(value: &Value) -> String {
    match value {
        Value::Array(values) => {
            format!("[{}]", values.iter().map(toml).collect::<Vec<_>>().join(", "))
        }
        Value::Object(keys) => {
            let pairs = keys.iter().map(|(key, value)| format!("{key} = {}", toml(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}
