//! Calls of functions and datasets in real Python processes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use headwater_interpreter::{CallError, Dataset, Interpreter, Settings, Trusted};

const SHAPE: [u32; 3] = [4, 5, 3];
const BYTES: usize = 60;

/// A Python with numpy that finds `mine`; nothing where this machine has none.
fn settings(timeout: Duration) -> Option<Settings> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let venv = here.join("../../.venv/bin/python");
    let real = if venv.exists() { venv } else { PathBuf::from("python3") };
    let has_numpy = std::process::Command::new(&real).args(["-c", "import numpy"]).output();
    if !has_numpy.is_ok_and(|tried| tried.status.success()) {
        eprintln!("SKIPPED: {} has no numpy", real.display());
        return None;
    }
    let trusted = Trusted::new(vec!["mine".into()], "augment.python_modules");
    Some(Settings { python: real, folders: vec![here.join("tests")], trusted, timeout })
}

const PATIENCE: Duration = Duration::from_secs(120);

fn pixels() -> Vec<u8> {
    (0..BYTES).map(|at| (at * 7 % 256) as u8).collect()
}

#[test]
fn a_function_changes_an_image_and_draws_from_its_seed_alone() {
    let Some(settings) = settings(PATIENCE) else { return };
    let mut python = Interpreter::new(settings);
    for function in ["mine:invert", "mine:invert_in_place"] {
        let mut image = pixels();
        python.call(function, SHAPE, &mut image, &[1]).expect("an image");
        let inverted: Vec<u8> = pixels().iter().map(|value| 255 - value).collect();
        assert_eq!(image, inverted, "{function}");
    }
    let mut noise = |seed: &[u64]| {
        let mut image = pixels();
        python.call("mine:noise", SHAPE, &mut image, seed).expect("an image");
        image
    };
    let first = noise(&[1, u64::MAX]);
    assert_eq!(noise(&[1, u64::MAX]), first);
    assert_ne!(noise(&[2, u64::MAX]), first);
    // numpy.random.default_rng([1, 2]).integers(0, 256, 4, numpy.uint8)
    assert_eq!(noise(&[1, 2])[..4], [194, 187, 172, 164]);
    // A larger image than the memory was made for.
    let mut large = vec![9; 600 * 500 * 3];
    python.call("mine:invert", [600, 500, 3], &mut large, &[]).expect("an image");
    assert!(large.iter().all(|&value| value == 246));
}

#[test]
fn what_a_function_does_wrong_is_said_and_the_next_call_goes_on() {
    let Some(settings) = settings(PATIENCE) else { return };
    let mut python = Interpreter::new(settings);
    let mut failed = |function: &str| {
        let mut image = vec![5; BYTES];
        let error = python.call(function, SHAPE, &mut image, &[]).expect_err("it fails");
        assert_eq!(image, [5; BYTES], "{function} has left nothing");
        (error.is_verdict(), error.to_string())
    };
    let (verdict, said) = failed("mine:fail_on_dark");
    assert!(
        verdict && said.starts_with("`mine:fail_on_dark` raised ValueError: too dark ("),
        "{said}"
    );
    assert!(said.contains("mine.py:"), "{said}");
    for (function, word) in [
        ("mine:nothing", "gave NoneType, not an array"),
        ("mine:floats", "gave float64[4, 5, 3], not uint8[4, 5, 3]"),
        ("mine:smaller", "gave uint8[3, 5, 3], not uint8[4, 5, 3]"),
        ("mine:damaged_file", "OSError: image file is truncated"),
    ] {
        let (verdict, said) = failed(function);
        assert!(verdict && said.contains(word), "{function}: {said}");
    }
    // Another process, or this one later, may do better: no sample is replaced for it.
    for (function, word) in [
        ("mine:absent", "has no attribute 'absent'"),
        ("mine:disk_error", "raised OSError: [Errno 5] Input/output error"),
    ] {
        let (verdict, said) = failed(function);
        assert!(!verdict && said.contains(word), "{function}: {said}");
    }
    let (verdict, said) = failed("mine:no_memory");
    assert!(!verdict && said.starts_with("no memory for `mine:no_memory`"), "{said}");
    let (verdict, said) = failed("mine:die");
    assert!(!verdict && said.contains("exit status: 3"), "{said}");
    let (verdict, said) = failed("os:system");
    assert!(!verdict && said.contains("`os` is not in augment.python_modules"), "{said}");
    let mut image = pixels();
    python.call("mine:invert", SHAPE, &mut image, &[]).expect("it goes on in another process");
}

