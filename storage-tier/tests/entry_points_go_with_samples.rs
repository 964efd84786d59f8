//! Entry points of JPEG images: made once, kept, and delivered with their images whichever way these are read.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use headwater_jpeg::Decoder;
use headwater_simd::Simd;
use headwater_storage::{
    CacheLevel, DatasetConfig, FormatKind, Inspector, JpegEntries, NodeCacheConfig, ReadConfig,
    ShardEntriesKept, StorageConfig,
};
use headwater_storage_client::{Dataset, EncodedSample, FieldSelection, LocalFiles, StorageClient};
use tokio::time::{sleep, timeout};

use crate::support::counted::Counts;
use crate::support::{Node, client_config, config};

const SERVED: &str = "headwater_storage_served_jpegs_total";
const REFUSED: &str = "headwater_storage_entries_refused_total";
/// Longer than any of it takes.
const LIMIT: Duration = Duration::from_secs(120);

/// A copy of one shard of photographs in a folder of its own.
struct Photos {
    folder: tempfile::TempDir,
    shard: PathBuf,
}

impl Photos {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let shard = folder.path().join("photos.tar");
        fs::copy(photos_tar(3), &shard).unwrap();
        Self { folder, shard }
    }

    fn config(&self) -> StorageConfig {
        let shards = std::slice::from_ref(&self.shard);
        // Beside the shard.
        StorageConfig { index_dir: None, ..config(self.folder.path(), shards) }
    }

    fn entries(&self) -> PathBuf {
        self.folder.path().join("photos.tar.hwentries")
    }
}

fn photos_tar(number: u32) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/photos");
    folder.join(format!("photos-{number:06}.tar"))
}

/// Makes the entry points of a configuration's dataset, as the program does.
fn keep(config: &StorageConfig, force: bool) -> Vec<ShardEntriesKept> {
    let found = Inspector::new(config).find(&config.datasets[0]).unwrap();
    found.iter().flat_map(|place| place.keep_entries(force, 2).unwrap()).collect()
}

/// The entry points of an image, by the decoder itself.
fn entries_of(image: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut decoder = Decoder::new(Simd::best());
    if let Ok(entries) = decoder.read(image).and_then(|image| image.entries()) {
        entries.write(&mut bytes);
    }
    bytes
}

/// A client, and the dataset `d` as it reads it.
async fn dataset(node: &Node, way: LocalFiles) -> (StorageClient, Dataset) {
    let client = StorageClient::connect(client_config(&[node], way)).await.unwrap();
    let manifest = client.manifest("d").await.unwrap();
    let dataset = client.dataset(manifest.into());
    (client, dataset)
}

async fn read(dataset: &Dataset, shard: u32) -> Vec<EncodedSample> {
    let samples = dataset.manifest().shards()[shard as usize].samples;
    let indices: Vec<u32> = (0..samples).rev().collect();
    dataset.read(shard, &indices, &FieldSelection::all()).await.unwrap()
}

/// Checks that each image came with its own entries; how many have some, of how many.
fn check(samples: &[EncodedSample]) -> (u64, u64) {
    let (mut with, mut images) = (0, 0);
    for field in samples.iter().flat_map(EncodedSample::fields) {
        let expected = if field.is_jpeg() { entries_of(&field.data) } else { Vec::new() };
        assert_eq!(field.entries, expected, "{}", field.name);
        images += u64::from(field.is_jpeg());
        with += u64::from(!expected.is_empty());
    }
    (with, images)
}

fn have_none(samples: &[EncodedSample]) -> bool {
    samples.iter().flat_map(EncodedSample::fields).all(|field| field.entries.is_empty())
}

