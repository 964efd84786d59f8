//! `count`, `validate` and `index` on every format, from files, an object store, a web server and the
//! hub. How many samples there are say the formats' own packages, in Python, by the JSON beside the files.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::program::{Ended, Place, data, refused};
use crate::server::{Dialect, Server};

/// Alternatives of a field that each of those samples has.
const FIELDS: &str = "receiver.image_field=image|image/encoded|bin|rows|tokens|fixed|words|noise|wind|b|\
                      more/deep|name|note|class|txt|text|box|label|train/image|test/image|never|plain/<i1|ended|ended-rows|spaces|\
                      spaces-rows";

/// A dataset, its place below tests/data/formats, its options, and how many samples it has.
struct Known {
    name: String,
    place: String,
    options: toml::Table,
    samples: usize,
}

/// All that the packages have read.
fn known() -> Vec<Known> {
    let read = |name: &str| -> Value {
        let file = fs::read(data("formats").join(name)).expect("a JSON");
        serde_json::from_slice(&file).expect("JSON")
    };
    let mut all = Vec::new();
    for format in ["parquet", "tfrecord", "mds"] {
        let tables = read(&format!("{format}/{format}.json"));
        for table in tables.as_object().expect("tables").values() {
            let shards = table["shards"].as_array().expect("shards").iter();
            let samples = shards.map(|shard| shard["samples"].as_array().expect("samples").len());
            let place = format!("{format}/{}", table["place"].as_str().expect("a place"));
            all.push((place, toml::Table::new(), samples.sum()));
        }
    }
    for array in read("arrays/expected.json").as_array().expect("arrays") {
        // The others are refused.
        let Some(samples) = array["samples"].as_array() else { continue };
        let place = format!("arrays/{}", array["file"].as_str().expect("a file"));
        let options = toml::Table::try_from(&array["options"]).expect("options");
        all.push((place, options, samples.len()));
    }
    let named = |(at, (place, options, samples)): (usize, (String, toml::Table, usize))| Known {
        name: format!("{at}-{place}"),
        place,
        options,
        samples,
    };
    all.into_iter().enumerate().map(named).collect()
}

/// Writes a configuration of these datasets below `root`.
fn configure(place: &Place, known: &[Known], root: &str) {
    let mut text = String::new();
    for Known { name, place, options, .. } in known {
        let mut table = options.clone();
        table.insert("name".to_owned(), name.as_str().into());
        table.insert("shards".to_owned(), format!("{root}/{place}").into());
        text.push_str(&format!("[[dataset]]\n{}\n", toml::to_string(&table).expect("TOML")));
    }
    fs::write(place.path("headwater.toml"), text).expect("a configuration");
}

/// What `count` prints of them.
fn counted(known: &[Known]) -> String {
    let total: usize = known.iter().map(|known| known.samples).sum();
    let width = total.to_string().len();
    let line = |known: &Known| format!("{:>width$} {}\n", known.samples, known.name);
    known.iter().map(line).chain([format!("{total} total\n")]).collect()
}

/// All files below tests/data/formats, put into a server below a folder.
fn upload(server: &Server, folder: &Path, to: &str) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = format!("{to}/{}", path.file_name().expect("a name").to_str().expect("text"));
        match path.is_dir() {
            true => upload(server, &path, &name),
            false => server.put(&name, &fs::read(&path).expect("a file")),
        }
    }
}

fn succeeded(ended: Ended) -> String {
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    ended.stdout
}

const VALIDATE: [&str; 9] = [
    "datasets",
    "validate",
    "--configured",
    "--set",
    "recipe.preset=raw",
    "--set",
    FIELDS,
    "--set",
    "receiver.label_field=",
];