#[test]
fn a_call_without_an_end_is_cut_off() {
    let Some(settings) = settings(Duration::from_secs(1)) else { return };
    let mut python = Interpreter::new(settings);
    let late = python.call("mine:hang", SHAPE, &mut pixels(), &[]);
    assert!(matches!(late, Err(CallError::Late { limit_ms: 1000, .. })), "{late:?}");
}

#[test]
fn a_missing_program_is_named() {
    let trusted = Trusted::new(vec!["mine".into()], "augment.python_modules");
    let python = PathBuf::from("/nowhere/python");
    let mut python =
        Interpreter::new(Settings { python, folders: Vec::new(), trusted, timeout: PATIENCE });
    let error = python.call("mine:invert", SHAPE, &mut pixels(), &[]).expect_err("no program");
    assert!(error.to_string().contains("cannot start Python as `/nowhere/python`"), "{error}");
}

#[test]
fn a_module_is_known_by_its_source() {
    let Some(settings) = settings(PATIENCE) else { return };
    let mut python = Interpreter::new(settings);
    let source = python.source("mine").expect("its source");
    assert!(source.path.ends_with("tests/mine.py"), "{source:?}");
    assert_eq!(source.sha256.len(), 64);
    assert!(python.source("mine.absent").is_err());
}

#[test]
fn a_dataset_gives_its_samples_as_files_of_them_would_be() {
    let Some(settings) = settings(PATIENCE) else { return };
    let arguments = serde_json::json!({"samples": 5, "name": "tiles"});
    let arguments = arguments.as_object().expect("an object").clone();
    let mut dataset = Dataset::open(settings.clone(), "mine:Squares", arguments).expect("it");
    assert_eq!((dataset.samples(), dataset.version()), (5, Some("tiles 1")));
    for index in [2, 0, 1, 2] {
        let fields = dataset.read(index).expect("a sample");
        let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["jpg", "txt", "cls", "height", "npy", "json"]);
        let field = |at: usize| fields[at].1.as_slice();
        assert_eq!(field(0), b"\xff\xd8".repeat(1 + 100_000 * index as usize));
        assert_eq!(field(1), format!("caption {index} é").as_bytes());
        assert_eq!(field(2), (index * index).to_string().as_bytes());
        assert_eq!(field(3), format!("{:?}", 0.5 * index as f64).as_bytes());
        assert!(field(4).starts_with(b"\x93NUMPY") && field(4).ends_with(&[5, 0]));
        assert_eq!(field(5), br#"{"boxes": [[1, 2, 3, 4]]}"#);
    }
    let hole = dataset.read(3).expect_err("a hole");
    assert!(hole.is_verdict() && hole.to_string().contains("KeyError: 'a hole'"), "{hole}");
    let strange = dataset.read(4).expect_err("no field").to_string();
    assert!(strange.contains("field `what` is object"), "{strange}");

    let none = serde_json::Map::new();
    let mut pairs = Dataset::open(settings, "mine:Pairs", none).expect("it");
    let fields = pairs.read(1).expect("a sample");
    assert_eq!(fields, [("image".to_owned(), b"two".to_vec()), ("cls".to_owned(), b"2".to_vec())]);
}

#[test]
fn a_label_is_the_same_number_in_every_form_of_it() {
    let Some(settings) = settings(PATIENCE) else { return };
    let mut labels =
        Dataset::open(settings, "mine:Labels", serde_json::Map::new()).expect("a dataset");
    assert_eq!(labels.samples(), 10);
    for index in 0..labels.samples() {
        let fields = labels.read(index).expect("a sample");
        assert_eq!(fields[1], ("cls".to_owned(), b"1".to_vec()), "label {index}");
    }
    let Some(settings) = self::settings(PATIENCE) else { return };
    let mut scores =
        Dataset::open(settings, "mine:Scores", serde_json::Map::new()).expect("a dataset");
    for index in 0..scores.samples() {
        let fields = scores.read(index).expect("a sample");
        assert_eq!(fields[1], ("cls".to_owned(), b"1.5".to_vec()), "score {index}");
    }
}
