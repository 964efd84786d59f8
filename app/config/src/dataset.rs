//! `[[dataset]]`: what there is to train on.

use std::collections::BTreeMap;
use std::path::PathBuf;

use headwater_config_derive::Keys;
use headwater_core::recipe::KeyValue;
use headwater_receiver::DatasetUse;
use headwater_storage::{DatasetConfig, FormatKind, MegatronConfig, PackConfig};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::ConfigError;
use crate::hub::{Hub, Reference};

/// Before a dataset of the hub, on the command line.
const HUB: &str = "hub:";
/// Before a class, in place of a pattern.
const PYTHON: &str = "python:";

/// One dataset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Keys)]
#[serde(deny_unknown_fields, default)]
pub struct DatasetEntry {
    /// Name, unique in the job. Optional with `hub`: then it is the whole name there. Receivers
    /// need only the name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Shards in order, one string or a list: paths, globs, and braces as in
    /// `train-{000000..000127}.tar`; folders for formats with samples in folders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shards: Option<Shards>,
    /// In place of `shards`, a dataset of the hub: `CONFIDENTIALITY/MODALITY/NAME/SPLIT`, or
    /// `NAME/SPLIT` or `NAME` if it is unique.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hub: Option<String>,
    /// Format of the shards. `auto`: by the ending of each name, and for folders by their content.
    #[serde(skip_serializing_if = "is_default")]
    pub format: FormatKind,
    /// For folders of images: a CSV or JSONL file in the folder with a line for each image, or
    /// `none`. Empty: `metadata.csv` or `metadata.jsonl` if present, otherwise the folder is the
    /// class.
    #[serde(skip_serializing_if = "is_default")]
    pub labels: String,
    /// Names of all classes in the order of their numbers, for folders of images and for labels that are texts. Empty:
    /// those that there are, sorted.
    #[serde(skip_serializing_if = "is_default")]
    pub classes: Vec<String>,
    /// Columns, arrays or features that become fields. Default: all.
    #[serde(skip_serializing_if = "is_default")]
    pub columns: Vec<String>,
    /// For tokens: length of a sequence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence_length: Option<u32>,
    /// For tokens: Megatron's order, as `{ samples = 1000000, split = "969,30,1" }`. The shards are `.bin` files or
    /// lists of weights and corpora.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub megatron: Option<MegatronConfig>,
    /// For tokens: sequences in packs of one size, as `{ budget = 8192, epochs = 3 }`. The shards are `.bin` files or lists
    /// of corpora.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pack: Option<PackConfig>,
    /// Samples of one shard, for formats without shards. Default: 1024.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard_samples: Option<u32>,
    /// For a Python dataset, `shards = "python:package.module:Class"`: the arguments of its class, by name.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "arguments")]
    pub arguments: BTreeMap<String, serde_json::Value>,
    /// For a Python dataset: maximum bytes of a sample; a larger sample stops the read. Default:
    /// 1048576.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_bytes_max: Option<u64>,
    /// Share in the mix, relative to the other datasets. Default: the number of samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
}

/// One pattern or several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a pattern or a list of patterns, as strings")]
pub enum Shards {
    /// One pattern.
    One(String),
    /// Patterns in order.
    Many(Vec<String>),
}

/// What has to be known of a dataset of the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HubNeed {
    /// Its name: a storage node has the shards.
    Names,
    /// Its shards too.
    Shards,
}

/// Arguments are handed on as JSON: a number that it does not have would become `None`.
fn arguments<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, serde_json::Value>, D::Error> {
    let given = BTreeMap::<String, KeyValue>::deserialize(from)?;
    let json = |(name, value): (String, KeyValue)| match value.into_json() {
        Ok(value) => Ok((name, value)),
        Err(fault) => Err(D::Error::custom(format!("argument `{name}`: {fault}"))),
    };
    given.into_iter().map(json).collect()
}

// === impl DatasetEntry ===

