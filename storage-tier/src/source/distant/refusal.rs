//! Why one request to a source came to nothing, and whether another one may do better.

use std::error::Error;
use std::time::Duration;

use headwater_storage_client::ObjectError;

/// Why one request came to nothing.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The source said that there is nothing of that name.
    NotFound,
    /// The source has another version.
    Changed,
    /// The same request will come to nothing again.
    Final(Box<dyn Error + Send + Sync>),
    /// Another try may do better.
    Passing(Box<dyn Error + Send + Sync>),
}

/// What was tried again until the time for it was over.
#[derive(Debug, thiserror::Error)]
#[error("tried {tries} times in {:.1} s (`storage.source_retry_ms`)", after.as_secs_f64())]
pub(crate) struct GaveUp {
    tries: u32,
    after: Duration,
    #[source]
    source: Box<dyn Error + Send + Sync>,
}

// === impl Refusal ===

impl Refusal {
    /// The error of an object, by its name.
    pub(crate) fn of(self, name: &str, tries: u32, after: Duration) -> ObjectError {
        let name = name.to_owned();
        match self {
            Self::NotFound => ObjectError::NotFound { name },
            Self::Changed => ObjectError::Changed { name },
            Self::Final(source) => ObjectError::Read { name, source },
            Self::Passing(source) => {
                let source = Box::new(GaveUp { tries, after, source });
                ObjectError::Read { name, source }
            }
        }
    }
}
