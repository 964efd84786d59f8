//! Crates from elsewhere: their licences, their source, and those that are banned, by deny.toml.
//!
//! This is what `cargo deny check bans licenses sources` looks at, without the tool: it is not
//! packaged anywhere, and compiling it takes longer than most of the tests.

use std::collections::BTreeSet;
use std::process::Command;

use serde::Deserialize;
use spdx::{Expression, Licensee, ParseMode};

use crate::tree::{read, root};

/// deny.toml, as far as it is looked at here.
#[derive(Deserialize)]
struct Rules {
    graph: Graph,
    licenses: Licenses,
    bans: Bans,
}

#[derive(Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Banned>,
}

#[derive(Deserialize)]
struct Banned {
    name: String,
    reason: String,
}

/// What `cargo metadata` prints.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    /// Where it is from; none for a folder of this tree.
    source: Option<String>,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    req: String,
    path: Option<String>,
}

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[test]
fn crates_are_licensed_from_crates_io_and_not_banned() {
    let rules = rules();
    let mut breaches = BTreeSet::new();
    for target in &rules.graph.targets {
        let packages = packages(target);
        assert!(packages.len() > 100, "only {} packages are built for {target}", packages.len());
        breaches.extend(packages.iter().flat_map(|package| rules.breaches(package)));
    }
    assert!(breaches.is_empty(), "{}", Vec::from_iter(breaches).join("\n"));
}

#[test]
fn what_breaks_a_rule_is_named() {
    let package = |name: &str, license: Option<&str>, source: &str, req: &str| Package {
        id: String::new(),
        name: name.to_owned(),
        version: "1.0.0".to_owned(),
        license: license.map(str::to_owned),
        source: (!source.is_empty()).then(|| source.to_owned()),
        dependencies: vec![Dependency { name: "other".into(), req: req.into(), path: None }],
    };
    let said = |package: Package| rules().breaches(&package).join("; ");
    assert_eq!(said(package("good", Some("MIT/Apache-2.0"), CRATES_IO, "^1")), "");
    assert_eq!(said(package("good", Some("GPL-3.0-only OR MIT"), CRATES_IO, "*")), "");
    let both = said(package("half", Some("MIT AND GPL-3.0-only"), CRATES_IO, "^1"));
    assert!(both.contains("half 1.0.0 is licensed `MIT AND GPL-3.0-only`"), "{both}");
    assert!(said(package("none", None, CRATES_IO, "^1")).contains("names no licence"));
    assert!(said(package("fork", Some("MIT"), "git+https://x", "^1")).contains("git+https://x"));
    assert!(said(package("openssl-sys", Some("MIT"), CRATES_IO, "^1")).contains("no system TLS"));
    let own = Package { source: None, ..package("own", None, "", "*") };
    assert!(said(own).contains("any version of other"), "a wildcard of ours");
}

fn rules() -> Rules {
    toml::from_str(&read("deny.toml")).expect("rules in deny.toml")
}

/// The packages that are built for a target, ours among them.
fn packages(target: &str) -> Vec<Package> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked", "--filter-platform", target])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Metadata = serde_json::from_slice(&output.stdout).expect("cargo's metadata");
    let built: BTreeSet<String> = metadata.resolve.nodes.into_iter().map(|node| node.id).collect();
    metadata.packages.into_iter().filter(|package| built.contains(&package.id)).collect()
}

// === impl Rules ===

impl Rules {
    fn breaches(&self, package: &Package) -> Vec<String> {
        let Package { name, version, .. } = package;
        let mut breaches = Vec::new();
        if let Some(banned) = self.bans.deny.iter().find(|banned| banned.name == *name) {
            breaches.push(format!("{name} {version} is banned: {}", banned.reason));
        }
        let Some(source) = &package.source else {
            let any = package.dependencies.iter().filter(|other| other.req == "*");
            let named = any.filter(|other| other.path.is_none()).map(|other| {
                format!(
                    "{name} takes any version of {}: name the one it was tried with",
                    other.name
                )
            });
            breaches.extend(named);
            return breaches;
        };
        if source != CRATES_IO {
            breaches.push(format!("{name} {version} is from {source}: take it from crates.io"));
        }
        match &package.license {
            None => breaches.push(format!("{name} {version} names no licence")),
            Some(license) if self.allow(license) => {}
            Some(license) => breaches.push(format!(
                "{name} {version} is licensed `{license}`: allow it in deny.toml, or do without"
            )),
        }
        breaches
    }

    fn allow(&self, license: &str) -> bool {
        let allowed = self.licenses.allow.iter();
        let allowed: Vec<Licensee> =
            allowed.map(|name| Licensee::parse(name).expect("deny.toml names licences")).collect();
        Expression::parse_mode(license, ParseMode::LAX).is_ok_and(|expression| {
            expression.evaluate(|one| allowed.iter().any(|a| a.satisfies(one)))
        })
    }
}
