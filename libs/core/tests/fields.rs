//! Fields of a recipe: what they mean written out, what is refused, where they lie.

use headwater_core::masks::MaskPlan;
use headwater_core::recipe::{AnyFloat, FieldKind, FieldSpec};
use headwater_core::{Digest, Dtype, Layout, Recipe};
use serde::de::{Deserialize, Deserializer, IntoDeserializer, Visitor};
use serde_json::{Value, json};

fn with(fields: &[Value]) -> Result<Recipe, String> {
    let parse = |field: &Value| serde_json::from_value::<FieldSpec>(field.clone());
    let fields: Result<Vec<_>, _> = fields.iter().map(parse).collect();
    let fields = fields.map_err(|error| error.to_string())?;
    let recipe = Recipe { fields, ..Recipe::preset("imagenet-eval", Dtype::U8).expect("a preset") };
    recipe.validate().map_err(|error| error.to_string())?;
    Ok(recipe)
}

fn refused(field: Value) -> String {
    with(&[field]).expect_err("a field that is wrong")
}

#[test]
fn a_field_is_read_from_its_name_unless_it_says_otherwise() {
    let recipe = with(&[
        json!({"name": "txt", "kind": "text"}),
        json!({"name": "n", "field": "count|cnt", "kind": "int"}),
        json!({"name": "ids", "field": "txt", "kind": "tokens", "tokenizer": "a.json", "length": 3}),
    ]);
    let recipe = recipe.expect("a recipe");
    assert_eq!(recipe.extra_fields(), ["txt", "count|cnt"]);
    let written = serde_json::to_string(&recipe).expect("plain data");
    let again: Recipe = serde_json::from_str(&written).expect("what was written");
    assert_eq!((again.digest(), &again), (recipe.digest(), &recipe));
}

#[test]
fn a_recipe_without_fields_is_what_it_was() {
    let recipe = with(&[]).expect("a recipe");
    assert!(!serde_json::to_string(&recipe).expect("plain data").contains("fields"));
    let plain = Recipe::preset("imagenet-eval", Dtype::U8).expect("a preset");
    assert_eq!(recipe.digest(), plain.digest());
}

#[test]
fn the_place_of_a_tokenizer_is_no_part_of_a_recipe_and_its_bytes_are() {
    let digest = |path: &str, sha256: &str| -> Digest {
        let keys = json!({"name": "ids", "kind": "tokens", "tokenizer": path, "length": 3});
        let mut recipe = with(&[keys]).expect("a recipe");
        recipe
            .set_tokenizers(|asked| (asked == path).then(|| sha256.repeat(64)).ok_or(()))
            .expect("a file");
        recipe.validate().expect("a recipe still");
        recipe.digest()
    };
    assert_eq!(digest("a.json", "1"), digest("b/a.json", "1"));
    assert_ne!(digest("a.json", "1"), digest("a.json", "2"));
}

#[test]
fn tensors_of_fields_lie_between_images_and_labels() {
    let recipe = with(&[
        json!({"name": "caption", "kind": "text", "bytes_max": 300}),
        json!({"name": "box", "kind": "npy", "dtype": "f64", "shape": [2, 3]}),
        json!({"name": "ids", "kind": "tokens", "tokenizer": "a.json", "length": 5, "dtype": "i32"}),
        json!({"name": "n", "kind": "int"}),
        json!({"name": "tags", "kind": "multi_hot", "classes": 7}),
    ]);
    let layout = Layout::new(&recipe.expect("a recipe"), 4);
    let shapes: Vec<_> = layout
        .tensors()
        .iter()
        .map(|tensor| (tensor.name.as_str(), tensor.dtype, tensor.shape(4), tensor.is_image))
        .collect();
    let expected = [
        ("images", Dtype::U8, vec![4, 3, 224, 224], true),
        ("caption", Dtype::U8, vec![4, 300], false),
        ("caption_sizes", Dtype::I64, vec![4], false),
        ("box", Dtype::F64, vec![4, 2, 3], false),
        ("ids", Dtype::I32, vec![4, 5], false),
        ("ids_mask", Dtype::Bool, vec![4, 5], false),
        ("n", Dtype::I64, vec![4], false),
        ("tags", Dtype::U8, vec![4, 7], false),
        ("labels", Dtype::I64, vec![4], false),
    ];
    assert_eq!(shapes, expected);
    assert_eq!(layout.part_regions(1, 2).len(), expected.len());
}

