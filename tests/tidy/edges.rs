//! Who depends on whom.

use crate::tree::{code, files, read};

/// Folder of a crate, and the crates of this project that it may depend on, in its tests too.
const MAY_DEPEND: [(&str, &[&str]); 39] = [
    ("benches/peers/crates", &["core", "pixels", "render", "simd"]),
    ("tests/tidy", &[]),
    (
        "fuzz",
        &[
            "config",
            "core",
            "discovery",
            "proto",
            "receiver",
            "render",
            "storage",
            "storage-client",
            "transport",
        ],
    ),
    ("libs/access", &["config-derive", "core", "lobby"]),
    ("libs/autoscale", &["config-derive"]),
    // Above a tier: it draws as a worker does what a receiver has. Only the program and the wheel depend on it.
    (
        "app/batch-view",
        &["access", "contact-sheet", "core", "receiver", "render", "storage-client", "telemetry"],
    ),
    ("libs/cache", &[]),
    // Above the tiers: it holds all their sections. Only the program and the wheel depend on it.
    (
        "app/config",
        &[
            "access",
            "augment",
            "autoscale",
            "config-derive",
            "core",
            "discovery",
            "receiver",
            "storage",
            "telemetry",
            "transport",
        ],
    ),
    ("libs/config-derive", &[]),
    ("libs/contact-sheet", &["core"]),
    ("libs/core", &["config-derive"]),
    ("libs/cuda", &["core", "dylib", "own-files", "part-rows", "transport"]),
    ("libs/discovery", &["kubernetes"]),
    ("libs/dylib", &[]),
    ("libs/http-client", &[]),
    ("libs/interpreter", &[]),
    ("libs/inventory", &["dylib"]),
    ("libs/jpeg", &["simd"]),
    ("libs/jpeg/fuzz", &["jpeg", "simd"]),
    ("libs/kubernetes", &["http-client"]),
    ("libs/lobby", &[]),
    // Above the tiers too: it runs them. Only the program and the wheel depend on it.
    (
        "app/local",
        &[
            "augment",
            "config",
            "core",
            "inventory",
            "own-files",
            "receiver",
            "storage",
            "trace",
            "transport",
        ],
    ),
    ("libs/telemetry", &["config-derive", "core", "lobby", "own-files", "trace"]),
    ("libs/megatron-order", &[]),
    ("libs/npy", &[]),
    ("libs/own-files", &[]),
    ("libs/part-rows", &[]),
    ("libs/pixels", &["core", "simd"]),
    (
        "libs/render",
        &[
            "cache",
            "core",
            "interpreter",
            "jpeg",
            "npy",
            "part-rows",
            "pixels",
            "proto",
            "simd",
            "trace",
        ],
    ),
    // Its benches write to a link's memory.
    (
        "libs/render-cuda",
        &[
            "core",
            "cuda",
            "dylib",
            "interpreter",
            "jpeg",
            "part-rows",
            "pixels",
            "render",
            "simd",
            "transport",
        ],
    ),
    ("libs/simd", &[]),
    ("libs/trace", &[]),
    ("proto", &["core"]),
    ("libs/transport", &["config-derive", "core", "dylib", "inventory", "lobby", "part-rows"]),
    ("libs/storage-client", &["access", "cache", "core", "discovery", "proto", "trace"]),
    (
        "storage-tier",
        &[
            "access",
            "cache",
            "config-derive",
            "core",
            "interpreter",
            "jpeg",
            "megatron-order",
            "npy",
            "own-files",
            "proto",
            "render",
            "simd",
            "transport",
            "telemetry",
            "trace",
            "storage-client",
        ],
    ),
    (
        "augment-tier",
        &[
            "access",
            "cache",
            "config-derive",
            "core",
            "cuda",
            "interpreter",
            "inventory",
            "jpeg",
            "lobby",
            "pixels",
            "proto",
            "render",
            "render-cuda",
            "simd",
            "transport",
            "trace",
            "storage-client",
        ],
    ),
    (
        "gpu-receiver",
        &[
            "access",
            "config-derive",
            "contact-sheet",
            "core",
            "cuda",
            "discovery",
            "interpreter",
            "inventory",
            "npy",
            "proto",
            "transport",
            "telemetry",
            "trace",
            "storage-client",
        ],
    ),
    (
        "gpu-receiver/python",
        &[
            "access",
            "augment",
            "batch-view",
            "config",
            "contact-sheet",
            "core",
            "cuda",
            "local",
            "part-rows",
            "receiver",
            "render",
            "telemetry",
            "trace",
            "transport",
        ],
    ),
];

/// What one has to know to change how batches are made: ARCHITECTURE.md marks these crates.
const CORE: [&str; 9] = [
    "libs/core",
    "libs/part-rows",
    "libs/pixels",
    "libs/render",
    "libs/storage-client",
    "libs/transport",
    "proto",
    "storage-tier",
    "gpu-receiver",
];
/// Crates that no core crate imports.
const LEAVES: [&str; 7] =
    ["augment", "autoscale", "batch-view", "config", "kubernetes", "local", "render-cuda"];
/// A folder of a core crate, its modules that are leaves, and the only file beside them that names what is in them.
const LEAF_MODULES: [(&str, &[&str], &str); 2] = [
    ("libs/transport/src", &["rdma", "ucx"], "libs/transport/src/links/mod.rs"),
    (
        "storage-tier/src",
        &["hdf5", "lines", "mds", "npy", "parquet", "tfrecord", "zarr"],
        "storage-tier/src/format/mod.rs",
    ),
];

/// Crates that nothing under libs/ knows: what puts them together is under app/.
const TIERS: [&str; 3] = ["augment", "receiver", "storage"];

