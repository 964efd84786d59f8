//! Each kind of field against values that numpy, Python's json and the package `tokenizers` made, and against
//! bytes that nobody means well with. tests/data/fields/make.py makes the former.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

use headwater_core::Dtype;
use serde_json::{Value, json};

use super::*;

fn data(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/fields")).join(name)
}

fn expected() -> Value {
    serde_json::from_str(&fs::read_to_string(data("expected.json")).unwrap()).unwrap()
}

fn recipe(fields: &[Value]) -> Recipe {
    let fields: Vec<FieldSpec> =
        fields.iter().map(|field| serde_json::from_value(field.clone()).unwrap()).collect();
    let recipe = Recipe { fields, ..Recipe::preset("imagenet-eval", Dtype::U8).unwrap() };
    recipe.validate().unwrap();
    recipe
}

/// The rows of one field named `f`, of a sample whose field is `bytes`.
fn try_read(mut keys: Value, bytes: Option<&[u8]>) -> Result<Vec<u8>, String> {
    keys["name"] = json!("f");
    let readers = FieldReaders::new(&recipe(&[keys]));
    let bytes = bytes.map(Bytes::copy_from_slice);
    readers.read(&[bytes]).map_err(|error| {
        assert!(matches!(error, RenderError::Bad(BadImage::Field(_))), "{error:?}");
        error.to_string()
    })
}

fn read(keys: Value, bytes: &[u8]) -> Vec<u8> {
    try_read(keys, Some(bytes)).unwrap()
}

fn refused(keys: Value, bytes: &[u8]) -> String {
    let said = try_read(keys, Some(bytes)).expect_err("a bad field");
    assert!(said.starts_with("field `f`: "), "{said}");
    said["field `f`: ".len()..].to_owned()
}

fn f32s(row: &[u8]) -> Vec<f32> {
    row.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn numbers(value: &Value, into: &mut Vec<f64>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| numbers(value, into)),
        value => into.push(value.as_f64().unwrap()),
    }
}

fn flat<T>(value: &Value, of: impl Fn(f64) -> T) -> Vec<T> {
    let mut found = Vec::new();
    numbers(value, &mut found);
    found.into_iter().map(of).collect()
}

/// Fields of each sample of the shard, by its key.
fn shard() -> HashMap<String, HashMap<String, Vec<u8>>> {
    let mut samples: HashMap<String, HashMap<String, Vec<u8>>> = HashMap::new();
    for entry in tar::Archive::new(File::open(data("fields.tar")).unwrap()).entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_str().unwrap().to_owned();
        let (key, field) = name.split_once('.').unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        samples.entry(key.to_owned()).or_default().insert(field.to_owned(), bytes);
    }
    samples
}

