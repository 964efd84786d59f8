//! Keys that have another name in this release. The old one is read for one release more, with a warning.

use figment::value::{Dict, Value};

use crate::error::ConfigError;
use crate::setting::Setting;

/// The section that has them now, under the same name.
const NOW: &str = "links";
/// Those that receivers had.
const OF_RECEIVERS: [&str; 9] = [
    "shm_socket_dir",
    "shm_allow_uids",
    "tcp_listen",
    "tcp_advertise",
    "rdma_device",
    "rdma_gid_index",
    "rdma_pkey",
    "rdma_traffic_class",
    "rdma_service_level",
];
/// Those that workers had.
const OF_WORKERS: [&str; 7] = [
    "shm_allow_uids",
    "rdma_device",
    "rdma_gid_index",
    "rdma_pkey",
    "rdma_traffic_class",
    "rdma_service_level",
    "rdma_queue_pairs",
];
/// Sections before.
const BEFORE: [(&str, &[&str]); 2] = [("receiver", &OF_RECEIVERS), ("augment", &OF_WORKERS)];

/// Takes old names for new ones, and notes each.
#[derive(Debug, Default)]
pub(crate) struct Renamed {
    /// A sentence on each.
    pub(crate) warnings: Vec<String>,
    /// What each kind of source says of the new keys, and by which name.
    said: Vec<Said>,
}

#[derive(Debug)]
struct Said {
    place: &'static str,
    before: String,
    now: String,
    value: Value,
}

// === impl Renamed ===

impl Renamed {
    /// Moves the keys of a file, which errors call `file`.
    ///
    /// # Errors
    /// Two names of one key have different values.
    pub(crate) fn take_file(&mut self, file: &str, dict: &mut Dict) -> Result<(), ConfigError> {
        for (section, names) in BEFORE {
            for name in names {
                let Some(Value::Dict(_, keys)) = dict.get_mut(section) else { break };
                let Some(value) = keys.remove(*name) else { continue };
                let (before, now) = (format!("{section}.{name}"), format!("{NOW}.{name}"));
                self.warn(file, &before, &now);
                let links = dict.entry(NOW.to_owned()).or_insert_with(|| Dict::new().into());
                let Value::Dict(_, links) = links else { continue };
                let old = self.said.iter().find(|said| said.now == now);
                let other = old.map_or(&now, |said| &said.before);
                match links.get(*name) {
                    Some(known) if *known != value => {
                        return Err(differs(file, other, &before, &now));
                    }
                    _ => {}
                }
                links.insert((*name).to_owned(), value.clone());
                self.said.push(Said { place: "file", before, now, value });
            }
        }
        self.said.clear(); // What lies on top of the file may differ.
        Ok(())
    }

    /// The setting by its new name.
    ///
    /// # Errors
    /// Another one of the same kind of source gives the same key another value by another name.
    pub(crate) fn take(
        &mut self,
        setting: Setting,
        defaults: &Value,
    ) -> Result<Setting, ConfigError> {
        let place = if Setting::is_variable(&setting.origin) { "environment" } else { "flags" };
        let before = setting.key.clone();
        let setting = match now(&before) {
            Some(now) => {
                self.warn(&setting.origin, &before, &now);
                setting.renamed(now)
            }
            None => setting,
        };
        if !setting.key.starts_with("links.") {
            return Ok(setting);
        }
        let (now, value) = (setting.key.clone(), setting.value(defaults));
        let other = self.said.iter().find(|said| {
            said.place == place && said.now == now && said.before != before && said.value != value
        });
        if let Some(other) = other {
            return Err(differs(&setting.origin, &other.before, &before, &now));
        }
        self.said.push(Said { place, before, now, value });
        Ok(setting)
    }

    fn warn(&mut self, place: &str, before: &str, now: &str) {
        self.warnings.push(format!(
            "{place}: `{before}` is `{now}` now; the next release does not read the old name"
        ));
    }
}

/// The new name of a key.
fn now(key: &str) -> Option<String> {
    let (section, name) = key.split_once('.')?;
    let (_, names) = BEFORE.iter().find(|(before, _)| *before == section)?;
    names.contains(&name).then(|| format!("{NOW}.{name}"))
}

