//! Which Python functions recipes may call, and by which Python.

use std::path::PathBuf;
use std::time::Duration;

use headwater_config_derive::Section;
use headwater_interpreter::{SettingKeys, Settings, Trusted};
use headwater_render::python::PythonModules;

/// Which Python functions recipes may call, and by which Python.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
pub struct PythonConfig {
    /// Python modules, or packages of them, whose functions recipes may call here:
    /// `mine.transforms`. Separate processes import them, and never a module that is not named
    /// here. Empty: no function is called.
    pub python_modules: Vec<String>,
    /// Python that runs them, with numpy: a program's name, or a path such as
    /// `/opt/venv/bin/python`.
    #[key(default = "python3".into())]
    pub python: PathBuf,
    /// Folders in which modules are searched first.
    pub python_path: Vec<PathBuf>,
    /// Maximum time of one call, including the import of its module, in ms; then the process is
    /// ended and the call tried again.
    // Frameworks take long to be imported.
    #[key(unit = "milliseconds", default = 60_000)]
    pub python_timeout_ms: u64,
    /// Exceptions of these functions that mean a bad sample, in addition to `headwater.BadSample`:
    /// names of classes, such as `ValueError` or `mine.transforms.TooDark`. After any other
    /// exception, the part is tried again, and in the end the stream fails.
    #[key(default = ["ValueError", "UnicodeError"].map(str::to_owned).into())]
    pub python_bad_sample_errors: Vec<String>,
}

// === impl PythonConfig ===

impl PythonConfig {
    /// The Python functions that recipes may call here.
    #[must_use]
    pub fn modules(&self) -> PythonModules {
        if self.python_modules.is_empty() {
            return PythonModules::default();
        }
        PythonModules::new(Settings {
            python: self.python.clone(),
            folders: self.python_path.clone(),
            trusted: Trusted::new(self.python_modules.clone(), "augment.python_modules"),
            timeout: Duration::from_millis(self.python_timeout_ms),
            bad_sample_errors: self.python_bad_sample_errors.clone(),
            keys: SettingKeys {
                python: "augment.python",
                timeout: "augment.python_timeout_ms",
                bad_sample_errors: "augment.python_bad_sample_errors",
            },
        })
    }
}
