//! A shard that breaks off stops the node; with `skip_tail` its whole samples are served.

use headwater_storage::{OnBrokenShard, Storage, StorageConfig};

use crate::support::{config, open_bytes, shard, tar};

/// The sentence with which the shard is refused, and the samples that `skip_tail` leaves.
async fn broken(bytes: &[u8]) -> (String, Vec<u32>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tar");
    std::fs::write(&path, bytes).unwrap();
    let config = config(folder.path(), &[path]);
    let error = Storage::open(config.clone()).await.unwrap_err().to_string();
    assert!(error.contains("a.tar") && error.contains("skip_tail"), "{error}");
    let skip = StorageConfig { on_broken_shard: OnBrokenShard::SkipTail, ..config.clone() };
    let kept = match Storage::open(skip).await {
        Ok(storage) => storage.manifests().map(|m| m.shards()[0].samples).collect(),
        Err(error) => {
            assert!(error.to_string().contains("has no samples"), "{error}");
            vec![]
        }
    };
    assert_eq!(Storage::open(config).await.unwrap_err().to_string(), error, "is not forgotten");
    (error, kept)
}

// Headers of `shard(0, 3, 700)`: 0, 1536, 2560, 4096, 5120, 6656; end marker from 7680.

#[tokio::test]
async fn cut_within_a_field() {
    let whole = shard(0, 3, 700);
    let (error, kept) = broken(&whole[..6000]).await;
    assert!(error.contains("broken at byte 5120"), "{error}");
    assert!(error.contains("`000002.jpg` has 702 bytes from byte 5632, but the file ends at 6000"));
    assert_eq!(kept, [2]);

    let (error, kept) = broken(&whole[..3500]).await;
    assert!(error.contains("broken at byte 2560"), "{error}");
    assert_eq!(kept, [1], "the one that was cut is not served");
}

#[tokio::test]
async fn cut_within_the_second_field_of_a_sample() {
    let (error, kept) = broken(&shard(0, 3, 700)[..4608]).await;
    assert!(error.contains("`000001.cls` has 1 byte from byte 4608"), "{error}");
    assert_eq!(kept, [1], "a sample that lost a field is not served");
}

#[tokio::test]
async fn cut_within_a_header_or_between_members() {
    let whole = shard(0, 3, 700);
    let (error, kept) = broken(&whole[..5300]).await;
    assert!(error.contains("broken at byte 5120: the file ends at 5300, within a header"));
    assert_eq!(kept, [2]);

    let (error, kept) = broken(&whole[..5120]).await;
    assert!(error.contains("broken at byte 5120: the end marker is missing"), "{error}");
    assert_eq!(kept, [2]);

    let (_, kept) = broken(&whole[..6656]).await;
    assert_eq!(kept, [2], "the last sample has no label, unlike the one before");
    let (_, kept) = broken(&whole[..7680]).await;
    assert_eq!(kept, [3], "only the end marker is missing");
}

#[tokio::test]
async fn no_tar_at_all() {
    let (error, kept) = broken(&[b'x'; 4096]).await;
    assert!(error.contains("broken at byte 0: no tar header there"), "{error}");
    assert!(kept.is_empty());
    let refused = async |bytes: &[u8]| open_bytes(bytes).await.unwrap_err().to_string();
    let error = refused(b"").await;
    assert!(error.ends_with("a.tar` is an empty file: fetch or write it again, or leave it out"));
    for (magic, form, undo) in [
        (&b"\x1f\x8b\x08\0"[..], "gzip", "gunzip"),
        (b"\x28\xb5\x2f\xfd", "zstd", "unzstd"),
        (b"\xfd7zXZ\0", "xz", "unxz"),
        (b"BZh9", "bzip2", "bunzip2"),
    ] {
        let error = refused(&[magic, &[7; 600]].concat()).await;
        assert!(error.contains(&format!("a.tar` is compressed ({form}), so that")), "{error}");
        assert!(error.contains(&format!("as `{undo} /")), "{error}");
    }
    let named_alike = tar(&[("BZh.jpg", b"a member of that name")]);
    assert!(open_bytes(&named_alike).await.is_ok());
}

#[tokio::test]
async fn two_archives_in_one_file_lose_no_sample_quietly() {
    let (error, kept) = broken(&[shard(0, 3, 700), shard(3, 2, 700)].concat()).await;
    assert!(error.contains("a second archive follows") && error.contains("tar -A"), "{error}");
    assert_eq!(kept, [3]);
}

#[tokio::test]
async fn garbage_behind_the_end_marker_and_empty_members_are_harmless() {
    let mut bytes = tar(&[("a.jpg", b""), ("a.cls", b""), ("b.jpg", b"x"), ("README", b"no dot")]);
    bytes.extend([b'g'; 1000]);
    let storage = open_bytes(&bytes).await.unwrap();
    let manifest = storage.manifests().next().unwrap();
    assert_eq!(
        (manifest.samples(), manifest.fields()),
        (2, &["cls".to_owned(), "jpg".to_owned()][..])
    );
}

#[tokio::test]
async fn a_field_twice_in_a_sample_is_named() {
    let error = open_bytes(&tar(&[("k.jpg", b"1"), ("k.jpg", b"2")])).await.unwrap_err();
    let error = error.sentence();
    assert!(error.contains("a.tar") && error.contains("`k`") && error.contains("`jpg`"), "{error}");
}

#[tokio::test]
async fn a_dataset_without_samples_and_a_file_that_is_named_twice_are_refused() {
    let error = open_bytes(&tar(&[("README", b"no dot")])).await.unwrap_err().to_string();
    assert!(error.contains("`d` has no samples"), "{error}");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("same.tar");
    std::fs::write(&path, shard(0, 1, 1)).unwrap();
    let twice = [path.clone(), path];
    let error = Storage::open(config(folder.path(), &twice)).await.unwrap_err().to_string();
    assert!(error.contains("`same.tar`"), "{error}");
}
