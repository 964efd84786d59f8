//! What this program is: its release, the commit it was built of, and what was compiled in.

use std::fmt::Write as _;
use std::sync::LazyLock;

use headwater_proto::WIRE_VERSION;

/// Parts that a build may leave out, and whether they are there.
const FEATURES: [(&str, bool); 12] = [
    ("format-hdf5", cfg!(feature = "format-hdf5")),
    ("format-mds", cfg!(feature = "format-mds")),
    ("format-parquet", cfg!(feature = "format-parquet")),
    ("format-tfrecord", cfg!(feature = "format-tfrecord")),
    ("format-zarr", cfg!(feature = "format-zarr")),
    ("otlp", cfg!(feature = "otlp")),
    ("rdma", cfg!(feature = "rdma")),
    ("source-object-store", cfg!(feature = "source-object-store")),
    ("terminal", cfg!(feature = "terminal")),
    ("tokenizers", cfg!(feature = "tokenizers")),
    ("ucx", cfg!(feature = "ucx")),
    ("zeromq", cfg!(feature = "zeromq")),
];

static LONG: LazyLock<String> = LazyLock::new(|| {
    // Set by the Makefile and by the scripts that build releases.
    let commit = option_env!("HEADWATER_COMMIT").filter(|commit| !commit.is_empty());
    let mut text = env!("CARGO_PKG_VERSION").to_owned();
    let _ = write!(text, "\ncommit: {}", commit.unwrap_or("unknown"));
    let _ = write!(text, "\nwire version: {WIRE_VERSION}");
    let all = |wanted: bool| {
        let found = FEATURES.iter().filter(|(_, has)| *has == wanted).map(|(name, _)| *name);
        let found: Vec<&str> = found.collect();
        if found.is_empty() { "none".to_owned() } else { found.join(", ") }
    };
    let _ = write!(text, "\nfeatures: {}\nleft out: {}", all(true), all(false));
    text
});

/// What `--version` prints behind the name; `-V` prints the release only.
pub(crate) fn long() -> &'static str {
    &LONG
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_feature_is_named() {
        let manifest: toml::Table = include_str!("../Cargo.toml").parse().unwrap();
        let defaults = manifest["features"]["default"].as_array().unwrap();
        let mut defaults: Vec<&str> = defaults.iter().map(|name| name.as_str().unwrap()).collect();
        defaults.sort_unstable();
        assert_eq!(FEATURES.map(|(name, _)| name).to_vec(), defaults);
        assert!(long().starts_with(concat!(env!("CARGO_PKG_VERSION"), "\ncommit: ")), "{}", long());
    }
}
