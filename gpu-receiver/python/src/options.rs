//! A loader's arguments: keywords become settings on top of the file and the environment.

use std::path::{Path, PathBuf};

use headwater_access::AccessConfig;
use headwater_config::{
    Config, ConfigError, FROM_DEFAULT, HubNeed, Loaded, RecipeConfig, Setting, Sources, nearest,
    read_section,
};
use headwater_core::Recipe;
use headwater_receiver::{DatasetUse, ReceiverConfig};
use headwater_telemetry::TelemetryConfig;
use headwater_transport::links::LinksConfig;
use serde_json::{Map, Value, json};

use crate::data;
use crate::local::{Local, Place};

/// Keywords that are not keys of `[receiver]` or `[links]`.
const OWN: [&str; 8] =
    ["datasets", "recipe", "batch_size", "curriculum", FILTERS, EMBEDDED, AUGMENT_THREADS, RAY];
/// Keys of `[recipe]` that are keywords: what is chosen of a preset.
pub(crate) const OF_RECIPE: [&str; 13] = [
    "dtype",
    "image_size",
    "resize_size",
    "crop_scale",
    "global_crops_size",
    "global_crops_scale",
    "local_crops_number",
    "local_crops_size",
    "local_crops_scale",
    "interpolation",
    "mean",
    "std",
    "exif_orientation",
];
/// Keywords that are functions; they are taken out before the others are read.
const FUNCTIONS: [&str; 3] = ["amax_reduce", "device_allocator", "progress"];
/// Keywords on services that the loader starts.
const EMBEDDED: &str = "embedded";
const AUGMENT_THREADS: &str = "augment_threads";
/// Keyword on which samples are served.
const FILTERS: &str = "filters";
/// Keyword that names a service on a Ray cluster.
pub(crate) const RAY: &str = "ray";
/// Keywords on services that run elsewhere.
pub(crate) const ADDRESSES: [&str; 2] = ["storage", "workers"];
/// Allowed value of `embedded`.
const THREADS: &str = "threads";
/// Ending of a configuration file.
const CONFIG_ENDING: &str = ".toml";
/// What is logged unless told otherwise: a library in somebody else's program is quiet.
const LOG_DEFAULT: &str = "warn";

type Table = Map<String, Value>;

/// The arguments from Python.
pub(crate) struct Arguments {
    pub(crate) data: Option<Value>,
    pub(crate) config: Option<PathBuf>,
    pub(crate) keywords: Table,
    /// Folders that may have the program.
    pub(crate) scripts: Vec<PathBuf>,
    /// Rank and number of processes of PyTorch's group, where one is made.
    pub(crate) group: Option<(u32, u32)>,
    /// This process's Python, and folders of the user's own modules.
    pub(crate) python: (PathBuf, Vec<PathBuf>),
}

/// Everything that a receiver needs to open.
pub(crate) struct Options {
    /// Settings of the process that makes batches for all trials of this host, if it is turned on.
    pub(crate) host: Option<Host>,
    /// Services to start, in place of the receiver's addresses.
    pub(crate) local: Option<Local>,
    pub(crate) receiver: ReceiverConfig,
    pub(crate) recipe: Recipe,
    pub(crate) datasets: Vec<DatasetUse>,
    pub(crate) telemetry: TelemetryConfig,
    /// The configuration's own `[security]`. Services of the loader's own have another one.
    pub(crate) security: AccessConfig,
    /// Where the filter of log lines came from.
    pub(crate) log_origin: String,
    /// Rank and number of ranks are a launcher's, or PyTorch's.
    pub(crate) is_launched: bool,
    /// What to log about the configuration.
    pub(crate) warnings: Vec<String>,
}

/// A process that makes the batches of this host.
pub(crate) struct Host {
    pub(crate) config: Box<Config>,
    /// Folders that may have the program.
    pub(crate) scripts: Vec<PathBuf>,
}

/// Puts file, environment and keywords together.
///
/// # Errors
/// A sentence that names the place, the key and the remedy.
pub(crate) fn gather(arguments: Arguments) -> Result<Options, String> {
    gathered(arguments).map_err(|error| error.to_string())
}

/// The recipe of the keywords `recipe` and `dtype`, without file and environment.
///
/// # Errors
/// As [`gather`].
pub(crate) fn recipe([recipe, dtype]: &[Option<Value>; 2]) -> Result<Recipe, String> {
    let given = [("recipe", recipe), ("dtype", dtype)];
    let given =
        given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
    let read = || {
        Loaded::read(&Sources::of_overrides(settings(None, given.collect())?))?
            .config
            .recipe
            .recipe()
    };
    read().map_err(|error: ConfigError| error.to_string())
}

