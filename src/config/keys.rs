//! What each key means: read from the doc comments of the structs themselves, so that it is
//! written in one place only.

/// A key with its meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Name within its section.
    pub(crate) name: String,
    /// The field's doc comment as one paragraph.
    pub(crate) meaning: String,
    /// Whether it may be left without a value.
    pub(crate) optional: bool,
}

/// A section of the file.
pub(crate) struct Section {
    /// Name in the file.
    pub(crate) name: &'static str,
    /// Its keys in the order in which they are declared.
    pub(crate) keys: Vec<Key>,
}

/// Section, struct, source that declares it.
const SOURCES: [(&str, &str, &str); 12] = [
    ("dataset", "DatasetEntry", include_str!("dataset.rs")),
    ("curriculum", "CurriculumPoint", include_str!("../../libs/core/src/sampler/weights.rs")),
    ("hub", "HubConfig", include_str!("hub.rs")),
    ("recipe", "RecipeConfig", include_str!("recipe.rs")),
    ("storage", "StorageConfig", include_str!("../../storage-tier/src/config.rs")),
    ("augment", "AugmentConfig", include_str!("../../augment-tier/src/config.rs")),
    ("receiver", "ReceiverConfig", include_str!("../../gpu-receiver/src/config.rs")),
    ("publish", "PublishConfig", include_str!("../publish/config.rs")),
    ("autoscale", "AutoscaleConfig", include_str!("../autoscale/config.rs")),
    ("scaling", "Policy", include_str!("../../libs/autoscale/src/policy.rs")),
    ("security", "AccessConfig", include_str!("../../libs/access/src/config.rs")),
    ("telemetry", "TelemetryConfig", include_str!("../../libs/telemetry/src/config.rs")),
];
/// Sections of which the file has any number, `[[dataset]]`.
const LISTS: [&str; 2] = ["dataset", "curriculum"];
/// Set from such lists, or from `[security]`, so not keys of their own.
const NOT_WRITTEN: [(&str, &str); 5] = [
    ("storage", "datasets"),
    ("receiver", "curriculum"),
    ("storage", "security"),
    ("augment", "security"),
    ("receiver", "security"),
];

/// All sections with all keys.
pub(crate) fn sections() -> Vec<Section> {
    SOURCES
        .iter()
        .map(|(name, declared, source)| {
            let mut keys = fields(source, declared);
            keys.retain(|key| is_written(name, &key.name));
            Section { name, keys }
        })
        .collect()
}

// === impl Section ===

impl Section {
    /// Whether the file may have any number of it.
    pub(crate) fn is_list(&self) -> bool {
        LISTS.contains(&self.name)
    }
}

/// Whether a key of a struct is one of the file.
pub(crate) fn is_written(section: &str, name: &str) -> bool {
    !NOT_WRITTEN.contains(&(section, name))
}

/// The unit of a number, from the name of its key: the house rule is that it stands there.
pub(crate) fn unit(name: &str) -> &'static str {
    let mut words: Vec<&str> = name.split('_').collect();
    words.retain(|word| !matches!(*word, "max" | "min" | "limit"));
    match words.last().copied().unwrap_or_default() {
        "ms" => "milliseconds",
        "us" => "microseconds",
        "s" => "seconds",
        "bytes" => "bytes",
        "mib" => "MiB",
        "pixels" | "px" => "pixels",
        "multiple" => "times",
        "batches" | "window" => "batches",
        "samples" => "samples",
        "shards" => "shards",
        "parts" => "parts",
        "leases" | "flight" => "leases",
        "threads" | "readers" => "threads",
        "slots" => "slots",
        "scans" => "scans",
        "sessions" => "sessions",
        "connections" => "connections",
        "requests" => "requests",
        "epochs" => "epochs",
        "attempts" => "attempts",
        "missed" => "heartbeats",
        "reads" => "reads",
        "size" => "ranks",
        "block" => "shards",
        _ => "",
    }
}

fn fields(source: &str, declared: &str) -> Vec<Key> {
    let opening = format!("struct {declared} {{");
    let mut keys = Vec::new();
    let mut meaning: Vec<&str> = Vec::new();
    let lines = source.lines().skip_while(|line| !line.ends_with(&opening)).skip(1);
    for line in lines.take_while(|line| *line != "}").map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            meaning.push(text.trim());
        } else if let Some((name, kind)) = line.split_once(": ").filter(|_| line.starts_with("pub"))
        {
            let name = name.rsplit(' ').next().unwrap_or(name).to_owned();
            let optional = kind.starts_with("Option<");
            keys.push(Key { name, meaning: meaning.join(" "), optional });
            meaning.clear();
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn every_key_has_a_meaning() {
        let defaults = figment::value::Value::serialize(Config::default()).unwrap();
        for section in sections().iter().filter(|section| !section.is_list()) {
            let known = defaults.find_ref(section.name).unwrap().as_dict().unwrap();
            for name in known.keys().filter(|name| is_written(section.name, name)) {
                let key = section.keys.iter().find(|key| &key.name == name);
                let key = key.unwrap_or_else(|| panic!("{}.{name} is not found", section.name));
                assert!(!key.meaning.is_empty(), "{}.{name} has no doc comment", section.name);
            }
            for key in section.keys.iter().filter(|key| !key.optional) {
                let name = &key.name;
                assert!(known.contains_key(name), "{}.{name} is no key", section.name);
            }
        }
    }

    #[test]
    fn units_come_from_names() {
        assert_eq!(unit("heartbeat_ms"), "milliseconds");
        assert_eq!(unit("open_shards_max"), "shards");
        assert_eq!(unit("listen"), "");
    }
}
