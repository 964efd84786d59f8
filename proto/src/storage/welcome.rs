//! Who a storage node is and what it serves.

use headwater_core::Digest;

use crate::augment::{MessageError, digest, fault};
use crate::{WIRE_VERSION, v1};

/// A storage node's answer to the hello; its wire version was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageWelcome {
    /// Name of the node.
    pub node: String,
    /// Boot id of its host; equal ids mean that file paths may be shared. Empty: not known.
    pub host_id: String,
    /// What it serves.
    pub datasets: Vec<ServedDataset>,
}

/// One dataset that a node serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedDataset {
    /// Name.
    pub name: String,
    /// Digest of its manifest.
    pub manifest: Digest,
    /// Number of samples.
    pub samples: u64,
}

// === impl StorageWelcome ===

impl TryFrom<v1::StorageWelcome> for StorageWelcome {
    type Error = MessageError;

    fn try_from(welcome: v1::StorageWelcome) -> Result<Self, MessageError> {
        if welcome.wire_version != WIRE_VERSION {
            let theirs = welcome.wire_version;
            let text = format!("is {theirs}, this side speaks {WIRE_VERSION}: use one release");
            return Err(fault("wire_version", text));
        }
        let datasets = welcome.datasets.into_iter().map(TryInto::try_into);
        Ok(Self {
            node: welcome.node,
            host_id: welcome.host_id,
            datasets: datasets.collect::<Result<_, _>>()?,
        })
    }
}

impl From<StorageWelcome> for v1::StorageWelcome {
    fn from(welcome: StorageWelcome) -> Self {
        Self {
            wire_version: WIRE_VERSION,
            node: welcome.node,
            host_id: welcome.host_id,
            datasets: welcome.datasets.into_iter().map(Into::into).collect(),
        }
    }
}

// === impl ServedDataset ===

impl TryFrom<v1::DatasetInfo> for ServedDataset {
    type Error = MessageError;

    fn try_from(info: v1::DatasetInfo) -> Result<Self, MessageError> {
        let manifest = digest("manifest_digest", &info.manifest_digest)?;
        Ok(Self { name: info.name, manifest, samples: info.samples })
    }
}

impl From<ServedDataset> for v1::DatasetInfo {
    fn from(dataset: ServedDataset) -> Self {
        Self {
            name: dataset.name,
            manifest_digest: dataset.manifest.to_bytes().to_vec().into(),
            samples: dataset.samples,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn welcome() -> StorageWelcome {
        let dataset = ServedDataset { name: "d".to_owned(), manifest: Digest(9), samples: 3 };
        StorageWelcome { node: "n".to_owned(), host_id: "h".to_owned(), datasets: vec![dataset] }
    }

    #[test]
    fn a_welcome_survives_the_wire() {
        let wire = v1::StorageWelcome::from(welcome());
        assert_eq!(StorageWelcome::try_from(wire).unwrap(), welcome());
    }

    #[test]
    fn another_wire_version_is_refused_with_both_numbers() {
        let wire = v1::StorageWelcome { wire_version: WIRE_VERSION + 1, ..welcome().into() };
        let error = StorageWelcome::try_from(wire).unwrap_err().to_string();
        assert!(error.contains(&format!("is {}", WIRE_VERSION + 1)), "{error}");
        assert!(error.contains(&format!("speaks {WIRE_VERSION}")), "{error}");
    }
}