fn differs(place: &str, one: &str, other: &str, now: &str) -> ConfigError {
    let problem =
        format!("`{one}` and `{other}` differ, and both are `{now}` now: write only that one");
    ConfigError::Key { place: place.to_owned(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Loaded, Sources};

    fn file(text: &str) -> Result<Loaded, ConfigError> {
        Loaded::read(&Sources::text("job.toml", text))
    }

    fn set(settings: &[(&str, &str, &str)]) -> Result<Loaded, ConfigError> {
        let settings = settings.iter().map(|(origin, key, text)| Setting::flag(origin, key, text));
        Loaded::read(&Sources::of_overrides(settings.collect()))
    }

    fn refused(read: Result<Loaded, ConfigError>) -> String {
        read.map(|loaded| format!("{:?}", loaded.config.links)).expect_err("two values").to_string()
    }

    #[test]
    fn a_file_of_the_last_release_means_the_same_and_each_old_key_is_named() {
        let loaded = file(
            "[receiver]\ntcp_listen = '0.0.0.0:7403'\nrdma_device = 'mlx5_1'\n\
             [augment]\nrdma_device = 'mlx5_1'\nrdma_queue_pairs = 4\nshm_allow_uids = [1000]\n",
        );
        let loaded = loaded.expect("a configuration");
        let links = &loaded.config.links;
        assert_eq!(links.tcp_listen, "0.0.0.0:7403");
        assert_eq!((links.rdma_device.as_str(), links.rdma_queue_pairs), ("mlx5_1", 4));
        assert_eq!(links.shm_allow_uids, [1000]);
        assert_eq!(loaded.origin("links.rdma_queue_pairs"), "job.toml");
        let warned = |before: &str, now: &str| {
            let sentence = format!("job.toml: `{before}` is `{now}` now");
            loaded.warnings().iter().any(|warning| warning.starts_with(&sentence))
        };
        assert!(warned("receiver.tcp_listen", "links.tcp_listen"), "{:?}", loaded.warnings());
        assert!(warned("augment.rdma_device", "links.rdma_device"));
        assert_eq!(loaded.warnings().len(), 5);
        let receiver = loaded.config.receiver_tier().expect("a receiver");
        assert_eq!(receiver.link_settings, *links);
        assert_eq!(loaded.config.augment_tier().expect("a worker").link_settings, *links);
    }

    #[test]
    fn a_variable_and_a_flag_go_over_a_file_by_the_old_name_too() {
        let old = ("HEADWATER_RECEIVER__TCP_ADVERTISE", "receiver.tcp_advertise", "rank0");
        let loaded = set(&[old]).expect("a configuration");
        assert_eq!(loaded.config.links.tcp_advertise, "rank0");
        assert_eq!(loaded.origin("links.tcp_advertise"), "HEADWATER_RECEIVER__TCP_ADVERTISE");
        assert_eq!(loaded.warnings().len(), 1);
        let over = ("--set links.tcp_advertise", "links.tcp_advertise", "rank1");
        let loaded = set(&[old, over]).expect("a configuration");
        assert_eq!(loaded.config.links.tcp_advertise, "rank1", "flags go over variables");
        let whole = set(&[("--set x", "augment.shm_allow_uids", "[7, 8]")]).expect("a list");
        assert_eq!(whole.config.links.shm_allow_uids, [7, 8]);
    }

    #[test]
    fn two_names_of_one_key_with_different_values_are_refused_by_name() {
        let said = refused(file("[receiver]\nrdma_device = 'a'\n[augment]\nrdma_device = 'b'\n"));
        assert_eq!(
            said,
            "job.toml: `receiver.rdma_device` and `augment.rdma_device` differ, and both are \
             `links.rdma_device` now: write only that one"
        );
        let said = refused(file("[links]\nrdma_pkey = 1\n[receiver]\nrdma_pkey = 2\n"));
        assert!(said.contains("`links.rdma_pkey` and `receiver.rdma_pkey` differ"), "{said}");
        file("[links]\nrdma_pkey = 2\n[receiver]\nrdma_pkey = 2\n").expect("the same");
        let flags = [
            ("--set receiver.rdma_pkey", "receiver.rdma_pkey", "1"),
            ("--set augment.rdma_pkey", "augment.rdma_pkey", "2"),
        ];
        let said = refused(set(&flags));
        assert!(said.contains("`receiver.rdma_pkey` and `augment.rdma_pkey` differ"), "{said}");
    }

    #[test]
    fn every_key_of_links_that_a_tier_had_is_read_by_its_old_name() {
        let now: Vec<&str> =
            headwater_transport::links::LinksConfig::KEYS.iter().map(|key| key.0).collect();
        for (section, names) in BEFORE {
            assert!(names.iter().all(|name| now.contains(name)), "[{section}]");
        }
        let none = file("[receiver]\nseed = 1\n").expect("a configuration");
        assert!(none.warnings().is_empty(), "{:?}", none.warnings());
        assert_eq!(none.config.links, Config::default().links);
        let said = refused(file("[augment]\ntcp_listen = '[::]:0'\n"));
        assert!(said.contains("unknown key `augment.tcp_listen`"), "a worker never had it: {said}");
    }
}
