//! How storage nodes are reached.

use std::path::PathBuf;
use std::time::Duration;

use headwater_access::AccessConfig;
use headwater_discovery::Places;
use serde::{Deserialize, Serialize};

use crate::StorageClientError;

/// Where storage nodes listen when nothing else is said.
const NODE_DEFAULT: &str = "127.0.0.1:7401";
const CONNECT_TIMEOUT_MS_DEFAULT: u64 = 5_000;
const ANSWER_TIMEOUT_MS_DEFAULT: u64 = 30_000;
const WAIT_LIMIT_MS_DEFAULT: u64 = 300_000;
const HEDGE_MS_DEFAULT: u64 = 100;
const HEDGE_PERCENT_DEFAULT: u32 = 5;
const LOCAL_SHARDS_DEFAULT: usize = 256;
const REFRESH_MS_DEFAULT: u64 = 5_000;

/// Where the storage nodes are and how long to wait for them. Who reads samples has keys of its own
/// for this and fills it in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageClientConfig {
    /// Addresses `host:port`, or what else `headwater-discovery` finds addresses by. Alike for all
    /// callers: shards are divided among the nodes by their names.
    pub nodes: Vec<String>,
    /// Time between two looks for nodes by `dns:`, `file:` and the like, in milliseconds.
    pub refresh_ms: u64,
    /// Whether shards of the same host are read as files.
    pub local_files: LocalFiles,
    /// Folders that such files must lie in, all links and `..` followed; none: nothing is read so.
    pub local_roots: Vec<PathBuf>,
    /// Longest time to set up a connection, in milliseconds.
    pub connect_timeout_ms: u64,
    /// Longest time between two messages of an answer, in milliseconds.
    pub answer_timeout_ms: u64,
    /// How long to go on trying while no node answers, in milliseconds, at the start and later.
    pub wait_limit_ms: u64,
    /// The key by which people set `wait_limit_ms`, for error messages.
    pub wait_limit_key: &'static str,
    /// Shortest time after which a read that its node has not answered is asked of the next one too, in
    /// milliseconds; 0: never. It is longer where reads take longer as a rule.
    pub hedge_ms: u64,
    /// Most reads that are asked of a second node so, in percent of all.
    pub hedge_percent: u32,
    /// Shards kept open at once; the least recently used one is let go.
    pub local_shards_max: usize,
    /// How the nodes are known, and this reader to them.
    pub access: AccessConfig,
}

/// Whether shards that lie on the same host are read as files rather than asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LocalFiles {
    /// Where it is the very same file, in a folder that is allowed.
    #[default]
    Auto,
    /// Never: all bytes come over gRPC.
    Off,
}

// === impl StorageClientConfig ===

impl Default for StorageClientConfig {
    fn default() -> Self {
        Self {
            nodes: vec![NODE_DEFAULT.to_owned()],
            refresh_ms: REFRESH_MS_DEFAULT,
            local_files: LocalFiles::Auto,
            local_roots: Vec::new(),
            connect_timeout_ms: CONNECT_TIMEOUT_MS_DEFAULT,
            answer_timeout_ms: ANSWER_TIMEOUT_MS_DEFAULT,
            wait_limit_ms: WAIT_LIMIT_MS_DEFAULT,
            wait_limit_key: "wait_limit_ms",
            hedge_ms: HEDGE_MS_DEFAULT,
            hedge_percent: HEDGE_PERCENT_DEFAULT,
            local_shards_max: LOCAL_SHARDS_DEFAULT,
            access: AccessConfig::default(),
        }
    }
}

impl StorageClientConfig {
    /// Checks all values.
    ///
    /// # Errors
    /// Names the first key whose value cannot work.
    pub fn validate(&self) -> Result<(), StorageClientError> {
        let fault = |key, value: &dyn ToString, remedy: &str| {
            let (value, remedy) = (value.to_string(), remedy.to_owned());
            Err(StorageClientError::Config { key, value, remedy })
        };
        if self.nodes.is_empty() {
            return fault("nodes", &"[]", "name at least one storage node as `host:port`");
        }
        match Places::parse(&self.nodes) {
            Err(error) => {
                let (value, remedy) = error.into_parts();
                return fault("nodes", &value, &remedy);
            }
            Ok(places) => {
                if let Some(node) = places.written_twice() {
                    return fault("nodes", &node, "name each storage node once");
                }
            }
        }
        let times = [
            ("refresh_ms", self.refresh_ms),
            ("connect_timeout_ms", self.connect_timeout_ms),
            ("answer_timeout_ms", self.answer_timeout_ms),
        ];
        if let Some((key, value)) = times.into_iter().find(|(_, value)| *value == 0) {
            return fault(key, &value, "must be at least 1");
        }
        if self.local_shards_max == 0 {
            return fault("local_shards_max", &0, "must be at least 1; `local_files` turns it off");
        }
        Ok(())
    }

    pub(crate) fn refresh(&self) -> Duration {
        Duration::from_millis(self.refresh_ms)
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        Duration::from_millis(self.connect_timeout_ms)
    }

    pub(crate) fn answer_timeout(&self) -> Duration {
        Duration::from_millis(self.answer_timeout_ms)
    }

    pub(crate) fn wait_limit(&self) -> Duration {
        Duration::from_millis(self.wait_limit_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(config: StorageClientConfig) -> String {
        config.validate().unwrap_err().to_string()
    }

    #[test]
    fn a_bad_value_is_named_with_its_key() {
        let nodes = |list: &[&str]| StorageClientConfig {
            nodes: list.iter().map(ToString::to_string).collect(),
            ..Default::default()
        };
        assert!(StorageClientConfig::default().validate().is_ok());
        assert!(nodes(&["[::1]:7401", "store-[0-3].store:7401", "dns:s:1"]).validate().is_ok());
        for bad in ["store", "store:", "store:0", ":7401", "http://store:7401", "a b:1"] {
            let error = refused(nodes(&["ok:1", bad]));
            assert!(error.contains("`nodes`") && error.contains(&format!("`{bad}`")), "{error}");
        }
        assert!(refused(nodes(&[])).contains("at least one"));
        assert!(refused(nodes(&["a:1", "b:1", "a:1"])).contains("once"));
        assert!(refused(nodes(&["n[0-3]:1", "n2:1"])).contains("`n2:1`"));
        let zero = StorageClientConfig { answer_timeout_ms: 0, ..Default::default() };
        assert!(refused(zero).contains("`answer_timeout_ms`"));
    }
}
