//! Which Python datasets are served, and by which Python.

use std::path::PathBuf;
use std::time::Duration;

use headwater_config_derive::Section;
use headwater_interpreter::{SettingKeys, Settings, Trusted};

/// Which Python datasets are served, and by which Python.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
pub struct PythonConfig {
    /// Python modules, or packages of them, whose datasets are served: `mine.data`. Separate
    /// processes import them, and never a module that is not named here.
    pub python_modules: Vec<String>,
    /// Python that runs them, with numpy: a program's name, or a path such as
    /// `/opt/venv/bin/python`.
    #[key(default = "python3".into())]
    pub python: PathBuf,
    /// Folders in which modules are searched first.
    pub python_path: Vec<PathBuf>,
    /// Maximum time for one sample, or for opening a dataset, in ms; then the process is ended and
    /// the sample tried again.
    // Datasets may take long to be opened.
    #[key(unit = "milliseconds", default = 300_000)]
    pub python_timeout_ms: u64,
    /// Exceptions of `__getitem__` that mean a bad sample, in addition to `headwater.BadSample`: names
    /// of classes, such as `ValueError` or `mine.data.Torn`. After any other exception, the sample is
    /// tried again, and in the end the read fails.
    #[key(default = ["ValueError", "UnicodeError"].map(str::to_owned).into())]
    pub python_bad_sample_errors: Vec<String>,
    /// Processes that read one shard of a Python dataset; 0: one per core.
    #[key(unit = "processes")]
    pub python_processes: usize,
}

// === impl PythonConfig ===

impl PythonConfig {
    /// How Python is started.
    pub(crate) fn interpreter(&self) -> Settings {
        Settings {
            python: self.python.clone(),
            folders: self.python_path.clone(),
            trusted: Trusted::new(self.python_modules.clone(), "storage.python_modules"),
            timeout: Duration::from_millis(self.python_timeout_ms),
            bad_sample_errors: self.python_bad_sample_errors.clone(),
            keys: SettingKeys {
                python: "storage.python",
                timeout: "storage.python_timeout_ms",
                bad_sample_errors: "storage.python_bad_sample_errors",
            },
        }
    }

    /// Processes that read one shard.
    pub(crate) fn processes(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        if self.python_processes > 0 { self.python_processes } else { cores() }
    }
}
