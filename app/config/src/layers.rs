//! Defaults, file, environment and overrides, the later ones on top.

use std::path::{Path, PathBuf};

use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};
use headwater_core::pluralize;

use crate::config::Config;
use crate::dataset::HubNeed;
use crate::error::ConfigError;
use crate::fault;
use crate::hub::{HubRoot, Surroundings};
use crate::launcher::{Launched, Taken};
use crate::origin::{FROM_DEFAULT, is_default, origin};
use crate::renamed::{Renamed, SourceKind};
use crate::setting::{Setting, listed};

/// The file that is read when none is named.
const FILE_DEFAULT: &str = "headwater.toml";
/// In place of a file: standard input.
const STDIN: &str = "-";
/// The variable that names the configuration file.
const CONFIG_ENV: &str = "HEADWATER_CONFIG";
/// The variable whose filter of log lines goes before every other.
const LOG_ENV: &str = "HEADWATER_LOG";
/// The key that it sets.
const LOG_KEY: &str = "telemetry.log";

/// Where configuration may come from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    file: FileSource,
    variables: Vec<(String, String)>,
    overrides: Vec<Setting>,
    launched: Option<(String, [u32; 2])>,
}

/// Which file is read.
#[derive(Clone, Debug, Default)]
enum FileSource {
    /// None.
    #[default]
    Absent,
    /// `headwater.toml` in the working directory, where there is one.
    WorkingDirectory,
    /// A file that must be there, and who named it.
    Named(PathBuf, String),
    /// A text that is at hand, and what it is called in errors.
    Text(String, String),
}

/// A configuration and where each key of it came from.
#[derive(Debug)]
pub struct Loaded {
    /// The sections.
    pub config: Config,
    figment: Figment,
    variables: Vec<(String, String)>,
    warnings: Vec<String>,
    /// What the launcher says.
    launched: Taken,
    /// The file or a variable says where shards of a dataset are.
    is_for_storage: bool,
}

/// What one source sets.
struct Layer {
    name: String,
    dict: Dict,
}

// === impl Sources ===

impl Sources {
    /// The sources of this process. The file is `named`, by whom `named_by` says; else the one
    /// that `$HEADWATER_CONFIG` names; else `headwater.toml` in the working directory, where there
    /// is one. `-` is standard input. On top of it lie the environment and then `overrides`, the
    /// later ones of a key on top.
    #[must_use]
    pub fn of_process(named: Option<&Path>, named_by: &str, overrides: Vec<Setting>) -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let by_env = || std::env::var_os(CONFIG_ENV).filter(|path| !path.is_empty());
        let file = match (named, by_env()) {
            (Some(path), _) => FileSource::Named(path.to_owned(), named_by.to_owned()),
            (None, Some(path)) => FileSource::Named(path.into(), CONFIG_ENV.to_owned()),
            (None, None) => FileSource::WorkingDirectory,
        };
        let variables = std::env::vars_os().filter_map(text).collect();
        Self { file, variables, overrides, launched: None }
    }

    /// With rank and number of ranks of a group that this process is in already, in place of what variables of a launcher
    /// say. `origin` names who made it.
    #[must_use]
    pub fn in_group(self, origin: &str, rank: u32, world_size: u32) -> Self {
        Self { launched: Some((origin.to_owned(), [rank, world_size])), ..self }
    }

    /// These settings and nothing else.
    #[must_use]
    pub fn of_overrides(overrides: Vec<Setting>) -> Self {
        Self { overrides, ..Self::default() }
    }

    /// One text and nothing else; errors call it `place`.
    #[must_use]
    pub fn text(place: &str, text: &str) -> Self {
        Self { file: FileSource::Text(text.to_owned(), place.to_owned()), ..Self::default() }
    }

    /// What lies on top of the file, in order.
    fn settings(&self) -> Vec<Setting> {
        let log = self.variables.iter().filter(|(name, _)| name == LOG_ENV);
        let log = log.map(|(_, filter)| Setting::typed(LOG_ENV, LOG_KEY, filter));
        let mut settings = Setting::from_variables(&self.variables);
        settings.extend(self.overrides.iter().cloned().chain(log));
        settings
    }

    fn read_file(&self) -> Result<Option<Layer>, ConfigError> {
        match &self.file {
            FileSource::Absent => Ok(None),
            FileSource::Text(text, place) => Layer::parse(place, text).map(Some),
            FileSource::Named(path, _) if path.as_os_str() == STDIN => {
                let text = std::io::read_to_string(std::io::stdin()).map_err(ConfigError::Stdin)?;
                Layer::parse("standard input", &text).map(Some)
            }
            FileSource::Named(path, named_by) => {
                Layer::parse(&path.display().to_string(), &read(path, named_by)?).map(Some)
            }
            FileSource::WorkingDirectory => match read(FILE_DEFAULT.as_ref(), FROM_DEFAULT) {
                Ok(text) => Layer::parse(FILE_DEFAULT, &text).map(Some),
                Err(ConfigError::Read { source, .. })
                    if source.kind() == std::io::ErrorKind::NotFound =>
                {
                    Ok(None)
                }
                Err(error) => Err(error),
            },
        }
    }
}

