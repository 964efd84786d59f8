//! What can go wrong with a call.

use std::io;
use std::path::PathBuf;

/// Why a call gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The function raised, or gave what it may not. With the same arguments it would again.
    #[error("`{name}` raised {text}")]
    Raised {
        /// What was called.
        name: String,
        /// Kind of the error, its words, and where it was raised.
        text: String,
    },
    /// There was no memory for the call. Another time there may be.
    #[error("no memory for `{name}`: {text}")]
    Short {
        /// What was called.
        name: String,
        /// What was said.
        text: String,
    },
    /// The system failed the call (`OSError`), or its module cannot be loaded: no verdict on the sample. The next call
    /// starts another interpreter.
    #[error(
        "`{name}` raised {text}: this is not taken as the sample's fault, and the call is tried again"
    )]
    Passing {
        /// What was called.
        name: String,
        /// Kind of the error, its words, and where it was raised.
        text: String,
    },
    /// The interpreter ended during the call. The next call starts another one.
    #[error(
        "the Python process ended while it called `{name}` ({how}): its last words are in this log"
    )]
    Ended {
        /// What was called.
        name: String,
        /// Its exit status, or what else is known.
        how: String,
    },
    /// It did not answer in time, and was killed. The next call starts another one.
    #[error(
        "`{name}` took longer than {limit_ms} ms: raise augment.python_timeout_ms, or mend the function"
    )]
    Late {
        /// What was called.
        name: String,
        /// How long it had, in milliseconds.
        limit_ms: u64,
    },
    /// No interpreter can be started.
    #[error(
        "cannot start Python as `{python}`: install it with numpy, or name another in augment.python"
    )]
    Start {
        /// The program.
        python: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The module is not among those that this process may import.
    #[error("module `{module}` is not in {key}: name it there if you trust it")]
    NotNamed {
        /// The module.
        module: String,
        /// The key that lists modules.
        key: &'static str,
    },
}

// === impl CallError ===

impl CallError {
    /// Whether the same call would fail again: a verdict on its arguments.
    #[must_use]
    pub fn is_verdict(&self) -> bool {
        matches!(self, Self::Raised { .. })
    }
}
