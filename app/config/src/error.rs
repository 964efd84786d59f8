//! What can be wrong with a configuration.

use std::io;
use std::path::PathBuf;

use headwater_access::AccessError;
use headwater_augment::AugmentError;
use headwater_autoscale::PolicyError;
use headwater_core::recipe::RecipeError;
use headwater_receiver::ReceiverError;
use headwater_storage::StorageError;
use headwater_transport::links::LinksConfigError;

/// Why a configuration cannot be used; one line that names the place, the key and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A configuration file cannot be read.
    #[error("cannot read configuration file `{}` ({named_by}): {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Who named it: a flag, a variable, a keyword; or that it is the default.
        named_by: String,
        /// What the system said.
        source: io::Error,
    },
    /// Standard input cannot be read.
    #[error("cannot read the configuration from standard input: {0}")]
    Stdin(#[source] io::Error),
    /// A configuration file is not TOML.
    #[error("{place} line {line} is not TOML: {problem}")]
    Syntax {
        /// The file.
        place: String,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong there.
        problem: String,
    },
    /// A key is unknown, or its value is of the wrong type.
    #[error("{place}: {problem}")]
    Key {
        /// The file, variable, flag or keyword that set the key.
        place: String,
        /// The key and what is wrong with it.
        problem: String,
    },
    /// It is not clear which rank a process is.
    #[error(
        "it is not clear which rank this process is: {fault}; correct that, or set receiver.rank and receiver.world_size"
    )]
    Rank {
        /// What disagrees, or is missing.
        fault: String,
    },
    /// A value that cannot work.
    #[error("`{key}` is {value}: {rule}")]
    Value {
        /// The key, with its section.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        rule: String,
    },
    /// A keyword of the Python loader is unknown or cannot be used.
    #[error("{0}")]
    Keyword(String),
    /// An entry of a list of addresses cannot be understood.
    #[error("{key} has {source}")]
    Places {
        /// The key, with its section.
        key: &'static str,
        /// The entry and the remedy.
        source: headwater_discovery::DiscoveryError,
    },
    /// A `[[dataset]]`, or the list of them, cannot be used.
    #[error("{0}")]
    Dataset(String),
    /// The hub, or a dataset of it, cannot be found.
    #[error("{0}")]
    Hub(String),
    /// A key that has its own place in the file is set elsewhere.
    #[error("{0}")]
    Place(String),
    /// The recipe cannot be used.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The storage tier's section cannot be used.
    #[error("[storage]: {0}")]
    Storage(#[from] StorageError),
    /// The augment tier's section cannot be used.
    #[error(transparent)]
    Augment(#[from] AugmentError),
    /// The receiver's section cannot be used.
    #[error(transparent)]
    Receiver(#[from] ReceiverError),
    /// The section on links cannot be used.
    #[error(transparent)]
    Links(#[from] LinksConfigError),
    /// The section on access cannot be used.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The section on scaling cannot be used.
    #[error(transparent)]
    Scaling(#[from] PolicyError),
}
