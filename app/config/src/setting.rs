//! One value from outside the file: a variable of the environment, a flag or a keyword.

use figment::value::Value;
use headwater_discovery::split_list;
use serde::{Deserialize, Serialize};
use toml::de::{DeValue, ValueDeserializer};

use crate::fault::nearest;
use crate::renamed;
use crate::sections::{Section, sections};

/// A key with its value, and where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The key as in `storage.listen`.
    pub(crate) key: String,
    given: Given,
    /// Name of the variable, flag or keyword.
    pub(crate) origin: String,
}

/// A value in one of its forms.
#[derive(Clone, Debug, PartialEq)]
enum Given {
    /// As in TOML; a string needs no quotation marks, a list no brackets.
    Text(String),
    /// With a type of its own.
    Typed(Value),
    /// A section that stands for itself: keys that it leaves out are at their defaults.
    Whole(Value),
}

/// Start of the variables that are settings.
const PREFIX: &str = "HEADWATER_";
/// Words in variables that a cluster makes from the names of services.
const CLUSTER_WORDS: [&str; 2] = ["service", "port"];

// === impl Setting ===

impl Setting {
    /// A setting given by a flag, as text.
    #[must_use]
    pub fn flag(flag: &str, key: &str, text: impl ToString) -> Self {
        Self::new(flag, key, Given::Text(text.to_string()))
    }

    /// A setting whose value has a type of its own; `origin` names who gives it.
    ///
    /// # Panics
    /// The value is not plain data.
    #[must_use]
    pub fn typed(origin: &str, key: &str, value: impl Serialize) -> Self {
        Self::new(origin, key, Given::Typed(Value::serialize(value).expect("plain data")))
    }

    /// A whole section, in place of all that files and variables say of it.
    ///
    /// # Panics
    /// The value is not plain data.
    #[must_use]
    pub fn whole(origin: &str, section: &str, value: impl Serialize) -> Self {
        Self::new(origin, section, Given::Whole(Value::serialize(value).expect("plain data")))
    }

    fn new(origin: &str, key: &str, given: Given) -> Self {
        Self { key: key.to_owned(), given, origin: origin.to_owned() }
    }

    /// `KEY=VALUE` of `--set`.
    ///
    /// # Errors
    /// The text is not of that form.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => {
                Ok(Self::flag(&format!("--set {}", key.trim()), key.trim(), value.trim()))
            }
            _ => Err("write KEY=VALUE, as in `storage.listen=0.0.0.0:7401`".to_owned()),
        }
    }

    /// Whether a variable of the environment is a setting: `HEADWATER_SECTION__KEY`, and a whole list as
    /// `HEADWATER_DATASET`.
    #[must_use]
    pub fn is_variable(name: &str) -> bool {
        let is_list = |key: &str| Section::named(&key.to_lowercase()).is_some_and(Section::is_list);
        name.strip_prefix(PREFIX).is_some_and(|key| key.contains("__") || is_list(key))
    }

    /// The settings among variables.
    pub(crate) fn from_variables(variables: &[(String, String)]) -> Vec<Self> {
        let ours = variables.iter().filter(|(name, _)| Self::is_variable(name));
        let mut settings: Vec<Self> = ours
            .map(|(name, text)| {
                let key = name.strip_prefix(PREFIX).unwrap_or(name);
                Self::flag(name, &key.to_lowercase().replace("__", "."), text)
            })
            .collect();
        settings.sort_by(|a, b| a.key.cmp(&b.key));
        settings
    }

    /// Sentences on variables that begin as a section does and are no settings.
    pub(crate) fn mistaken(variables: &[(String, String)]) -> Vec<String> {
        let sentence = |(name, _): &(String, String)| {
            let ours =
                name.strip_prefix(PREFIX).filter(|_| !Self::is_variable(name))?.to_lowercase();
            let of = |section: &'static Section| {
                Some((section, ours.strip_prefix(section.name)?.strip_prefix('_')?))
            };
            let (section, key) = sections().iter().find_map(of)?;
            if key.split('_').any(|word| CLUSTER_WORDS.contains(&word)) {
                return None;
            }
            let meant = nearest(key, section.keys().map(|key| key.name));
            let spelled = |key: &str| format!("{PREFIX}{}__{key}", section.name).to_uppercase();
            Some(match meant {
                Some(meant) => format!("{name} is ignored: did you mean {}?", spelled(meant)),
                None => format!(
                    "{name} is ignored: settings are {}, with two underscores",
                    spelled("key")
                ),
            })
        };
        variables.iter().filter_map(sentence).collect()
    }

    /// The section that this setting replaces as a whole.
    pub(crate) fn whole_section(&self) -> Option<&str> {
        matches!(self.given, Given::Whole(_)).then_some(self.key.as_str())
    }

    /// Whether this setting is about the element type of a preset.
    pub(crate) fn sets_dtype(&self) -> bool {
        match &self.given {
            Given::Whole(value) => self.key == "recipe" && value.find_ref("dtype").is_some(),
            _ => self.key == "recipe.dtype",
        }
    }

    /// The value, of the type that the default has where text leaves it open.
    pub(crate) fn value(&self, defaults: &Value) -> Value {
        let now = renamed::now(&self.key);
        let default = defaults.find_ref(now.as_ref().unwrap_or(&self.key));
        match &self.given {
            Given::Text(text) => typed(text, default),
            Given::Whole(value) => value.clone(),
            Given::Typed(value) => match (value.as_str(), default) {
                // One string where a list is expected.
                (Some(text), Some(Value::Array(..))) => listed(text),
                _ => value.clone(),
            },
        }
    }
}

