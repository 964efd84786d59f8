//! The sections of `headwater.toml` and their keys.

use headwater_access::AccessConfig;
use headwater_augment::AugmentConfig;
use headwater_autoscale::Policy;
use headwater_core::sampler::CurriculumPoint;
use headwater_receiver::ReceiverConfig;
use headwater_storage::{FilterConfig, StorageConfig};
use headwater_telemetry::TelemetryConfig;
use headwater_transport::links::LinksConfig;

use crate::autoscale::AutoscaleConfig;
use crate::dataset::DatasetEntry;
use crate::hub::HubConfig;
use crate::monitor::MonitorConfig;
use crate::publish::PublishConfig;
use crate::recipe::RecipeConfig;

/// A key of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Name within its section.
    pub name: &'static str,
    /// Unit of a number; empty: it has none.
    pub unit: &'static str,
    /// What it means, as one paragraph.
    pub meaning: &'static str,
}

/// A section of the file.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Name in the file.
    pub name: &'static str,
    keys: &'static [(&'static str, &'static str, &'static str)],
    is_list: bool,
}

/// All sections, in the order in which they are shown.
const SECTIONS: [Section; 15] = [
    Section { is_list: true, ..Section::new("dataset", DatasetEntry::KEYS) },
    Section { is_list: true, ..Section::new("filter", FilterConfig::KEYS) },
    Section { is_list: true, ..Section::new("curriculum", CurriculumPoint::KEYS) },
    Section::new("hub", HubConfig::KEYS),
    Section::new("recipe", RecipeConfig::KEYS),
    Section::new("storage", StorageConfig::KEYS),
    Section::new("augment", AugmentConfig::KEYS),
    Section::new("receiver", ReceiverConfig::KEYS),
    Section::new("links", LinksConfig::KEYS),
    Section::new("publish", PublishConfig::KEYS),
    Section::new("autoscale", AutoscaleConfig::KEYS),
    Section::new("scaling", Policy::KEYS),
    Section::new("monitor", MonitorConfig::KEYS),
    Section::new("security", AccessConfig::KEYS),
    Section::new("telemetry", TelemetryConfig::KEYS),
];

/// All sections with all keys.
#[must_use]
pub fn sections() -> &'static [Section] {
    &SECTIONS
}

// === impl Section ===

impl Section {
    const fn new(
        name: &'static str,
        keys: &'static [(&'static str, &'static str, &'static str)],
    ) -> Self {
        Self { name, keys, is_list: false }
    }

    /// The section of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        SECTIONS.iter().find(|section| section.name == name)
    }

    /// Whether the file may have any number of it, as in `[[dataset]]`.
    #[must_use]
    pub fn is_list(&self) -> bool {
        self.is_list
    }

    /// Its keys, in the order in which they are declared.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.keys.iter().map(|&(name, unit, meaning)| Key { name, unit, meaning })
    }

    /// Whether the section has a key of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.keys().any(|key| key.name == name)
    }
}

#[cfg(test)]
mod tests {
    use figment::value::Value;

    use super::*;
    use crate::Config;

    #[test]
    fn each_key_of_a_default_configuration_is_listed_with_its_meaning() {
        let defaults = Value::serialize(Config::default()).unwrap();
        let written_elsewhere =
            [("storage", "datasets"), ("storage", "filters"), ("receiver", "curriculum")];
        for (name, value) in defaults.as_dict().unwrap() {
            let section = Section::named(name).unwrap_or_else(|| panic!("[{name}] is not listed"));
            for key in value.as_dict().into_iter().flat_map(|keys| keys.keys()) {
                let is_listed = section.has(key);
                let is_elsewhere = written_elsewhere.contains(&(name.as_str(), key.as_str()));
                assert!(is_listed != is_elsewhere, "{name}.{key}: {is_listed}");
            }
        }
        let mut keys = sections().iter().flat_map(Section::keys);
        assert!(keys.all(|key| !key.meaning.is_empty()));
    }

    #[test]
    fn no_two_subjects_of_a_section_have_a_key_of_the_same_name() {
        for section in sections() {
            let mut names: Vec<_> = section.keys().map(|key| key.name).collect();
            names.sort_unstable();
            let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
            assert_eq!(twice, None, "[{}]", section.name);
        }
    }

    #[test]
    fn a_unit_is_the_one_that_the_field_says() {
        let unit = |section: &str, name: &str| {
            let section = Section::named(section).unwrap();
            section.keys().find(|key| key.name == name).unwrap().unit
        };
        assert_eq!(unit("receiver", "heartbeat_ms"), "milliseconds");
        assert_eq!(unit("receiver", "rank"), "");
        assert_eq!(unit("receiver", "attempts_max"), "attempts");
        assert_eq!(unit("storage", "listen"), "");
    }
}