#[test]
fn every_format_is_counted_and_validated() {
    let (place, known) = (Place::new(), known());
    assert!(known.len() > 80, "{}", known.len());
    configure(&place, &known, &data("formats").display().to_string());
    assert_eq!(place.printed(&["datasets", "count", "--configured"]), counted(&known));
    let said = place.printed(&VALIDATE);
    assert_eq!(said.lines().count(), known.len(), "{said}");
    for (line, Known { name, samples, .. }) in said.lines().zip(&known) {
        let begin = format!("{name}: {samples} sample");
        let end = ", 0 with a checksum: 0 samples and 0 shards broken";
        assert!(line.starts_with(&begin) && line.ends_with(end), "{line}");
    }
    let kept = data("formats").join("tfrecord/photos.tfrecord.hwidx");
    assert!(!kept.exists(), "nothing is written beside files");
}

#[test]
fn an_object_store_gives_what_files_give() {
    let (place, known) = (Place::new(), known());
    let server = Server::start(Dialect::S3);
    upload(&server, &data("formats"), "ds");
    configure(&place, &known, "s3://bucket/ds");
    let endpoint = format!("http://{}", server.address);
    let store = [
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "AKIAKEY"),
        ("AWS_SECRET_ACCESS_KEY", "hushhush"),
    ];
    let count = place.run_with(&store, &["datasets", "count", "--configured"]);
    assert_eq!(succeeded(count), counted(&known));
    let validated = succeeded(place.run_with(&store, &VALIDATE));
    assert_eq!(validated.lines().count(), known.len(), "{validated}");
}

#[test]
fn a_web_server_and_the_hub_give_images_that_decode() {
    let place = Place::new();
    let web = Server::start(Dialect::Plain);
    upload(&web, &data("formats"), "ds");
    web.put("ds/photos-3.tar", &fs::read(data("photos/photos-000003.tar")).unwrap());
    let hub = Server::start(Dialect::Hub { elsewhere: web.address });
    upload(&hub, &data("formats/parquet"), "data");
    let endpoint = format!("http://{}", hub.address);
    let environment = [("HF_ENDPOINT", endpoint.as_str()), ("HF_TOKEN", "hf_secret")];
    let tar = format!("tar=http://{}/ds/photos-3.tar", web.address);
    let mds = format!("mds=http://{}/ds/mds/zstd/index.json", web.address);
    let datasets =
        ["--dataset", &tar, "--dataset", &mds, "--dataset", "p=hf://datasets/u/n/data/hub.*"];
    let count = [&["datasets", "count"], &datasets[..]].concat();
    let said = succeeded(place.run_with(&environment, &count));
    assert_eq!(said, "41 tar\n 8 mds\n10 p\n59 total\n");
    let validate = [&["datasets", "validate"], &datasets[..]].concat();
    let said = succeeded(place.run_with(&environment, &validate));
    assert!(said.lines().all(|line| line.ends_with(": 0 samples and 0 shards broken")), "{said}");
    // For a picture that was damaged on its way, the output names its place.
    let mut tar = fs::read(data("photos/photos-000003.tar")).unwrap();
    let picture = tar.windows(3).position(|bytes| bytes == b"\xff\xd8\xff").unwrap();
    tar[picture..picture + 300].fill(0);
    web.put("ds/photos-3.tar", &tar);
    let ended = place.run_with(&environment, &validate);
    let line = format!("http://{}/ds/photos-3.tar: sample 0, `", web.address);
    assert!(ended.stdout.lines().any(|told| told.starts_with(&line)), "{}", ended.stdout);
    refused(&ended, &["1 sample and 0 shards broken"]);
}

#[test]
fn a_folder_of_images_is_validated_image_by_image() {
    let place = Place::new();
    let mut archive = tar::Archive::new(fs::File::open(data("photos/photos-000003.tar")).unwrap());
    for (at, entry) in archive.entries().unwrap().enumerate() {
        let mut entry = entry.unwrap();
        if entry.path().unwrap().extension().is_some_and(|ending| ending == "jpg") {
            let class = place.path("photos").join(["cat", "dog"][at % 4 / 2]);
            fs::create_dir_all(&class).unwrap();
            entry.unpack(class.join(format!("{at}.jpg"))).unwrap();
        }
    }
    let validate = ["datasets", "validate", "--dataset", "a=photos"];
    assert_eq!(place.printed(&["datasets", "count", "--dataset", "a=photos"]), "41 a\n");
    assert!(place.printed(&validate).starts_with("a: 41 samples in 1 shard, "));
    fs::write(place.path("photos/dog/999.jpg"), "no picture").unwrap();
    let ended = place.run(&validate);
    assert!(ended.stdout.contains("photos#0: sample "), "{}", ended.stdout);
    assert!(ended.stdout.contains("`dog/999.jpg`: not an image"), "{}", ended.stdout);
    refused(&ended, &["1 sample and 0 shards broken"]);
}

