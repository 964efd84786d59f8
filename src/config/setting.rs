//! One value from outside the file: a variable of the environment or a flag.

use figment::value::{Dict, Map, Value};
use figment::{Metadata, Profile, Provider, util};
use headwater_discovery::split_list;

/// A key with its value as text, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The key as in `storage.listen`.
    pub(crate) key: String,
    /// The value as in TOML; a string needs no quotation marks, a list no brackets.
    pub(crate) text: String,
    /// Name of the variable or flag.
    pub(crate) origin: String,
}

/// What a setting becomes beside the default it replaces, which says whether text is meant.
pub(crate) struct TypedSetting<'a> {
    pub(crate) setting: &'a Setting,
    pub(crate) default: Option<&'a Value>,
}

/// Start of the variables that are settings.
const PREFIX: &str = "HEADWATER_";
/// The one section that has no keys of its own.
const DATASET: &str = "DATASET";

// === impl Setting ===

impl Setting {
    /// A setting given by a flag.
    pub(crate) fn flag(flag: &str, key: &str, text: impl ToString) -> Self {
        Self { key: key.to_owned(), text: text.to_string(), origin: flag.to_owned() }
    }

    /// `KEY=VALUE` of `--set`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => {
                Ok(Self::flag(&format!("--set {}", key.trim()), key.trim(), value.trim()))
            }
            _ => Err("write KEY=VALUE, as in `storage.listen=0.0.0.0:7401`".to_owned()),
        }
    }

    /// The settings among variables: `HEADWATER_SECTION__KEY`, and `HEADWATER_DATASET`. Others
    /// that begin alike are not ours to judge: a cluster makes some from the names of services.
    pub(crate) fn from_env(variables: impl Iterator<Item = (String, String)>) -> Vec<Self> {
        let mut settings: Vec<Self> = variables
            .filter_map(|(name, text)| {
                let key = name.strip_prefix(PREFIX)?;
                let ours = key == DATASET || key.contains("__");
                let key = key.to_lowercase().replace("__", ".");
                ours.then(|| Self { key, text, origin: name.clone() })
            })
            .collect();
        settings.sort_by(|a, b| a.key.cmp(&b.key));
        settings
    }
}

// === impl TypedSetting ===

impl TypedSetting<'_> {
    fn value(&self) -> Value {
        let text = self.setting.text.as_str();
        let parsed = text.parse::<toml::Value>().ok();
        match (self.default, parsed) {
            (Some(Value::String(..)), Some(toml::Value::String(unquoted))) => unquoted.into(),
            (Some(Value::String(..)), _) => text.into(),
            (Some(Value::Array(..)), None | Some(toml::Value::String(_))) if !text.is_empty() => {
                let items: Vec<Value> = split_list(text).map(|item| item.trim().into()).collect();
                items.into()
            }
            (_, Some(parsed)) => Value::serialize(parsed).unwrap_or_else(|_| text.into()),
            (_, None) => text.into(),
        }
    }
}

impl Provider for TypedSetting<'_> {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.setting.origin.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        let nested = util::nest(&self.setting.key, self.value());
        let dict = nested.into_dict().unwrap_or_default();
        Ok(Map::from([(Profile::Default, dict)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str, default: Option<Value>) -> Value {
        let setting = Setting::flag("--x", "a.b", text);
        TypedSetting { setting: &setting, default: default.as_ref() }.value()
    }

    #[test]
    fn text_becomes_what_the_default_is() {
        let string = || Some(Value::from("default"));
        assert_eq!(value("2024", string()).as_str(), Some("2024"));
        assert_eq!(value("\"quoted\"", string()).as_str(), Some("quoted"));
        assert_eq!(value("127.0.0.1:0", string()).as_str(), Some("127.0.0.1:0"));
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
            Setting::from_env(variables.into_iter()).into_iter().map(|s| s.key).collect();
        assert_eq!(keys, ["dataset", "storage.listen"]);
    }
}
