//! Whether looking ahead hides a source that is far away: an epoch is read at a trainer's pace, with
//! several windows and several times for one operation of the file system.
//!
//! `benches/slow_files` makes the operations slow; each line is one epoch. `window 0` announces nothing.
//!
//!     cc -shared -fPIC -O1 -o libslow_files.so benches/slow_files/slow_files.c -ldl
//!     truncate -s 8 control
//!     LD_PRELOAD=./libslow_files.so SLOW_FILES_CONTROL=control \
//!         cargo run -p headwater-storage --example latency

use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use headwater_storage::{DatasetConfig, ReadConfig, Storage, StorageConfig, listen};
use headwater_storage_client::{
    Dataset, FieldSelection, LocalFiles, StorageClient, StorageClientConfig,
};
use tokio::time::{Instant, sleep_until};

const SHARDS: u32 = 60;
/// Shards of the epoch before which nothing is counted: a long epoch has one start.
const START_SHARDS: u32 = 20;
const SHARD_SAMPLES: u32 = 32;
const SAMPLE_BYTES: usize = 128 << 10;
/// As a receiver announces them.
const SHARDS_AHEAD: u32 = 32;
/// A step takes one shard's samples.
const STEP: Duration = Duration::from_millis(100);
/// Steps that are read ahead of the trainer, as a receiver's window.
const STEPS_AHEAD: u32 = 2;
const WINDOWS: [usize; 6] = [0, 1, 2, 4, 8, 16];
const LATENCIES_MS: [u32; 3] = [0, 5, 50];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let control = PathBuf::from(std::env::var("SLOW_FILES_CONTROL")?);
    let folder = tempfile::tempdir()?;
    for shard in 0..SHARDS {
        std::fs::write(folder.path().join(format!("{shard:03}.tar")), tar(shard)?)?;
    }
    let mut epoch = 0;
    println!("| window | latency | steps/s | of the pace |");
    for window in WINDOWS {
        for latency_ms in LATENCIES_MS {
            set(&control, 0, epoch)?;
            let dataset = open(folder.path(), window.max(1)).await?;
            // What was read to find the samples is forgotten.
            epoch += 1;
            set(&control, latency_ms * 1000, epoch)?;
            let rate = read_epoch(&dataset, window > 0).await;
            let share = rate * STEP.as_secs_f64() * 100.0;
            println!("| {window} | {latency_ms} ms | {rate:.2} | {share:.0} % |");
        }
    }
    Ok(())
}

fn set(control: &Path, latency_us: u32, generation: u32) -> std::io::Result<()> {
    let bytes = [latency_us.to_le_bytes(), generation.to_le_bytes()].concat();
    // Not made anew: the library has it mapped.
    OpenOptions::new().write(true).open(control)?.write_all(&bytes)
}

fn tar(shard: u32) -> std::io::Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    for sample in 0..SHARD_SAMPLES {
        let mut header = tar::Header::new_gnu();
        header.set_size(SAMPLE_BYTES as u64);
        header.set_mode(0o644);
        let data = vec![(shard + sample) as u8; SAMPLE_BYTES];
        builder.append_data(&mut header, format!("{sample:03}.bin"), &data[..])?;
    }
    builder.into_inner()
}

/// A node of its own, whose shards are all closed, and a client of it. They live as long as the program.
async fn open(folder: &Path, window: usize) -> Result<Dataset, Box<dyn Error>> {
    let shards = vec![folder.join("*.tar").display().to_string()];
    let config = StorageConfig {
        datasets: vec![DatasetConfig { name: "d".to_owned(), shards, ..DatasetConfig::default() }],
        index_dir: Some(folder.join("index")),
        reads: ReadConfig { shard_prefetch_window: window, ..ReadConfig::default() },
        ..StorageConfig::default()
    };
    let storage = Storage::open(config).await?;
    let listener = listen("127.0.0.1:0").await?;
    let nodes = vec![listener.local_addr()?.to_string()];
    tokio::spawn(async move { storage.serve_on(listener, std::future::pending()).await });
    let local_files = LocalFiles::Off;
    let config = StorageClientConfig { nodes, local_files, ..StorageClientConfig::default() };
    let client = StorageClient::connect(config).await?;
    let manifest = client.manifest("d").await?;
    Ok(client.dataset(Arc::new(manifest)))
}

/// Steps a second of a trainer that takes one each [`STEP`], once the start is over.
async fn read_epoch(dataset: &Dataset, announce: bool) -> f64 {
    let read = |shard: u32| {
        let dataset = dataset.clone();
        tokio::spawn(async move {
            let indices: Vec<u32> = (0..SHARD_SAMPLES).collect();
            dataset.read(shard, &indices, &FieldSelection::all()).await.expect("the node is there");
        })
    };
    let mut reads: Vec<_> = (0..STEPS_AHEAD).map(read).collect();
    let (mut due, mut counted_from) = (Instant::now(), Instant::now());
    for step in 0..SHARDS {
        if announce {
            let plan: Vec<u32> = (step..(step + SHARDS_AHEAD).min(SHARDS)).collect();
            assert!(dataset.prefetch(&plan).await.is_empty());
        }
        reads.remove(0).await.expect("a read ends");
        if step + STEPS_AHEAD < SHARDS {
            reads.push(read(step + STEPS_AHEAD));
        }
        if step == START_SHARDS {
            counted_from = Instant::now();
        }
        // A trainer that waited does not catch up.
        due = due.max(Instant::now() - STEP) + STEP;
        sleep_until(due).await;
    }
    f64::from(SHARDS - START_SHARDS) / counted_from.elapsed().as_secs_f64()
}
