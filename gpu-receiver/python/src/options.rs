//! A loader's arguments: keywords become settings on top of the file and the environment.

use std::path::Path;

use headwater_config::{
    ConfigError, FROM_DEFAULT, HubNeed, Loaded, Setting, Sources, nearest, read_section,
};
use headwater_core::Recipe;
use headwater_receiver::{DatasetUse, ReceiverConfig};
use headwater_telemetry::TelemetryConfig;
use serde_json::{Map, Value, json};

/// Keywords that are not keys of `[receiver]`.
const OWN: [&str; 5] = ["datasets", "recipe", "dtype", "batch_size", "curriculum"];
/// Keywords that are functions; they are taken out before the others are read.
const FUNCTIONS: [&str; 2] = ["amax_reduce", "device_allocator"];
/// What is logged unless told otherwise: a library in somebody else's program is quiet.
const LOG_DEFAULT: &str = "warn";

type Table = Map<String, Value>;

/// All that a receiver is opened with.
pub(crate) struct Options {
    pub(crate) receiver: ReceiverConfig,
    pub(crate) recipe: Recipe,
    pub(crate) datasets: Vec<DatasetUse>,
    pub(crate) telemetry: TelemetryConfig,
    /// Where the filter of log lines came from.
    pub(crate) log_origin: String,
}

/// Puts file, environment and keywords together.
///
/// # Errors
/// A sentence that names the place, the key and the remedy.
pub(crate) fn gather(config: Option<&Path>, keywords: Table) -> Result<Options, String> {
    gathered(config, keywords).map_err(|error| error.to_string())
}

/// The recipe of keywords `recipe` and `dtype` alone, whatever file or environment say.
///
/// # Errors
/// As [`gather`].
pub(crate) fn recipe([recipe, dtype]: &[Option<Value>; 2]) -> Result<Recipe, String> {
    let given = [("recipe", recipe), ("dtype", dtype)];
    let given =
        given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
    let read =
        || Loaded::read(&Sources::of_overrides(settings(given.collect())?))?.config.recipe.recipe();
    read().map_err(|error: ConfigError| error.to_string())
}

fn gathered(config: Option<&Path>, keywords: Table) -> Result<Options, ConfigError> {
    let sources = Sources::of_process(config, "keyword config", settings(keywords)?);
    let mut loaded = Loaded::read(&sources)?;
    loaded.find_in_hub(HubNeed::Names)?;
    let log_origin = loaded.origin("telemetry.log");
    let mut telemetry = loaded.config.telemetry.clone();
    if log_origin == FROM_DEFAULT {
        telemetry.log = LOG_DEFAULT.to_owned();
    }
    Ok(Options {
        receiver: loaded.config.receiver_tier()?,
        recipe: loaded.config.recipe.recipe()?,
        datasets: loaded.config.dataset_uses()?,
        telemetry,
        log_origin,
    })
}

/// The keywords as settings, the recipe before what is said of a part of it.
fn settings(mut keywords: Table) -> Result<Vec<Setting>, ConfigError> {
    let known = || receiver_keys().chain(OWN).chain(FUNCTIONS);
    if let Some(unknown) = keywords.keys().find(|name| !known().any(|known| known == *name)) {
        let remedy = match nearest(unknown, known()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "the keys of [receiver] in docs/configuration.md are keywords, and datasets, \
                     recipe, dtype, batch_size"
                .to_owned(),
        };
        return Err(ConfigError::Keyword(format!("unknown keyword `{unknown}`: {remedy}")));
    }
    if keywords.contains_key("batch_size") && keywords.contains_key("batch_samples") {
        let fault = "`batch_size` and `batch_samples` are the same: leave one out";
        return Err(ConfigError::Keyword(fault.to_owned()));
    }
    let mut settings = Vec::new();
    if let Some(recipe) = keywords.remove("recipe") {
        settings.push(recipe_setting(recipe)?);
    }
    for (name, value) in keywords {
        let origin = format!("keyword {name}");
        settings.push(match name.as_str() {
            "datasets" => Setting::typed(&origin, "dataset", datasets(value)),
            "dtype" => Setting::typed(&origin, "recipe.dtype", value),
            "batch_size" => Setting::typed(&origin, "receiver.batch_samples", value),
            "curriculum" => Setting::typed(&origin, "curriculum", value),
            key => Setting::typed(&origin, &format!("receiver.{key}"), value),
        });
    }
    Ok(settings)
}

fn receiver_keys() -> impl Iterator<Item = &'static str> {
    ReceiverConfig::KEYS.iter().map(|&(name, ..)| name)
}

/// `"dinov2"`, the path of a TOML file, or a table as in `[recipe]`: the whole recipe.
fn recipe_setting(recipe: Value) -> Result<Setting, ConfigError> {
    let origin = "keyword recipe";
    match recipe {
        Value::Object(table) => Ok(Setting::whole(origin, "recipe", table)),
        Value::String(path) if path.ends_with(".toml") => {
            let table = read_section(Path::new(&path), origin, "recipe")?;
            Ok(Setting::whole(&path, "recipe", table))
        }
        Value::String(preset) => Ok(Setting::whole(origin, "recipe", json!({ "preset": preset }))),
        other => Err(ConfigError::Keyword(format!(
            "`recipe` = {other}: give a preset's name, the path of a TOML file or a table"
        ))),
    }
}

/// A name, or a list of names, of `{ name, weight }` or of `[name, weight]`, as `[[dataset]]`.
fn datasets(datasets: Value) -> Value {
    let one = |entry: Value| match entry {
        Value::String(name) => named(&name),
        Value::Array(pair) if pair.len() == 2 => {
            let mut entry = pair[0].as_str().map_or_else(|| json!({ "name": pair[0] }), named);
            entry["weight"] = pair[1].clone();
            entry
        }
        other => other,
    };
    match datasets {
        Value::Array(entries) => entries.into_iter().map(one).collect(),
        entry => vec![one(entry)].into(),
    }
}

/// A dataset by its name, or one of the hub as `hub:NAME`.
fn named(text: &str) -> Value {
    match text.strip_prefix("hub:") {
        Some(hub) => json!({ "hub": hub }),
        None => json!({ "name": text }),
    }
}
