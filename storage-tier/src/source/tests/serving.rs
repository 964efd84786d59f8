//! A storage node whose shards lie elsewhere gives the samples that it gives of files.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use headwater_proto::storage::{ReadQuery, StorageFailure};
use headwater_storage_client::FieldSelection;
use sha2::{Digest, Sha256};

use super::super::conformance::bytes;
use super::config;
use super::server::{Dialect, Fault, Request, Server};
use crate::{
    CacheLevel, DatasetConfig, FilterConfig, FilterKind, NodeCacheConfig, Storage, StorageConfig,
};

/// A tar of `samples` samples, of 20 KB on the average.
fn tar(seed: u64, samples: u64) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for sample in 0..samples {
        let length = 1000 + (sample * 7919 % 39_000) as usize;
        for (name, bytes) in [("jpg", bytes(seed * 1000 + sample, length)), ("cls", b"7".to_vec())]
        {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            let name = format!("{seed}-{sample:04}.{name}");
            tar.append_data(&mut header, name, &bytes[..]).unwrap();
        }
    }
    tar.into_inner().unwrap()
}

async fn open(shards: String, index_dir: &Path) -> Storage {
    open_with(shards, index_dir, Vec::new()).await
}

async fn open_with(shards: String, index_dir: &Path, cache: Vec<CacheLevel>) -> Storage {
    let dataset =
        DatasetConfig { name: "d".to_owned(), shards: vec![shards], ..DatasetConfig::default() };
    let config = StorageConfig {
        datasets: vec![dataset],
        index_dir: Some(index_dir.to_owned()),
        cache: NodeCacheConfig { cache, ..Default::default() },
        sources: config(),
        ..Default::default()
    };
    Storage::open(config).await.unwrap_or_else(|error| panic!("{}", error.sentence()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_from_elsewhere_are_those_of_files_and_faults_change_none() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(Dialect::Plain);
    for shard in 0..3 {
        let bytes = tar(shard, 40);
        std::fs::write(folder.path().join(format!("s-{shard}.tar")), &bytes).unwrap();
        server.put(&format!("ds/s-{shard}.tar"), &bytes);
    }
    let (here, there) = (folder.path().join("here"), folder.path().join("there"));
    let files = open(format!("{}/s-{{0..2}}.tar", folder.path().display()), &here).await;
    // Every fifth request goes wrong, from the first on.
    let mut number = 0;
    let fault = [Fault::Status(503), Fault::Cut(700), Fault::Hangup];
    server.fail(move |_| {
        number += 1;
        (number % 5 == 0).then(|| fault[number / 5 % 3].clone())
    });
    let url = format!("http://{}/ds/s-{{0..2}}.tar", server.address);
    let distant = open(url.clone(), &there).await;
    let digest = |storage: &Storage| storage.manifests().next().unwrap().digest();
    assert_eq!(digest(&files), digest(&distant));
    let indices: Vec<u32> = (0..40).rev().collect();
    for shard in 0..3 {
        let fields = FieldSelection::all();
        let expected = files.read("d", shard, &indices, &fields).await.unwrap();
        let read = distant.read("d", shard, &indices, &fields).await.unwrap();
        assert!(read == expected, "shard {shard}");
    }
    // Started again, it has its indices: no shard is scanned.
    drop(distant);
    server.requests();
    let again = open(url, &there).await;
    assert_eq!(digest(&files), digest(&again));
    let asked = server.requests();
    assert!(asked.iter().all(|request| request.method == "HEAD"), "{asked:?}");
    // A shard that is another one now is an error by name.
    server.fail(|_| None);
    server.put("ds/s-1.tar", &tar(9, 40));
    let error = again.read("d", 1, &indices, &FieldSelection::all()).await.unwrap_err();
    let text = error.sentence();
    assert!(text.contains("ds/s-1.tar") && text.contains("changed"), "{text}");
}

/// A mirror of the server has the object with the same tag and other bytes, and all connections lead there that were
/// made before the sample is read a second time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sample_that_looks_broken_is_read_anew_over_another_connection() {
    for is_cached in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(Dialect::Plain);
        let bytes = tar(1, 40);
        std::fs::write(folder.path().join("a.tar"), &bytes).unwrap();
        server.put("ds/a.tar", &bytes);
        let dir = folder.path().to_owned();
        let cache = is_cached.then_some(CacheLevel { dir, bytes: 64 << 20 });
        let url = format!("http://{}/ds/a.tar", server.address);
        let path = format!("{}/a.tar", folder.path().display());
        let files = open(path, &folder.path().join("here")).await;
        let node = folder.path().join("there");
        let storage = open_with(url, &node, cache.into_iter().collect()).await;
        let second_reads = Arc::new(AtomicU32::new(0));
        let (so_far, mut ports) = (second_reads.clone(), HashMap::new());
        server.fail(move |request| {
            let now = so_far.load(Ordering::SeqCst);
            let made = *ports.entry(request.port).or_insert(now);
            let is_wrong = (now == 0 || made < now) && request.headers.contains_key("range");
            is_wrong.then_some(Fault::OtherBytes)
        });
        let (indices, fields) = (vec![3, 4], FieldSelection::all());
        let expected = files.read("d", 0, &indices, &fields).await.unwrap();
        for _ in 0..2 {
            let read = storage.read("d", 0, &indices, &fields).await.unwrap();
            assert!(read != expected, "the mirror's");
        }
        let manifest = storage.manifests().next().unwrap().digest();
        let dataset = "d".to_owned();
        let query = ReadQuery { dataset, manifest, shard: 0, indices, fields, again: true };
        for number in 1..3 {
            second_reads.store(number, Ordering::SeqCst);
            let (shard, _) = storage.plan(&query).await.unwrap();
            let read = storage.block(&query, &shard, query.indices.clone()).await.unwrap();
            assert!(read == expected, "cached: {is_cached}, number {number}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_is_opened_once_however_many_give_up_and_all_who_wait_are_told_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(Dialect::Plain);
    server.put("ds/a.tar", &tar(1, 4));
    let storage = open(format!("http://{}/ds/a.tar", server.address), folder.path()).await;
    let (asked, is_away) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let (count, goes_on) = (asked.clone(), is_away.clone());
    server.fail(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        while !goes_on.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Some(Fault::Status(404))
    });
    let fields = FieldSelection::all();
    let read = || storage.read("d", 0, &[0], &fields);
    for _ in 0..20 {
        assert!(tokio::time::timeout(Duration::from_millis(5), read()).await.is_err());
    }
    let release = async { is_away.store(true, Ordering::SeqCst) };
    let (first, second, ()) = tokio::join!(read(), read(), release);
    for error in [first.unwrap_err(), second.unwrap_err()] {
        assert_eq!(error.kind(), StorageFailure::ShardAway, "{}", error.sentence());
        assert!(error.sentence().contains("ds/a.tar"), "{}", error.sentence());
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1, "requests");
}

const READERS: usize = 9;
const PROCESSES: usize = 8;
const SHARDS: u32 = 3;
/// The variable with which a process of the test below gets the folder, the server's URL, and whether
/// it has a cache.
const ROLE: &str = "HEADWATER_TEST_READERS";

fn node_of(folder: &std::path::Path, url: &str, is_cached: bool) -> StorageConfig {
    let dir = folder.join("cache");
    let cache = if is_cached { vec![CacheLevel { dir, bytes: 64 << 20 }] } else { Vec::new() };
    let dataset = DatasetConfig {
        name: "d".to_owned(),
        shards: vec![url.to_owned()],
        ..DatasetConfig::default()
    };
    StorageConfig {
        datasets: vec![dataset],
        index_dir: Some(folder.join("index")),
        cache: NodeCacheConfig { cache, ..Default::default() },
        sources: config(),
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a role of the next test"]
async fn readers_of_one_process() {
    let role = std::env::var(ROLE).expect("started by the next test");
    let [folder, url, cached] = role.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let config = node_of(std::path::Path::new(folder), url, cached == "cached");
    let storage = Storage::open(config).await.unwrap();
    let readers = (0..READERS).map(|first| {
        let storage = storage.clone();
        tokio::spawn(async move {
            for at in 0..SHARDS {
                let shard = (first as u32 + at) % SHARDS;
                let indices: Vec<u32> = (0..40).collect();
                let fields = FieldSelection::all();
                let read = storage.read("d", shard, &indices, &fields).await.unwrap();
                assert_eq!(read.len(), 40);
            }
        })
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.await.unwrap();
    }
}

/// Bytes of the bodies that were asked for.
fn asked_for(server: &Server) -> u64 {
    let range = |request: &Request| {
        let range = request.headers.get("range")?.strip_prefix("bytes=")?;
        let (start, end) = range.split_once('-')?;
        Some(end.parse::<u64>().ok()? + 1 - start.parse::<u64>().ok()?)
    };
    server.requests().iter().filter_map(range).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_in_processes_of_one_host_fetch_a_shard_once() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("cache")).unwrap();
    let server = Server::start(Dialect::Plain);
    let mut total = 0;
    for shard in 0..u64::from(SHARDS) {
        let bytes = tar(shard, 40);
        total += bytes.len() as u64;
        server.put(&format!("ds/s-{shard}.tar"), &bytes);
    }
    let url = format!("http://{}/ds/s-{{0..2}}.tar", server.address);
    // The indices are made once; what is counted below is reading.
    drop(Storage::open(node_of(folder.path(), &url, false)).await.unwrap());
    server.requests();
    let mut asked = [0; 2];
    for (at, cached) in ["cached", "plain"].into_iter().enumerate() {
        let role = format!("{} {url} {cached}", folder.path().display());
        let start = || {
            let mut process = std::process::Command::new(std::env::current_exe().unwrap());
            process.args([
                "--ignored",
                "--exact",
                "source::tests::serving::readers_of_one_process",
            ]);
            process.env(ROLE, &role).stdout(std::process::Stdio::null()).spawn().unwrap()
        };
        for mut process in (0..PROCESSES).map(|_| start()).collect::<Vec<_>>() {
            assert!(process.wait().unwrap().success());
        }
        asked[at] = asked_for(&server);
    }
    let [cached, plain] = asked;
    println!("{total} bytes: {cached} fetched with a cache, {plain} without");
    assert_eq!(cached, total, "each byte once for {PROCESSES} processes");
    assert!(plain >= total * PROCESSES as u64, "without a cache each process fetches: {plain}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_differs_from_its_checksum_is_fetched_once_more_and_then_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(Dialect::Plain);
    let right = tar(1, 40);
    server.put("ds/s.tar", &right);
    let sum: String = Sha256::digest(&right).iter().map(|byte| format!("{byte:02x}")).collect();
    server.put("ds/SHA256SUMS", format!("{sum}  s.tar\n").as_bytes());
    let level = CacheLevel { dir: folder.path().to_owned(), bytes: 64 << 20 };
    let shards = vec![format!("http://{}/ds/s.tar", server.address)];
    let dataset = DatasetConfig { name: "d".to_owned(), shards, ..DatasetConfig::default() };
    // A filter that leaves less than half of its bytes changes nothing.
    let small = FilterConfig {
        kind: FilterKind::Bytes,
        field: "jpg".to_owned(),
        max: Some(9000.0),
        ..FilterConfig::default()
    };
    let node = StorageConfig {
        datasets: vec![dataset],
        filters: vec![small],
        index_dir: Some(folder.path().join("index")),
        cache: NodeCacheConfig { cache: vec![level], ..Default::default() },
        sources: config(),
        ..Default::default()
    };
    let storage = Storage::open(node).await.unwrap_or_else(|error| panic!("{}", error.sentence()));
    let samples = storage.manifests().next().unwrap().samples();
    assert!((1..15).contains(&samples), "{samples}");
    // Bytes of a picture that differ, although no version says so.
    let mut wrong = right.clone();
    wrong[700] ^= 1;
    let state = server.state.clone();
    let serve = move |bytes: &[u8]| {
        let mut files = state.files();
        let version = files["ds/s.tar"].1;
        files.insert("ds/s.tar".to_owned(), (Arc::new(bytes.to_vec()), version));
    };
    serve(&wrong);
    server.requests();
    let fields = FieldSelection::all();
    let error = storage.read("d", 0, &[0], &fields).await.unwrap_err();
    assert!(!error.kind().is_retryable(), "each further try would fetch all of it");
    let error = error.sentence();
    assert!(error.contains("ds/s.tar") && error.contains(&sum), "{error}");
    let of_shard =
        |request: &Request| request.path == "/ds/s.tar" && request.headers.contains_key("range");
    assert_eq!(server.requests().iter().filter(|request| of_shard(request)).count(), 2);
    // The first time only.
    let mut asked = 0;
    server.fail(move |request| {
        asked += usize::from(of_shard(request));
        if asked == 2 {
            serve(&right);
        }
        None
    });
    let read =
        storage.read("d", 0, &[0], &fields).await.unwrap_or_else(|e| panic!("{}", e.sentence()));
    assert_eq!(read.len(), 1);
}