impl DatasetEntry {
    /// A dataset written as `NAME=SHARDS`, `hub:DATASET`, `NAME=hub:DATASET` or, for a receiver,
    /// `NAME` on the command line; or with all of its keys as a table of TOML in one line,
    /// `{ name = "wiki", shards = "wiki.bin", sequence_length = 2048 }`.
    ///
    /// # Errors
    /// The text is none of these.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        if text.starts_with('{') && text.ends_with('}') {
            let entry = Self::parse_table(text)?;
            return entry.validate().map(|()| entry);
        }
        let (name, shards) = match text.split_once('=') {
            _ if text.starts_with(HUB) => ("", text),
            Some((name, shards)) if !name.is_empty() && !shards.is_empty() => (name, shards),
            None if !text.is_empty() && !looks_like_shards(text) => {
                return Ok(Self { name: text.to_owned(), ..Self::default() });
            }
            _ => {
                return Err(ConfigError::Dataset(format!(
                    "`{text}` is not a dataset: write NAME=SHARDS, as in `photos=data/*.tar`, or \
                     hub:DATASET, as in `hub:photos/train`"
                )));
            }
        };
        let hub = shards.strip_prefix(HUB).map(str::to_owned);
        let shards = hub.is_none().then(|| Shards::One(shards.to_owned()));
        let entry = Self { name: name.to_owned(), shards, hub, ..Self::default() };
        entry.validate().map(|()| entry)
    }

    fn parse_table(text: &str) -> Result<Self, ConfigError> {
        #[derive(Deserialize)]
        struct Document {
            dataset: DatasetEntry,
        }
        let document: Result<Document, _> = toml::from_str(&format!("dataset = {text}"));
        document.map(|document| document.dataset).map_err(|error| {
            let problem = error.message();
            ConfigError::Dataset(format!("`{text}` is not a dataset: {problem}"))
        })
    }

    /// Checks all but whether it is there. Only storage nodes need its shards.
    ///
    /// # Errors
    /// The first key that is missing, or whose value cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let name = &self.name;
        let reference = self.reference()?;
        let fault = |problem: String| Err(ConfigError::Dataset(problem));
        match (&self.shards, reference) {
            (Some(_), None) if name.is_empty() => {
                return fault(
                    "a [[dataset]] with `shards` needs a key `name`: write it".to_owned(),
                );
            }
            (None, None) if name.is_empty() => {
                return fault("a [[dataset]] needs a key `name` or `hub`: write one".to_owned());
            }
            (Some(_), Some(_)) => {
                return fault(format!("dataset `{name}` has `shards` and `hub`: leave one out"));
            }
            _ => {}
        }
        match self.weight {
            Some(weight) if !(weight.is_finite() && weight >= 0.0) => {
                fault(format!("weight of dataset `{name}` is {weight}: must be 0 or more"))
            }
            _ => Ok(()),
        }
    }

    /// The dataset of the hub that is meant, if one is.
    ///
    /// # Errors
    /// The text cannot be a name in the hub.
    pub fn reference(&self) -> Result<Option<Reference>, ConfigError> {
        let reference = self.hub.as_deref().map(str::parse).transpose();
        reference.map_err(|fault: String| ConfigError::Hub(format!("hub: {fault}")))
    }

    /// Takes the whole name in the hub, if that is written and the entry has no name of its own.
    pub(crate) fn take_whole_name(&mut self) -> Result<(), ConfigError> {
        if let Some(reference) = self.reference()?.filter(Reference::is_whole)
            && self.name.is_empty()
        {
            self.name = reference.to_string();
        }
        Ok(())
    }

    /// The same with its shards, found in the hub.
    pub(crate) fn found_in(&self, hub: &Hub) -> Result<Self, ConfigError> {
        let Some(reference) = self.reference()? else { return Ok(self.clone()) };
        let split = hub.split(&reference)?;
        let shards = Some(Shards::One(split.pattern()?));
        let name = match self.name.as_str() {
            "" => split.name.to_string(),
            name => name.to_owned(),
        };
        Ok(Self { name, shards, hub: None, ..self.clone() })
    }

    /// Whether it says where its shards are.
    #[must_use]
    pub fn has_shards(&self) -> bool {
        self.shards.is_some() || self.hub.is_some()
    }

    /// As the storage tier serves it, once it is found in the hub.
    #[must_use]
    pub fn served(&self) -> DatasetConfig {
        let hub = self.hub.clone().unwrap_or_default();
        let shards = match &self.shards {
            Some(Shards::One(pattern)) => vec![pattern.clone()],
            Some(Shards::Many(patterns)) => patterns.clone(),
            None => vec![format!("{HUB}{hub}")],
        };
        let name = if self.name.is_empty() { hub } else { self.name.clone() };
        let DatasetConfig { shard_samples, sample_bytes_max, .. } = DatasetConfig::default();
        DatasetConfig {
            name,
            shards,
            format: self.format,
            labels: self.labels.clone(),
            classes: self.classes.clone(),
            columns: self.columns.clone(),
            sequence_length: self.sequence_length,
            megatron: self.megatron.clone(),
            pack: self.pack.clone(),
            shard_samples: self.shard_samples.unwrap_or(shard_samples),
            arguments: self.arguments.clone(),
            sample_bytes_max: self.sample_bytes_max.unwrap_or(sample_bytes_max),
        }
    }

    /// The folders that its shards lie in, as far as the patterns say without a look at the disk.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let patterns = match &self.shards {
            Some(Shards::One(pattern)) => std::slice::from_ref(pattern),
            Some(Shards::Many(patterns)) => patterns,
            None => &[],
        };
        let is_file = |pattern: &&String| !pattern.contains("://") && !pattern.starts_with(PYTHON);
        let files = patterns.iter().filter(is_file);
        files.map(|pattern| folder(pattern)).collect()
    }

    /// As a receiver mixes it.
    pub(crate) fn used(&self) -> DatasetUse {
        DatasetUse { name: self.name.clone(), weight: self.weight }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The folder above all that a pattern may name.
fn folder(pattern: &str) -> PathBuf {
    let plain = pattern.split(['*', '?', '[', '{']).next().unwrap_or_default();
    let folder = plain.rfind('/').map_or("./", |slash| &plain[..=slash]);
    PathBuf::from(folder)
}

/// Whether a text is shards whose name was forgotten.
fn looks_like_shards(text: &str) -> bool {
    text.contains(['*', '{', '?'])
        || text.contains("://")
        || text.ends_with('/')
        || FormatKind::of_name(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dataset_is_shards_or_one_of_the_hub() {
        let parse = |text| DatasetEntry::parse(text).map(|e| (e.name, e.shards.is_some(), e.hub));
        let hub = |text: &str| Some(text.to_owned());
        assert_eq!(parse("a=b/*.tar").unwrap(), ("a".to_owned(), true, None));
        assert_eq!(parse("hub:a/train").unwrap(), (String::new(), false, hub("a/train")));
        assert_eq!(parse("x=hub:c/m/a/s").unwrap(), ("x".to_owned(), false, hub("c/m/a/s")));
        assert_eq!(parse("public/rgb/a/train").unwrap().0, "public/rgb/a/train");
        for bad in ["", "a.tar", "a/*", "=b", "a=", "hub:", "hub:../a", "x=hub:a b"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        for shards in ["a.parquet", "photos/", "b/a.csv.gz", "s3://bucket/a", "a.ZARR"] {
            let error = parse(shards).unwrap_err().to_string();
            assert!(error.contains("NAME=SHARDS"), "{error}");
        }
    }

    #[test]
    fn a_dataset_with_options_is_a_table_in_one_line() {
        let parse = |text| DatasetEntry::parse(text).map_err(|error| error.to_string());
        let wiki = "{name=\"w\", shards=\"w.bin\", format=\"tokens\", sequence_length=8}";
        let served = parse(wiki).unwrap().served();
        assert_eq!((served.name.as_str(), served.format), ("w", FormatKind::Tokens));
        assert_eq!((served.shards, served.sequence_length), (vec!["w.bin".to_owned()], Some(8)));
        let error = parse("{name=\"w\", shard=\"w.bin\"}").unwrap_err();
        assert!(error.contains("`shard`") && error.contains("shards"), "{error}");
        assert!(parse("{shards=\"w.bin\"}").unwrap_err().contains("`name`"));
        assert!(parse("{a,b}").is_err());
    }

    #[test]
    fn folders_are_those_above_the_patterns() {
        let of = |shards: &str| DatasetEntry::parse(&format!("a={shards}")).unwrap().folders();
        assert_eq!(of("/data/a/x-{000..127}.tar"), [PathBuf::from("/data/a/")]);
        assert_eq!(of("/data/{a,b}/x.tar"), [PathBuf::from("/data/")]);
        assert_eq!(of("/data/*/x.tar"), [PathBuf::from("/data/")]);
        assert_eq!(of("x.tar"), [PathBuf::from("./")]);
        assert!(of("s3://bucket/x-{0..7}.tar").is_empty());
        assert!(DatasetEntry::parse("a=hub:b/train").unwrap().folders().is_empty());
    }

    #[test]
    fn a_dataset_with_neither_name_nor_hub_or_with_both_places_is_refused() {
        let entry: DatasetEntry = toml::from_str("weight = 1.0").unwrap();
        let error = entry.validate().unwrap_err().to_string();
        assert_eq!(error, "a [[dataset]] needs a key `name` or `hub`: write one");
        let entry: DatasetEntry = toml::from_str("name = \"a\"").unwrap();
        assert!(entry.validate().is_ok() && !entry.has_shards());
        let both = "name = \"a\"\nshards = \"a.tar\"\nhub = \"a\"";
        let entry: DatasetEntry = toml::from_str(both).unwrap();
        assert!(entry.validate().unwrap_err().to_string().contains("leave one out"));
        let entry: DatasetEntry = toml::from_str("shards = \"a.tar\"").unwrap();
        assert!(entry.validate().unwrap_err().to_string().contains("`name`"));
    }

    #[test]
    fn an_argument_that_is_no_number_is_refused_by_name() {
        let entry = |value: &str| {
            let text = format!("name = 'a'\nshards = 'python:a:B'\narguments = {{ x = {value} }}");
            toml::from_str::<DatasetEntry>(&text).map_err(|error| error.to_string())
        };
        assert_eq!(entry("[1, { y = 0.5 }]").unwrap().arguments["x"][1]["y"], 0.5);
        for value in ["nan", "[1.0, inf]", "{ y = -inf }"] {
            let said = entry(value).unwrap_err();
            assert!(said.contains("cannot be handed on as JSON"), "{value}: {said}");
        }
        assert!(entry("nan").unwrap_err().contains("argument `x`: nan"));
    }
}
