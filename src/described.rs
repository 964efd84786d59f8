//! docs/metrics.md has every metric of every process, with its type and what it means.

use std::collections::BTreeMap;
use std::sync::Mutex;

use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    with_local_recorder,
};

const PAGE: &str = include_str!("../docs/metrics.md");

/// Type and help text by name.
#[derive(Default)]
struct Described(Mutex<BTreeMap<String, (&'static str, String)>>);

impl Described {
    fn note(&self, name: &KeyName, kind: &'static str, help: &SharedString) {
        let (name, new) = (name.as_str().to_owned(), (kind, help.to_string()));
        let before = self.0.lock().unwrap().insert(name.clone(), new.clone());
        assert!(before.is_none_or(|before| before == new), "{name} is described twice");
    }
}

impl Recorder for Described {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        assert!(name.as_str().ends_with("_total"), "the counter {}", name.as_str());
        self.note(&name, "counter", &help);
    }

    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        self.note(&name, "gauge", &help);
    }

    fn describe_histogram(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        assert!(name.as_str().ends_with("_seconds"), "{} would have no buckets", name.as_str());
        self.note(&name, "histogram", &help);
    }

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// The page's rows: name, type and meaning; labels are compared with what processes show elsewhere.
fn rows() -> BTreeMap<String, (&'static str, String)> {
    let mut rows = BTreeMap::new();
    for line in PAGE.lines().filter(|line| line.starts_with("| `headwater_")) {
        let cells: Vec<&'static str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [name, kind, _labels, help] = cells[..] else { panic!("not four cells: {line}") };
        let name = name.trim_matches('`').to_owned();
        let before = rows.insert(name.clone(), (kind, help.to_owned()));
        assert!(before.is_none(), "{name} has two rows");
    }
    rows
}

// Without one of them the page has too many.
#[cfg(feature = "zeromq")]
#[test]
fn the_page_of_metrics_has_all_of_them_and_no_other() {
    let described = Described::default();
    with_local_recorder(&described, || {
        headwater_telemetry::describe_metrics();
        headwater_access::describe_metrics();
        headwater_storage::describe_metrics();
        headwater_storage_client::describe_metrics();
        headwater_storage_client::describe_buffers();
        headwater_transport::describe_metrics();
        headwater_augment::describe_metrics();
        headwater_receiver::describe_metrics();
        crate::publish::describe();
        crate::autoscale::describe();
    });
    let (described, rows) = (described.0.into_inner().unwrap(), rows());
    let row = |(name, (kind, help)): (&String, &(&str, String))| {
        format!("| `{name}` | {kind} | labels | {help} |")
    };
    let missing: Vec<String> =
        described.iter().filter(|(name, said)| rows.get(*name) != Some(*said)).map(row).collect();
    let gone: Vec<&String> = rows.keys().filter(|name| !described.contains_key(*name)).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "docs/metrics.md lacks these rows, or has others for them:\n{}\nand has {gone:?}, which are no metrics",
        missing.join("\n")
    );
}
