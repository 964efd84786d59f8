//! Datasets that misbehave: what they raise, fork, print and change is distinguished from a verdict on
//! a sample.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use headwater_interpreter::{CallError, Dataset, Interpreter, SettingKeys, Settings, Trusted};

const PATIENCE: Duration = Duration::from_secs(120);

/// Any Python does.
fn settings() -> Settings {
    Settings {
        python: "python3".into(),
        folders: vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")],
        trusted: Trusted::new(vec!["odd".into()], "storage.python_modules"),
        timeout: PATIENCE,
        bad_sample_errors: ["ValueError", "UnicodeError", "odd.Torn"].map(str::to_owned).into(),
        keys: SettingKeys {
            python: "storage.python",
            timeout: "storage.python_timeout_ms",
            bad_sample_errors: "storage.python_bad_sample_errors",
        },
    }
}

fn open(class: &str) -> Dataset {
    Dataset::open(settings(), class, serde_json::Map::new(), None).expect("a dataset")
}

/// The dataset that says what is in a file.
fn of_file(class: &str, path: &Path) -> Result<Dataset, CallError> {
    let arguments = serde_json::json!({"path": path});
    Dataset::open(settings(), class, arguments.as_object().expect("an object").clone(), None)
}

fn text(fields: &[(String, Vec<u8>)]) -> &str {
    std::str::from_utf8(&fields[0].1).expect("text")
}

#[test]
fn only_errors_that_say_so_are_verdicts() {
    let (mut raises, mut expected) = (open("odd:Raises"), open("odd:Expected"));
    for index in 0..raises.identity().samples {
        let error = raises.read(index).expect_err("it raises");
        let bad = text(&expected.read(index).expect("whether")) == "True";
        assert_eq!(error.is_verdict(), bad, "{index}: {error}");
        assert_eq!(error.may_pass(), !bad, "{index}: {error}");
        let remedy =
            "raise headwater.BadSample, or name the exception in storage.python_bad_sample_errors";
        assert_eq!(error.to_string().contains(remedy), !bad, "{error}");
        assert!(error.to_string().contains(&format!("`odd:Raises[{index}]` raised ")), "{error}");
    }
}

#[test]
fn an_image_of_a_mode_that_png_does_not_have_is_stored_in_rgb() {
    let mut images = open("odd:Images");
    for (index, mode) in ["L", "RGB", "RGB", "RGB", "RGB"].into_iter().enumerate() {
        assert_eq!(text(&images.read(index as u64).expect("a sample")), mode, "{index}");
    }
}

#[test]
fn errors_that_are_hard_to_report_are_reported() {
    let mut odd = open("odd:Odd");
    for (index, words) in [
        "RuntimeError: lone ? surrogate",
        "Unspeakable, whose text raises RuntimeError",
        "KeyError: 'xxxxxxxx",
        "TypeError: gave 100000 fields, more than 4096",
        r"TypeError: gave a field named 'lone \ud800', which is no UTF-8",
        "an answer of 12",
    ]
    .into_iter()
    .enumerate()
    {
        let error = odd.read(index as u64).expect_err("odd");
        let said = error.to_string();
        assert!(!error.is_verdict() && said.contains(words), "{index}: {said}");
        assert!(said.len() < 4096, "{index}: {said}");
    }
}

#[test]
fn a_child_that_a_dataset_forks_answers_nothing() {
    let mut forks = open("odd:Forks");
    for index in 0..forks.identity().samples {
        assert_eq!(text(&forks.read(index).expect("a sample")), index.to_string());
    }
}

#[test]
fn an_answer_to_another_request_is_refused() {
    let error = open("odd:Forges").read(0).expect_err("it is not the answer");
    assert!(
        !error.is_verdict() && error.to_string().contains("answered request 1 in place of 2"),
        "{error}"
    );
}

