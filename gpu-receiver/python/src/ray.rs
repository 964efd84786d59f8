//! Services on a Ray cluster: the keyword `ray`, and the configuration of their processes.

use std::path::{Path, PathBuf};

use headwater_augment::BackendChoice;
use headwater_config::{
    Config, ConfigError as Fault, FROM_DEFAULT, HubNeed, Loaded, Setting, Shards, Sources,
};
use headwater_receiver::ReceiverConfig;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;

use crate::errors::ConfigError;
use crate::keywords::warn;
use crate::options::{ADDRESSES, RAY};
use crate::{data, json};

/// A service that is followed while this value lives. Its addresses are in files, which the
/// receiver reads again and again.
pub(crate) struct Following(Py<PyAny>);

// === impl Following ===

impl Following {
    /// Begins to follow the service that the keywords name, and adds the places of its addresses
    /// to the keywords.
    pub(crate) fn begin(options: &Bound<'_, PyDict>) -> PyResult<Option<Self>> {
        let Some(name) = options.get_item(RAY)?.filter(|name| !name.is_none()) else {
            return Ok(None);
        };
        for key in ADDRESSES {
            if options.get_item(key)?.is_some_and(|given| !given.is_none()) {
                return Err(ConfigError::new_err(format!(
                    "`ray` and `{key}` are both given: the service on Ray has addresses of its own; leave one out"
                )));
            }
        }
        let following =
            options.py().import("headwater.ray._following")?.call_method1("follow", (name,))?;
        for key in ADDRESSES {
            options.set_item(key, following.getattr(key)?)?;
        }
        Ok(Some(Self(following.unbind())))
    }

    /// Makes the receiver send the service's own token, if the service has drawn one.
    pub(crate) fn lead(&self, py: Python<'_>, receiver: &mut ReceiverConfig) -> PyResult<()> {
        if let Some(token) = self.0.getattr(py, "token_file")?.extract::<Option<PathBuf>>(py)? {
            receiver.security = ReceiverConfig::default().security;
            receiver.security.token_file = token;
        }
        Ok(())
    }

    /// An error once the service has ended.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.0.call_method0(py, "check").map(drop)
    }
}

/// The configuration of both tiers as the text of a `headwater.toml`, for processes on other hosts, and whether
/// `[security]` guards them. Relative paths of shards begin in this process's working directory.
///
/// File and environment are read as for a `Loader`; `datasets` is the same as `data` there.
/// `settings` has further keys by their whole names, such as `"augment.threads"`. If none of them
/// says otherwise, a worker has `threads` threads, and uses a GPU only if it has one (`has_gpu`).
#[pyfunction]
pub(crate) fn service_config(
    py: Python<'_>,
    datasets: Option<&Bound<'_, PyAny>>,
    config: Option<PathBuf>,
    settings: &Bound<'_, PyDict>,
    threads: usize,
    has_gpu: bool,
) -> PyResult<(String, bool)> {
    let datasets = datasets.map(json::from_python).transpose()?;
    let Value::Object(settings) = json::from_python(settings.as_any())? else {
        return Err(ConfigError::new_err("`settings` is no dict of keys"));
    };
    let read = || {
        let mut overrides = Vec::new();
        if let Some(datasets) = datasets {
            let entries = data::entries(datasets, None)?;
            overrides.push(Setting::typed("argument datasets", "dataset", entries));
        }
        for (key, value) in settings {
            overrides.push(Setting::typed(&format!("settings[\"{key}\"]"), &key, value));
        }
        let sources = Sources::of_process(config.as_deref(), "keyword config", overrides);
        let mut loaded = Loaded::read(&sources)?;
        loaded.find_in_hub(HubNeed::Shards)?;
        if loaded.origin("augment.threads") == FROM_DEFAULT {
            loaded.config.augment.threads = threads;
        }
        if loaded.origin("augment.backend") == FROM_DEFAULT && !has_gpu {
            loaded.config.augment.backend = BackendChoice::Cpu;
        }
        let warnings = loaded.warnings().to_vec();
        Ok((of_tiers(loaded.config)?, warnings))
    };
    let read = read().map_err(|fault: Fault| ConfigError::new_err(fault.to_string()));
    let (config, warnings) = read?;
    warn(py, &warnings)?;
    let guarded = config.security != Config::default().security;
    let text = toml::to_string(&config).map_err(|error| ConfigError::new_err(error.to_string()))?;
    Ok((text, guarded))
}

/// The part of a configuration that both tiers use, with paths that are valid on every host.
fn of_tiers(config: Config) -> Result<Config, Fault> {
    let Config { mut dataset, storage, augment, links, telemetry, security, .. } = config;
    let here = std::env::current_dir()
        .map_err(|error| Fault::Keyword(format!("there is no working directory: {error}")))?;
    for shards in dataset.iter_mut().filter_map(|entry| entry.shards.as_mut()) {
        match shards {
            Shards::One(pattern) => anchor(pattern, &here),
            Shards::Many(patterns) => patterns.iter_mut().for_each(|one| anchor(one, &here)),
        }
    }
    let links = links.of_workers();
    let config =
        Config { dataset, storage, augment, links, telemetry, security, ..Config::default() };
    config.storage_tier()?;
    config.augment_tier()?;
    Ok(config)
}

/// Writes a relative path from `folder`; URLs stay.
fn anchor(pattern: &mut String, folder: &Path) {
    if !pattern.contains("://") && !pattern.starts_with('/') {
        *pattern = folder.join(&*pattern).display().to_string();
    }
}