fn gathered(mut arguments: Arguments) -> Result<Options, ConfigError> {
    arguments.take_config()?;
    let scripts = arguments.scripts.clone();
    let python = arguments.python.clone();
    let place = arguments.take_place()?;
    let Arguments { data, config, keywords, group, .. } = arguments;
    let mut sources =
        Sources::of_process(config.as_deref(), "keyword config", settings(data, keywords)?);
    if let Some((rank, world_size)) = group {
        sources = sources.in_group("torch.distributed", rank, world_size);
    }
    let mut loaded = Loaded::read(&sources)?;
    let warning = loaded.check_rank()?.map(str::to_owned);
    if place.is_none() {
        loaded.check_filters()?;
    }
    let need = if place.is_some() { HubNeed::Shards } else { HubNeed::Names };
    loaded.find_in_hub(need)?;
    take_python(&mut loaded, &python);
    if place.is_some() {
        trust_own(&mut loaded)?;
    }
    let log_origin = loaded.origin("telemetry.log");
    let mut telemetry = loaded.config.telemetry.clone();
    if log_origin == FROM_DEFAULT {
        telemetry.log = LOG_DEFAULT.to_owned();
    }
    let host = loaded.config.receiver.window.host_share.then(|| {
        let config = Box::new(loaded.config.clone());
        Host { config, scripts }
    });
    let changed = changed_preset(&loaded.config.recipe)?;
    let warnings = loaded
        .warnings()
        .iter()
        .cloned()
        .chain(warning)
        .chain(changed)
        .chain(loaded.uneven_packs())
        .collect();
    Ok(Options {
        host,
        warnings,
        local: place.map(|place| Local::new(&loaded, &telemetry, place)),
        receiver: loaded.config.receiver_tier()?,
        recipe: loaded.config.recipe.recipe()?,
        datasets: loaded.config.dataset_uses()?,
        telemetry,
        is_launched: loaded.is_launched(),
        security: loaded.config.security,
        log_origin,
    })
}

/// What to say of a preset that is not as published any more.
fn changed_preset(recipe: &RecipeConfig) -> Result<Option<String>, ConfigError> {
    let Some(preset) = recipe.changed_preset()? else { return Ok(None) };
    let digest = recipe.recipe()?.digest();
    Ok(Some(format!(
        "the recipe is `{preset}` with other values: no longer the recipe as published (docs/recipes.md); \
         the digest of this recipe is {digest}"
    )))
}

/// Functions of recipes are found and called by the Python that this is, unless another one is named.
fn take_python(loaded: &mut Loaded, (program, folders): &(PathBuf, Vec<PathBuf>)) {
    for tier in ["receiver", "augment", "storage"] {
        let is_default = |key: &str| loaded.origin(&format!("{tier}.{key}")) == FROM_DEFAULT;
        let (takes_program, takes_folders) = (is_default("python"), is_default("python_path"));
        let Config { receiver, augment, storage, .. } = &mut loaded.config;
        let (python, path) = match tier {
            "receiver" => (&mut receiver.samples.python, &mut receiver.samples.python_path),
            "augment" => (&mut augment.python.python, &mut augment.python.python_path),
            _ => (&mut storage.python.python, &mut storage.python.python_path),
        };
        if takes_program {
            python.clone_from(program);
        }
        if takes_folders {
            path.clone_from(folders);
        }
    }
}

/// Services of the loader's own call what its recipe calls, and serve the classes that it names.
fn trust_own(loaded: &mut Loaded) -> Result<(), ConfigError> {
    let recipe = loaded.config.recipe.recipe()?;
    let called = recipe.python_functions().map(|function| function.module().to_owned());
    let served = loaded.config.dataset.iter().flat_map(|dataset| dataset.served().python_modules());
    let served: Vec<String> = served.collect();
    let tokenizers = recipe.tokens().map(|(_, tokens)| tokens.tokenizer.as_str());
    let named = tokenizers.filter(|path| !path.is_empty());
    // Services may run in another folder.
    let tokenizers: Vec<_> =
        named.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.into())).collect();
    let Config { augment, storage, .. } = &mut loaded.config;
    augment.tokenizers.extend(tokenizers);
    augment.tokenizers.sort();
    augment.tokenizers.dedup();
    augment.python.python_modules.extend(called);
    storage.python.python_modules.extend(served);
    for modules in [&mut augment.python.python_modules, &mut storage.python.python_modules] {
        modules.sort();
        modules.dedup();
    }
    Ok(())
}

// === impl Arguments ===

