//! The Python functions that this worker calls.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use headwater_core::Recipe;
use headwater_interpreter::{Interpreter, Settings};

/// What may be called, and how. By default nothing.
#[derive(Clone, Debug, Default)]
pub struct PythonModules {
    interpreters: Option<Arc<Interpreters>>,
    /// Looks at sources; started when the first recipe asks.
    reader: Arc<Mutex<Option<Interpreter>>>,
}

/// Interpreters that threads share: a thread has one of them for a call. Where there are more threads than
/// interpreters, images are decoded while functions compute.
#[derive(Debug)]
struct Interpreters {
    settings: Settings,
    most: usize,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Interpreter>,
    lent: usize,
}

/// An interpreter for a call. It goes back when this is dropped, unless that is in a panic: an answer may be under way.
#[derive(Debug)]
pub(crate) struct Lent<'a> {
    interpreters: &'a Interpreters,
    interpreter: Option<Interpreter>,
}

// === impl PythonModules ===

impl PythonModules {
    /// With the settings to start interpreters with, and how many there are at most.
    #[must_use]
    pub fn new(settings: Settings, processes: usize) -> Self {
        let interpreters = Interpreters::new(settings, processes);
        Self { interpreters: Some(Arc::new(interpreters)), reader: Arc::default() }
    }

    /// An interpreter for a call, when one is free; `None` where nothing may be called.
    pub(crate) fn lend(&self) -> Option<Lent<'_>> {
        self.interpreters.as_deref().map(Interpreters::lend)
    }

    /// Checks that each function of a recipe may be called here, and has the source that the recipe says.
    ///
    /// # Errors
    /// Not so; the sentence says what to do.
    pub fn check(&self, recipe: &Recipe) -> Result<(), String> {
        for function in recipe.python_functions() {
            let (name, module) = (function.name, function.module());
            let Some(Interpreters { settings, .. }) = self.interpreters.as_deref() else {
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

// === impl Interpreters ===

impl Interpreters {
    fn new(settings: Settings, most: usize) -> Self {
        Self { settings, most, state: Mutex::default(), returned: Condvar::new() }
    }

    fn lend(&self) -> Lent<'_> {
        let mut state = self.lock();
        while state.lent == self.most {
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.lent += 1;
        let idle = state.idle.pop();
        drop(state);
        let interpreter = idle.unwrap_or_else(|| Interpreter::new(self.settings.clone()));
        Lent { interpreters: self, interpreter: Some(interpreter) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that panics runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Lent ===

impl Deref for Lent<'_> {
    type Target = Interpreter;

    fn deref(&self) -> &Interpreter {
        self.interpreter.as_ref().expect("it is there until the end")
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut Interpreter {
        self.interpreter.as_mut().expect("it is there until the end")
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let interpreter = self.interpreter.take().filter(|_| !std::thread::panicking());
        let mut state = self.interpreters.lock();
        state.lent -= 1;
        state.idle.extend(interpreter);
        drop(state);
        self.interpreters.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use headwater_interpreter::{SettingKeys, Trusted};

    use super::*;

    fn modules(processes: usize) -> PythonModules {
        let keys = SettingKeys { python: "", timeout: "", bad_sample_errors: "" };
        let settings = Settings {
            python: "python3".into(),
            folders: Vec::new(),
            trusted: Trusted::new(Vec::new(), ""),
            timeout: Duration::from_secs(1),
            bad_sample_errors: Vec::new(),
            keys,
        };
        PythonModules::new(settings, processes)
    }

    #[test]
    fn who_comes_when_all_are_lent_waits_for_one() {
        let modules = modules(2);
        let (first, second) = (modules.lend().expect("one"), modules.lend().expect("another"));
        let (sender, receiver) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _third = modules.lend();
                sender.send(()).expect("heard");
            });
            receiver.recv_timeout(Duration::from_millis(50)).expect_err("none is free");
            drop(second);
            receiver.recv_timeout(Duration::from_secs(60)).expect("one is free");
        });
        drop(first);
        let interpreters = modules.interpreters.as_ref().expect("some");
        assert_eq!(interpreters.lock().idle.len(), 2, "no third was made");
    }

    #[test]
    fn one_that_a_panic_left_in_a_call_is_not_lent_again() {
        let modules = modules(1);
        let lent = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _lent = modules.lend();
            panic!("in a call");
        }));
        assert!(lent.is_err());
        let interpreters = modules.interpreters.as_ref().expect("some");
        assert_eq!(interpreters.lock().idle.len(), 0);
        assert!(modules.lend().is_some());
    }
}
