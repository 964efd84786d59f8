//! Delay, loss, slowness, cuts in mid-message and silence on every way between the tiers change
//! no batch. A proxy makes the weather: see `support::proxy`.
//!
//! `HEADWATER_CHAOS_SEED` and `HEADWATER_CHAOS_SECONDS` as for `chaos`.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use headwater_core::draw::DrawRng;
use headwater_core::{DrawKey, SampleId};
use headwater_receiver::{LeaseConfig, ReceiverConfig};

use crate::support;
use crate::support::fleet::Fleet;
use crate::support::proxy::{Proxy, Weather};
use crate::support::trainer::{CALM_HEARTBEAT_MS, HEARTBEAT_MS, Ranks};
use crate::support::{unix_ms, variable};

const SECONDS_DEFAULT: u64 = 6;
const WEATHERS: [&str; 5] = ["delay", "loss", "slow", "cut", "silence"];

fn make(weather: &Weather, kind: &str, rng: &mut DrawRng) {
    match kind {
        "delay" => weather.delay_ms.store(5 + rng.below(60), Ordering::SeqCst),
        "loss" => weather.loses_one_in.store(3 + rng.below(20), Ordering::SeqCst),
        "slow" => weather.bytes_per_s.store((1 + rng.below(8)) << 20, Ordering::SeqCst),
        "cut" => weather.cut(),
        // Often longer than heartbeats may stay out.
        "silence" => weather.swallows.store(true, Ordering::SeqCst),
        other => panic!("no weather `{other}`"),
    }
}

#[test]
fn weather_of_every_kind_changes_no_batch() {
    let seed = variable("HEADWATER_CHAOS_SEED", unix_ms());
    let lasts = Duration::from_secs(variable("HEADWATER_CHAOS_SECONDS", SECONDS_DEFAULT));
    println!("HEADWATER_CHAOS_SEED={seed}");
    let key = DrawKey { seed, epoch: 0, pass: 0, sample: SampleId::new(0, 0), stream: 1 };
    let mut rng = key.rng();

    let shards = support::data("photos/photos-*.tar");
    let mut fleet = Fleet::without_workers(&shards);
    let storage = Proxy::new("127.0.0.1:0", &fleet.storage().address.clone());
    fleet.reach_storage_at(&storage.address);
    let mut ways = vec![storage];
    for number in 0..2 {
        fleet.add_worker("local_files = \"off\"");
        ways.push(Proxy::new("127.0.0.1:0", &fleet.worker(number).address.clone()));
    }
    // Workers get another address of this host than the one that the rank listens on.
    let port = Proxy::free_port();
    let data = Proxy::new(&format!("127.0.0.2:{port}"), &format!("127.0.0.1:{port}"));
    let mut config = ReceiverConfig {
        batch_samples: 8,
        epochs: 1_000_000,
        links: vec!["tcp".into()],
        workers: ways[1..].iter().map(|way| way.address.clone()).collect(),
        ..fleet.config()
    };
    config.leases.heartbeat_ms = HEARTBEAT_MS;
    ways.push(data);
    let listen =
        [format!("links.tcp_listen=127.0.0.1:{port}"), "links.tcp_advertise=127.0.0.2".into()];
    let listen = support::set_flags(listen);
    let folder = fleet.dir().to_owned();
    let mut ranks = Ranks::start(&config, &folder, "rough", &listen);
    ranks.wait_for(0, 3);
    let mut made: BTreeMap<&str, usize> = BTreeMap::new();
    let started = Instant::now();
    // Every kind once at least, however slow the machine is.
    for round in 0.. {
        if round >= WEATHERS.len() && started.elapsed() > lasts {
            break;
        }
        let kind = WEATHERS[if round < WEATHERS.len() { round } else { rng.below(5) as usize }];
        let way = &ways[rng.below(ways.len() as u64) as usize];
        make(&way.weather, kind, &mut rng);
        *made.entry(kind).or_default() += 1;
        let longest_ms = if kind == "silence" { 3000 } else { 1200 };
        sleep(Duration::from_millis(200 + rng.below(longest_ms)));
        way.weather.clear();
        ranks.check();
    }
    let before = ranks.taken(0);
    ranks.wait_for(0, before + 5);
    ranks.end();
    let rough = ranks.stream();

    let mut calm = Fleet::start(&shards, 2);
    let (storage, workers) = (calm.config().storage, calm.config().workers);
    let heartbeat_ms = CALM_HEARTBEAT_MS;
    let leases = LeaseConfig { heartbeat_ms, ..config.leases };
    let config = ReceiverConfig { storage, workers, leases, ..config };
    let only = ["--batches".to_owned(), rough.len().to_string()];
    let mut undisturbed = Ranks::start(&config, &folder, "undisturbed", &only);
    undisturbed.finish();
    let undisturbed = undisturbed.stream();
    assert!(rough.keys().eq(undisturbed.keys()), "not the same batches");
    for (place, batch) in &rough {
        assert!(batch == &undisturbed[place], "{place:?} differs from a run in calm weather");
    }
    println!("seed {seed}: {made:?}; {} batches compared, 0 differ", rough.len());
}
