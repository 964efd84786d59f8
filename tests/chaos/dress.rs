//! What is made of the samples in a run: a recipe, and what workers and ranks need for it.

use std::path::{Path, PathBuf};

use headwater_core::recipe::PRESETS;
use serde_json::json;

use crate::support;
use crate::support::everything;

/// The functions of `own-python`: one takes its time, so that leases are late; one finds some views bad after
/// others of the same sample were made. Seldom, and each time by chance, the first one raises what is no verdict, ends,
/// prints, or forks a child that comes back: none of it changes a batch.
const FUNCTIONS: &str = "
import os
import time


def slow(array, rng):
    chance = int.from_bytes(os.urandom(2), 'big')
    if chance < 50:
        raise KeyError('for this moment')
    if chance < 100:
        os._exit(1)
    if chance < 150:
        print('x' * 1_000_000, end='')
    elif chance < 200 and os.fork() == 0:
        return 255 - array
    if array[0, 0, 0] % 16 == 0:
        try:
            time.sleep(0.2)
        except OSError:
            pass  # The clock was turned back in the meantime: EINVAL.
    return array


def picky(array, rng):
    if array[0, 0, 0] % 8 == 0:
        raise ValueError('a corner that is not liked')
    return array
";

/// A recipe and its surroundings.
#[derive(Clone, Debug)]
pub(crate) struct Dress {
    pub(crate) name: String,
    /// `KEY=VALUE` of a training rank.
    pub(crate) settings: Vec<String>,
    /// Lines of `[augment]` of every worker.
    pub(crate) worker: String,
    /// Folder of the shards, in tests/data, and the pattern of their names.
    pub(crate) shards: (&'static str, &'static str),
}

// === impl Dress ===

impl Dress {
    /// All of them, each preset among them. `place` is a folder for what they need.
    pub(crate) fn all(place: &Path) -> Vec<Self> {
        let presets = PRESETS.iter().map(|(name, _)| Self::preset(name, name, &[], String::new()));
        let cache = place.join("decoded");
        std::fs::create_dir_all(&cache).expect("a folder");
        let cache = cache.display().to_string();
        let cache = format!("decoded_cache = [{{ dir = {cache:?}, bytes = 20000000 }}]");
        let more = [
            Self::preset("fp8", "dinov2", &["recipe.dtype=fp8_e4m3"], String::new()),
            Self::preset("mxfp8", "dinov2", &["recipe.dtype=mxfp8_e4m3"], String::new()),
            Self::preset("mixing", "supervised-timm", &["receiver.mixing={}"], String::new()),
            Self::preset("decoded-cache", "imagenet-train", &[], cache),
            Self::fields(),
            Self::patches(),
        ];
        presets.chain(more).chain(Self::own_python(place)).collect()
    }

    fn preset(name: &str, preset: &str, more: &[&str], worker: String) -> Self {
        let preset = format!("recipe.preset={preset}");
        let settings = std::iter::once(preset).chain(more.iter().map(ToString::to_string));
        let shards = ("photos", "photos-*.tar");
        Self { name: name.to_owned(), settings: settings.collect(), worker, shards }
    }

    /// Fields of every kind, boxes, and a second image.
    fn fields() -> Self {
        let settings = everything::settings();
        let shards = ("fields", "fields.tar");
        Self { name: "fields".to_owned(), settings, worker: everything::tokenizer(), shards }
    }

    /// Sequences of patches: batches of three lengths, and of three numbers of samples.
    fn patches() -> Self {
        let crop =
            json!({"kind": "random_resized_sequence", "scale": [0.2, 1.0], "ratio": [0.8, 1.25]});
        let tensors = json!([{"name": "patches", "dtype": "bf16", "patch_size": 8, "batch_divisor": 4,
                              "sequence_lengths": [64, 32, 100],
                              "views": [{"crop": crop, "ops": [{"op": "flip", "p": 0.5}]}]}]);
        let settings = vec![
            "recipe.preset=custom".to_owned(),
            format!("recipe.tensors={}", everything::toml(&tensors)),
        ];
        let (worker, shards) = (String::new(), ("photos", "photos-*.tar"));
        Self { name: "patches".to_owned(), settings, worker, shards }
    }

    /// Python functions in a view and in the one after it, and erasing; none without a Python that has numpy.
    fn own_python(place: &Path) -> Option<Self> {
        let python = Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv/bin/python");
        if !python.exists() {
            println!("SKIP: no functions in Python: {} is not there", python.display());
            return None;
        }
        let folder = place.join("functions");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("chaos_ops.py"), FUNCTIONS).expect("a module");
        let crop = json!({"kind": "random_resized", "scale": [0.3, 1.0], "ratio": [0.75, 1.3]});
        let view = |function: &str| {
            json!({"crop": crop, "ops": [
                {"op": "python", "p": 1.0, "function": format!("chaos_ops:{function}")},
                {"op": "erase", "p": 0.5, "scale": [0.02, 0.33], "ratio": [0.3, 3.3], "mode": "zero"},
            ]})
        };
        let tensors = json!([{"name": "images", "dtype": "f32", "height": 64, "width": 64,
                              "views": [view("slow"), view("picky")]}]);
        let path = everything::toml(&json!([folder]));
        Some(Self {
            name: "own-python".to_owned(),
            settings: vec![
                format!("recipe.tensors={}", everything::toml(&tensors)),
                format!("receiver.python_path={path}"),
            ],
            worker: format!(
                "python_modules = [\"chaos_ops\"]\npython_path = {path}\npython = {:?}",
                python.display().to_string()
            ),
            shards: ("photos", "photos-*.tar"),
        })
    }

    /// Where its shards lie.
    pub(crate) fn data(&self) -> PathBuf {
        support::data(self.shards.0)
    }
}