#[test]
fn a_dataset_that_changed_under_a_crash_is_not_read_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data");
    let write = |what: &str| std::fs::write(&path, what).expect("a file");
    for (now, has) in [("5 two", "5 samples, version `two`"), ("6 one", "6 samples, version `one`")]
    {
        write("5 one");
        let mut dataset = of_file("odd:Changing", &path).expect("a dataset");
        assert_eq!(text(&dataset.read(0).expect("a sample")), "one 0");
        write(now);
        assert_eq!(text(&dataset.read(1).expect("of the same process")), "one 1");
        assert!(matches!(dataset.read(4), Err(CallError::Ended { .. })));
        for _ in 0..2 {
            let error = dataset.read(1).expect_err("another dataset");
            assert!(!error.is_verdict() && !error.may_pass());
            let said = error.to_string();
            assert!(said.contains("5 samples, version `one`") && said.contains(has), "{said}");
        }
    }
}

/// It would have no samples, and a sample without fields counts as bad.
#[test]
fn a_dataset_that_cannot_be_opened_again_is_not_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data");
    std::fs::write(&path, "5 one").expect("a file");
    let mut dataset = of_file("odd:Changing", &path).expect("a dataset");
    assert!(matches!(dataset.read(4), Err(CallError::Ended { .. })));
    for unreadable in ["", "5"] {
        std::fs::write(&path, unreadable).expect("a file");
        for _ in 0..2 {
            let error = dataset.read(0).expect_err("it raises a ValueError");
            assert!(!error.is_verdict() && error.may_pass(), "{error}");
        }
    }
    std::fs::write(&path, "5 one").expect("a file");
    assert_eq!(text(&dataset.read(0).expect("a sample")), "one 0");
}

/// As one that waits for a file system that hangs.
#[test]
fn a_process_that_does_not_end_when_it_is_killed_is_late_all_the_same() {
    let settings = Settings { timeout: Duration::from_secs(5), ..settings() };
    let begun = Instant::now();
    let opened = Dataset::open(settings, "odd:Unkillable", serde_json::Map::new(), None);
    match opened.expect_err("no answer") {
        CallError::Late { .. } => assert!(begun.elapsed() < Duration::from_secs(20)),
        error => eprintln!("SKIPPED: {error}"),
    }
}

/// As a package does that `sitecustomize` or a `.pth` file imports.
#[test]
fn a_module_that_is_loaded_before_the_first_request_is_known_by_its_source() {
    let trusted = Trusted::new(vec!["collections".into()], "storage.python_modules");
    let settings = Settings { trusted, ..settings() };
    let arguments = serde_json::json!({"initlist": ["first", "second"]});
    let arguments = arguments.as_object().expect("an object").clone();
    let class = "collections:UserList";
    let mut dataset = Dataset::open(settings.clone(), class, arguments, None).expect("a dataset");
    assert_eq!(text(&dataset.read(1).expect("a sample")), "second");
    let source = Interpreter::new(settings).source("collections", &[]).expect("its source");
    assert_eq!(dataset.identity().source, source.sha256);
}

/// This test runs once more in a process of its own, which is killed in the middle of a call.
#[test]
fn a_killed_process_leaves_no_python() {
    const HERE: &str = "HEADWATER_TEST_PIDS";
    if let Some(path) = std::env::var_os(HERE) {
        let _ = of_file("odd:Hangs", &PathBuf::from(path)).expect("a dataset").read(0);
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pids");
    let mut worker = Command::new(std::env::current_exe().expect("this program"));
    worker.args(["--exact", "odd::a_killed_process_leaves_no_python"]).env(HERE, &path);
    let mut worker = worker.spawn().expect("a worker");
    let end = Instant::now() + PATIENCE;
    let pids = loop {
        match std::fs::read_to_string(&path) {
            Ok(pids) => break pids,
            Err(_) => {
                assert!(Instant::now() < end && worker.try_wait().is_ok_and(|end| end.is_none()))
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    worker.kill().expect("killed");
    worker.wait().expect("gone");
    assert_eq!(pids.split(' ').count(), 2);
    while let Some(pid) = pids.split(' ').find(|pid| runs(pid)) {
        assert!(Instant::now() < end, "{pid} runs");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a process is there and no zombie.
fn runs(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}