#[test]
fn every_kind_has_the_values_of_numpy_and_python() {
    let (shard, expected) = (shard(), expected());
    let samples = expected["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 24);
    for sample in samples {
        let fields = &shard[sample["key"].as_str().unwrap()];
        let at = |field: &str, keys: Value| read(keys, &fields[field]);
        let text = sample["caption"].as_str().unwrap();
        let sized = |bytes: &[u8]| {
            let mut rows = bytes.to_vec();
            rows.resize(200, 0);
            rows.extend_from_slice(&(bytes.len() as i64).to_le_bytes());
            rows
        };
        assert_eq!(at("txt", json!({"kind": "text", "bytes_max": 200})), sized(text.as_bytes()));
        let from_json = json!({"kind": "json", "path": "/caption", "as": "text", "bytes_max": 200});
        assert_eq!(at("json", from_json), sized(text.as_bytes()));
        let blob: Vec<u8> = flat(&sample["blob"], |byte| byte as u8);
        assert_eq!(at("blob", json!({"kind": "bytes", "bytes_max": 200})), sized(&blob));
        let count = fields.get("count").map(Vec::as_slice);
        let count = try_read(json!({"kind": "int", "default": -1}), count).unwrap();
        assert_eq!(count, sample["count"].as_i64().unwrap().to_le_bytes());
        let score = at("score", json!({"kind": "float"}));
        assert_eq!(score, (sample["score"].as_f64().unwrap() as f32).to_le_bytes());
        let score = at("score", json!({"kind": "float", "dtype": "f64"}));
        assert_eq!(score, sample["score64"].as_f64().unwrap().to_le_bytes());
        let width = at("json", json!({"kind": "json", "path": "/width", "as": "int"}));
        assert_eq!(width, sample["width"].as_i64().unwrap().to_le_bytes());
        let score = at("json", json!({"kind": "json", "path": "/score", "as": "float"}));
        assert_eq!(score, (sample["json_score"].as_f64().unwrap() as f32).to_le_bytes());
        let good = at("json", json!({"kind": "json", "path": "/good", "as": "bool"}));
        assert_eq!(good, [u8::from(sample["good"].as_bool().unwrap())]);
        let boxes =
            json!({"kind": "json", "path": "/deep/0/boxes", "as": "array", "shape": [2, 4]});
        assert_eq!(f32s(&at("json", boxes)), flat(&sample["boxes"], |value| value as f32));
        let boxed = at("box.npy", json!({"kind": "npy", "dtype": "f32", "shape": [2, 3]}));
        assert_eq!(f32s(&boxed), flat(&sample["box"], |value| value as f32));
        let keys = json!({"kind": "npz", "member": "latent", "dtype": "i16", "shape": [4, 2]});
        let latent: Vec<u8> = flat(&sample["latent"], |value| value as i16)
            .into_iter()
            .flat_map(i16::to_le_bytes)
            .collect();
        assert_eq!(at("latent.npz", keys), latent);
        let tags = at("tags", json!({"kind": "multi_hot", "classes": 7}));
        assert_eq!(tags, flat(&sample["tags"], |value| value as u8));
        let tags = at("tags", json!({"kind": "multi_hot", "classes": 7, "dtype": "f32"}));
        assert_eq!(f32s(&tags), flat(&sample["tags"], |value| value as f32));
    }
}

#[test]
fn numbers_that_are_none_are_bad_samples() {
    assert_eq!(refused(json!({"kind": "int"}), b"1.5"), "`1.5` is not a whole number of 64 bits");
    for bytes in [&b""[..], b"9223372036854775808", b"0x1", b"\xff", b"1 2"] {
        assert!(refused(json!({"kind": "int"}), bytes).contains("whole number"), "{bytes:?}");
    }
    for bytes in [&b""[..], b"nan", b"inf", b"-infinity", b"1e999", b"1,5", b"\xff"] {
        assert!(refused(json!({"kind": "float"}), bytes).contains("finite"), "{bytes:?}");
    }
    assert_eq!(refused(json!({"kind": "float"}), b"1e39"), "1e39 is too large for f32");
    assert_eq!(read(json!({"kind": "float", "dtype": "f64"}), b"1e39"), 1e39f64.to_le_bytes());
    assert_eq!(read(json!({"kind": "float"}), b"-0.0"), (-0f32).to_le_bytes());
    let said = try_read(json!({"kind": "float", "field": "a|b"}), None).unwrap_err();
    assert_eq!(said, "field `f`: the sample has no `a|b`");
    let default = try_read(json!({"kind": "float", "default": 0.1}), None).unwrap();
    assert_eq!(default, 0.1f32.to_le_bytes());
    for dtype in ["f32", "f64"] {
        for name in ["nan", "inf", "-inf"] {
            let keys = json!({"kind": "float", "dtype": dtype, "default": name});
            let row = try_read(keys, None).unwrap();
            let number = match dtype {
                "f32" => f64::from(f32s(&row)[0]),
                _ => f64::from_le_bytes(row.try_into().unwrap()),
            };
            let expected: f64 = name.parse().unwrap();
            assert!(number == expected || number.is_nan() && expected.is_nan(), "{name}: {number}");
        }
    }
}

#[test]
fn texts_are_utf_8_and_cut_between_characters() {
    let text = |truncate| json!({"kind": "text", "bytes_max": 4, "truncate": truncate});
    assert_eq!(read(text(false), "aé!".as_bytes()), b"a\xc3\xa9!\x04\0\0\0\0\0\0\0");
    assert_eq!(read(text(true), "aéé!".as_bytes()), b"a\xc3\xa9\0\x03\0\0\0\0\0\0\0");
    let long = "it has 6 bytes, more than 4: raise its bytes_max, or set truncate = true";
    assert_eq!(refused(text(false), "aéé!".as_bytes()), long);
    for bytes in [&b"ab\xff"[..], b"ab\xc3", b"\xed\xa0\x80", b"abcdefgh\xff"] {
        assert!(refused(text(true), bytes).contains("not text in UTF-8"), "{bytes:?}");
    }
    let bytes = json!({"kind": "bytes", "bytes_max": 2, "truncate": true});
    assert_eq!(read(bytes, b"\xff\xfe\xfd"), b"\xff\xfe\x02\0\0\0\0\0\0\0");
    let default = json!({"kind": "text", "bytes_max": 2, "default": "-"});
    assert_eq!(try_read(default, None).unwrap(), b"-\0\x01\0\0\0\0\0\0\0");
}

#[test]
fn documents_that_are_not_what_the_recipe_says_are_bad_samples() {
    let at = |path: &str, value: &str| json!({"kind": "json", "path": path, "as": value});
    let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
    assert!(refused(at("", "int"), &deep).contains("recursion limit"));
    assert!(refused(at("", "float"), b"1e999").contains("number out of range"));
    assert!(refused(at("", "float"), b"NaN").contains("it is not JSON"));
    assert!(refused(at("", "int"), b"1e3").contains("not a whole number"));
    assert!(refused(at("", "int"), b"9223372036854775808").contains("does not fit i64"));
    assert!(refused(at("", "int"), b"1 2").contains("trailing"));
    assert!(refused(at("", "text"), b"\"\\ud800\"").contains("it is not JSON"));
    assert_eq!(refused(at("/a/1", "int"), b"{\"a\":[0]}"), "the document has nothing at `/a/1`");
    assert_eq!(
        refused(at("/a", "int"), b"{\"a\":\"7\"}"),
        "at `/a` is a string, not a whole number"
    );
    assert_eq!(refused(at("/a", "bool"), b"{\"a\":1}"), "at `/a` is a number, not true or false");
    let array = |dtype: &str| json!({"kind": "json", "path": "", "as": "array", "dtype": dtype, "shape": [2, 2]});
    assert_eq!(read(array("u8"), b"[[1,2],[3,255]]"), [1, 2, 3, 255]);
    assert_eq!(read(array("bool"), b"[[true,false],[false,true]]"), [1, 0, 0, 1]);
    assert_eq!(refused(array("u8"), b"[[1,2],[3,256]]"), "at `` 256 does not fit u8");
    assert_eq!(refused(array("i8"), b"[[1,2]]"), "at `` is a list of 1, not of 2");
    assert_eq!(
        refused(array("f32"), b"[[1,2],3]"),
        "at `` is a number where a list of 2 is wanted"
    );
    assert!(refused(array("f16"), b"[[1,2],[3,1e9]]").contains("too large for f16"));
    assert!(refused(array("u8"), b"[[1,2],[3,null]]").contains("is null"));
}

#[test]
fn arrays_that_are_not_what_the_recipe_says_are_bad_samples() {
    let keys = || json!({"kind": "npy", "dtype": "i16", "shape": [2, 3]});
    let file = |descr: &str, order: &str, shape: &str, elements: &[u8]| {
        let text = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
        let length = (text.len() as u16).to_le_bytes();
        [b"\x93NUMPY\x01\0", &length[..], text.as_bytes(), elements].concat()
    };
    let elements: Vec<u8> = (0..12).collect();
    assert_eq!(read(keys(), &file("<i2", "False", "(2, 3)", &elements)), elements);
    let swapped = [1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10];
    assert_eq!(read(keys(), &file(">i2", "False", "(2, 3)", &elements)), swapped);
    let columns = [0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11];
    assert_eq!(read(keys(), &file("<i2", "True", "(2, 3)", &elements)), columns);
    for (descr, shape) in [("<i2", "(3, 2)"), ("<u2", "(2, 3)"), ("<i4", "(3,)"), ("<f2", "(2, 3)")]
    {
        let said = refused(keys(), &file(descr, "False", shape, &elements));
        assert!(said.contains("not i16[2, 3]"), "{said}");
    }
    for shape in ["(2, 4)", "(18446744073709551615, 3)", "(2, -3)", "(2, 3"] {
        refused(keys(), &file("<i2", "False", shape, &elements));
    }
    assert!(refused(keys(), &file("|O", "False", "(2, 3)", &elements)).contains("Python objects"));
    let truth = json!({"kind": "npy", "dtype": "bool", "shape": [3]});
    assert!(refused(truth, &file("|b1", "False", "(3,)", &[0, 1, 2])).contains("truth"));
    let scalar = json!({"kind": "npy", "dtype": "f64", "shape": []});
    assert_eq!(read(scalar, &file("<f8", "False", "()", &[7; 8])), [7; 8]);
    let archive = &shard()["0000"]["latent.npz"];
    let npz =
        |member: &str| json!({"kind": "npz", "member": member, "dtype": "i16", "shape": [4, 2]});
    assert_eq!(refused(npz("absent"), archive), "the archive has no array `absent`");
    for end in 0..archive.len() {
        refused(npz("latent"), &archive[..end]);
    }
}

#[test]
fn class_numbers_stay_below_the_classes() {
    let keys = || json!({"kind": "multi_hot", "classes": 4});
    assert_eq!(read(keys(), b" 3, 0\n3"), [1, 0, 0, 1]);
    assert_eq!(read(keys(), b"[]"), [0; 4]);
    assert_eq!(read(keys(), b""), [0; 4]);
    assert_eq!(refused(keys(), b"1 4"), "class 4 is not below 4, `classes`");
    for bytes in [&b"-1"[..], b"1.0", b"cat", b"[1", b"[true]", b"\xff", b"99999999999999999999"] {
        refused(keys(), bytes);
    }
}

fn tokenizer(kind: &str) -> (Tokenizers, String) {
    let path = data(&format!("{kind}-tokenizer.json"));
    let tokenizers = Tokenizers::open(std::slice::from_ref(&path)).unwrap();
    let digest = <sha2::Sha256 as sha2::Digest>::digest(fs::read(path).unwrap());
    (tokenizers, digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn tokens(kind: &str, extra: &Value) -> FieldReaders {
    let (tokenizers, sha256) = tokenizer(kind);
    let mut keys = json!({"name": "f", "kind": "tokens", "sha256": sha256, "length": 12});
    keys.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    FieldReaders::new(&recipe(&[keys])).tokenizing(&tokenizers).unwrap()
}

#[test]
fn tokens_are_those_of_the_python_package() {
    let expected = expected();
    let texts = expected["texts"].as_array().unwrap();
    for kind in ["bert", "clip", "gpt2"] {
        let readers = tokens(kind, &json!({"pad_id": expected["pads"][kind]}));
        let all = expected["tokens"][kind].as_array().unwrap();
        assert_eq!(all.len(), texts.len());
        for (text, tokens) in texts.iter().zip(all) {
            let text = text.as_str().unwrap();
            let rows = readers.read(&[Some(Bytes::copy_from_slice(text.as_bytes()))]).unwrap();
            let (ids, mask) = rows.split_at(12 * 8);
            let ids: Vec<i64> =
                ids.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect();
            assert_eq!(ids, flat(&tokens[0], |id| id as i64), "{kind} {text:?}");
            assert_eq!(mask, flat(&tokens[1], |id| id as u8), "{kind} {text:?}");
        }
    }
}

#[test]
fn a_text_of_a_million_characters_is_refused_before_it_is_taken_apart() {
    let readers = tokens("clip", &json!({"dtype": "i32", "mask_dtype": "u8"}));
    let long = Bytes::from("a".repeat(1_000_000));
    let said = readers.read(&[Some(long)]).unwrap_err().to_string();
    assert_eq!(said, "field `f`: the text has 1000000 bytes, more than 4096: raise its bytes_max");
    let rows = readers.read(&[Some(Bytes::from_static(b"a photo"))]).unwrap();
    assert_eq!(rows.len(), 12 * 4 + 12);
    let said = readers.read(&[Some(Bytes::from_static(b"\xff"))]).unwrap_err();
    assert!(matches!(said, RenderError::Bad(_)), "{said}");
}

#[test]
fn a_worker_without_the_tokenizer_says_what_to_configure() {
    let (tokenizers, _) = tokenizer("bert");
    let (_, other) = tokenizer("gpt2");
    let keys = json!({"name": "f", "kind": "tokens", "sha256": other, "length": 12});
    let readers = FieldReaders::new(&recipe(&[keys]));
    // Not a verdict on the sample: another worker may have it.
    let error = readers.read(&[Some(Bytes::from_static(b"a"))]).unwrap_err();
    assert!(matches!(error, RenderError::Device { .. }), "{error:?}");
    let said = readers.tokenizing(&tokenizers).unwrap_err();
    assert!(said.contains(&other) && said.contains("augment.tokenizers"), "{said}");
    assert!(said.contains("bert-tokenizer.json"), "{said}");
    let said = Tokenizers::open(&[data("expected.json")]).unwrap_err().to_string();
    assert!(said.contains("expected.json") && said.contains("is no tokenizer.json"), "{said}");
    let short = json!({"name": "f", "kind": "tokens", "sha256": tokenizer("bert").1, "length": 1});
    let readers = FieldReaders::new(&recipe(&[short]));
    assert!(readers.tokenizing(&tokenizers).is_err(), "no room for two special tokens");
}

fn i64s(row: &[u8]) -> Vec<i64> {
    row.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
}

fn sha256(values: impl IntoIterator<Item = i64>) -> String {
    use sha2::{Digest, Sha256};
    let mut sha = Sha256::new();
    values.into_iter().for_each(|value| sha.update(value.to_le_bytes()));
    sha.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn sequences_have_the_tensors_of_megatrons_dataset() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../megatron-order/tests/certificate.json");
    let certificate: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let length = 24;
    for case in certificate["masked"].as_array().unwrap() {
        let resets = case["reset_attention_mask"].as_bool().unwrap();
        // Megatron has no padding where a tokenizer pads by the end of a document.
        let pad = case["pad"].as_u64().filter(|pad| *pad != 7);
        let keys = json!({"kind": "sequence", "length": length, "eod": 7, "pad": pad,
            "reset_position_ids": case["reset_position_ids"], "reset_attention_mask": resets,
            "eod_mask_loss": case["eod_mask_loss"]});
        let mut found: [Vec<i64>; 5] = Default::default();
        let texts = case["text"].as_array().unwrap();
        assert!(texts.len() > 40);
        for text in texts {
            let tokens = text.as_str().unwrap().split(' ').map(|token| token.parse().unwrap());
            let text: Vec<u8> = tokens.flat_map(u16::to_le_bytes).collect();
            let rows = read(keys.clone(), &text);
            let at = |part: usize| 8 * length as usize * part;
            let mask = at(2)..at(2) + 4 * length as usize;
            found[0].extend(i64s(&rows[..at(1)]));
            found[1].extend(i64s(&rows[at(1)..at(2)]));
            found[2].extend(f32s(&rows[mask.clone()]).into_iter().map(|counts| counts as i64));
            let positions = case["reset_position_ids"] == true;
            let positions = mask.end..mask.end + if positions { at(1) } else { 0 };
            match positions.is_empty() {
                true => found[3].extend(0..i64::from(length)),
                false => found[3].extend(i64s(&rows[positions.clone()])),
            }
            let bounds: Vec<i32> = rows[positions.end..]
                .as_chunks::<4>()
                .0
                .iter()
                .map(|bytes| i32::from_le_bytes(*bytes))
                .collect();
            assert_eq!(bounds.len(), if resets { length as usize + 1 } else { 0 });
            let document = |at: u32| bounds.iter().filter(|&&bound| bound <= at as i32).count();
            for (row, column) in (0..length).flat_map(|row| (0..length).map(move |c| (row, c))) {
                let sees = column <= row && (!resets || document(row) == document(column));
                found[4].push(i64::from(!sees));
            }
        }
        let names = ["tokens", "labels", "loss_mask", "position_ids", "attention_mask"];
        for (name, found) in names.into_iter().zip(found) {
            assert_eq!(sha256(found), case[name], "{name} of {}", case["name"]);
        }
    }
}

#[test]
fn a_sequence_is_read_from_tokens_of_any_size_and_padding_counts_nothing() {
    let keys = json!({"kind": "sequence", "length": 3, "dtype": "i32", "pad": 9, "eod": 5,
        "eod_mask_loss": true, "reset_position_ids": true, "reset_attention_mask": true});
    let text = [4i64, 5, 9, 9];
    let of = |size: usize| -> Vec<u8> {
        text.iter().flat_map(|token| token.to_le_bytes()[..size].to_vec()).collect()
    };
    let stored = |name: &str| {
        let mut keys = keys.clone();
        keys["stored"] = json!(name);
        keys
    };
    let whole = read(stored("i64"), &of(8));
    for (size, name) in [(1, "u8"), (2, "u16"), (4, "i32")] {
        assert_eq!(read(stored(name), &of(size)), whole, "{size} bytes");
    }
    let i32s = |row: &[u8]| -> Vec<i32> {
        row.as_chunks::<4>().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect()
    };
    assert_eq!(i32s(&whole[..24]), [4, 5, 0, 5, 0, 0]);
    assert_eq!(f32s(&whole[24..36]), [1.0, 0.0, 0.0]);
    assert_eq!(i32s(&whole[36..]), [0, 1, 0, 0, 2, 3, 3]);
    // Without the extra token the last label is missing.
    let short = read(keys.clone(), &of(2)[..6]);
    assert_eq!((i32s(&short[12..24]), f32s(&short[24..36])), (vec![5, 0, 0], vec![1.0, 0.0, 0.0]));
    // Tokens of another size, or twice as many, are not taken for those that are meant.
    for bytes in [0, 5, 7, 3, 4, 12, 16, 32] {
        let said = refused(keys.clone(), &vec![0; bytes]);
        assert!(said.contains("`length`") && said.contains(&format!("{bytes} bytes")), "{said}");
    }
    let large = i64::from(i32::MAX) + 1;
    let bytes: Vec<u8> = [1, large, 2, 3].iter().flat_map(|token| token.to_le_bytes()).collect();
    assert_eq!(refused(stored("i64"), &bytes), "token 2147483648 does not fit i32");
}

#[test]
fn a_pack_has_labels_and_positions_of_each_sequence() {
    let pack = |lengths: &[u32], tokens: &[i64], size: usize| -> Vec<u8> {
        let mut bytes = (lengths.len() as u32).to_le_bytes().to_vec();
        lengths.iter().for_each(|length| bytes.extend(length.to_le_bytes()));
        tokens.iter().for_each(|token| bytes.extend(&token.to_le_bytes()[..size]));
        bytes
    };
    let keys = |stored: &str| json!({"kind": "pack", "budget": 8, "sequences_max": 4, "stored": stored, "dtype": "i32", "pad": 9});
    let whole = |stored: &str, size: usize| {
        let rows = read(keys(stored), &pack(&[3, 0, 1, 2], &[5, 6, 7, 8, 50, 60], size));
        rows.as_chunks::<4>().0.iter().map(|word| i32::from_le_bytes(*word)).collect::<Vec<i32>>()
    };
    let expected = [
        &[5, 6, 7, 8, 50, 60, 9, 9][..],
        &[6, 7, -100, -100, 60, -100, -100, -100],
        &[0, 1, 2, 0, 0, 1, 0, 0],
        &[0, 3, 3, 4, 6],
        &[4, 0],
    ]
    .concat();
    for (stored, size) in [("u8", 1), ("u16", 2), ("i32", 4), ("i64", 8)] {
        assert_eq!(whole(stored, size), expected, "{stored}");
    }
    let empty = read(keys("u8"), &pack(&[], &[], 1));
    assert_eq!(empty[..4], 9i32.to_le_bytes());
    assert!(empty[64..].iter().all(|&byte| byte == 0));
    for (bytes, said) in [
        (vec![1, 0, 0], "3 bytes are no pack"),
        (vec![255; 4], "are no pack"),
        (pack(&[3], &[1; 4], 1), "are not 3 tokens of u8"),
        (pack(&[3], &[1; 3], 2), "are not 3 tokens of u8"),
    ] {
        let error = refused(keys("u8"), &bytes);
        assert!(error.contains(said), "{error}");
    }
    // Less room than its packs need is no fault of a sample.
    for (bytes, said) in [
        (
            pack(&[1; 5], &[1; 5], 1),
            "field `f`: a pack of 5 sequences: raise the field's `sequences_max`, 4",
        ),
        (pack(&[9], &[1; 9], 1), "field `f`: a pack of 9 tokens: raise the field's `budget`, 8"),
        (pack(&[u32::MAX, u32::MAX], &[], 1), "raise the field's `budget`, 8"),
    ] {
        let mut keys = keys("u8");
        keys["name"] = json!("f");
        let error = FieldReaders::new(&recipe(&[keys])).read(&[Some(bytes.into())]).unwrap_err();
        assert!(
            matches!(error, RenderError::Device { .. }) && error.to_string().contains(said),
            "{error}"
        );
    }
    let large = pack(&[1], &[i64::from(i32::MAX) + 1], 8);
    assert!(refused(keys("i64"), &large).contains("does not fit i32"));
}
