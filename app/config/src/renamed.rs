//! Keys that have another name in this release. The old one is read for one release more, with a warning.

use figment::value::{Dict, Value};

use crate::error::ConfigError;

/// The section that has them now, under the same name.
const NOW: &str = "links";
/// The one of them that lets other users in.
const TRUSTED: &str = "shm_allow_uids";
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
    kind: SourceKind,
    before: String,
    now: String,
    value: Value,
}

/// Of two sources of one kind none lies on top of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceKind {
    File,
    Environment,
    Flags,
}

// === impl Renamed ===

impl Renamed {
    /// Moves the keys that a source sets, which errors call `source`.
    ///
    /// # Errors
    /// Sources of this kind give one key different values by two names.
    pub(crate) fn take(
        &mut self,
        kind: SourceKind,
        source: &str,
        dict: &mut Dict,
    ) -> Result<(), ConfigError> {
        let links = dict.get(NOW).and_then(Value::as_dict).into_iter().flatten();
        let said = |before: String, name: &str, value| Said {
            kind,
            before,
            now: format!("{NOW}.{name}"),
            value,
        };
        let known =
            |(name, value): (&String, &Value)| said(format!("{NOW}.{name}"), name, value.clone());
        let mut found: Vec<Said> = links.map(known).collect();
        for (section, names) in BEFORE {
            let Some(Value::Dict(_, keys)) = dict.get_mut(section) else { continue };
            for name in names {
                let Some(value) = keys.remove(*name) else { continue };
                let one = said(format!("{section}.{name}"), name, value);
                self.warn(source, name, &one);
                found.push(one);
            }
        }
        for one in found {
            let other = self.said.iter().find(|said| {
                said.kind == kind
                    && said.now == one.now
                    && said.before != one.before
                    && said.value != one.value
            });
            if let Some(other) = other {
                return Err(differs(source, &other.before, &one.before, &one.now));
            }
            let links = dict.entry(NOW.to_owned()).or_insert_with(|| Dict::new().into());
            if let (Value::Dict(_, links), Some((_, name))) = (links, one.now.split_once('.')) {
                links.insert(name.to_owned(), one.value.clone());
            }
            self.said.push(one);
        }
        Ok(())
    }

    fn warn(&mut self, source: &str, name: &str, Said { before, now, .. }: &Said) {
        let both = match BEFORE.iter().all(|(_, names)| names.contains(&name)) {
            true if name == TRUSTED => " for receivers and workers alike, and both trust its users",
            true => " for receivers and workers alike",
            false => "",
        };
        self.warnings.push(format!(
            "{source}: `{before}` is `{now}` now{both}; the next release does not read the old name"
        ));
    }
}

/// The new name of a key, if it has one.
pub(crate) fn now(key: &str) -> Option<String> {
    let (section, name) = key.split_once('.')?;
    let (_, names) = BEFORE.iter().find(|(before, _)| *before == section)?;
    names.contains(&name).then(|| format!("{NOW}.{name}"))
}

fn differs(source: &str, one: &str, other: &str, now: &str) -> ConfigError {
    let problem =
        format!("`{one}` and `{other}` differ, and both are `{now}` now: write only that one");
    ConfigError::Key { place: source.to_owned(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Loaded, Setting, Sources};

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
    fn a_section_that_is_set_at_once_is_read_by_the_old_names_too() {
        let whole = ("--set receiver", "receiver", "{rdma_pkey=1, seed=7}");
        let loaded = set(&[whole]).expect("a configuration");
        assert_eq!((loaded.config.links.rdma_pkey, loaded.config.receiver.seed), (1, 7));
        assert_eq!(loaded.warnings().len(), 1);
        for other in [
            ("--set augment.rdma_pkey", "augment.rdma_pkey", "2"),
            ("--set augment", "augment", "{rdma_pkey=2}"),
            ("--set links", "links", "{rdma_pkey=2}"),
        ] {
            let said = refused(set(&[whole, other]));
            assert!(said.contains("`receiver.rdma_pkey` and `"), "{said}");
        }
    }

    #[test]
    fn a_key_that_only_one_end_had_is_said_to_hold_for_both() {
        let loaded = file("[augment]\nshm_allow_uids = [7]\nrdma_queue_pairs = 2\nrdma_pkey = 1");
        let loaded = loaded.expect("a configuration");
        let says = |text: &str| loaded.warnings().iter().filter(|said| said.contains(text)).count();
        assert_eq!(says("for receivers and workers alike"), 2);
        assert_eq!(
            says("`links.shm_allow_uids` now for receivers and workers alike, and both trust"),
            1
        );
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
