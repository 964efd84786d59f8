//! What can go wrong with a call.

use std::io;
use std::path::PathBuf;

/// Why a call gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The function or dataset says that the sample is bad: every process that asks gets the same
    /// answer.
    #[error("`{name}` raised {text}")]
    Bad {
        /// What was called.
        name: String,
        /// Kind of the error, its words, and where it was raised.
        text: String,
    },
    /// It raised another error, or gave what it may not: no verdict on the sample. The next call starts another
    /// interpreter.
    #[error(
        "`{name}` raised {text}. It will be called again, because this error does not mark the sample as bad. If the \
         sample is bad, raise headwater.BadSample, or name the exception in {key}"
    )]
    Passing {
        /// What was called.
        name: String,
        /// Kind of the error, its words, and where it was raised.
        text: String,
        /// The key that lists exceptions.
        key: &'static str,
    },
    /// A module cannot be loaded, or a dataset not opened. The next call starts another interpreter.
    #[error("`{name}` cannot be loaded: {text}")]
    NotLoaded {
        /// What was to be loaded.
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
    /// Another process of a dataset, started later, has other data. Its samples must not be mixed.
    #[error(
        "`{name}` has changed: it had {had}, and has {has} now; put the former data back, or restart the storage \
         node and start the job anew"
    )]
    Changed {
        /// The dataset.
        name: String,
        /// What it was when it was first opened.
        had: String,
        /// What it is now.
        has: String,
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
    #[error("`{name}` took longer than {limit_ms} ms: raise {key}, or mend the function")]
    Late {
        /// What was called.
        name: String,
        /// How long it had, in milliseconds.
        limit_ms: u64,
        /// The key of that limit.
        key: &'static str,
    },
    /// No interpreter can be started.
    #[error("cannot start Python as `{python}`: install it with numpy, or name another in {key}")]
    Start {
        /// The program.
        python: PathBuf,
        /// The key that names it.
        key: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Too many interpreters were killed and have not ended, so that no other one is started.
    #[error(
        "{processes} Python processes were killed and have not ended, because something that they \
         wait for does not answer, such as a network file system: repair it, or restart this \
         process"
    )]
    Unended {
        /// How many.
        processes: usize,
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
    /// Whether the sample itself is bad: the only error that may replace it.
    #[must_use]
    pub fn is_verdict(&self) -> bool {
        matches!(self, Self::Bad { .. })
    }

    /// Whether the same call may do better.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        !matches!(self, Self::Bad { .. } | Self::Changed { .. } | Self::NotNamed { .. })
    }
}
