//! Folders of images, read in place: their order, their classes, their labels.

use std::path::Path;

use headwater_storage::{DatasetConfig, FormatKind, Storage, StorageConfig};

use crate::support;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    folder
}

fn dataset(folder: &Path) -> DatasetConfig {
    DatasetConfig {
        name: "d".to_owned(),
        shards: vec![folder.display().to_string()],
        shard_samples: 2,
        ..DatasetConfig::default()
    }
}

/// Each sample as `key field=value field=value`.
async fn samples(dataset: DatasetConfig) -> Result<Vec<String>, String> {
    let config = StorageConfig { datasets: vec![dataset], ..Default::default() };
    let storage = Storage::open(config).await.map_err(|error| error.sentence())?;
    let mut shown = Vec::new();
    for sample in support::all_samples(&storage).await.map_err(|error| error.sentence())? {
        let text = |data: &[u8]| String::from_utf8_lossy(data).into_owned();
        let fields = sample.fields().map(|field| format!(" {}={}", field.name, text(&field.data)));
        shown.push(format!("{}{}", sample.key, fields.collect::<String>()));
    }
    Ok(shown)
}

#[tokio::test]
async fn class_folders_are_numbered_as_image_folder_numbers_them() {
    let files = [
        ("b/2.jpg", "B2"),
        ("a/sub-x/0.png", "AX"),
        ("a/sub/0.JPEG", "AS"),
        ("a/9.jpg", "A9"),
        ("a/notes.txt", "no image"),
        ("a/.hidden.jpg", "hidden"),
    ];
    let folder = folder(&files);
    let found = samples(dataset(folder.path())).await.unwrap();
    let expected = [
        "a/9.jpg jpg=A9 cls=0 class=a",
        "a/sub/0.JPEG jpeg=AS cls=0 class=a",
        "a/sub-x/0.png png=AX cls=0 class=a",
        "b/2.jpg jpg=B2 cls=1 class=b",
    ];
    assert_eq!(found, expected);
    let unlabelled = DatasetConfig { labels: "none".to_owned(), ..dataset(folder.path()) };
    assert_eq!(samples(unlabelled).await.unwrap()[0], "a/9.jpg jpg=A9");
    let named = DatasetConfig { format: FormatKind::Folder, ..dataset(folder.path()) };
    assert_eq!(samples(named).await.unwrap(), expected);
}

#[tokio::test]
async fn a_file_of_labels_gives_fields_and_numbers() {
    let csv = "file_name,label,text\n1.jpg,dog,\"a dog, lying\"\n0.jpg,cat,\n2.jpg,dog,two\n";
    let images = [("0.jpg", "0"), ("1.jpg", "1"), ("2.jpg", "2")];
    let folder = folder(&[&images[..], &[("metadata.csv", csv)]].concat());
    let found = samples(dataset(folder.path())).await.unwrap();
    let expected = [
        "0.jpg jpg=0 label=cat cls=0",
        "1.jpg jpg=1 label=dog text=a dog, lying cls=1",
        "2.jpg jpg=2 label=dog text=two cls=1",
    ];
    assert_eq!(found, expected);

    let lines = "{\"file_name\":\"0.jpg\",\"label\":7,\"box\":[1,2]}\n\
                 {\"file_name\":\"1.jpg\",\"label\":3}\n{\"file_name\":\"2.jpg\",\"text\":null}\n";
    std::fs::write(folder.path().join("other.jsonl"), lines).unwrap();
    let with = |labels: &str| DatasetConfig { labels: labels.to_owned(), ..dataset(folder.path()) };
    let error = samples(with("other.jsonl")).await.unwrap_err();
    assert!(error.contains("other.jsonl") && error.contains("`2.jpg`"), "{error}");
    std::fs::write(
        folder.path().join("other.jsonl"),
        lines.replace("\"text\":null", "\"label\":-1"),
    )
    .unwrap();
    let found = samples(with("other.jsonl")).await.unwrap();
    assert_eq!(found[0], "0.jpg jpg=0 box=[1,2] label=7 cls=7");
    assert_eq!(found[2], "2.jpg jpg=2 label=-1 cls=-1");
    let error = samples(with("none.csv")).await.unwrap_err();
    assert!(error.contains("none.csv") && error.contains("`labels`"), "{error}");
}

