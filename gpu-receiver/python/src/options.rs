//! A loader's arguments: the configuration file, keywords that go before it, and the launcher's
//! environment for what neither says.

use std::fs;
use std::path::Path;

use headwater_core::{Dtype, Recipe};
use headwater_receiver::{DatasetUse, ReceiverConfig};
use headwater_telemetry::TelemetryConfig;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Sections of `headwater.toml` that are other tiers' or verbs'.
const OTHERS: [&str; 4] = ["storage", "augment", "run", "bench"];
/// Where launchers say which rank a process is, best first.
const LAUNCHERS: [(&str, &str); 2] = [("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")];
const RECIPE_DEFAULT: &str = "dinov2";
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

/// Puts them together; `env` looks a variable up.
///
/// # Errors
/// A sentence that names the file and the key.
pub(crate) fn gather(
    file: Option<&Path>,
    mut keywords: Table,
    env: impl Fn(&str) -> Option<String>,
) -> Result<Options, String> {
    let mut sections = file.map(read_table).transpose()?.unwrap_or_default();
    let of_file = |problem| match file {
        Some(file) => format!("{}: {problem}", file.display()),
        None => problem,
    };
    let mut receiver = section(&mut sections, "receiver").map_err(of_file)?;
    checked::<ReceiverConfig>("receiver.", &receiver).map_err(of_file)?;
    let dtype = keywords.remove("dtype");
    let recipe = keywords.remove("recipe").or(sections.remove("recipe"));
    let recipe = recipe_of(recipe.unwrap_or(RECIPE_DEFAULT.into()), dtype)?;
    let datasets = match (keywords.remove("datasets"), sections.remove("dataset")) {
        (Some(given), _) => datasets_of(given)?,
        (None, Some(listed)) => datasets_of(without_shards(listed)).map_err(of_file)?,
        (None, None) => Vec::new(),
    };
    if datasets.is_empty() {
        return Err("no dataset: name one in `datasets`, or under [[dataset]] in the file".into());
    }
    let telemetry = section(&mut sections, "telemetry").map_err(of_file)?;
    let telemetry = (!telemetry.is_empty())
        .then(|| checked("telemetry.", &telemetry))
        .transpose()
        .map_err(of_file)?;
    if let Some(unknown) = sections.keys().find(|key| !OTHERS.contains(&key.as_str())) {
        return Err(of_file(format!(
            "unknown key `{unknown}`; it has [receiver], [recipe], [[dataset]], [telemetry]"
        )));
    }
    if let Some(samples) = keywords.remove("batch_size")
        && keywords.insert("batch_samples".into(), samples).is_some()
    {
        return Err("`batch_size` and `batch_samples` are the same: leave one out".into());
    }
    checked::<ReceiverConfig>("", &keywords)?;
    receiver.extend(keywords);
    if !receiver.contains_key("rank") && !receiver.contains_key("world_size") {
        receiver.extend(launched(env)?);
    }
    Ok(Options { receiver: checked("receiver.", &receiver)?, recipe, datasets, telemetry })
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

/// `"dinov2"`, the path of a TOML file, `{ preset, dtype }`, or a whole recipe.
fn recipe_of(recipe: Value, dtype: Option<Value>) -> Result<Recipe, String> {
    let mut table = match recipe {
        Value::Object(table) => table,
        Value::String(path) if path.ends_with(".toml") => {
            let mut table = read_table(Path::new(&path))?;
            // A whole headwater.toml will do as well.
            match section(&mut table, "recipe")? {
                inner if inner.is_empty() => table,
                inner => inner,
            }
        }
        Value::String(preset) => Table::from_iter([("preset".to_owned(), preset.into())]),
        other => return Err(format!("`recipe` = {other}: give a name, a path or a table")),
    };
    let Some(preset) = table.remove("preset") else {
        if dtype.is_some() {
            return Err("`dtype` goes with a preset: this recipe gives each tensor its own".into());
        }
        return serde_json::from_value(table.into()).map_err(|error| format!("recipe: {error}"));
    };
    let dtype = dtype.or(table.remove("dtype"));
    if let Some(unknown) = table.keys().next() {
        return Err(format!("unknown key `recipe.{unknown}`: beside `preset` there is `dtype`"));
    }
    let dtype = match dtype {
        None => DTYPE_DEFAULT,
        Some(name) => serde_json::from_value(name.clone())
            .map_err(|error| format!("`dtype` = {name}: {error}"))?,
    };
    let preset: String =
        serde_json::from_value(preset).map_err(|e| format!("recipe.preset: {e}"))?;
    Recipe::preset(&preset, dtype).map_err(|error| error.to_string())
}

/// A name; a list of names, of `{ name, weight }` or of `[name, weight]`; or `{ name: weight }`.
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
        Value::Array(entries) => entries.into_iter().map(one).collect(),
        Value::Object(weights) if !weights.contains_key("name") => weights
            .into_iter()
            .map(|(name, weight)| one(vec![name.into(), weight].into()))
            .collect(),
        entry => Ok(vec![one(entry)?]),
    }
}

/// The storage tier's half of `[[dataset]]` is no business of the receiver's.
fn without_shards(mut listed: Value) -> Value {
    for entry in listed.as_array_mut().into_iter().flatten() {
        entry.as_object_mut().map(|table| table.remove("shards"));
    }
    listed
}

/// Rank and number of ranks, from the first launcher that says both.
fn launched(env: impl Fn(&str) -> Option<String>) -> Result<Table, String> {
    for (rank, size) in LAUNCHERS {
        if let (Some(rank_text), Some(size_text)) = (env(rank), env(size)) {
            let number = |name: &str, text: &str| -> Result<Value, String> {
                let number: u32 =
                    text.trim().parse().map_err(|error| format!("${name} is `{text}`: {error}"))?;
                Ok(number.into())
            };
            return Ok(Table::from_iter([
                ("rank".to_owned(), number(rank, &rank_text)?),
                ("world_size".to_owned(), number(size, &size_text)?),
            ]));
        }
    }
    Ok(Table::new())
}
