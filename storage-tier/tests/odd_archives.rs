//! What tars may hold besides plain members: long names, headers that lie, sparse files.

use headwater_storage_client::{Field, FieldSelection, LocalFiles, StorageClient};
use tar::{Builder, EntryType, Header};

use crate::support::{Node, client_config, config, open_bytes};

fn header(size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_size(size);
    header.set_mode(0o644);
    header
}

/// Keys of all samples, and the bytes of their fields, over the wire.
async fn served(bytes: &[u8]) -> Vec<(String, Vec<Vec<u8>>)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tar");
    std::fs::write(&path, bytes).unwrap();
    let node = Node::start(config(folder.path(), &[path]));
    let client = StorageClient::connect(client_config(&[&node], LocalFiles::Off)).await.unwrap();
    let manifest = client.manifest("d").await.unwrap();
    let all: Vec<u32> = (0..manifest.samples() as u32).collect();
    let dataset = client.dataset(manifest.into());
    let samples = dataset.read(0, &all, &FieldSelection::all()).await.unwrap();
    let fields = |fields: Vec<Field>| -> Vec<Vec<u8>> {
        fields.into_iter().map(|field| field.data.to_vec()).collect()
    };
    samples.into_iter().map(|sample| (sample.key, fields(sample.fields.unwrap()))).collect()
}

#[tokio::test]
async fn long_names_of_gnu_and_pax_are_whole() {
    let long = |stem: &str| format!("{}/{stem}", "folder-".repeat(30));
    let mut builder = Builder::new(Vec::new());
    // Names beyond 100 bytes: GNU's long name members.
    builder.append_data(&mut header(3), format!("{}.jpg", long("gnu")), &b"one"[..]).unwrap();
    builder.append_data(&mut header(0), format!("{}.cls", long("gnu")), &b""[..]).unwrap();
    // The same in PAX's words, over a short name that must be ignored.
    let name = format!("{}.jpg", long("pax"));
    builder.append_pax_extensions([("path", name.as_bytes())]).unwrap();
    builder.append_data(&mut header(3), "short.jpg", &b"two"[..]).unwrap();
    let mut bytes = builder.into_inner().unwrap();
    bytes.extend([b'g'; 700]);
    let samples = served(&bytes).await;
    assert_eq!(samples.len(), 2);
    assert_eq!(samples[0], (long("gnu"), vec![b"one".to_vec(), Vec::new()]));
    assert_eq!(samples[1], (long("pax"), vec![b"two".to_vec()]));
}

#[tokio::test]
async fn sizes_that_cannot_be_are_named_and_take_no_memory() {
    for size in [0o77_777_777_777, u64::MAX, u64::MAX - 511, 1 << 63] {
        let mut bad = header(0);
        bad.set_path("b.jpg").unwrap();
        bad.set_size(size);
        bad.set_cksum();
        let mut builder = Builder::new(Vec::new());
        builder.append_data(&mut header(3), "a.jpg", &b"one"[..]).unwrap();
        let mut bytes = builder.into_inner().unwrap();
        bytes.splice(1024..1024, bad.as_bytes().iter().copied());
        let error = open_bytes(&bytes).await.unwrap_err().to_string();
        assert!(error.contains("broken at byte 1024"), "{size}: {error}");
    }
    // The same lie in a PAX header.
    let mut builder = Builder::new(Vec::new());
    builder.append_pax_extensions([("size", &b"18446744073709551615"[..])]).unwrap();
    builder.append_data(&mut header(3), "a.jpg", &b"one"[..]).unwrap();
    let error = open_bytes(&builder.into_inner().unwrap()).await.unwrap_err().to_string();
    assert!(error.contains("is broken at byte"), "{error}");
}

#[tokio::test]
async fn sparse_members_are_refused_by_name_in_every_form() {
    let mut old = header(512);
    old.set_path("hole.jpg").unwrap();
    old.set_entry_type(EntryType::GNUSparse);
    let gnu = old.as_gnu_mut().expect("a GNU header");
    gnu.sparse[0].offset = *b"00000000000\0";
    gnu.sparse[0].numbytes = *b"00000001000\0";
    gnu.realsize = *b"00000001000\0";
    old.set_cksum();
    let mut builder = Builder::new(Vec::new());
    builder.append(&old, &[7; 512][..]).unwrap();
    let error = open_bytes(&builder.into_inner().unwrap()).await.unwrap_err().to_string();
    assert!(error.contains("`hole.jpg` is stored sparse"), "{error}");

    let mut builder = Builder::new(Vec::new());
    let said = [("GNU.sparse.major", &b"1"[..]), ("GNU.sparse.minor", &b"0"[..])];
    builder.append_pax_extensions(said).unwrap();
    builder.append_data(&mut header(512), "hole.jpg", &[7; 512][..]).unwrap();
    let error = open_bytes(&builder.into_inner().unwrap()).await.unwrap_err().to_string();
    assert!(error.contains("`hole.jpg` is stored sparse; write it without"), "{error}");
}