async fn classes(datasets: &[DatasetConfig]) -> Vec<Vec<String>> {
    let config = StorageConfig { datasets: datasets.to_vec(), ..Default::default() };
    let storage = Storage::open(config).await.unwrap();
    storage.manifests().map(|manifest| manifest.classes().to_vec()).collect()
}

#[tokio::test]
async fn a_dataset_names_its_classes_by_their_numbers() {
    let (cats, none) = (folder(&[("cat/0.jpg", "0"), ("dog/1.jpg", "1")]), [""; 0]);
    let given = ["dog", "cat", "cow"].map(str::to_owned).to_vec();
    let with = DatasetConfig { classes: given.clone(), ..dataset(cats.path()) };
    assert_eq!(classes(&[dataset(cats.path())]).await, [["cat", "dog"]]);
    assert_eq!(classes(&[with]).await, [given]);
    let unlabelled = DatasetConfig { labels: "none".to_owned(), ..dataset(cats.path()) };
    assert_eq!(classes(&[unlabelled]).await, [none]);
    // Two folders of one dataset have the same classes, or none are said.
    let (alike, other) =
        (folder(&[("cat/2.jpg", "2"), ("dog/3.jpg", "3")]), folder(&[("cow/4.jpg", "4")]));
    let both = |second: &tempfile::TempDir| DatasetConfig {
        shards: [cats.path(), second.path()].map(|path| path.display().to_string()).to_vec(),
        ..dataset(cats.path())
    };
    assert_eq!(classes(&[both(&alike)]).await, [["cat", "dog"]]);
    assert_eq!(classes(&[both(&other)]).await, [none]);
    let texts = "file_name,label\n1.jpg,dog\n0.jpg,cat\n";
    let table = folder(&[("0.jpg", "0"), ("1.jpg", "1"), ("metadata.csv", texts)]);
    assert_eq!(classes(&[dataset(table.path())]).await, [["cat", "dog"]]);
    let numbers = "file_name,label\n1.jpg,7\n0.jpg,3\n";
    std::fs::write(table.path().join("metadata.csv"), numbers).unwrap();
    assert_eq!(classes(&[dataset(table.path())]).await, [none]);
    // Numbers of its own, which are not those of the sorted texts.
    let own = "file_name,label,cls\n1.jpg,dog,0\n0.jpg,cat,1\n";
    std::fs::write(table.path().join("metadata.csv"), own).unwrap();
    assert_eq!(classes(&[dataset(table.path())]).await, [none]);
    std::fs::write(table.path().join("metadata.csv"), texts).unwrap();
    let twice = ["dog", "cat", "dog"].map(str::to_owned).to_vec();
    let error =
        samples(DatasetConfig { classes: twice, ..dataset(table.path()) }).await.unwrap_err();
    assert!(error.contains("`classes` has `dog` twice"), "{error}");
}

#[tokio::test]
async fn what_cannot_be_told_is_refused_by_name() {
    let mixed = folder(&[("a/0.jpg", "0"), ("1.jpg", "1")]);
    let error = samples(dataset(mixed.path())).await.unwrap_err();
    assert!(error.contains("`1.jpg` lies beside folders") && error.contains("none"), "{error}");
    let empty = folder(&[("a.tar", "")]);
    let error = samples(dataset(empty.path())).await.unwrap_err();
    assert!(error.contains("no image") && error.contains("*.tar"), "{error}");
}

