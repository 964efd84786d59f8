//! A configuration made to fit the number of files that this process may have open.

use headwater_access::Descriptors;

use crate::{StorageConfig, StorageError};

/// Descriptors of a thread that opens a shard: its file, and an index beside it.
const FILES_OF_A_READER: usize = 2;

// === impl StorageConfig ===

impl StorageConfig {
    /// The same with no more connections and files than the process may have. What was lowered is
    /// logged with its key and the remedy.
    ///
    /// # Errors
    /// The limit of open files is too low for any use.
    pub(crate) fn fitted(self) -> Result<Self, StorageError> {
        let granted = Descriptors::share(self.descriptors())?;
        Ok(self.within(granted))
    }

    /// What this configuration may come to need.
    fn descriptors(&self) -> Descriptors {
        // A read holds its shard although that may have been let go meanwhile.
        let held = self.reads.max_concurrent_reads + self.reads.shard_prefetch_window;
        // A request to a distant source has a connection.
        let waiting = FILES_OF_A_READER * self.reads.readers + self.sources.source_requests_max;
        let files = self.reads.open_shards_max + held + waiting;
        let connections = self.requests.connections_max + self.security.strangers_max as usize;
        Descriptors { files, connections }
    }

    fn within(mut self, granted: Descriptors) -> Self {
        let wanted = self.descriptors();
        if granted == wanted {
            return self;
        }
        if granted.files < wanted.files {
            let Self { reads, sources, .. } = &mut self;
            reads.readers = reads.readers.min(granted.files / 8).max(1);
            reads.max_concurrent_reads = reads.max_concurrent_reads.min(granted.files / 4).max(1);
            reads.shard_prefetch_window = reads.shard_prefetch_window.min(granted.files / 8).max(1);
            sources.source_requests_max = sources.source_requests_max.min(granted.files / 8).max(1);
            let waiting = FILES_OF_A_READER * reads.readers + sources.source_requests_max;
            let left = granted.files.saturating_sub(waiting);
            let held = reads.max_concurrent_reads + reads.shard_prefetch_window;
            reads.open_shards_max = left.saturating_sub(held).max(1);
        }
        let strangers = (self.security.strangers_max as usize).min(granted.connections / 4).max(1);
        self.security.strangers_max = strangers as u32;
        self.requests.connections_max = granted.connections - strangers;
        tracing::warn!(
            storage.connections_max = self.requests.connections_max,
            storage.open_shards_max = self.reads.open_shards_max,
            storage.max_concurrent_reads = self.reads.max_concurrent_reads,
            storage.readers = self.reads.readers,
            storage.shard_prefetch_window = self.reads.shard_prefetch_window,
            storage.source_requests_max = self.sources.source_requests_max,
            security.strangers_max = self.security.strangers_max,
            wanted = wanted.files + wanted.connections,
            "the limit of open files is lower than these keys ask for, so they are lowered: raise it \
             (`ulimit -Hn`, LimitNOFILE of the service)"
        );
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lowered_fits_and_nothing_is_lowered_where_all_fits() {
        let config = StorageConfig::default();
        assert_eq!(config.clone().within(config.descriptors()), config);
        for files in [16, 17, 100, 500] {
            let granted = Descriptors { files, connections: 16 };
            let fitted = config.clone().within(granted);
            let needs = fitted.descriptors();
            assert!(needs.files <= files && needs.connections == 16, "{files}: {needs:?}");
            assert!(fitted.reads.open_shards_max >= 4 && fitted.reads.readers >= 1, "{files}");
        }
        let granted = Descriptors { connections: 100, ..config.descriptors() };
        let fitted = config.clone().within(granted);
        assert_eq!((fitted.requests.connections_max, fitted.security.strangers_max), (75, 25));
        assert_eq!(fitted.reads.open_shards_max, config.reads.open_shards_max);
    }
}