impl Arguments {
    /// Recognises a configuration file that was given as the first argument.
    fn take_config(&mut self) -> Result<(), ConfigError> {
        let named = self.data.as_ref().and_then(Value::as_str);
        let Some(named) = named.filter(|data| data.ends_with(CONFIG_ENDING)) else { return Ok(()) };
        if let Some(config) = &self.config {
            return Err(ConfigError::Keyword(format!(
                "`data` is the configuration file `{named}`, and `config` is `{}`: give one file",
                config.display()
            )));
        }
        self.config = Some(named.into());
        self.data = None;
        Ok(())
    }

    /// Place of the loader's own services, if it should have any.
    fn take_place(&mut self) -> Result<Option<Place>, ConfigError> {
        let wrong = |fault: String| Err(ConfigError::Keyword(fault));
        if self.data.is_none() {
            return match [FILTERS, EMBEDDED, AUGMENT_THREADS]
                .iter()
                .find(|k| self.keywords.contains_key(**k))
            {
                Some(key) => wrong(format!(
                    "`{key}` goes with `data`, which is not given: services of a cluster have their own"
                )),
                None => Ok(None),
            };
        }
        if let Some(key) =
            [RAY].iter().chain(&ADDRESSES).find(|key| self.keywords.contains_key(**key))
        {
            return wrong(format!(
                "`data` and `{key}` are both given: with `data` the loader starts services on this host, \
                 with `storage` and `workers` it uses those of a cluster; leave one out"
            ));
        }
        match self.keywords.remove(EMBEDDED) {
            None => Ok(Some(Place::Process(std::mem::take(&mut self.scripts)))),
            Some(Value::String(threads)) if threads == THREADS => Ok(Some(Place::Threads)),
            Some(other) => {
                wrong(format!("`embedded` = {other}: give \"threads\", or leave it out"))
            }
        }
    }
}

/// Data and keywords as settings, the recipe before what is said of a part of it.
fn settings(data: Option<Value>, mut keywords: Table) -> Result<Vec<Setting>, ConfigError> {
    let known = || receiver_keys().chain(link_keys()).chain(OWN).chain(OF_RECIPE).chain(FUNCTIONS);
    if let Some(unknown) = keywords.keys().find(|name| !known().any(|known| known == *name)) {
        let remedy = match nearest(unknown, known()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "the keys of [receiver] and [links] in docs/configuration.md are keywords, and datasets, \
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
    if let Some(data) = data {
        let datasets = keywords.remove("datasets").map(datasets);
        let entries = data::entries(data, datasets)?;
        settings.push(Setting::typed("argument data", "dataset", entries));
    }
    // In its place there are addresses by now.
    keywords.remove(RAY);
    for (name, value) in keywords {
        let origin = format!("keyword {name}");
        settings.push(match name.as_str() {
            "datasets" => Setting::typed(&origin, "dataset", datasets(value)),
            AUGMENT_THREADS => Setting::typed(&origin, "augment.threads", value),
            key if OF_RECIPE.contains(&key) => {
                Setting::typed(&origin, &format!("recipe.{key}"), value)
            }
            "batch_size" => Setting::typed(&origin, "receiver.batch_samples", value),
            "curriculum" => Setting::typed(&origin, "curriculum", value),
            FILTERS => Setting::typed(&origin, "filter", bounded(value)?),
            key if link_keys().any(|known| known == key) => {
                Setting::typed(&origin, &format!("links.{key}"), value)
            }
            key => Setting::typed(&origin, &format!("receiver.{key}"), value),
        });
    }
    Ok(settings)
}

/// Filters whose bounds are numbers that a configuration can have. Python's others have become their names.
fn bounded(filters: Value) -> Result<Value, ConfigError> {
    for (number, filter) in filters.as_array().into_iter().flatten().enumerate() {
        for key in ["min", "max"] {
            let remedy = match filter.get(key).and_then(Value::as_str) {
                Some("inf" | "-inf") => "leave out a bound that no value reaches",
                Some("nan") => "give a number",
                _ => continue,
            };
            let name = filter[key].as_str().unwrap_or_default();
            let fault = format!("`{FILTERS}[{number}].{key}` is {name}: {remedy}");
            return Err(ConfigError::Keyword(fault));
        }
    }
    Ok(filters)
}

fn receiver_keys() -> impl Iterator<Item = &'static str> {
    ReceiverConfig::KEYS.iter().map(|&(name, ..)| name)
}

fn link_keys() -> impl Iterator<Item = &'static str> {
    LinksConfig::KEYS.iter().map(|&(name, ..)| name)
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
