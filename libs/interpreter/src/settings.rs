//! How interpreters are started.

use std::path::PathBuf;
use std::time::Duration;

use crate::Trusted;

/// How interpreters are started.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program: `python3`, or the one of an environment.
    pub python: PathBuf,
    /// Folders that modules are looked for in, before those of the program.
    pub folders: Vec<PathBuf>,
    /// The modules that may be imported.
    pub trusted: Trusted,
    /// How long a call may take.
    pub timeout: Duration,
    /// Exceptions that say that a sample is bad, beside `headwater.BadSample`: names of classes, with their modules or
    /// without. An exception of a class that inherits from one of them says it too.
    pub bad_sample_errors: Vec<String>,
    /// Where these come from, for errors.
    pub keys: SettingKeys,
}

/// Keys of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct SettingKeys {
    /// Of the program.
    pub python: &'static str,
    /// Of the time that a call may take.
    pub timeout: &'static str,
    /// Of the exceptions.
    pub bad_sample_errors: &'static str,
}
