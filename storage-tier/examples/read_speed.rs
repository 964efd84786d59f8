//! How many samples a second one node serves to one client: from its files, and over gRPC.
//!
//! `BLOCK_BYTES` in the environment sets the size of a block.
//!
//!     cargo run --release -p headwater-storage --example read_speed -- 'shards-{000..002}.tar'

use std::sync::Arc;
use std::time::{Duration, Instant};

use headwater_storage::{DatasetConfig, Storage, StorageConfig, listen};
use headwater_storage_client::{FieldSelection, LocalFiles, StorageClient, StorageClientConfig};

const PART_SAMPLES: usize = 64;
const READS_AT_ONCE: usize = 4;
const RUN: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shards: Vec<String> = std::env::args().skip(1).collect();
    let mut config = StorageConfig::default();
    if let Ok(bytes) = std::env::var("BLOCK_BYTES") {
        config.block_bytes = bytes.parse()?;
    }
    let index_dir = tempfile::tempdir()?;
    let config = StorageConfig {
        datasets: vec![DatasetConfig { name: "d".to_owned(), shards }],
        index_dir: Some(index_dir.path().to_owned()),
        ..config
    };
    let storage = Storage::open(config).await?;
    let listener = listen("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    tokio::spawn(async move { storage.serve_on(listener, std::future::pending()).await });
    for way in [LocalFiles::Auto, LocalFiles::Off, LocalFiles::Auto, LocalFiles::Off] {
        let nodes = vec![address.clone()];
        let config = StorageClientConfig {
            nodes,
            local_files: way,
            local_roots: vec!["/".into()],
            ..Default::default()
        };
        let client = StorageClient::connect(config).await?;
        let cpu_before = cpu_seconds()?;
        let (samples, seconds) = run(&client).await?;
        let cpu = cpu_seconds()? - cpu_before;
        let bytes = client.bytes_read();
        let megabytes = (bytes.file + bytes.grpc) as f64 / 1e6;
        println!(
            "{way:?}: {:.0} samples/s, {:.0} MB/s; per CPU second {:.0} samples, {:.0} MB ({bytes:?})",
            samples as f64 / seconds,
            megabytes / seconds,
            samples as f64 / cpu,
            megabytes / cpu
        );
    }
    Ok(())
}

/// CPU time of node and client together, which other programs on the machine do not change much.
fn cpu_seconds() -> Result<f64, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    // User and system time in hundredths of a second: fields 14 and 15 of proc(5).
    Ok(fields.skip(11).take(2).map(str::parse::<f64>).sum::<Result<f64, _>>()? / 100.0)
}

/// Reads parts of neighbouring samples, several at once, and touches one byte of each page.
async fn run(client: &StorageClient) -> Result<(usize, f64), Box<dyn std::error::Error>> {
    let manifest = client.manifest("d").await?;
    let manifest = Arc::new(manifest);
    let started = Instant::now();
    let mut readers = tokio::task::JoinSet::new();
    for reader in 0..READS_AT_ONCE {
        let (dataset, manifest) = (client.dataset(manifest.clone()), manifest.clone());
        readers.spawn(async move {
            let (mut samples, mut part) = (0, reader);
            while started.elapsed() < RUN {
                let shard = part % manifest.shards().len();
                let count = manifest.shards()[shard].samples;
                let first = (part * PART_SAMPLES) as u32;
                let indices: Vec<u32> =
                    (0..PART_SAMPLES as u32).map(|i| (first + i) % count).collect();
                let read = dataset.read(shard as u32, &indices, &FieldSelection::all()).await;
                for sample in read.expect("the node is there") {
                    let bytes = sample.fields().flat_map(|(_, data)| data.iter().step_by(4096));
                    std::hint::black_box(bytes.fold(0u8, |sum, byte| sum ^ byte));
                    samples += 1;
                }
                part += READS_AT_ONCE;
            }
            samples
        });
    }
    let samples = readers.join_all().await.into_iter().sum();
    Ok((samples, started.elapsed().as_secs_f64()))
}