fn archive(members: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (name, data) in members {
        builder.append_data(&mut header(data.len() as u64), name, data.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

/// As `tar cf a.tar *.jpg *.cls` writes them.
#[tokio::test]
async fn a_sample_whose_members_lie_apart_is_refused_by_name() {
    let apart = archive(&[("0.jpg", "a"), ("1.jpg", "b"), ("0.cls", "0"), ("1.cls", "1")]);
    let error = open_bytes(&apart).await.unwrap_err().to_string();
    let said = "the members of sample `0` lie apart, the second part from byte 2048 on";
    assert!(error.contains(said) && error.contains("headwater datasets pack"), "{error}");
    // The last one is found as well.
    let apart = archive(&[("0.jpg", "a"), ("1.jpg", "b"), ("1.cls", "1"), ("0.cls", "0")]);
    let error = open_bytes(&apart).await.unwrap_err().to_string();
    assert!(error.contains("sample `0` lie apart"), "{error}");
    // Of joined archives samples have equal keys, and are whole.
    let joined =
        archive(&[("0.jpg", "a"), ("0.cls", "0"), ("1.jpg", "b"), ("0.jpg", "c"), ("0.cls", "2")]);
    assert_eq!(served(&joined).await.len(), 3);
}

#[tokio::test]
async fn what_is_left_out_may_have_any_name() {
    let mut builder = Builder::new(Vec::new());
    for name in [&b"caf\xe9"[..], b".caf\xe9.jpg"] {
        let mut member = header(1);
        member.as_old_mut().name[..name.len()].copy_from_slice(name);
        member.set_cksum();
        builder.append(&member, &b"x"[..]).unwrap();
    }
    builder.append_data(&mut header(1), "0.jpg", &b"x"[..]).unwrap();
    assert_eq!(
        served(&builder.into_inner().unwrap()).await,
        [("0".to_owned(), vec![b"x".to_vec()])]
    );
}

#[tokio::test]
async fn a_sparse_member_at_the_end_is_not_taken_for_a_cut() {
    let mut builder = Builder::new(Vec::new());
    let size = 1 << 20;
    let said = [("GNU.sparse.major", &b"1"[..]), ("GNU.sparse.size", &b"1048576"[..])];
    builder.append_pax_extensions(said).unwrap();
    let mut member = header(size);
    member.set_path("hole.jpg").unwrap();
    member.set_cksum();
    let mut bytes = builder.into_inner().unwrap();
    bytes.truncate(bytes.len() - 1024);
    bytes.extend(member.as_bytes());
    bytes.extend([7; 512]);
    let error = open_bytes(&bytes).await.unwrap_err().to_string();
    assert!(error.contains("`hole.jpg` is stored sparse"), "{error}");
}

#[tokio::test]
async fn a_pointer_of_git_lfs_is_told_from_a_broken_file() {
    let pointer = format!(
        "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 12345\n",
        "0".repeat(64)
    );
    let error = open_bytes(pointer.as_bytes()).await.unwrap_err().to_string();
    assert!(error.contains("git lfs pull"), "{error}");
    let error =
        open_bytes(&[&b"PK\x03\x04"[..], &[0; 600]].concat()).await.unwrap_err().to_string();
    assert!(error.contains("zip archive"), "{error}");
}

/// As img2dataset's processes name them, each in a folder of its own.
#[tokio::test]
async fn shards_of_one_name_in_several_folders_are_told_apart_by_their_folders() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, key: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, archive(&[(&format!("{key}.jpg"), key)])).unwrap();
        path
    };
    let shards =
        [write("a/0.tar", "first"), write("b/0.tar", "second"), write("b/c/1.tar", "third")];
    let named = async |shards: &[std::path::PathBuf]| -> Vec<String> {
        let node = Node::start(config(folder.path(), shards));
        let client =
            StorageClient::connect(client_config(&[&node], LocalFiles::Off)).await.unwrap();
        let manifest = client.manifest("d").await.unwrap();
        let names = manifest.shards().iter().map(|shard| shard.name.clone()).collect();
        let dataset = client.dataset(manifest.into());
        for number in 0..shards.len() as u32 {
            let samples = dataset.read(number, &[0], &FieldSelection::all()).await.unwrap();
            assert_eq!(samples[0].key.as_bytes(), &*samples[0].fields.as_ref().unwrap()[0].data);
        }
        names
    };
    assert_eq!(named(&shards).await, ["a/0.tar", "b/0.tar", "b/c/1.tar"]);
    assert_eq!(named(&shards[1..]).await, ["0.tar", "1.tar"], "names that are unique stay");
}