#[tokio::test]
async fn each_image_comes_with_its_own_over_grpc_and_from_the_shards_file() {
    let photos = Photos::new();
    let kept = keep(&photos.config(), false).remove(0);
    assert_eq!(kept.written, Some(photos.entries()));
    // Progressive and small ones have none.
    assert!(kept.images == 41 && (30..41).contains(&kept.with_entries), "{kept:?}");
    let mut with_and_images = vec![];
    // The second node sends the larger images in pieces.
    for block_bytes in [512 << 10, 20_000] {
        let node = Node::start(StorageConfig {
            reads: ReadConfig { block_bytes, ..ReadConfig::default() },
            ..photos.config()
        });
        let (client, over_grpc) = dataset(&node, LocalFiles::Off).await;
        with_and_images.push(check(&read(&over_grpc, 0).await));
        assert!(client.bytes_read().file == 0 && client.bytes_read().grpc > 0);
        assert_eq!(node.counts.of(SERVED, "yes"), kept.with_entries);
        assert_eq!(node.counts.of(SERVED, "no"), kept.images - kept.with_entries);
        let (client, by_file) = dataset(&node, LocalFiles::Auto).await;
        with_and_images.push(check(&read(&by_file, 0).await));
        assert!(client.bytes_read().grpc == 0 && client.bytes_read().file > 0);
    }
    assert_eq!(with_and_images, [(kept.with_entries, kept.images); 4]);
}

#[test]
fn a_client_counts_images_by_whether_they_came_with_entry_points() {
    let photos = Photos::new();
    let kept = keep(&photos.config(), false).remove(0);
    let counts = Counts::new();
    counts.count_on_this_thread();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let node = Node::start(photos.config());
    runtime.block_on(async {
        let (_client, dataset) = dataset(&node, LocalFiles::Auto).await;
        read(&dataset, 0).await;
    });
    let read = "headwater_storage_read_jpegs_total";
    assert_eq!(counts.of(read, "yes"), kept.with_entries);
    assert_eq!(counts.of(read, "no"), kept.images - kept.with_entries);
}

#[tokio::test]
async fn those_that_are_damaged_or_of_another_state_of_the_shard_are_counted_and_left_alone() {
    let photos = Photos::new();
    let written = keep(&photos.config(), false).remove(0);
    let whole = fs::read(photos.entries()).unwrap();
    let mut damaged = whole.clone();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(photos.entries(), &damaged).unwrap();
    let node = Node::start(photos.config());
    let (_client, over_grpc) = dataset(&node, LocalFiles::Off).await;
    assert!(have_none(&read(&over_grpc, 0).await));
    assert_eq!((node.counts.of(REFUSED, "damaged"), node.counts.of(REFUSED, "")), (1, 1));
    assert_eq!(node.counts.of(SERVED, "no"), written.images);

    fs::write(photos.entries(), &whole).unwrap();
    let later = SystemTime::now() + Duration::from_secs(10);
    File::options().append(true).open(&photos.shard).unwrap().set_modified(later).unwrap();
    let node = Node::start(photos.config());
    let (_client, over_grpc) = dataset(&node, LocalFiles::Off).await;
    assert!(have_none(&read(&over_grpc, 0).await));
    assert_eq!((node.counts.of(REFUSED, "shard"), node.counts.of(REFUSED, "")), (1, 1));

    // Made anew for the shard as it is, and then not again.
    let again = keep(&photos.config(), false).remove(0);
    assert_eq!((again.with_entries, again.bytes), (written.with_entries, written.bytes));
    let there = keep(&photos.config(), false).remove(0);
    assert_eq!((there.written, there.with_entries), (None, written.with_entries));
    assert!(keep(&photos.config(), true)[0].written.is_some(), "forced");
    let node = Node::start(photos.config());
    let (_client, over_grpc) = dataset(&node, LocalFiles::Off).await;
    assert_eq!(check(&read(&over_grpc, 0).await).0, written.with_entries);
}

#[tokio::test]
async fn a_node_that_is_not_to_read_them_sends_none() {
    let photos = Photos::new();
    keep(&photos.config(), false);
    let node = Node::start(StorageConfig { jpeg_entries: JpegEntries::Off, ..photos.config() });
    for way in [LocalFiles::Off, LocalFiles::Auto] {
        let (_client, dataset) = dataset(&node, way).await;
        assert!(have_none(&read(&dataset, 0).await));
    }
    assert_eq!(node.counts.of(SERVED, "yes"), 0);
}