// === impl Loaded ===

impl Loaded {
    /// Reads and merges everything. Values are checked for their type; [`Config::validate`] looks
    /// at the rest.
    ///
    /// # Errors
    /// A file that cannot be read or is not TOML, an unknown key, a value of the wrong type.
    pub fn read(sources: &Sources) -> Result<Self, ConfigError> {
        let defaults = Value::serialize(Config::default()).expect("plain data");
        let mut layers: Vec<Layer> = sources.read_file()?.into_iter().collect();
        let mut renamed = Renamed::default();
        for file in &mut layers {
            renamed.take(SourceKind::File, &file.name, &mut file.dict)?;
            file.take_strings_for_lists(&defaults);
        }
        let overrides: Vec<_> = sources.overrides.iter().map(|s| s.origin.as_str()).collect();
        for setting in sources.settings() {
            let kind = match Setting::is_variable(&setting.origin) {
                true => SourceKind::Environment,
                false => SourceKind::Flags,
            };
            if let Some(section) = setting.whole_section() {
                layers.iter_mut().for_each(|layer| drop(layer.dict.remove(section)));
            }
            let mut layer = Layer::of(&setting, &defaults);
            renamed.take(kind, &layer.name, &mut layer.dict)?;
            layers.push(layer);
        }
        let is_own = |layer: &&Layer| !overrides.contains(&layer.name.as_str());
        let is_for_storage = layers.iter().filter(is_own).any(Layer::names_shards);
        let base =
            Layer { name: FROM_DEFAULT.to_owned(), dict: defaults.into_dict().unwrap_or_default() };
        let mut figment = layers.into_iter().fold(Figment::from(base), Figment::merge);
        let launched = Launched::read(&sources.variables);
        let launched = match &sources.launched {
            Some((origin, ranks)) => launched.by(origin, *ranks),
            None => launched,
        };
        let launched = launched.over(&figment);
        for setting in &launched.settings {
            figment = figment.merge(Layer::of(setting, &Value::from(0)));
        }
        let mut config = match figment.extract::<Config>() {
            Ok(config) => config,
            Err(error) => return Err(fault::explained(&figment, error)),
        };
        if let Some(error) = fault::cut_list(&figment, &config) {
            return Err(error);
        }
        if is_default(&figment, "recipe.preset") {
            config.recipe.take_preset();
        }
        config.listen_on_this_host();
        config.name_field_of_filters();
        if let Some(setting) = sources.overrides.iter().rfind(|setting| setting.sets_dtype())
            && config.recipe.is_written_out()
        {
            let place = setting.origin.clone();
            let problem =
                "`recipe.dtype` goes with a preset: this recipe gives each tensor its own";
            return Err(ConfigError::Key { place, problem: problem.to_owned() });
        }
        let variables = sources.variables.clone();
        let mut warnings = renamed.warnings;
        warnings.extend(Setting::mistaken(&variables));
        Ok(Self { config, figment, variables, warnings, launched, is_for_storage })
    }

    /// Sentences for the log: keys that have another name now.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether a launcher has a say in which rank this is: the configuration does not say it.
    #[must_use]
    pub fn is_launched(&self) -> bool {
        self.launched.is_asked
    }

    /// Checks that it is clear which rank this process is, before it opens a receiver. Returns a sentence for the log.
    ///
    /// # Errors
    /// Rank or number of ranks is not said, or two disagree on it.
    pub fn check_rank(&self) -> Result<Option<&str>, ConfigError> {
        match self.launched.fault.clone() {
            Some(fault) => Err(ConfigError::Rank { fault }),
            None => Ok(self.launched.warning.as_deref()),
        }
    }

