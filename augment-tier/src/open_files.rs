//! A configuration made to fit the number of files that this process may have open.

use headwater_access::Descriptors;

use crate::config::AugmentConfig;
use crate::error::AugmentError;

/// Descriptors of one receiver: two connections, the data link, and one in passing.
pub const OF_A_SESSION: usize = 4;

// === impl AugmentConfig ===

impl AugmentConfig {
    /// Files and connections that a worker of this configuration may have open at a time.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        self.reads.local_shards_max
            + OF_A_SESSION * self.sessions.sessions_max
            + self.security.strangers_max as usize
    }

    /// The same with no more sessions and open shards than the process may have. What was lowered is
    /// logged with its key and the remedy.
    ///
    /// # Errors
    /// The limit of open files is too low for any use.
    pub(crate) fn fitted(mut self) -> Result<Self, AugmentError> {
        let files = self.reads.local_shards_max;
        let callers =
            OF_A_SESSION * self.sessions.sessions_max + self.security.strangers_max as usize;
        let wanted = Descriptors { files, connections: callers };
        let granted = Descriptors::share(wanted)?;
        if granted == wanted {
            return Ok(self);
        }
        self.reads.local_shards_max = granted.files.max(1);
        let strangers = (self.security.strangers_max as usize).min(granted.connections / 4).max(1);
        self.security.strangers_max = strangers as u32;
        let left = granted.connections - strangers;
        self.sessions.sessions_max = self.sessions.sessions_max.min(left / OF_A_SESSION).max(1);
        tracing::warn!(
            augment.sessions_max = self.sessions.sessions_max,
            augment.local_shards_max = self.reads.local_shards_max,
            security.strangers_max = self.security.strangers_max,
            wanted = wanted.files + wanted.connections,
            "the limit of open files is lower than these keys ask for, so they are lowered: raise it \
             (`ulimit -Hn`, LimitNOFILE of the service)"
        );
        Ok(self)
    }
}