#[test]
fn what_is_wrong_with_a_field_is_said_with_its_key() {
    let said = refused(json!({"name": "caption", "kind": "text", "byte_max": 3}));
    assert!(said.contains("`caption`") && said.contains("unknown key `byte_max`"), "{said}");
    assert!(refused(json!({"kind": "int"})).contains("`name`"));
    assert!(refused(json!({"name": "n", "kind": "whole"})).contains("`whole` is not known"));
    let keys = [
        (json!({"name": "2n", "kind": "int"}), "fields[0].name"),
        (json!({"name": "labels", "kind": "int"}), "fields[0].name"),
        (json!({"name": "images", "kind": "int"}), "fields[0].name"),
        (json!({"name": "samples", "kind": "int"}), "fields[0].name"),
        (json!({"name": "n", "kind": "float", "default": 1e39}), "fields[0].default"),
        (json!({"name": "n", "field": "a||b", "kind": "int"}), "fields[0].field"),
        (json!({"name": "n", "kind": "float", "dtype": "f16"}), "fields[0].dtype"),
        (json!({"name": "n", "kind": "text", "bytes_max": 0}), "fields[0].bytes_max"),
        (
            json!({"name": "n", "kind": "text", "bytes_max": 1, "default": "ab"}),
            "fields[0].default",
        ),
        (json!({"name": "n", "kind": "npy", "dtype": "bf16", "shape": [2]}), "fields[0].dtype"),
        (json!({"name": "n", "kind": "npy", "dtype": "f32", "shape": [0]}), "fields[0].shape"),
        (
            json!({"name": "n", "kind": "npy", "dtype": "f32", "shape": [65536, 65536, 65536, 65536, 2]}),
            "fields[0]",
        ),
        (
            json!({"name": "n", "kind": "npz", "member": "", "dtype": "f32", "shape": [1]}),
            "fields[0].member",
        ),
        (json!({"name": "n", "kind": "multi_hot", "classes": 0}), "fields[0].classes"),
        (json!({"name": "n", "kind": "json", "path": "a", "as": "int"}), "fields[0].path"),
        (json!({"name": "n", "kind": "json", "path": "/a", "as": "array"}), "fields[0].shape"),
        (
            json!({"name": "n", "kind": "json", "path": "/a", "as": "int", "dtype": "i32"}),
            "fields[0].dtype",
        ),
        (
            json!({"name": "n", "kind": "json", "path": "/a", "as": "int", "truncate": true}),
            "fields[0].truncate",
        ),
        (json!({"name": "n", "kind": "tokens", "length": 3}), "fields[0].tokenizer"),
        (json!({"name": "n", "kind": "tokens", "sha256": "ab", "length": 3}), "fields[0].sha256"),
        (json!({"name": "n", "kind": "tokens", "tokenizer": "a", "length": 0}), "fields[0].length"),
        (json!({"name": "n", "kind": "sequence", "length": 1}), "fields[0].length"),
        (json!({"name": "n", "kind": "sequence", "length": 8, "dtype": "u16"}), "fields[0].dtype"),
        (json!({"name": "n", "kind": "pack", "budget": 0}), "fields[0].budget"),
        (
            json!({"name": "n", "kind": "pack", "budget": 8, "sequences_max": 0}),
            "fields[0].sequences_max",
        ),
        (json!({"name": "n", "kind": "pack", "budget": 8, "stored": "f32"}), "fields[0].stored"),
        (json!({"name": "n", "kind": "pack", "budget": 8, "dtype": "u8"}), "fields[0].dtype"),
        (
            json!({"name": "n", "kind": "pack", "budget": 8, "dtype": "i32", "pad": u32::MAX}),
            "fields[0].pad",
        ),
        (
            json!({"name": "n", "kind": "sequence", "length": 8, "stored": "f32"}),
            "fields[0].stored",
        ),
        (
            json!({"name": "n", "kind": "sequence", "length": 8, "eod_mask_loss": true}),
            "fields[0].eod",
        ),
        (
            json!({"name": "n", "kind": "sequence", "length": 8, "eod": 7, "pad": 7}),
            "fields[0].pad",
        ),
    ];
    for (field, key) in keys {
        let said = refused(field);
        assert!(said.starts_with(&format!("`recipe.{key}` is ")), "{said}");
    }
    let twice = [json!({"name": "a", "kind": "text"}), json!({"name": "a_sizes", "kind": "int"})];
    assert!(with(&twice).expect_err("a name twice").starts_with("`recipe.fields[1].name`"));
    let many: Vec<Value> =
        (0..65).map(|number| json!({"name": format!("n{number}"), "kind": "int"})).collect();
    assert!(with(&many).expect_err("too many").contains("at most 64"));
}

