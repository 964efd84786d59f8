//! How many files and connections a process may have open at a time.
//!
//! Both are descriptors, and a process has one limit for all of them. Here they get a share each:
//! callers who come in numbers cannot keep a node from opening its files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::AccessError;

/// Descriptors that a process has beside those that are shared out: streams, listeners, timers, a log,
/// and 64 callers of its metrics page.
const RESERVE: u64 = 96;
/// With less than this for both there is no use in starting.
const SHARED_MIN: u64 = 16;

/// Descriptors of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// For files.
    pub files: usize,
    /// For callers.
    pub connections: usize,
}

/// Raises this process's limit of open files as far as it may, for itself and its children; what is
/// then in force, `None`: no limit.
pub fn raise_open_files() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok()
    {
        return maximum;
    }
    current
}

// === impl Descriptors ===

impl Descriptors {
    /// Shares out what this process may open. `wanted` is what its configuration asks for.
    ///
    /// # Errors
    /// The limit of open files is too low for any use.
    pub fn share(wanted: Self) -> Result<Self, AccessError> {
        let limit = getrlimit(Resource::Nofile).current;
        limit.map_or(Ok(wanted), |limit| Self::share_of(limit, wanted))
    }

    /// Where there is too little for both, each has half, and what the other does not want.
    fn share_of(limit: u64, wanted: Self) -> Result<Self, AccessError> {
        let room = limit.saturating_sub(RESERVE);
        if room < SHARED_MIN {
            return Err(AccessError::OpenFiles { limit, least: RESERVE + SHARED_MIN });
        }
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let connections = wanted.connections.min((room / 2).max(room.saturating_sub(wanted.files)));
        Ok(Self { files: wanted.files.min(room - connections), connections })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(limit: u64, files: usize, connections: usize) -> (usize, usize) {
        let wanted = Descriptors { files, connections };
        let Descriptors { files, connections } = Descriptors::share_of(limit, wanted).unwrap();
        (files, connections)
    }

    #[test]
    fn files_and_connections_have_a_share_each_that_fits_the_limit() {
        assert_eq!(share(1 << 20, 800, 4096), (800, 4096));
        assert_eq!(share(1024, 800, 4096), (464, 464));
        assert_eq!(share(1024, 100, 4096), (100, 828));
        assert_eq!(share(1024, 800, 200), (728, 200));
        assert_eq!(share(128, 800, 4096), (16, 16));
    }

    #[test]
    fn a_limit_that_is_too_low_is_named_with_the_remedy() {
        let wanted = Descriptors { files: 800, connections: 4096 };
        let error = Descriptors::share_of(64, wanted).unwrap_err().to_string();
        assert_eq!(
            error,
            "the limit of open files is 64, and 112 are needed at least: raise it, by `ulimit -n` or \
             LimitNOFILE of the service"
        );
    }
}
