//! An `.idx` that is not one of its shard stops the node, and the message says where it differs.

use headwater_storage::Storage;

use crate::support::{config, shard};

/// Three samples of 700 + i bytes and a label: headers at 0, 1536, 2560, 4096, 5120, 6656.
async fn refused(idx: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tar");
    std::fs::write(&path, shard(0, 3, 700)).unwrap();
    std::fs::write(folder.path().join("a.idx"), idx).unwrap();
    let error = Storage::open(config(folder.path(), &[path])).await.unwrap_err();
    error.to_string()
}

async fn refused_words(words: &[u64]) -> String {
    refused(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>()).await
}

const GOOD: [&str; 4] = [
    "v1.2 3",
    "jpg 512 700 000000.jpg cls 2048 1 000000.cls",
    "jpg 3072 701 000001.jpg cls 4608 1 000001.cls",
    "jpg 5632 702 000002.jpg cls 7168 1 000002.cls",
];

async fn refused_line(at: usize, line: &str) -> String {
    let mut lines = GOOD;
    lines[at] = line;
    refused(lines.join("\n").as_bytes()).await
}

#[tokio::test]
async fn a_fitting_one_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tar");
    std::fs::write(&path, shard(0, 3, 700)).unwrap();
    std::fs::write(folder.path().join("a.idx"), GOOD.join("\n")).unwrap();
    Storage::open(config(folder.path(), std::slice::from_ref(&path))).await.unwrap();
    let words: Vec<u8> = [0u64, 2560, 5120].iter().flat_map(|word| word.to_le_bytes()).collect();
    std::fs::write(folder.path().join("a.idx"), words).unwrap();
    Storage::open(config(folder.path(), &[path])).await.unwrap();
}

#[tokio::test]
async fn text_lines() {
    let cases = [
        (0, "v2.0 3", "line 1: version `v2.0`"),
        (0, "v1.2 many", "line 1"),
        (0, "v1.2 4", "line 1: announces 4 samples, 3 lines follow"),
        (1, "jpg 512 700 000000.jpg", "line 2"),
        (1, "jpg 512 700 000000.jpg cls 2048 1 000000.cls txt 1 1 x", "line 2"),
        (
            2,
            "jpg 3072 999999 000001.jpg cls 4608 1 000001.cls",
            "line 3: `jpg` at offset 3072 with 999999 bytes is beyond",
        ),
        (
            2,
            "jpg 3584 701 000001.jpg cls 4608 1 000001.cls",
            "line 3: `jpg` at offset 3584 with 701 bytes is not there",
        ),
        (
            3,
            "jpg 5632 702 000002.jpg cls 7168 2 000002.cls",
            "line 4: `cls` at offset 7168 with 2 bytes is not there",
        ),
        (3, "png 5632 702 000002.jpg cls 7168 1 000002.cls", "the shard has `jpg` at offset 5632"),
    ];
    for (at, line, expected) in cases {
        let error = refused_line(at, line).await;
        let whole = error.contains(expected) && error.contains("a.idx") && error.contains("remove");
        assert!(whole, "{line}: {error}");
    }
    let error = refused(format!("v1.2 2\n{}\n{}", GOOD[1], GOOD[2]).as_bytes()).await;
    assert!(error.contains("line 1: announces 2 samples, the shard has 3"), "{error}");
}

#[tokio::test]
async fn binary_entries() {
    let cases: [(&[u64], &str); 7] = [
        (&[0, 2560, 99_999], "entry 2: offset 99999 is beyond the end"),
        (&[0, 2561, 5120], "entry 1: no sample starts at offset 2561"),
        (&[0, 3072, 5120], "entry 1: no sample starts at offset 3072; sample 1 starts at 2560"),
        (&[0, 2560], "2 samples, the shard has 3"),
        (&[0, 2560, 5120, 99_999], "entry 3: offset 99999 is beyond the end"),
        (&[0, 2560, 5120, 6656], "4 samples, the shard has 3"),
        (&[], "0 samples, the shard has 3"),
    ];
    for (words, expected) in cases {
        let error = refused_words(words).await;
        assert!(error.contains(expected) && error.contains("a.idx"), "{words:?}: {error}");
    }
    let error = refused(b"\0 garbage!").await;
    assert!(error.contains("10 bytes are neither"), "{error}");
}
