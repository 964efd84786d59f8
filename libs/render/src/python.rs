//! The Python functions that this worker calls.

use std::sync::{Arc, Mutex, PoisonError};

use headwater_core::Recipe;
use headwater_interpreter::{Interpreter, Settings};

/// What may be called, and how. By default nothing.
#[derive(Clone, Debug, Default)]
pub struct PythonModules {
    settings: Option<Settings>,
    /// Looks at sources; started when the first recipe asks.
    reader: Arc<Mutex<Option<Interpreter>>>,
}

// === impl PythonModules ===

impl PythonModules {
    /// With the settings to start an interpreter with.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings: Some(settings), reader: Arc::default() }
    }

    /// What they are called with; `None` where nothing may be called.
    #[must_use]
    pub fn settings(&self) -> Option<Settings> {
        self.settings.clone()
    }

    /// Checks that each function of a recipe may be called here, and has the source that the recipe says.
    ///
    /// # Errors
    /// Not so; the sentence says what to do.
    pub fn check(&self, recipe: &Recipe) -> Result<(), String> {
        for function in recipe.python_functions() {
            let (name, module) = (function.name, function.module());
            let Some(settings) = &self.settings else {
                return Err(format!(
                    "the recipe calls `{name}`, and this worker calls no Python: name `{module}` in \
                     augment.python_modules if you trust it"
                ));
            };
            let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
            let reader = reader.get_or_insert_with(|| Interpreter::new(settings.clone()));
            let found = reader.source(module, &[]).map_err(|error| error.to_string())?;
            if found.sha256 != function.sha256 {
                return Err(format!(
                    "`{module}` is another one here than where the recipe was made: {} has SHA-256 {}, \
                     the recipe says {}; install the same version on all hosts",
                    found.path.display(),
                    found.sha256,
                    if function.sha256.is_empty() { "nothing" } else { function.sha256 },
                ));
            }
        }
        Ok(())
    }
}
