//! What processes of a real run show at `/metrics`: each family is described once, and docs/metrics.md has it
//! with its type and its labels.

use std::collections::{BTreeMap, BTreeSet};

use headwater_receiver::ReceiverConfig;
use tonic::Code;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::support;
use crate::support::fleet::Fleet;
use crate::support::proxy::Proxy;
use crate::support::scrape;
use crate::support::trainer::{CALM_HEARTBEAT_MS, Ranks};

const PAGE: &str = include_str!("../docs/metrics.md");
/// Labels that Prometheus' text has of its own.
const OF_HISTOGRAMS: [&str; 1] = ["le"];

/// Type and labels by name, as the page has them.
fn page() -> BTreeMap<&'static str, (&'static str, BTreeSet<&'static str>)> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| `headwater_"));
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let labels = cells[2].split(", ").filter(|label| *label != "-");
        let labels = labels.map(|label| label.trim_matches('`')).collect();
        (cells[0].trim_matches('`'), (cells[1], labels))
    };
    rows.map(row).collect()
}

/// Families that a text describes, with their types.
fn families(text: &str) -> BTreeMap<&str, &str> {
    let helps: Vec<&str> = named(text, "# HELP ").map(|(name, _)| name).collect();
    let once: BTreeSet<&str> = helps.iter().copied().collect();
    assert_eq!(helps.len(), once.len(), "described twice: {helps:?}");
    let types: BTreeMap<&str, &str> = named(text, "# TYPE ").collect();
    let without: Vec<&&str> = types.keys().filter(|name| !once.contains(*name)).collect();
    assert!(without.is_empty(), "without a help text: {without:?}");
    types
}

fn named<'a>(text: &'a str, start: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    text.lines().filter_map(move |line| line.strip_prefix(start)?.split_once(' '))
}

/// Names and labels of the series of a text.
fn series(text: &str) -> impl Iterator<Item = (&str, BTreeSet<&str>)> {
    let lines = text.lines().filter(|line| line.starts_with("headwater_"));
    lines.map(|line| {
        let (name, rest) = line.split_once(['{', ' ']).expect("a name and more");
        let labels = rest.rsplit_once('}').map_or("", |(labels, _)| labels);
        let labels = labels.split("\",").filter_map(|label| Some(label.split_once('=')?.0));
        (name, labels.filter(|label| !OF_HISTOGRAMS.contains(label)).collect())
    })
}

/// What gRPC's health service of a server says of a service.
async fn health(address: &str, service: &str) -> Result<ServingStatus, Code> {
    let channel = Endpoint::from_shared(format!("http://{address}")).expect("an address");
    let mut client = HealthClient::new(channel.connect().await.expect("a connection"));
    let request = HealthCheckRequest { service: service.to_owned() };
    match client.check(request).await {
        Ok(answer) => Ok(answer.into_inner().status()),
        Err(status) => Err(status.code()),
    }
}

#[tokio::test]
async fn servers_answer_grpcs_own_question_for_their_health() {
    let mut fleet = Fleet::start(support::data("photos/photos-000003.tar"), 1);
    let storage = fleet.storage().address.clone();
    let worker = fleet.worker(0).address.clone();
    for (address, own, other) in [
        (&storage, "headwater.v1.Storage", "headwater.v1.Augment"),
        (&worker, "headwater.v1.Augment", "headwater.v1.Storage"),
    ] {
        assert_eq!(health(address, "").await, Ok(ServingStatus::Serving));
        assert_eq!(health(address, own).await, Ok(ServingStatus::Serving));
        assert_eq!(health(address, other).await, Err(Code::NotFound));
    }
}

#[test]
fn processes_show_what_the_page_of_metrics_says() {
    let mut fleet = Fleet::without_workers(support::data("photos/photos-*.tar"));
    fleet.add_worker("local_files = \"off\"");
    let mut config = ReceiverConfig {
        batch_samples: 8,
        epochs: 1_000_000,
        links: vec!["tcp".into()],
        ..fleet.config()
    };
    config.leases.heartbeat_ms = CALM_HEARTBEAT_MS;
    let rank = format!("127.0.0.1:{}", Proxy::free_port());
    let listen = format!("telemetry.metrics_listen={rank}");
    let folder = fleet.dir().to_owned();
    let mut ranks = Ranks::start(&config, &folder, "rank", &["--set".to_owned(), listen]);
    ranks.wait_for(0, 2);
    let page = page();
    let mut seen = BTreeSet::new();
    let processes = [
        ("headwater_storage_info", fleet.storage().metrics.clone()),
        ("headwater_augment_info", fleet.worker(0).metrics.clone()),
        ("headwater_receiver_info", rank),
    ];
    for (own, address) in processes {
        let text = scrape(&address);
        let families = families(&text);
        assert!(families.contains_key(own), "no {own} in\n{text}");
        for (name, kind) in &families {
            let said = page.get(name).map(|(kind, _)| *kind);
            assert_eq!(said, Some(*kind), "{name} in docs/metrics.md");
        }
        for (name, labels) in series(&text) {
            let whole = ["_bucket", "_sum", "_count"].iter().find_map(|end| {
                let whole = name.strip_suffix(end)?;
                (families.get(whole) == Some(&"histogram")).then_some(whole)
            });
            let name = whole.unwrap_or(name);
            assert_eq!(page[name].1, labels, "labels of {name}");
            seen.insert(name.to_owned());
        }
    }
    for name in ["headwater_receiver_weight", "headwater_storage_served_bytes_total"] {
        assert!(seen.contains(name), "{name} is not shown: {seen:?}");
    }
}