#[test]
fn a_field_with_a_default_need_not_be_there() {
    let spec = |keys: Value| serde_json::from_value::<FieldSpec>(keys).expect("a field");
    assert!(spec(json!({"name": "n", "kind": "int"})).is_required());
    let default = spec(json!({"name": "n", "kind": "int", "default": 7}));
    assert!(!default.is_required());
    assert!(matches!(default.kind, FieldKind::Int { default: Some(7) }));
}

/// A configuration of TOML has numbers that JSON does not have.
fn of_toml(keys: &[(&str, f64)]) -> Result<FieldSpec, String> {
    use serde::de::value::{Error, MapDeserializer};
    let texts = [("name", "score"), ("kind", "float")];
    let texts = texts.map(|(key, text)| (key, Key::Text(text)));
    let all = texts.into_iter().chain(keys.iter().map(|&(key, number)| (key, Key::Number(number))));
    let spec = FieldSpec::deserialize(MapDeserializer::<_, Error>::new(all));
    spec.map_err(|error| error.to_string())
}

enum Key {
    Text(&'static str),
    Number(f64),
}

impl<'de> IntoDeserializer<'de, serde::de::value::Error> for Key {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Key {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self {
            Self::Text(text) => visitor.visit_str(text),
            Self::Number(number) => visitor.visit_f64(number),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[test]
fn a_default_that_is_no_number_or_infinite_is_kept_and_is_part_of_the_digest() {
    let numbers = [(f64::NAN, "nan"), (f64::INFINITY, "inf"), (f64::NEG_INFINITY, "-inf")];
    let digest = |spec: &FieldSpec| {
        let fields = vec![spec.clone()];
        let preset = Recipe::preset("imagenet-eval", Dtype::U8).expect("a preset");
        let recipe = Recipe { fields, ..preset };
        recipe.validate().expect("a recipe");
        let text = serde_json::to_string(&recipe).expect("plain data");
        let again: Recipe = serde_json::from_str(&text).expect("what was written");
        assert_eq!(again, recipe);
        recipe.digest()
    };
    let without = of_toml(&[]).expect("a field");
    let mut digests = vec![digest(&without)];
    for (number, name) in numbers {
        let spec = of_toml(&[("default", number)]).expect("a field");
        assert!(!spec.is_required(), "{name}");
        let FieldKind::Float { default: Some(AnyFloat(kept)), .. } = spec.kind else {
            panic!("{spec:?}")
        };
        assert_eq!(kept.to_string(), number.to_string());
        let keys = json!({"name": "score", "kind": "float", "default": name});
        assert_eq!(serde_json::from_value::<FieldSpec>(keys).expect("its name"), spec);
        assert!(!digests.contains(&digest(&spec)), "{name}");
        digests.push(digest(&spec));
    }
    let said = of_toml(&[("length", f64::NAN)]).expect_err("no number there");
    assert_eq!(said, "`length` of `score` is nan: give a finite number");
    let wrong = json!({"name": "score", "kind": "float", "default": "NaN"});
    let said = serde_json::from_value::<FieldSpec>(wrong).expect_err("another name").to_string();
    assert!(said.contains("\"NaN\" is no number: give one, or \"nan\""), "{said}");
}

#[test]
fn a_finite_default_is_written_as_it_was() {
    let recipe = with(&[json!({"name": "a", "kind": "float", "default": 0.5})]).expect("a recipe");
    let text = serde_json::to_string(&recipe).expect("plain data");
    assert!(text.ends_with(r#""kind":"float","dtype":"f32","default":0.5}]}"#), "{text}");
}

/// What the Python package's `Batch` and `TorchBatch` have, so that a tensor of that name would not be found.
#[test]
fn no_name_of_a_recipe_hides_an_attribute_of_a_batch() {
    let package =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../gpu-receiver/python/python/headwater/");
    let read = |file: &str| std::fs::read_to_string(format!("{package}{file}")).expect("a file");
    let types = read("__init__.pyi");
    let (_, batch) = types.split_once("\nclass Batch:\n").expect("the class");
    let batch = batch.split("\n@final").next().expect("its end");
    let methods = batch.lines().filter_map(|line| line.trim().strip_prefix("def "));
    let methods = methods.filter_map(|line| line.split('(').next());
    let torch = read("torch_batch.py");
    let fields = torch.lines().filter_map(|line| line.trim().strip_prefix("self."));
    let fields = fields.filter_map(|line| line.split_once(" = ").map(|(name, _)| name));
    // Those of Python's `dict`: a `TorchBatch` is one.
    let dict = "clear copy fromkeys get items keys pop popitem setdefault update values".split(' ');
    let names: Vec<&str> =
        methods.chain(fields).chain(dict).filter(|n| !n.starts_with('_')).collect();
    assert!(names.len() > 25 && names.contains(&"group") && names.contains(&"to"), "{names:?}");
    let view = json!({"crop": {"kind": "resize"}});
    let image = |name: &str| json!({"name": name, "dtype": "u8", "height": 8, "width": 8, "views": [view.clone()]});
    for name in names {
        let mask = json!({"name": name, "field": "png", "like": "images", "dtype": "u8", "height": 8, "width": 8});
        let boxes = json!({"name": name, "field": "json", "like": "images", "boxes_max": 3});
        let field = json!({"name": name, "kind": "int"});
        for recipe in [
            json!({"tensors": [image(name)]}),
            json!({"tensors": [image("images")], "aligned": [mask]}),
            json!({"tensors": [image("images")], "boxes": [boxes]}),
            json!({"tensors": [image("images")], "fields": [field]}),
        ] {
            let recipe: Recipe = serde_json::from_value(recipe).expect("plain data");
            let said = recipe.validate().expect_err(name).to_string();
            let expected = format!("the batch has something else of the name `{name}`");
            assert!(said.contains(&expected), "{said}");
        }
    }
}

#[test]
fn the_names_of_drawn_tensors_are_free_until_they_are_drawn() {
    let mut recipe = with(&[json!({"name": "masks", "kind": "int"})]).expect("a recipe");
    recipe.tensors[0].name = "images".into();
    let spec = json!({"patch": 16, "tensor": "images"});
    let spec = serde_json::from_value(spec).expect("masks");
    let said = MaskPlan::new(spec, &recipe).expect_err("masks twice").to_string();
    assert!(said.contains("`masks`"), "{said}");
}
