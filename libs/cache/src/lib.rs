//! Files that the processes of one host fetch or make once and share: the node cache, decoded images.
//!
//! An entry is a payload (a shard, or a piece of one that was unpacked) and `meta`, some bytes
//! about it. [`Cache::get_or_fill`] gives an entry that is there, or has it filled by whoever asked
//! first, on whatever thread of whatever process; the others wait for that one, for a limited time.
//! [`Cache::offer`] writes an entry that the caller has made anyway, and waits 50 ms for a lock at most.
//! [`Cached`] is an entry that is open: while it lives, the entry is not evicted.
//!
//! Each level is a folder with a limit in bytes: a tmpfs first, an NVMe drive behind it. The least
//! recently used entry of a level makes room and goes down to the next level; from the last one it
//! is gone. An entry that was used within [`CacheConfig::keep`] stays where it is. A hit of a lower level stays there: what is read again is in the kernel's page cache
//! by then, which is as fast as a tmpfs, and a copy upwards would push another entry down.
//!
//! **What is trusted.** An entry gets its name when it is whole. Its header, sizes and `meta` are
//! checked each time it is opened. Its payload is checked against its checksum where it may not be
//! what was written: the machine was started again since (a page may be torn), or the file's time
//! of change is not the one that its writer has put into the header. A damaged entry is removed and
//! filled anew. Only files of this user, of root and of users whom the caller names are opened.
//!
//! **What is shared.** Processes agree by files only: `flock` says who fills, who reads and who may
//! count, and ends with its process, however that ends. Nobody waits without a limit, and whatever
//! is short, a lock or a byte of room, comes back as [`Unavailable`]: read through then.
//!
//! Everything here blocks: call it on threads that may wait for a disk.
//!
//! Deliberately absent: what the bytes are and where they come from, the network, async code, other
//! hosts (a folder of a network file system is no place for a cache), changes of an entry.
#![forbid(unsafe_code)]

mod cache;
mod cached;
mod config;
mod error;
mod evict;
mod flights;
mod folders;
mod header;
mod key;
mod level;
mod levels;
mod metrics;
mod overdue;
mod scan;
mod tally;
mod victims;
mod watch;
mod writer;

pub use cache::Cache;
pub use cached::Cached;
pub use config::{CacheConfig, CacheLevel};
pub use error::{CacheError, FillError, OpenError, Unavailable};
pub use key::Key;
pub use metrics::describe_metrics;
pub use writer::EntryWriter;
