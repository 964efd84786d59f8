//! Hashes of shards, as index.json has them.

use headwater_core::hex;
use sha2::{Digest as _, Sha256};
use xxhash_rust::{xxh3, xxh64};

use super::index::File;

/// What is wrong with the bytes of a file, by its hashes. Those of other kinds than these are not looked at.
pub(super) fn fault(file: &File, bytes: &[u8]) -> Option<String> {
    let is_other = |kind: &str, told: &str| {
        let found = match kind {
            "sha1" => hex(&sha1::Sha1::digest(bytes)),
            "sha256" => hex(&Sha256::digest(bytes)),
            "xxh64" => hex(&xxh64::xxh64(bytes, 0).to_be_bytes()),
            "xxh3_64" => hex(&xxh3::xxh3_64(bytes).to_be_bytes()),
            "xxh128" | "xxh3_128" => hex(&xxh3::xxh3_128(bytes).to_be_bytes()),
            _ => return false,
        };
        found != told.to_ascii_lowercase()
    };
    let wrong = file.hashes.iter().find(|(kind, told)| is_other(kind, told));
    wrong.map(|(kind, _)| format!("its {kind} is not that of index.json"))
}
