//! A loader's arguments: the configuration file, on it the environment, on it keywords, and the
//! launcher's word for what none of them says.

use std::fs;
use std::path::{Path, PathBuf};

use headwater_access::AccessConfig;
use headwater_core::recipe::{
    BaseSpec, DecodeScaling, Dinov3, Fp8Scaling, HW_DECODER_LOAD_DEFAULT, JpegDecoder, OpSpec,
    RAW_BYTES_MAX, TensorSpec,
};
use headwater_core::{Dtype, Recipe};
use headwater_receiver::{DatasetUse, ReceiverConfig};
use headwater_telemetry::TelemetryConfig;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::environment::Environment;

/// Sections of `headwater.toml`; `hub`, `storage` and `augment` are read by those tiers only.
const SECTIONS: [&str; 9] = [
    "dataset",
    "curriculum",
    "hub",
    "recipe",
    "storage",
    "augment",
    "receiver",
    "security",
    "telemetry",
];
const RECIPE_DEFAULT: &str = "dinov2";
/// The preset whose tensors are written out.
const CUSTOM: &str = "custom";
/// The preset that decodes nothing.
const RAW: &str = "raw";
const DTYPE_DEFAULT: Dtype = Dtype::Bf16;

type Table = Map<String, Value>;

/// All that a receiver is opened with.
pub(crate) struct Options {
    pub(crate) receiver: ReceiverConfig,
    pub(crate) recipe: Recipe,
    pub(crate) datasets: Vec<DatasetUse>,
    /// `None`: not said.
    pub(crate) telemetry: Option<TelemetryConfig>,
}

/// `[recipe]`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RecipeTable {
    preset: Option<String>,
    dtype: Option<Dtype>,
    mean: Option<[f32; 3]>,
    std: Option<[f32; 3]>,
    decode_scaling: Option<DecodeScaling>,
    decoder: Option<JpegDecoder>,
    hw_decoder_load: Option<f64>,
    dinov3: Option<Dinov3>,
    raw_bytes_max: Option<u32>,
    fp8: Option<Fp8Scaling>,
    image_ops: Option<Vec<OpSpec>>,
    bases: Option<Vec<BaseSpec>>,
    tensors: Option<Vec<TensorSpec>>,
}

/// Puts them together.
///
/// # Errors
/// A sentence that names the place and the key.
pub(crate) fn gather(
    config: Option<PathBuf>,
    mut keywords: Table,
    environment: &Environment,
) -> Result<Options, String> {
    let file = config.or_else(|| environment.config().map(PathBuf::from));
    let mut sections = file.as_deref().map(read_table).transpose()?.unwrap_or_default();
    let of_file = |problem| match &file {
        Some(file) => format!("{}: {problem}", file.display()),
        None => problem,
    };
    if let Some(unknown) = sections.keys().find(|key| !SECTIONS.contains(&key.as_str())) {
        let known = SECTIONS.join(", ");
        return Err(of_file(format!("unknown key `{unknown}`: known are {known}")));
    }
    let mut layered = |name: &str| -> Result<Table, String> {
        let mut table = section(&mut sections, name).map_err(of_file)?;
        table.extend(environment.section(name));
        Ok(table)
    };
    let mut receiver = layered("receiver")?;
    let telemetry = layered("telemetry")?;
    let security: AccessConfig = checked("security.", &layered("security")?).map_err(of_file)?;
    let mut recipe = layered("recipe")?;
    if receiver.contains_key("curriculum") {
        let problem = "`receiver.curriculum` is set: write each point as [[curriculum]]";
        return Err(of_file(problem.to_owned()));
    }
    receiver.extend(sections.remove("curriculum").map(|points| ("curriculum".to_owned(), points)));
    checked::<ReceiverConfig>("receiver.", &receiver).map_err(of_file)?;
    let telemetry = (!telemetry.is_empty())
        .then(|| checked("telemetry.", &telemetry).map_err(of_file))
        .transpose()?;
    if let Some(given) = keywords.remove("recipe") {
        recipe = recipe_table(given)?;
    }
    let recipe = recipe_of(recipe, keywords.remove("dtype"))?;
    let datasets = match keywords.remove("datasets") {
        Some(given) => datasets_of(given)?,
        None => {
            let listed = environment.datasets().or_else(|| sections.remove("dataset"));
            without_shards(listed.unwrap_or_default()).and_then(datasets_of).map_err(of_file)?
        }
    };
    if datasets.is_empty() {
        return Err("no dataset: name one in `datasets`, or under [[dataset]] in the file".into());
    }
    if let Some(samples) = keywords.remove("batch_size")
        && keywords.insert("batch_samples".into(), samples).is_some()
    {
        return Err("`batch_size` and `batch_samples` are the same: leave one out".into());
    }
    checked::<ReceiverConfig>("", &keywords)?;
    receiver.extend(keywords);
    if !receiver.contains_key("rank") && !receiver.contains_key("world_size") {
        receiver.extend(environment.launched()?);
    }
    let mut receiver: ReceiverConfig = checked("receiver.", &receiver)?;
    receiver.security = security;
    Ok(Options { receiver, recipe, datasets, telemetry })
}

fn read_table(path: &Path) -> Result<Table, String> {
    let named = |problem: String| format!("{}: {problem}", path.display());
    let text = fs::read_to_string(path).map_err(|error| named(error.to_string()))?;
    toml::from_str(&text).map_err(|error| named(error.to_string().trim_end().to_owned()))
}