#[test]
fn a_dataset_without_images_is_refused_with_what_to_configure() {
    let place = Place::new();
    let text = format!("a={}", data("formats/arrays/lines/plain.jsonl").display());
    let validate = ["datasets", "validate", "--dataset", &text];
    place.refused(&validate, &["no sample of dataset `a` has an image", "`text`", "preset=raw"]);
    let csv = format!("a={}", data("formats/arrays/lines/plain.csv").display());
    let csv = ["datasets", "validate", "--dataset", &csv, "--set", "receiver.image_field=name"];
    place.refused(&csv, &["has a label `cls|label`", "`class`", "receiver.label_field="]);
}

#[test]
fn data_that_do_not_have_their_checksum_are_named() {
    let place = Place::new();
    let mut records = fs::read(data("formats/tfrecord/photos.tfrecord")).unwrap();
    // Within a picture of the first record.
    let picture = records.windows(3).position(|bytes| bytes == b"\xff\xd8\xff").unwrap();
    records[picture + 20] ^= 1;
    fs::write(place.path("a.tfrecord"), &records).unwrap();
    let args = [&VALIDATE[..2], &["--dataset", "a=a.tfrecord"], &VALIDATE[3..]].concat();
    let ended = place.run(&args);
    let told =
        |line: &str| line.contains("a.tfrecord: sample 0, `a/0`: ") && line.contains("checksum");
    assert!(ended.stdout.lines().any(told), "{}", ended.stdout);
    refused(&ended, &["1 sample and 0 shards broken"]);
    // Counting reads the heads of records only.
    assert_eq!(place.printed(&["datasets", "count", "--dataset", "a=a.tfrecord"]), "6 a\n");
}

#[test]
fn an_index_of_tfrecord_is_what_tfrecord2idx_writes_and_others_are_refused() {
    let place = Place::new();
    let (records, theirs) =
        (data("formats/tfrecord/photos.tfrecord"), data("formats/tfrecord/photos.idx"));
    fs::copy(records, place.path("a.tfrecord")).unwrap();
    let index = ["datasets", "index", "--dataset", "a=a.tfrecord"];
    assert_eq!(place.printed(&index), "a: 1 written, 0 up to date\n");
    let written = fs::read_to_string(place.path("a.idx")).unwrap();
    assert_eq!(written.trim_end(), fs::read_to_string(theirs).unwrap().trim_end());
    assert_eq!(place.printed(&index), "a: 0 written, 1 up to date\n");
    fs::write(place.path("a.idx"), "0 5\n").unwrap();
    assert_eq!(place.printed(&index), "a: 1 written, 0 up to date\n");
    assert_eq!(place.printed(&["datasets", "count", "--dataset", "a=a.tfrecord"]), "6 a\n");

    let parquet = format!("p={}", data("formats/parquet/hub.parquet").display());
    let both = [&index[..], &["--force", "--dataset", &parquet]].concat();
    fs::remove_file(place.path("a.idx")).unwrap();
    place.refused(&both, &["hub.parquet", "tars and TFRecord", "`headwater datasets list`"]);
    assert!(!place.path("a.idx").exists(), "refused before the first is written");
    let url = ["datasets", "index", "--dataset", "a=http://127.0.0.1:9/a.tar"];
    place.refused(&url, &["http://127.0.0.1:9/a.tar", "no file of this host"]);
    let gzip = format!("a={}", data("formats/tfrecord/packed.tfrecord.gz").display());
    let ended = place.run(&["datasets", "index", "--dataset", &gzip]);
    assert!(ended.stdout.contains("compressed") && ended.stdout.contains("gunzip"));
    refused(&ended, &["broken and without a new index: 1 shard"]);
}
