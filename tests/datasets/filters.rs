//! `[[filter]]`: a node serves the samples that meet all filters, to receivers that go through them as always.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;

use super::program::{Place, data};

/// Keys of the photographs with `least` columns or more, by libjpeg-turbo's headers.
fn wide(least: usize) -> Vec<String> {
    let mut keys = Vec::new();
    for shard in 0..4 {
        let path = data(&format!("photos/photos-{shard:06}.tar"));
        let mut archive = tar::Archive::new(File::open(path).expect("a shard"));
        for entry in archive.entries().expect("entries") {
            let mut entry = entry.expect("an entry");
            let name = entry.path().expect("a path").display().to_string();
            let Some(key) = name.strip_suffix(".jpg") else { continue };
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).expect("bytes");
            if turbojpeg::read_header(&bytes).expect("a JPEG").width >= least {
                keys.push(key.to_owned());
            }
        }
    }
    keys
}

/// A copy of the photographs, so that nothing is written to tests/data.
fn photos(place: &Place) -> String {
    for shard in 0..4 {
        let name = format!("photos-{shard:06}.tar");
        if !place.path(&name).exists() {
            fs::copy(data(&format!("photos/{name}")), place.path(&name)).expect("a shard");
        }
    }
    // Files that lie beside them have names that fit as well.
    place.path("photos-*").display().to_string()
}

/// What the verb says of the photographs with these filters.
fn run(place: &Place, filter: &str, verb: &[&str]) -> super::program::Ended {
    let dataset = format!("dataset=[{{name='photos', shards='{}'}}]", photos(place));
    let filter = format!("filter={filter}");
    place.run(&[&["--set", &dataset, "--set", &filter], verb].concat())
}

/// The keys of one batch of an epoch that has `samples`, sorted.
fn keys_of_epoch(place: &Place, filter: &str, samples: usize) -> Vec<String> {
    let ended = run(place, filter, &["plan", "--json", "--batch", &samples.to_string()]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let key = |line: &str| {
        let sample: serde_json::Value = serde_json::from_str(line).expect("JSON");
        sample["key"].as_str().expect("a key").to_owned()
    };
    let mut keys: Vec<String> = ended.stdout.lines().map(key).collect();
    keys.sort();
    keys
}

#[test]
fn an_epoch_has_the_samples_that_meet_the_filters() {
    let place = Place::new();
    let expected = wide(300);
    assert!(!expected.is_empty() && expected.len() < wide(1).len());
    let filter = "[{kind='width', min=300}]";
    assert_eq!(keys_of_epoch(&place, filter, expected.len()), expected);
    let kept = || {
        let files =
            fs::read_dir(place.path("")).expect("a folder").map(|file| file.expect("a file"));
        let kept =
            files.filter(|file| file.path().extension().is_some_and(|end| end == "hwfilter"));
        let mut kept: Vec<_> =
            kept.map(|file| (file.path(), file.metadata().expect("a file").ino())).collect();
        kept.sort();
        kept
    };
    let first = kept();
    assert_eq!(first.len(), 4);
    // As they are kept: files are written anew whenever they are decided.
    assert_eq!(keys_of_epoch(&place, filter, expected.len()), expected);
    assert_eq!(kept(), first);
    let listed = run(&place, filter, &["datasets", "list"]);
    assert!(listed.stdout.contains(&format!(" {} ", expected.len())), "{}", listed.stdout);
    // Without filters none of these files is a shard.
    let all = run(&place, "[]", &["datasets", "list"]);
    assert!(all.stdout.contains(&format!(" {} ", wide(1).len())), "{}", all.stdout);
}

#[test]
fn a_filter_of_one_dataset_leaves_the_other_as_it_is() {
    let place = Place::new();
    let shards = photos(&place);
    let list = |filter: &str| {
        let datasets =
            format!("dataset=[{{name='a', shards='{shards}'}}, {{name='b', shards='{shards}'}}]");
        let ended = place.run(&["--set", &datasets, "--set", filter, "datasets", "list"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let samples = |line: &str| {
            let numbers = line.split_whitespace().filter_map(|word| word.parse().ok());
            numbers.collect::<Vec<usize>>()
        };
        ended.stdout.lines().map(samples).filter(|numbers| !numbers.is_empty()).collect::<Vec<_>>()
    };
    let (all, both) = (wide(1).len(), list("filter=[]"));
    let one = list("filter=[{kind='width', min=300, dataset='b'}]");
    assert!(one.len() == 2 && one[0] == both[0] && one[0].contains(&all), "{one:?}");
    assert!(one[1].contains(&wide(300).len()) && !one[1].contains(&all), "{one:?}");
}

#[test]
fn filters_that_cannot_work_are_named_before_anything_is_read() {
    let place = Place::new();
    for (filter, words) in [
        (
            "[{kind='width', min=99999}]",
            "no sample of dataset `photos` meets its filters (width from 99999: ",
        ),
        ("[{kind='width', min=3, dataset='other'}]", "`filter.dataset` = `other`"),
        ("[{kind='widht', min=3}]", "widht"),
        ("[{kind='width'}]", "give `min`, `max` or both"),
        ("[{kind='number', field='json', path='clip', min=0}]", "write a JSON pointer"),
        ("[{kind='width', least=3}]", "least"),
    ] {
        let ended = run(&place, filter, &["datasets", "list"]);
        let said = ended.stderr.lines().last().unwrap_or_default();
        assert!(ended.code != Some(0) && said.contains(words), "{filter}: {}", ended.stderr);
    }
}
