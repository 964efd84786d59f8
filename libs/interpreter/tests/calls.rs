//! Calls of functions and datasets in real Python processes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use headwater_interpreter::{Dataset, Interpreter, SettingKeys, Settings, Trusted};

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
    let (folders, keys) = (vec![here.join("tests")], KEYS);
    let bad_sample_errors = vec!["ValueError".into()];
    Some(Settings { python: real, folders, trusted, timeout, bad_sample_errors, keys })
}

const KEYS: SettingKeys = SettingKeys {
    python: "augment.python",
    timeout: "augment.python_timeout_ms",
    bad_sample_errors: "augment.python_bad_sample_errors",
};
/// Any source.
const ANY: &str = "";

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
        python.call((function, ANY), SHAPE, &mut image, &[1]).expect("an image");
        let inverted: Vec<u8> = pixels().iter().map(|value| 255 - value).collect();
        assert_eq!(image, inverted, "{function}");
    }
    let mut noise = |seed: &[u64]| {
        let mut image = pixels();
        python.call(("mine:noise", ANY), SHAPE, &mut image, seed).expect("an image");
        image
    };
    let first = noise(&[1, u64::MAX]);
    assert_eq!(noise(&[1, u64::MAX]), first);
    assert_ne!(noise(&[2, u64::MAX]), first);
    // numpy.random.default_rng([1, 2]).integers(0, 256, 4, numpy.uint8)
    assert_eq!(noise(&[1, 2])[..4], [194, 187, 172, 164]);
    // A larger image than the memory was made for.
    let mut large = vec![9; 600 * 500 * 3];
    python.call(("mine:invert", ANY), [600, 500, 3], &mut large, &[]).expect("an image");
    assert!(large.iter().all(|&value| value == 246));
}

