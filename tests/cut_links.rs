//! Workers on hosts of their own whose cables are pulled in mid-epoch: connections that are cut,
//! and ones that are half open because the other end died unheard. What the other end of a cable had
//! open is given up.

use std::net::{Ipv4Addr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use headwater_receiver::{LeaseConfig, ReceiverConfig};

use crate::support;
use crate::support::fleet::Fleet;
use crate::support::network::{Host, available};
use crate::support::trainer::{CALM_HEARTBEAT_MS, HEARTBEAT_MS, Ranks};

/// Longer than heartbeats may stay out, and shorter.
const CUTS_MS: [u64; 3] = [300, 1500, 4000];
/// A connection whose other end is gone is given up within a minute. A machine with much else to do
/// takes its time.
const GIVEN_UP: Duration = Duration::from_secs(240);

#[test]
fn pulled_cables_change_no_batch() {
    if let Err(reason) = available() {
        println!("SKIPPED: {reason}");
        return;
    }
    let shards = support::data("photos/photos-*.tar");
    let hosts = [Host::new(), Host::new()];
    let mut fleet = Fleet::empty(&shards, "");
    fleet.settle(&hosts[0].here, "");
    fleet.add_storage();
    // The shards are there on both hosts, as on a parallel file system; these read over gRPC.
    for host in &hosts {
        fleet.settle(&host.there, &host.namespace);
        fleet.add_worker("local_files = \"off\"");
    }
    let mut config = ReceiverConfig {
        world_size: 2,
        batch_samples: 8,
        epochs: 1_000_000,
        links: vec!["tcp".into()],
        ..fleet.config()
    };
    config.leases.heartbeat_ms = HEARTBEAT_MS;
    let folder = fleet.dir().to_owned();
    let mut ranks = Ranks::start(&config, &folder, "cut", &training());
    ranks.wait_for(0, 3);
    for (round, ms) in CUTS_MS.into_iter().enumerate() {
        let host = &hosts[round % 2];
        host.pull();
        sleep(Duration::from_millis(ms));
        host.plug();
        let taken = ranks.taken(0);
        ranks.wait_for(0, taken + 5);
    }
    // One dies while nobody can hear it, so that nothing closes its connections.
    hosts[1].pull();
    fleet.worker(1).kill();
    let taken = ranks.taken(0);
    ranks.wait_for(0, taken + 10);
    hosts[1].plug();
    fleet.restart_worker(1, "local_files = \"off\"");
    // Both cables at once: nobody is left until they are back.
    hosts.iter().for_each(Host::pull);
    sleep(Duration::from_millis(4000));
    hosts.iter().for_each(Host::plug);
    let taken = ranks.taken(0);
    ranks.wait_for(0, taken + 10);
    ranks.end();
    let cut = ranks.stream();

    let mut calm = Fleet::start(&shards, 2);
    let (storage, workers) = (calm.config().storage, calm.config().workers);
    let heartbeat_ms = CALM_HEARTBEAT_MS;
    let leases = LeaseConfig { heartbeat_ms, ..config.leases };
    let config = ReceiverConfig { storage, workers, leases, ..config };
    let only = ["--batches".to_owned(), cut.len().to_string()];
    let mut undisturbed = Ranks::start(&config, &folder, "undisturbed", &only);
    undisturbed.finish();
    assert!(cut == undisturbed.stream(), "batches differ from a run whose cables stayed");
    println!("{} batches of two ranks compared", cut.len());
}

/// A trainer takes its time for each batch. One that did nothing would keep all cores busy while cables are out.
fn training() -> [String; 2] {
    ["--step-ms".to_owned(), "20".to_owned()]
}

/// Connections between two addresses that the network of a process has open, as its kernel writes them.
fn open_between(pid: u32, one: &str, other: &str) -> Vec<String> {
    /// Established, and closed by the other end only.
    const OPEN: [&str; 2] = ["01", "08"];
    /// Of sockets that listen to both families, and those of one: what precedes the address.
    const TABLES: [(&str, &str); 2] = [("tcp6", "0000000000000000FFFF0000"), ("tcp", "")];
    let hex = |address: &str| {
        let octets = address.parse::<Ipv4Addr>().expect("an address").octets();
        format!("{:08X}:", u32::from_ne_bytes(octets))
    };
    let mut found = Vec::new();
    for (table, mapped) in TABLES {
        let [one, other] = [one, other].map(|address| format!("{mapped}{}", hex(address)));
        let table = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        let open = |line: &&str| {
            let mut columns = line.split_whitespace().skip(1);
            let [local, remote, state] = [(); 3].map(|()| columns.next().unwrap_or_default());
            local.starts_with(&one) && remote.starts_with(&other) && OPEN.contains(&state)
        };
        found.extend(table.lines().filter(open).map(str::to_owned));
    }
    found
}

#[test]
fn connections_with_a_host_that_has_vanished_end_at_every_tier() {
    if let Err(reason) = available() {
        println!("SKIPPED: {reason}");
        return;
    }
    let host = Host::new();
    let mut fleet = Fleet::empty(support::data("photos/photos-*.tar"), "");
    fleet.settle(&host.here, "");
    fleet.add_storage();
    let near = fleet.add_worker("local_files = \"off\"");
    fleet.settle(&host.there, &host.namespace);
    let far = fleet.add_worker("local_files = \"off\"");
    let mut config = ReceiverConfig {
        batch_samples: 8,
        epochs: 1_000_000,
        links: vec!["tcp".into()],
        ..fleet.config()
    };
    // Nobody is given up for missing heartbeats.
    config.leases.heartbeat_ms = CALM_HEARTBEAT_MS;
    let folder = fleet.dir().to_owned();
    let mut ranks = Ranks::start(&config, &folder, "vanished", &training());
    ranks.wait_for(0, 3);
    let scrape = TcpStream::connect(&fleet.worker(far).metrics).expect("metrics are served");
    let own = scrape.local_addr().expect("an address").port();
    let own = format!(":{own:04X} ");
    // Of the storage node and of the rank; and of the worker with each of them and with a scraper.
    let pids = [fleet.worker(near).pid(), fleet.worker(far).pid()];
    let open = || {
        let mut here = open_between(pids[0], &host.here, &host.there);
        // The scraper's own end: it is this test that holds it.
        here.retain(|line| !line.contains(&own));
        [here, open_between(pids[1], &host.there, &host.here)]
    };
    let [here, there] = open().map(|open| open.len());
    assert!(here >= 3 && there >= 4, "{here} and {there} connections");
    host.pull();
    let taken = ranks.taken(0);
    let pulled = Instant::now();
    while let left = open().concat()
        && !left.is_empty()
    {
        assert!(pulled.elapsed() < GIVEN_UP, "still open:\n{}", left.join("\n"));
        sleep(Duration::from_millis(100));
    }
    println!("{here} and {there} connections ended after {:?}", pulled.elapsed());
    ranks.wait_for(0, taken + 10);
    ranks.end();
    drop(scrape);
}
