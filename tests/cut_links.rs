//! Workers on hosts of their own whose cables are pulled in mid-epoch: connections that are cut,
//! and ones that are half open because the other end died unheard.

mod support;

use std::thread::sleep;
use std::time::Duration;

use headwater_receiver::ReceiverConfig;
use rustix::process::Signal;
use support::fleet::Fleet;
use support::network::{Host, available};
use support::trainer::{CALM_HEARTBEAT_MS, HEARTBEAT_MS, Ranks};

/// Longer than heartbeats may stay out, and shorter.
const CUTS_MS: [u64; 3] = [300, 1500, 4000];

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
    let config = ReceiverConfig {
        world_size: 2,
        batch_samples: 8,
        epochs: 1_000_000,
        heartbeat_ms: HEARTBEAT_MS,
        links: vec!["tcp".into()],
        ..fleet.config()
    };
    let folder = fleet.dir().to_owned();
    let mut ranks = Ranks::start(&config, &folder, "cut", &[]);
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
    (0..ranks.len()).for_each(|rank| ranks.signal(rank, Signal::TERM));
    ranks.finish();
    let cut = ranks.stream();

    let mut calm = Fleet::start(&shards, 2);
    let (storage, workers) = (calm.config().storage, calm.config().workers);
    let heartbeat_ms = CALM_HEARTBEAT_MS;
    let config = ReceiverConfig { storage, workers, heartbeat_ms, ..config };
    let only = ["--batches".to_owned(), cut.len().to_string()];
    let mut undisturbed = Ranks::start(&config, &folder, "undisturbed", &only);
    undisturbed.finish();
    assert!(cut == undisturbed.stream(), "batches differ from a run whose cables stayed");
    println!("{} batches of two ranks compared", cut.len());
}