/// A library, the folders whose crates may depend on it, and the files that may name it.
const ROOMS: [(&str, &[&str], &[&str]); 5] = [
    ("tonic", GRPC_CRATES, GRPC_FILES),
    ("tonic_prost", GRPC_CRATES, GRPC_FILES),
    ("prost", GRPC_CRATES, GRPC_FILES),
    ("pyo3", &["gpu-receiver/python"], &["gpu-receiver/python/"]),
    ("cudarc", &["libs/cuda", "libs/render-cuda"], &["libs/cuda/", "libs/render-cuda/"]),
];
const GRPC_CRATES: &[&str] = &[
    // For its tests.
    "",
    "proto",
    "libs/access",
    "libs/storage-client",
    "storage-tier",
    "augment-tier",
    "gpu-receiver",
];
/// Tests may play the other side.
const GRPC_FILES: &[&str] = &[
    "proto/",
    "libs/access/",
    "libs/storage-client/",
    "storage-tier/src/service",
    "storage-tier/tests/",
    "augment-tier/src/service",
    "augment-tier/tests/",
    "gpu-receiver/src/client.rs",
    "gpu-receiver/tests/",
    "tests/chaos/",
    "tests/metrics.rs",
    "tests/traces/",
];

/// Dependencies that are not allowed.
pub(crate) fn breaches() -> Vec<String> {
    let mut breaches = Vec::new();
    for manifest in files(&["Cargo.toml"]) {
        let folder = manifest.trim_end_matches("Cargo.toml").trim_end_matches('/');
        if folder.is_empty() {
            continue; // The program sees everything.
        }
        let Some((_, allowed)) = MAY_DEPEND.iter().find(|(crate_, _)| *crate_ == folder) else {
            breaches
                .push(format!("{folder} is a new crate: give it its edges in tests/tidy/edges.rs"));
            continue;
        };
        for name in dependencies(&manifest) {
            let own = read(&manifest).contains(&format!("name = \"{name}\""));
            let ours = name.strip_prefix("headwater-").filter(|_| !own);
            let below = folder.starts_with("libs/") || folder == "proto";
            if let Some(tier) = ours.filter(|name| below && TIERS.contains(name)) {
                breaches
                    .push(format!("{folder} depends on a tier, headwater-{tier}: move it to app/"));
            }
            if let Some(ours) = ours.filter(|name| !allowed.contains(name)) {
                breaches.push(format!(
                    "{folder} depends on headwater-{ours}: it may only on {allowed:?}; data goes \
                     one way and tiers never see each other"
                ));
            }
        }
    }
    breaches
}

/// Leaves that core crates import, or name outside their own files.
pub(crate) fn leaves() -> Vec<String> {
    let mut breaches = Vec::new();
    for folder in CORE {
        let allowed = MAY_DEPEND.iter().find(|(crate_, _)| *crate_ == folder);
        let (_, allowed) = allowed.unwrap_or_else(|| panic!("{folder} has no edges"));
        for leaf in allowed.iter().filter(|name| LEAVES.contains(name)) {
            breaches.push(format!("{folder} is core, and headwater-{leaf} is a leaf"));
        }
        if !read("ARCHITECTURE.md").contains(&format!("| **`{folder}`** |")) {
            breaches.push(format!("ARCHITECTURE.md does not mark {folder} as core"));
        }
    }
    for (folder, modules, registry) in LEAF_MODULES {
        for file in files(&[".rs"]).iter().filter(|file| file.starts_with(folder)) {
            for module in modules {
                let is_its_own = file.contains(&format!("/{module}/"))
                    || file.ends_with(&format!("/{module}.rs"));
                let path = format!("{module}::");
                let is_named = || code(file).iter().any(|line| mentions(line, &path));
                if !is_its_own && file != registry && is_named() {
                    breaches.push(format!("{file} names {module}, a leaf: only {registry} may"));
                }
            }
        }
    }
    breaches
}

/// Libraries outside the crates and files they belong to.
pub(crate) fn rooms() -> Vec<String> {
    let mut breaches = Vec::new();
    let manifests = files(&["Cargo.toml"]);
    let sources = files(&[".rs"]);
    for (library, crates, rooms) in ROOMS {
        for manifest in &manifests {
            let folder = manifest.trim_end_matches("Cargo.toml").trim_end_matches('/');
            let depends =
                dependencies(manifest).iter().any(|name| name.replace('-', "_") == library);
            if depends && !crates.contains(&folder) {
                breaches.push(format!("{manifest} depends on {library}: only {crates:?} may"));
            }
        }
        let path = format!("{library}::");
        for file in &sources {
            let in_room = rooms.iter().any(|room| file.starts_with(room));
            if !in_room && code(file).iter().any(|line| names(line, &path)) {
                breaches.push(format!("{file} names {library}: only {rooms:?} may"));
            }
        }
    }
    breaches
}

/// Whether a line has `path` as a path of its own, not as the end of another name.
fn names(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
    })
}

/// Whether a line has `path`, not as the end of another name.
fn mentions(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

/// Names of all dependencies of a manifest, of whatever kind.
fn dependencies(manifest: &str) -> Vec<String> {
    let table: toml::Table = read(manifest).parse().unwrap_or_else(|e| panic!("{manifest}: {e}"));
    let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
    let targets = table.get("target").and_then(toml::Value::as_table);
    let of_targets = targets.into_iter().flat_map(|targets| targets.values());
    std::iter::once(&toml::Value::Table(table.clone()))
        .chain(of_targets)
        .flat_map(|part| kinds.map(|kind| part.get(kind).and_then(toml::Value::as_table)))
        .flatten()
        .flat_map(|dependencies| dependencies.keys().cloned())
        .collect()
}