fn section(sections: &mut Table, name: &str) -> Result<Table, String> {
    match sections.remove(name) {
        None => Ok(Table::new()),
        Some(Value::Object(table)) => Ok(table),
        Some(_) => Err(format!("`{name}` must be a section, [{name}]")),
    }
}

/// The table as a struct whose keys all have defaults. Looks at each key alone first, so that the
/// error names it.
fn checked<T: DeserializeOwned>(prefix: &str, table: &Table) -> Result<T, String> {
    for (key, value) in table {
        let alone = Table::from_iter([(key.clone(), value.clone())]);
        serde_json::from_value::<T>(alone.into())
            .map_err(|error| format!("`{prefix}{key}` = {value}: {error}"))?;
    }
    serde_json::from_value(table.clone().into()).map_err(|error| error.to_string())
}

/// `"dinov2"`, the path of a TOML file, or a table as in `[recipe]`.
fn recipe_table(recipe: Value) -> Result<Table, String> {
    match recipe {
        Value::Object(table) => Ok(table),
        Value::String(path) if path.ends_with(".toml") => {
            let mut table = read_table(Path::new(&path))?;
            // A whole headwater.toml will do as well.
            match section(&mut table, "recipe")? {
                inner if inner.is_empty() => Ok(table),
                inner => Ok(inner),
            }
        }
        Value::String(preset) => Ok(Table::from_iter([("preset".to_owned(), preset.into())])),
        other => Err(format!("`recipe` = {other}: give a name, a path or a table")),
    }
}

fn recipe_of(mut table: Table, dtype: Option<Value>) -> Result<Recipe, String> {
    if let Some(dtype) = dtype {
        if table.contains_key("tensors") {
            return Err("`dtype` goes with a preset: this recipe gives each tensor its own".into());
        }
        checked::<RecipeTable>("", &Table::from_iter([("dtype".to_owned(), dtype.clone())]))?;
        table.insert("dtype".to_owned(), dtype);
    }
    let table: RecipeTable = checked("recipe.", &table)?;
    let preset = table.preset.unwrap_or_else(|| match table.tensors {
        Some(_) => CUSTOM.to_owned(),
        None => RECIPE_DEFAULT.to_owned(),
    });
    // A recipe that is written out has the preset's mean and standard deviation too.
    let base = if preset == CUSTOM { RECIPE_DEFAULT } else { &preset };
    let dtype = table.dtype.unwrap_or(DTYPE_DEFAULT);
    let mut recipe = match &table.dinov3 {
        Some(options) => Recipe::dinov3(&preset, options, dtype),
        None if preset == RAW => Ok(Recipe::raw(table.raw_bytes_max.unwrap_or(RAW_BYTES_MAX))),
        None => Recipe::preset(base, dtype),
    }
    .map_err(|error| error.to_string())?;
    match table.tensors {
        Some(tensors) if preset == CUSTOM => {
            recipe.tensors = tensors;
            recipe.bases = table.bases.unwrap_or_default();
            recipe.image_ops = table.image_ops.unwrap_or_default();
        }
        None if preset != CUSTOM && table.bases.is_none() && table.image_ops.is_none() => {}
        _ => return Err("`recipe.tensors` and `recipe.preset` = \"custom\" go together".into()),
    }
    recipe.mean = table.mean.unwrap_or(recipe.mean);
    recipe.std = table.std.unwrap_or(recipe.std);
    recipe.decode_scaling = table.decode_scaling.unwrap_or(recipe.decode_scaling);
    recipe.decoder = table.decoder.unwrap_or_default();
    if !recipe.decoder.is_turbojpeg() {
        recipe.hw_decoder_load = table.hw_decoder_load.unwrap_or(HW_DECODER_LOAD_DEFAULT);
    }
    recipe.fp8 = table.fp8.unwrap_or(recipe.fp8);
    Ok(recipe)
}

/// A name, or a list of names, of `{ name, weight }` or of `[name, weight]`.
fn datasets_of(datasets: Value) -> Result<Vec<DatasetUse>, String> {
    let one = |entry: Value| -> Result<DatasetUse, String> {
        let table = match entry {
            Value::String(name) => Value::from_iter([("name", name)]),
            Value::Array(pair) if pair.len() == 2 => {
                Value::from_iter(["name", "weight"].into_iter().zip(pair))
            }
            other => other,
        };
        let text = table.to_string();
        serde_json::from_value(table).map_err(|error| format!("dataset {text}: {error}"))
    };
    match datasets {
        Value::Null => Ok(Vec::new()),
        Value::Array(entries) => entries.into_iter().map(one).collect(),
        entry => Ok(vec![one(entry)?]),
    }
}

/// The storage tier's half of `[[dataset]]` is no business of the receiver's. A dataset of the hub
/// that is given no name has its whole name there.
///
/// # Errors
/// A short name of the hub alone: what it stands for is known where the hub is.
fn without_shards(mut listed: Value) -> Result<Value, String> {
    let tables = listed.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut);
    for table in tables {
        table.remove("shards");
        let Some(hub) = table.remove("hub") else { continue };
        if !table.contains_key("name") {
            let whole = hub.as_str().is_some_and(|name| name.split('/').count() == 4);
            if !whole {
                return Err(format!(
                    "dataset hub = {hub} needs a `name` beside it, or its whole name: \
                     CONFIDENTIALITY/MODALITY/NAME/SPLIT"
                ));
            }
            table.insert("name".to_owned(), hub);
        }
    }
    Ok(listed)
}
