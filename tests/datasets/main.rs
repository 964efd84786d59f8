//! The hub of datasets through the real program, verb by verb.

mod add;
mod buckets;
mod count;
mod distant;
mod entries;
mod fields;
mod formats;
mod index;
mod named;
mod pack;
mod preview;
mod program;
mod stubs;
mod tar_walk;
mod validate;

/// Servers of the storage tier's own tests.
#[allow(dead_code, reason = "its tests use more")]
#[path = "../../storage-tier/src/source/tests/hub.rs"]
mod hub;
#[allow(dead_code, reason = "its tests use more")]
#[path = "../../storage-tier/src/source/tests/s3.rs"]
mod s3;
#[allow(dead_code, reason = "its tests use more")]
#[path = "../../storage-tier/src/source/tests/server.rs"]
mod server;
