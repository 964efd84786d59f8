//! Datasets that fail for once, change, or say that a sample is bad.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::format::fixtures::{Memory, Read, read};

/// Each class does something once, and has a file to know that by.
const MODULE: &str = "
import os
import pathlib

FOLDER = pathlib.Path(__file__).parent


class BadSample(Exception):
    pass


def first(name):
    try:
        (FOLDER / name).touch(exist_ok=False)
        return True
    except FileExistsError:
        return False


class Numbers:
    name = 'number'

    def __init__(self):
        self.version = (FOLDER / 'version').read_text()

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return {'txt': f'{self.name} {index} of {self.version}'}


class Letters(Numbers):
    name = 'letter'


class FailsOnce(Numbers):
    def __getitem__(self, index):
        if index in (0, 3) and first(f'failed {index}'):
            raise KeyError('a passing error')
        return super().__getitem__(index)


class Fails(Numbers):
    def __getitem__(self, index):
        if index == 4:
            raise OSError('the server is away')
        return super().__getitem__(index)


class Bad(Numbers):
    def __getitem__(self, index):
        if index == 0:
            raise ValueError('not a number')
        if index == 3:
            raise BadSample('dark')
        return super().__getitem__(index)


class Changes(Numbers):
    def __getitem__(self, index):
        if index == 4 and first('crashed'):
            (FOLDER / 'version').write_text('other data')
            os._exit(3)
        return super().__getitem__(index)
";

/// A dataset of `MODULE` in shards of three samples.
struct Trial {
    _folder: tempfile::TempDir,
    format: Python,
}

// === impl Trial ===

impl Trial {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("own_data.py"), MODULE).expect("a module");
        std::fs::write(folder.path().join("version"), "the data").expect("a version");
        let config = PythonConfig {
            python_modules: vec!["own_data".into()],
            python_path: vec![folder.path().to_owned()],
            python_processes: 1,
            ..PythonConfig::default()
        };
        let dataset = DatasetConfig { shard_samples: 3, ..DatasetConfig::default() };
        let format = Python::new(&config, &dataset);
        Self { _folder: folder, format }
    }

    /// The samples of a class, or why they cannot be read.
    fn read(&self, class: &str) -> Result<Vec<Read>, String> {
        let shards = read(&self.format, &place(class)).map_err(|error| error.sentence())?;
        Ok(shards.into_iter().flat_map(|shard| shard.samples).collect())
    }
}

fn place(class: &str) -> Place {
    let source = Arc::new(Memory::new(BTreeMap::new()));
    Place { source, path: format!("own_data:{class}").into() }
}

fn texts(samples: &[Read]) -> Vec<String> {
    let none = || b"none".to_vec();
    let text = |sample: &Read| sample.fields.get("txt").cloned().unwrap_or_else(none);
    samples.iter().map(|sample| String::from_utf8(text(sample)).expect("text")).collect()
}

fn expected(name: &str) -> Vec<String> {
    (0..6).map(|index| format!("{name} {index} of the data")).collect()
}

#[test]
fn a_passing_error_makes_no_bad_sample() {
    assert_eq!(texts(&Trial::new().read("FailsOnce").expect("samples")), expected("number"));
}

#[test]
fn an_error_that_lasts_fails_the_read_by_name() {
    let error = Trial::new().read("Fails").expect_err("no samples");
    for words in [
        "`own_data:Fails[4]` raised OSError: the server is away (",
        "own_data.py:",
        "storage.python_bad_sample_errors",
    ] {
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_sample_that_is_said_to_be_bad_has_no_fields() {
    let mut bad = expected("number");
    (bad[0], bad[3]) = ("none".to_owned(), "none".to_owned());
    assert_eq!(texts(&Trial::new().read("Bad").expect("samples")), bad);
}

#[test]
fn a_dataset_that_changed_under_a_crash_fails_for_good() {
    let trial = Trial::new();
    let named = |error: String| {
        for words in ["6 samples, version `the data`", "6 samples, version `other data`"] {
            assert!(error.contains(words), "{error}");
        }
    };
    named(trial.read("Changes").expect_err("it changed"));
    let version = trial.format.digest(
        &place("Changes"),
        &DatasetIdentity { samples: 6, version: None, source: String::new() },
    );
    named(trial.format.open(&place("Changes"), 0, version).expect_err("it changed").sentence());
}

#[test]
fn classes_of_one_dataset_have_processes_of_their_own() {
    let trial = Trial::new();
    for (class, name) in [("Numbers", "number"), ("Letters", "letter"), ("Numbers", "number")] {
        assert_eq!(texts(&trial.read(class).expect("samples")), expected(name));
    }
}