#[test]
fn what_a_function_does_wrong_is_said_and_the_next_call_goes_on() {
    let Some(settings) = settings(PATIENCE) else { return };
    let mut python = Interpreter::new(settings);
    let mut failed = |function: &str| {
        let mut image = vec![5; BYTES];
        let error = python.call((function, ANY), SHAPE, &mut image, &[]).expect_err("it fails");
        assert_eq!(image, [5; BYTES], "{function} has left nothing");
        (error.is_verdict(), error.to_string())
    };
    let (verdict, said) = failed("mine:fail_on_dark");
    assert!(
        verdict && said.starts_with("`mine:fail_on_dark` raised ValueError: too dark ("),
        "{said}"
    );
    assert!(said.contains("mine.py:"), "{said}");
    // Another process, or this one later, may do better: no sample is replaced for it.
    for (function, word) in [
        ("mine:nothing", "gave NoneType, not an array"),
        ("mine:floats", "gave float64[4, 5, 3], not uint8[4, 5, 3]"),
        ("mine:smaller", "gave uint8[3, 5, 3], not uint8[4, 5, 3]"),
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
    python
        .call(("mine:invert", ANY), SHAPE, &mut image, &[])
        .expect("it goes on in another process");
}

#[test]
fn a_call_without_an_end_is_cut_off() {
    let Some(settings) = settings(Duration::from_secs(1)) else { return };
    let mut python = Interpreter::new(settings);
    let late = python.call(("mine:hang", ANY), SHAPE, &mut pixels(), &[]);
    let late = late.expect_err("no end").to_string();
    assert_eq!(
        late,
        "`mine:hang` took longer than 1000 ms: raise augment.python_timeout_ms, or mend the function"
    );
}

#[test]
fn a_missing_program_is_named() {
    let trusted = Trusted::new(vec!["mine".into()], "augment.python_modules");
    let python = PathBuf::from("/nowhere/python");
    let mut python = Interpreter::new(Settings {
        python,
        folders: Vec::new(),
        trusted,
        timeout: PATIENCE,
        bad_sample_errors: Vec::new(),
        keys: KEYS,
    });
    let error =
        python.call(("mine:invert", ANY), SHAPE, &mut pixels(), &[]).expect_err("no program");
    assert!(error.to_string().contains("cannot start Python as `/nowhere/python`"), "{error}");
}

#[test]
fn a_module_is_known_by_its_source() {
    let Some(settings) = settings(PATIENCE) else { return };
    let mut python = Interpreter::new(settings);
    let source = python.source("mine", &["invert"]).expect("its source");
    assert!(source.path.ends_with("tests/mine.py"), "{source:?}");
    assert_eq!(source.sha256.len(), 64);
    assert!(python.source("mine.absent", &[]).is_err());
    let error = python.source("mine", &["invert", "inwert"]).expect_err("no such function");
    let said = "has no `inwert`: did you mean `invert`?";
    assert!(error.to_string().contains(said), "{error}");
}

/// A worker's processes outlive a job, and the next job may bring other source.
#[test]
fn a_function_is_called_from_the_source_that_is_asked_for() {
    let Some(mut settings) = settings(PATIENCE) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    settings.folders = vec![folder.path().to_owned()];
    settings.trusted = Trusted::new(vec!["edited".into()], "augment.python_modules");
    let written = |by: u8| {
        let source = format!("def add(array, rng):\n    return array + {by}\n");
        std::fs::write(folder.path().join("edited.py"), source).expect("a module");
        Interpreter::new(settings.clone()).source("edited", &[]).expect("its source").sha256
    };
    let mut python = Interpreter::new(settings.clone());
    let mut add = |sha256: &str| {
        let mut image = vec![5; BYTES];
        python.call(("edited:add", sha256), SHAPE, &mut image, &[]).map(|()| image[0])
    };
    let first = written(1);
    assert_eq!(add(&first).expect("an image"), 6);
    let second = written(10);
    let other = add(&second).expect_err("it has the first one");
    assert!(!other.is_verdict() && other.to_string().contains(&first), "{other}");
    assert_eq!(add(&second).expect("loaded anew"), 15);
    assert!(add(&first).expect_err("it is gone").to_string().contains(&second));
}

/// One job calls a function of `a`, which imports `b`; the next one calls a function of `b`.
#[test]
fn a_module_that_another_imported_is_known_by_the_source_that_was_loaded() {
    let Some(mut settings) = settings(PATIENCE) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    settings.folders = vec![folder.path().to_owned()];
    settings.trusted = Trusted::new(vec!["pair".into()], "augment.python_modules");
    let write = |name: &str, text: &str| {
        std::fs::create_dir_all(folder.path().join("pair")).expect("a folder");
        std::fs::write(folder.path().join("pair").join(name), text).expect("a module");
    };
    let written = |by: u8| {
        write("b.py", &format!("def add(array, rng):\n    return array + {by}\n"));
        Interpreter::new(settings.clone()).source("pair.b", &[]).expect("its source").sha256
    };
    let at_first = "import pair.b\ndef add(array, rng):\n    return pair.b.add(array, rng)\n";
    let late = "def add(array, rng):\n    import pair.b\n    return pair.b.add(array, rng)\n";
    for a in [at_first, late] {
        write("a.py", a);
        let first = written(1);
        let mut python = Interpreter::new(settings.clone());
        let mut add = |function: &str, sha256: &str| {
            let mut image = vec![5; BYTES];
            python.call((function, sha256), SHAPE, &mut image, &[]).map(|()| image[0])
        };
        assert_eq!(add("pair.a:add", ANY).expect("an image"), 6);
        let second = written(10);
        let other = add("pair.b:add", &second).expect_err("it has the first one");
        assert!(!other.is_verdict() && other.to_string().contains(&first), "{other}");
        assert_eq!(add("pair.b:add", &second).expect("loaded anew"), 15);
        assert_eq!(add("pair.a:add", ANY).expect("an image"), 15);
        assert_eq!(add("pair.b:add", &second).expect("what was imported"), 15);
    }
}

#[test]
fn a_child_that_a_function_forks_changes_no_image() {
    let Some(settings) = settings(PATIENCE) else { return };
    let mut python = Interpreter::new(settings);
    for _ in 0..4 {
        let mut image = pixels();
        python.call(("mine:forks", ANY), SHAPE, &mut image, &[]).expect("an image");
        let inverted: Vec<u8> = pixels().iter().map(|value| 255 - value).collect();
        assert_eq!(image, inverted);
    }
}

#[test]
fn a_dataset_gives_its_samples_as_files_of_them_would_be() {
    let Some(settings) = settings(PATIENCE) else { return };
    let arguments = serde_json::json!({"samples": 5, "name": "tiles"});
    let arguments = arguments.as_object().expect("an object").clone();
    let mut dataset = Dataset::open(settings.clone(), "mine:Squares", arguments, None).expect("it");
    let identity = dataset.identity();
    assert_eq!((identity.samples, identity.version.as_deref()), (5, Some("tiles 1")));
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
    assert!(hole.is_verdict() && hole.to_string().contains("ValueError: a hole"), "{hole}");
    let strange = dataset.read(4).expect_err("no field").to_string();
    assert!(strange.contains("field `what` is object"), "{strange}");
    assert!(strange.contains("augment.python_bad_sample_errors"), "{strange}");

    let none = serde_json::Map::new();
    let mut pairs = Dataset::open(settings, "mine:Pairs", none, None).expect("it");
    let fields = pairs.read(1).expect("a sample");
    assert_eq!(fields, [("image".to_owned(), b"two".to_vec()), ("cls".to_owned(), b"2".to_vec())]);
}

#[test]
fn a_label_is_the_same_number_in_every_form_of_it() {
    let Some(settings) = settings(PATIENCE) else { return };
    let mut labels =
        Dataset::open(settings, "mine:Labels", serde_json::Map::new(), None).expect("a dataset");
    assert_eq!(labels.identity().samples, 10);
    for index in 0..labels.identity().samples {
        let fields = labels.read(index).expect("a sample");
        assert_eq!(fields[1], ("cls".to_owned(), b"1".to_vec()), "label {index}");
    }
    let Some(settings) = self::settings(PATIENCE) else { return };
    let mut scores =
        Dataset::open(settings, "mine:Scores", serde_json::Map::new(), None).expect("a dataset");
    for index in 0..scores.identity().samples {
        let fields = scores.read(index).expect("a sample");
        assert_eq!(fields[1], ("cls".to_owned(), b"1.5".to_vec()), "score {index}");
    }
}