#[tokio::test]
async fn folders_that_are_no_classes_or_shift_their_numbers_are_refused() {
    // Of ImageNet's root, and of the Hugging Face hub's layout.
    let splits = folder(&[("train/a/0.jpg", "0"), ("val/a/0.jpg", "1")]);
    let error = samples(dataset(splits.path())).await.unwrap_err();
    assert!(
        error.contains("parts of a dataset, not classes") && error.contains("/train"),
        "{error}"
    );
    let tables = folder(&[("x/0.jpg", "0"), ("x/metadata.jsonl", "{}"), ("y/0.jpg", "1")]);
    let error = samples(dataset(tables.path())).await.unwrap_err();
    assert!(error.contains("`x/metadata.jsonl` has labels of its own folder"), "{error}");
    let empty = folder(&[("a/0.jpg", "0"), ("c/0.jpg", "2"), (".cache/x", "")]);
    std::fs::create_dir(empty.path().join("b")).unwrap();
    let error = samples(dataset(empty.path())).await.unwrap_err();
    assert!(error.contains("folder `b` has no image"), "{error}");
    // A list of images need not be all of them.
    let shards = [empty.path().join("a/0.jpg"), empty.path().join("c/0.jpg")];
    let shards = shards.iter().map(|path| path.display().to_string()).collect();
    let listed = samples(DatasetConfig { shards, ..dataset(empty.path()) }).await.unwrap();
    assert_eq!(listed, ["a/0.jpg jpg=0 cls=0 class=a", "c/0.jpg jpg=2 cls=1 class=c"]);
    // Whoever says which classes there are is believed, and gets their numbers.
    let given = |classes: &[&str]| {
        let classes = classes.iter().map(|class| (*class).to_owned()).collect();
        DatasetConfig { classes, ..dataset(empty.path()) }
    };
    let found = samples(given(&["c", "b", "a"])).await.unwrap();
    assert_eq!(found, ["a/0.jpg jpg=0 cls=2 class=a", "c/0.jpg jpg=2 cls=0 class=c"]);
    let error = samples(given(&["a", "b", "c", "a"])).await.unwrap_err();
    assert!(error.contains("`classes` has `a` twice"), "{error}");
    let error = samples(given(&["a", "b"])).await.unwrap_err();
    assert!(error.contains("folder `c` is not among `classes`"), "{error}");
}

#[tokio::test]
async fn labels_that_pandas_writes_as_floats_are_their_whole_numbers() {
    let images = [("0.jpg", "0"), ("1.jpg", "1"), ("2.jpg", "2")];
    let with = |labels: &str| {
        folder(&[&images[..], &[("metadata.csv", &format!("file_name,label\n{labels}"))]].concat())
    };
    let floats = with("0.jpg,10.0\n1.jpg,9.0\n2.jpg,-2.00\n");
    let expected = [
        "0.jpg jpg=0 label=10.0 cls=10",
        "1.jpg jpg=1 label=9.0 cls=9",
        "2.jpg jpg=2 label=-2.00 cls=-2",
    ];
    assert_eq!(samples(dataset(floats.path())).await.unwrap(), expected);
    // A target of a regression is no class, in no row.
    let target = with("0.jpg,0.5\n1.jpg,9.0\n2.jpg,1.5\n");
    let expected = ["0.jpg jpg=0 label=0.5", "1.jpg jpg=1 label=9.0", "2.jpg jpg=2 label=1.5"];
    assert_eq!(samples(dataset(target.path())).await.unwrap(), expected);
    let named = with("0.jpg,nan\n1.jpg,inf\n2.jpg,nan\n");
    assert_eq!(samples(dataset(named.path())).await.unwrap()[0], "0.jpg jpg=0 label=nan cls=1");
    let texts = with("0.jpg,dog\n1.jpg,cat\n2.jpg,dog\n");
    let classes = ["dog", "cat"].map(str::to_owned).to_vec();
    let given = DatasetConfig { classes, ..dataset(texts.path()) };
    assert_eq!(samples(given).await.unwrap()[1], "1.jpg jpg=1 label=cat cls=1");
    let given = DatasetConfig { classes: vec!["dog".to_owned()], ..dataset(texts.path()) };
    let error = samples(given).await.unwrap_err();
    assert!(error.contains("label `cat` is not among `classes`"), "{error}");
}

#[tokio::test]
async fn an_image_that_changes_ends_the_read_by_its_name() {
    let folder = folder(&[("0.jpg", "0"), ("1.jpg", "1"), ("2.jpg", "2")]);
    let config = StorageConfig { datasets: vec![dataset(folder.path())], ..Default::default() };
    let storage = Storage::open(config).await.unwrap();
    std::fs::write(folder.path().join("1.jpg"), "other").unwrap();
    let error = support::all_samples(&storage).await.unwrap_err().sentence();
    assert!(error.contains("1.jpg") && error.contains("was changed"), "{error}");
}
