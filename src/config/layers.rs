//! Defaults, file, environment and flags, the later ones on top.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use figment::providers::Serialized;
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};

use crate::config::hub::{HubRoot, Surroundings};
use crate::config::setting::TypedSetting;
use crate::config::{Config, Setting, fault};

/// The file that is read when none is named.
const FILE_DEFAULT: &str = "headwater.toml";
/// In place of a file: standard input.
const STDIN: &str = "-";
/// What a key that nobody set is said to come from.
pub(crate) const FROM_DEFAULT: &str = "default";

/// Where configuration may come from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// A file that must be there, and who named it.
    pub(crate) file: Option<(PathBuf, &'static str)>,
    /// Variables of the environment.
    pub(crate) env: Vec<Setting>,
    /// Flags.
    pub(crate) flags: Vec<Setting>,
}

/// A configuration and where each key of it came from.
pub(crate) struct Loaded {
    pub(crate) config: Config,
    figment: Figment,
}

struct FileLayer {
    path: PathBuf,
    dict: Dict,
}

// === impl Loaded ===

impl Loaded {
    /// Reads and merges everything. Values are checked for their type; [`Config::validate`] looks
    /// at the rest.
    pub(crate) fn read(sources: &Sources) -> Result<Self> {
        let defaults = Value::serialize(Config::default())?;
        let mut figment = Figment::from(Serialized::defaults(Config::default()));
        if let Some(file) = sources.read_file()? {
            figment = figment.merge(file);
        }
        for setting in sources.env.iter().chain(&sources.flags) {
            let default = defaults.find_ref(&setting.key);
            figment = figment.merge(TypedSetting { setting, default });
        }
        match figment.extract() {
            Ok(config) => Ok(Self { config, figment }),
            Err(error) => Err(anyhow!(fault::sentence(&figment, error))),
        }
    }

    /// Where the hub of datasets is.
    pub(crate) fn hub_root(&self) -> Result<HubRoot> {
        let folder = std::env::current_dir().context("there is no working directory")?;
        let variable = |name: &str| std::env::var(name).ok();
        let around = Surroundings { folder: &folder, variable: &variable };
        self.config.hub.root(&self.origin("hub.root"), &around)
    }

    /// Where a key's value came from: `default`, a file, a variable or a flag.
    pub(crate) fn origin(&self, key: &str) -> String {
        origin(&self.figment, key).unwrap_or_else(|| FROM_DEFAULT.to_owned())
    }
}

/// Name of the layer that a key, or what is nearest above it, came from.
pub(crate) fn origin(figment: &Figment, key: &str) -> Option<String> {
    let metadata = figment.find_metadata(key)?;
    Some(match metadata.name.as_ref() {
        name if name.contains("Serialized") || name.contains("Config") => FROM_DEFAULT.to_owned(),
        name => name.to_owned(),
    })
}

// === impl Sources ===

impl Sources {
    fn read_file(&self) -> Result<Option<FileLayer>> {
        match &self.file {
            Some((path, _)) if path.as_os_str() == STDIN => {
                let text = std::io::read_to_string(std::io::stdin())
                    .context("cannot read the configuration from standard input")?;
                FileLayer::parse(Path::new("standard input"), &text).map(Some)
            }
            Some((path, named_by)) => {
                let text = std::fs::read_to_string(path).with_context(|| {
                    format!("cannot read configuration file `{}` ({named_by})", path.display())
                })?;
                FileLayer::parse(path, &text).map(Some)
            }
            None => match std::fs::read_to_string(FILE_DEFAULT) {
                Ok(text) => FileLayer::parse(Path::new(FILE_DEFAULT), &text).map(Some),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(error) => {
                    Err(error).context(format!("cannot read configuration file `{FILE_DEFAULT}`"))
                }
            },
        }
    }
}

// === impl FileLayer ===

impl FileLayer {
    fn parse(path: &Path, text: &str) -> Result<Self> {
        let table = match toml::from_str::<toml::Table>(text) {
            Ok(table) => table,
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start.min(text.len()));
                let line = text.as_bytes()[..at].iter().filter(|b| **b == b'\n').count() + 1;
                bail!("{} line {line} is not TOML: {}", path.display(), error.message());
            }
        };
        let dict = Value::serialize(table)?.into_dict().unwrap_or_default();
        Ok(Self { path: path.to_owned(), dict })
    }
}

impl Provider for FileLayer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.path.display().to_string())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Map::from([(Profile::Default, self.dict.clone())]))
    }
}