#[tokio::test]
async fn a_node_that_makes_them_sends_them_as_soon_as_they_are_there() {
    let photos = Photos::new();
    let mut node =
        Node::start(StorageConfig { jpeg_entries: JpegEntries::Make, ..photos.config() });
    let (_client, over_grpc) = dataset(&node, LocalFiles::Off).await;
    let arrive = async {
        loop {
            let samples = read(&over_grpc, 0).await;
            if !have_none(&samples) {
                return check(&samples);
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    let (with, images) = timeout(LIMIT, arrive).await.expect("they are made");
    assert!(images == 41 && with >= 30, "{with} of {images}");
    // The node begins with all shards that lie here: none of them was read.
    let unread = Photos::new();
    let other = Node::start(StorageConfig { jpeg_entries: JpegEntries::Make, ..unread.config() });
    let written = async {
        while !unread.entries().exists() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LIMIT, written).await.expect("they are made");
    assert_eq!(
        fs::read(unread.entries()).unwrap()[64..],
        fs::read(photos.entries()).unwrap()[64..]
    );
    drop(other);
    node.ask_to_stop();
    node.ended().await;
}

/// Threads of this process that make entry points.
fn makers() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let name =
        |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks
        .filter(|task| task.path().exists())
        .map(name)
        .filter(|name| name.trim() == "hw-jpeg-entries")
        .count()
}

#[tokio::test]
async fn a_node_that_drains_ends_the_thread_that_makes_them() {
    let photos = Photos::new();
    let mut node =
        Node::start(StorageConfig { jpeg_entries: JpegEntries::Make, ..photos.config() });
    let until = |is: fn(usize) -> bool| async move {
        while !is(makers()) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LIMIT, until(|count| count > 0)).await.expect("the thread is there");
    node.ask_to_stop();
    node.ended().await;
    // Those of other tests end with them.
    timeout(LIMIT, until(|count| count == 0)).await.expect("the thread ends");
}

#[tokio::test]
async fn every_shard_of_a_folder_of_images_has_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let images = folder.path().join("photos/dog");
    fs::create_dir_all(&images).unwrap();
    let mut archive = tar::Archive::new(File::open(photos_tar(3)).unwrap());
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().into_owned();
        if name.extension().is_some_and(|ending| ending == "jpg") {
            entry.unpack(images.join(name.file_name().unwrap())).unwrap();
        }
    }
    let shards = [folder.path().join("photos")];
    let mut config = config(folder.path(), &shards);
    let dataset_config = DatasetConfig {
        format: FormatKind::Folder,
        shard_samples: 15,
        ..config.datasets[0].clone()
    };
    config.datasets = vec![dataset_config];
    let kept = keep(&config, false);
    assert_eq!(kept.iter().map(|kept| kept.images).collect::<Vec<_>>(), [15, 15, 11]);
    let node = Node::start(config);
    let (_client, over_grpc) = dataset(&node, LocalFiles::Off).await;
    for (shard, kept) in (0..).zip(kept) {
        assert_eq!(check(&read(&over_grpc, shard).await), (kept.with_entries, kept.images));
    }
}

#[tokio::test]
async fn images_of_shards_that_are_unpacked_have_them_too() {
    let folder = tempfile::tempdir().unwrap();
    let shard =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/formats/parquet/hub.parquet");
    let cache = CacheLevel { dir: folder.path().join("cache"), bytes: 1 << 30 };
    fs::create_dir(&cache.dir).unwrap();
    let cache = NodeCacheConfig { cache: vec![cache], ..NodeCacheConfig::default() };
    let config = StorageConfig { cache, ..config(folder.path(), &[shard]) };
    let kept = keep(&config, false);
    let node = Node::start(config);
    for way in [LocalFiles::Off, LocalFiles::Auto] {
        let (client, dataset) = dataset(&node, way).await;
        for (shard, kept) in (0..).zip(&kept) {
            let found = check(&read(&dataset, shard).await);
            assert_eq!(found, (kept.with_entries, kept.images));
        }
        assert_eq!(client.bytes_read().file > 0, way == LocalFiles::Auto);
    }
    assert!(kept.iter().any(|kept| kept.with_entries > 0), "{kept:?}");
}