    /// A sentence for the log, where packs are dealt for steps of another size than those of this job.
    #[must_use]
    pub fn uneven_packs(&self) -> Option<String> {
        let receiver = &self.config.receiver;
        let (samples, ranks) = (receiver.batch_samples, receiver.world_size);
        let job = u64::from(samples) * u64::from(ranks);
        let mut dealt = self.config.dataset.iter().filter_map(|dataset| {
            let batch = dataset.pack.as_ref()?.batch?;
            (u64::from(batch) != job).then_some((&dataset.name, batch))
        });
        dealt.next().map(|(name, batch)| {
            format!(
                "dataset `{name}` deals packs to steps of {batch} (`pack.batch`), and a step of this job has {job}: \
                 `receiver.batch_samples` = {samples} on each of {}; loads of ranks are not even",
                pluralize(ranks, "rank")
            )
        })
    }

    /// Checks that filters are not only given where they leave out nothing: to a receiver of services that run elsewhere.
    /// A file or variables that say where shards are may be those of the storage nodes too.
    ///
    /// # Errors
    /// There are filters.
    pub fn check_filters(&self) -> Result<(), ConfigError> {
        if self.config.filter.is_empty() || self.is_for_storage {
            return Ok(());
        }
        let problem = "`[[filter]]` goes with shards, which are not given: services of a cluster have their own; write it \
                       into the configuration of the storage nodes"
            .to_owned();
        Err(ConfigError::Key { place: self.origin("filter"), problem })
    }

    /// Where the hub of datasets is.
    ///
    /// # Errors
    /// Nothing says where it is.
    pub fn hub_root(&self) -> Result<HubRoot, ConfigError> {
        let folder = std::env::current_dir()
            .map_err(|error| ConfigError::Hub(format!("there is no working directory: {error}")))?;
        let variable = |name: &str| {
            let variable = self.variables.iter().find(|(known, _)| known == name);
            variable.map(|(_, value)| value.clone())
        };
        let around = Surroundings { folder: &folder, variable: &variable };
        self.config.hub.root(&self.origin("hub.root"), &around)
    }

    /// Puts names and, where they are needed, shards in place of datasets of the hub.
    ///
    /// # Errors
    /// A dataset is not in the hub, or the hub cannot be found.
    pub fn find_in_hub(&mut self, need: HubNeed) -> Result<(), ConfigError> {
        let root = self.hub_root();
        self.config.find_in_hub(need, || root)
    }

    /// Where a key's value came from: `default`, a file, a variable, a flag or a keyword.
    #[must_use]
    pub fn origin(&self, key: &str) -> String {
        origin(&self.figment, key).unwrap_or_else(|| FROM_DEFAULT.to_owned())
    }
}

/// A section of a file of its own, or the whole file where it has no such section.
///
/// # Errors
/// The file, which `named_by` names, cannot be read or is not TOML.
pub fn read_section(path: &Path, named_by: &str, section: &str) -> Result<Dict, ConfigError> {
    let mut dict = Layer::parse(&path.display().to_string(), &read(path, named_by)?)?.dict;
    match dict.remove(section) {
        Some(Value::Dict(_, inner)) => Ok(inner),
        _ => Ok(dict),
    }
}

fn read(path: &Path, named_by: &str) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
        path: path.to_owned(),
        named_by: named_by.to_owned(),
        source,
    })
}

// === impl Layer ===

impl Layer {
    fn parse(place: &str, text: &str) -> Result<Self, ConfigError> {
        // Not by way of `toml::Table`, whose numbers end at 2^63.
        let dict = toml::from_str::<Dict>(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
            let problem = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
            ConfigError::Syntax { place: place.to_owned(), line, problem }
        })?;
        Ok(Self { name: place.to_owned(), dict })
    }

    /// Whether it says of a dataset where its shards are.
    fn names_shards(&self) -> bool {
        let datasets = self.dict.get("dataset").and_then(Value::as_array).unwrap_or_default();
        let keys = |dataset: &Value| {
            let dataset = dataset.as_dict();
            dataset.is_some_and(|keys| ["shards", "hub"].iter().any(|key| keys.contains_key(*key)))
        };
        datasets.iter().any(keys)
    }

    /// Lets one string stand for a list of strings, as variables and keywords do.
    fn take_strings_for_lists(&mut self, defaults: &Value) {
        for (section, value) in &mut self.dict {
            let Value::Dict(_, keys) = value else { continue };
            for (name, value) in keys {
                let default = defaults.find_ref(&format!("{section}.{name}"));
                if let (Some(text), Some(Value::Array(..))) = (value.as_str(), default) {
                    *value = listed(text);
                }
            }
        }
    }

    fn of(setting: &Setting, defaults: &Value) -> Self {
        let nested = figment::util::nest(&setting.key, setting.value(defaults));
        Self { name: setting.origin.clone(), dict: nested.into_dict().unwrap_or_default() }
    }
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.name.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Map::from([(Profile::Default, self.dict.clone())]))
    }
}

