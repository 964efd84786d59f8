//! What the process's environment says: the file, keys of the configuration, and the launcher's
//! word on which rank this is. Variables are named as the program `headwater` names them.

use headwater_discovery::split_list;
use headwater_receiver::ReceiverConfig;
use serde_json::{Map, Value};

/// Names the configuration file where the caller does not.
const CONFIG: &str = "HEADWATER_CONFIG";
/// Holds a whole list of datasets.
const DATASET: &str = "HEADWATER_DATASET";
/// Before `SECTION__KEY`.
const PREFIX: &str = "HEADWATER_";
/// Where launchers say which rank a process is, best first.
const LAUNCHERS: [(&str, &str); 2] = [("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")];

type Table = Map<String, Value>;

/// The variables of a process.
pub(crate) struct Environment(Vec<(String, String)>);

// === impl Environment ===

impl Environment {
    /// Those of this process, without what is not text.
    pub(crate) fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(text).collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Path of the configuration file.
    pub(crate) fn config(&self) -> Option<&str> {
        self.get(CONFIG).filter(|path| !path.is_empty())
    }

    /// Keys of a section, from `HEADWATER_SECTION__KEY`. Values are as in TOML; a string needs no
    /// quotation marks, a list of strings no brackets.
    pub(crate) fn section(&self, section: &str) -> Table {
        let prefix = format!("{PREFIX}{}__", section.to_uppercase());
        let defaults = match section {
            "receiver" => serde_json::to_value(ReceiverConfig::default()).unwrap_or_default(),
            _ => Value::Null,
        };
        let entry = |(name, text): &(String, String)| {
            let key = name.strip_prefix(&prefix)?.to_lowercase();
            let value = typed(text, defaults.get(&key));
            Some((key, value))
        };
        self.0.iter().filter_map(entry).collect()
    }

    /// The datasets, where they are given.
    pub(crate) fn datasets(&self) -> Option<Value> {
        Some(typed(self.get(DATASET)?, None))
    }

    /// Rank and number of ranks, from the first launcher that says both.
    ///
    /// # Errors
    /// One of the two is no number.
    pub(crate) fn launched(&self) -> Result<Table, String> {
        for (rank, size) in LAUNCHERS {
            if let (Some(rank_text), Some(size_text)) = (self.get(rank), self.get(size)) {
                return Ok(Table::from_iter([
                    ("rank".to_owned(), number(rank, rank_text)?),
                    ("world_size".to_owned(), number(size, size_text)?),
                ]));
            }
        }
        Ok(Table::new())
    }
}

fn number(name: &str, text: &str) -> Result<Value, String> {
    let number: u32 =
        text.trim().parse().map_err(|error| format!("${name} is `{text}`: {error}"))?;
    Ok(number.into())
}

/// Text as the kind of value that it replaces.
fn typed(text: &str, default: Option<&Value>) -> Value {
    let parsed = text.parse::<toml::Value>().ok().and_then(|v| serde_json::to_value(v).ok());
    match (default, parsed) {
        (Some(Value::String(_)), Some(Value::String(unquoted))) => unquoted.into(),
        (Some(Value::Array(_)), None | Some(Value::String(_))) if !text.is_empty() => {
            split_list(text).map(|item| Value::from(item.trim())).collect()
        }
        (Some(Value::String(_)), _) | (_, None) => text.into(),
        (_, Some(parsed)) => parsed,
    }
}