fn typed(text: &str, default: Option<&Value>) -> Value {
    let parsed = DeValue::parse(text).ok();
    match (default, parsed.as_ref().map(|parsed| parsed.get_ref())) {
        // In quotation marks, or `{ steps = 605 }` in place of `drop_last`.
        (Some(Value::String(..)), Some(DeValue::String(_) | DeValue::Table(_))) => {}
        (Some(Value::String(..)), _) => return text.into(),
        (Some(Value::Array(..)), None | Some(DeValue::String(_))) if !text.is_empty() => {
            return listed(text);
        }
        _ => {}
    }
    // Not by way of `toml::Value`, whose numbers end at 2^63.
    let value = parsed.map(|parsed| Deserialize::deserialize(ValueDeserializer::from(parsed)));
    value.and_then(Result::ok).unwrap_or_else(|| text.into())
}

/// The entries of `a,b`; a comma within brackets does not separate.
pub(crate) fn listed(text: &str) -> Value {
    let items: Vec<Value> = split_list(text).map(|item| item.trim().into()).collect();
    items.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str, default: Option<Value>) -> Value {
        typed(text, default.as_ref())
    }

    #[test]
    fn a_variable_that_looks_like_a_setting_is_not_ignored_in_silence() {
        let said = |name: &str| Setting::mistaken(&[(name.to_owned(), "7".to_owned())]);
        assert_eq!(
            said("HEADWATER_RECEIVER_BATCH_SAMPLES"),
            [
                "HEADWATER_RECEIVER_BATCH_SAMPLES is ignored: did you mean HEADWATER_RECEIVER__BATCH_SAMPLES?"
            ]
        );
        assert_eq!(
            said("HEADWATER_RECEIVER_XYZ"),
            [
                "HEADWATER_RECEIVER_XYZ is ignored: settings are HEADWATER_RECEIVER__KEY, with two underscores"
            ]
        );
        for other in [
            "HEADWATER_RECEIVER__SEED",
            "HEADWATER_STORAGE_SERVICE_HOST",
            "HEADWATER_STORAGE_PORT_7401_TCP_ADDR",
            "HEADWATER_CONFIG",
            "HEADWATER_DATASETS_ROOT",
            "RECEIVER_SEED",
        ] {
            assert!(said(other).is_empty(), "{other}");
        }
    }

    #[test]
    fn text_becomes_what_the_default_is() {
        let string = || Some(Value::from("default"));
        assert_eq!(value("2024", string()).as_str(), Some("2024"));
        assert_eq!(value("2026-11-27", string()).as_str(), Some("2026-11-27"));
        assert_eq!(value("\"quoted\"", string()).as_str(), Some("quoted"));
        assert_eq!(value("127.0.0.1:0", string()).as_str(), Some("127.0.0.1:0"));
        assert_eq!(value("{7410..7429}", string()).as_str(), Some("{7410..7429}"));
        assert!(value("{ steps = 605 }", string()).as_dict().is_some());
        assert_eq!(value("12", Some(Value::from(1))).deserialize::<u32>(), Ok(12));
        assert_eq!(value("true", None).to_bool(), Some(true));
        let list = || Some(Value::from(vec!["a:1"]));
        assert_eq!(value("b:1, c:2", list()).as_array().map(<[Value]>::len), Some(2));
        assert_eq!(value("n[0,3-5],m1:1,c:2", list()).as_array().map(<[Value]>::len), Some(3));
        assert_eq!(value("[\"b:1\"]", list()).as_array().map(<[Value]>::len), Some(1));
    }

    #[test]
    fn only_variables_with_a_section_are_settings() {
        let variables = [
            ("HEADWATER_STORAGE__LISTEN", "a:1"),
            ("HEADWATER_STORAGE_PORT", "tcp://10.0.0.1:7401"),
            ("HEADWATER_LOG", "debug"),
            ("HEADWATER_DATASET", "[]"),
            ("PATH", "/bin"),
        ];
        let variables = variables.map(|(name, text)| (name.to_owned(), text.to_owned()));
        let keys: Vec<String> =
            Setting::from_variables(&variables).into_iter().map(|s| s.key).collect();
        assert_eq!(keys, ["dataset", "storage.listen"]);
    }
}