#[cfg(test)]
mod tests {
    use headwater_core::fields::IMAGE_FIELD;

    use super::*;

    const FILTER: &str = "[[filter]]\nkind = \"width\"\nmin = 9\n";

    fn read(file: &str, variables: &[(&str, &str)], keywords: &[(&str, &str)]) -> Loaded {
        let variable = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let keyword = |(key, value): &(&str, &str)| {
            Setting::typed(&format!("keyword {key}"), key, toml_value(value))
        };
        let sources = Sources {
            variables: variables.iter().map(variable).collect(),
            overrides: keywords.iter().map(keyword).collect(),
            ..Sources::text("train.toml", file)
        };
        Loaded::read(&sources).unwrap()
    }

    fn toml_value(text: &str) -> serde_json::Value {
        serde_json::from_str(text).unwrap()
    }

    /// All tiers may read one file: a receiver has filters then that storage nodes go by.
    #[test]
    fn filters_that_no_storage_node_can_read_are_refused_by_where_they_stand() {
        let named = "[[dataset]]\nname = \"d\"\n";
        let whole = "[[dataset]]\nname = \"d\"\nshards = \"/a/*.tar\"\n";
        let hub = "[[dataset]]\nhub = \"d\"\n";
        let [named, whole, hub] = [named, whole, hub].map(|dataset| format!("{dataset}{FILTER}"));
        let variable = ("HEADWATER_FILTER", "[{kind = 'width', min = 9}]");
        let shards = ("HEADWATER_DATASET", "[{name = 'd', shards = '/a/*.tar'}]");
        let keyword = ("dataset", "[{\"name\": \"d\"}]");
        let of_hub = ("dataset", "[{\"hub\": \"d\"}]");
        for (file, variables, keywords, place) in [
            (&*named, &[][..], &[][..], "train.toml"),
            (FILTER, &[], &[keyword], "train.toml"),
            (FILTER, &[], &[of_hub], "train.toml"),
            ("", &[variable], &[keyword], "HEADWATER_FILTER"),
        ] {
            let said = read(file, variables, keywords).check_filters().unwrap_err().to_string();
            let expected = format!("{place}: `[[filter]]` goes with shards");
            assert!(said.starts_with(&expected), "{said}");
        }
        for (file, variables, keywords) in [
            (&*whole, &[][..], &[][..]),
            (&whole, &[], &[keyword]),
            (&hub, &[], &[keyword]),
            (&whole, &[variable], &[]),
            ("", &[variable, shards], &[keyword]),
            ("", &[], &[keyword]),
        ] {
            read(file, variables, keywords).check_filters().unwrap();
        }
    }

    #[test]
    fn filters_that_name_no_field_are_about_the_image_of_the_receiver() {
        let more = "[[filter]]\nfield = \"txt\"\n[[filter]]\nkind = \"bytes\"\nmax = 9\n\
                    [[filter]]\nkind = \"number\"\nmax = 9\n";
        let fields = |image: &str| {
            let file = format!("{FILTER}{more}[receiver]\nimage_field = \"{image}\"\n");
            let filters = read(&file, &[], &[]).config.filter;
            filters.into_iter().map(|filter| filter.field).collect::<Vec<_>>()
        };
        assert_eq!(fields("large.jpg"), ["large.jpg", "txt", "large.jpg", ""]);
        assert_eq!(fields("jpg | png"), ["jpg|png", "txt", "jpg|png", ""]);
        assert_eq!(fields(IMAGE_FIELD), ["", "txt", "", ""]);
        assert_eq!(fields("jpg||png"), ["", "txt", "", ""], "the receiver refuses it");
    }
}
