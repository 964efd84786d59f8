//! `headwater monitor` of a service whose metrics are known: a report as JSON, and the screen in tmux.

mod service;

use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use service::{rank, storage, worker};

use crate::support::exporter::Exporter;
use crate::support::tmux::{Terminal, has_tmux};

const MONITOR: &str = env!("CARGO_BIN_EXE_headwater");

/// Runs `headwater monitor` to its end.
fn monitor(args: &[&str]) -> Output {
    let mut command = Command::new(MONITOR);
    command.arg("--config").arg("/dev/null").arg("monitor").args(args);
    command.stdin(Stdio::null()).output().expect("the program starts")
}

/// Whether a report is as expected. Numbers are rates by the clock of this machine, which may be busy.
fn assert_like(path: &str, found: &Value, expected: &Value) {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            let keys: Vec<&String> = found.keys().collect();
            assert_eq!(keys, expected.keys().collect::<Vec<_>>(), "{path}");
            for (key, value) in expected {
                assert_like(&format!("{path}.{key}"), &found[key], value);
            }
        }
        (Value::Array(found), Value::Array(expected)) => {
            assert_eq!(found.len(), expected.len(), "{path}: {found:?}");
            for (at, value) in expected.iter().enumerate() {
                assert_like(&format!("{path}[{at}]"), &found[at], value);
            }
        }
        (Value::Number(number), Value::Number(expected)) => {
            let (number, expected) =
                (number.as_f64().expect("f64"), expected.as_f64().expect("f64"));
            let near = (number - expected).abs() <= 0.3 * expected.abs();
            assert!(near, "{path} is {number}, not {expected}");
        }
        _ => assert_eq!(found, expected, "{path}"),
    }
}

#[test]
fn a_report_as_json_has_what_the_metrics_say() {
    let shown = [
        Exporter::start(|second| rank("run7", 0, second)),
        Exporter::start(|second| worker("w0", second)),
        Exporter::start(storage),
    ];
    let gone = Exporter::start(storage).address();
    let addresses: Vec<String> =
        shown.iter().map(Exporter::address).chain([gone.clone()]).collect();
    let args = [
        &["--once", "--json"],
        addresses.iter().map(String::as_str).collect::<Vec<_>>().as_slice(),
    ]
    .concat();
    let Output { status, stdout, stderr } = monitor(&args);
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    let mut report: Value = serde_json::from_slice(&stdout).expect("one report");
    let [rank, worker, storage] = [0, 1, 2].map(|at| addresses[at].as_str());
    let history = report["history"].take();
    let points = history["samples_per_s"].as_array().expect("a list").len();
    assert!(
        points >= 2
            && history["wait_by_cause"]["read"].as_array().is_some_and(|l| l.len() == points)
    );
    report["at_unix_ms"].take();
    for text in ["text", "remedy"] {
        assert!(
            report["summary"]["verdict"][text].take().as_str().is_some_and(|text| !text.is_empty())
        );
    }
    assert_like("report", &report, &service::expected([rank, worker, storage], &gone));
}

#[test]
fn who_shows_nothing_is_told_apart_from_nobody_at_all() {
    let said = |output: Output| String::from_utf8(output.stderr).expect("text");
    let gone = Exporter::start(storage).address();
    let refused = monitor(&["--once", "--window", "1", &gone]);
    assert_eq!(refused.status.code(), Some(1));
    let expected = format!("headwater: no process answers: {gone}: connection refused\n");
    assert_eq!(said(refused), expected);
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().display().to_string();
    let nobody = said(monitor(&["--once", "--window", "1", "--targets-dir", &empty]));
    assert!(nobody.contains("no process that shows metrics is known"), "{nobody}");
    let no_terminal = said(monitor(&["--targets-dir", &empty]));
    assert!(no_terminal.contains("no terminal: give --once") && no_terminal.contains("--json"));
}

#[test]
fn processes_are_found_by_the_files_they_leave_and_by_their_job() {
    let mine = Exporter::start(|second| rank("mine", 0, second));
    let other = Exporter::start(|second| rank("other", 0, second));
    let folder = tempfile::tempdir().expect("a folder");
    for (name, exporter) in [("mine", &mine), ("other", &other)] {
        let group =
            json!([{ "targets": [exporter.address()], "labels": { "headwater_job": name } }]);
        let file = folder.path().join(format!("receiver-{name}.json"));
        std::fs::write(file, group.to_string()).expect("a file");
    }
    let folder = folder.path().display().to_string();
    let names = |args: &[&str]| {
        let args =
            [&["--once", "--json", "--window", "1", "--targets-dir", &folder], args].concat();
        let report: Value = serde_json::from_slice(&monitor(&args).stdout).expect("one report");
        let ranks = report["ranks"].as_array().expect("a list").clone();
        ranks.iter().map(|rank| rank["name"].as_str().expect("text").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["mine rank 0", "other rank 0"]);
    assert_eq!(names(&["--job", "mine"]), ["mine rank 0"]);
}

/// Whether a line of the screen is as expected, but for bars and curves. Numbers are rates by the clock of this
/// machine, which may be busy: they stand where they should, and are about right.
fn is_like(line: &str, expected: &str) -> bool {
    let shape = |line: &str| {
        let still = |c: char| match c {
            '0'..='9' => '#',
            '▁'..='▏' => ' ',
            other => other,
        };
        line.chars().map(still).collect::<String>().trim_end().to_owned()
    };
    let numbers = |line: &str| -> Vec<f64> {
        line.split(|c: char| !c.is_ascii_digit() && c != '.')
            .filter_map(|n| n.parse().ok())
            .collect()
    };
    let near = |(number, expected): (&f64, &f64)| (number - expected).abs() <= 0.1 * expected;
    shape(line) == shape(expected) && numbers(line).iter().zip(&numbers(expected)).all(near)
}

#[test]
fn the_screen_shows_who_is_slow_and_who_has_gone() {
    if !has_tmux() {
        return;
    }
    let kept = [
        Exporter::start(|second| rank("run7", 0, second)),
        Exporter::start(|second| worker("w0", second)),
        Exporter::start(|second| worker("w1", second)),
        Exporter::start(storage),
    ];
    let leaves = Exporter::start(|second| rank("run7", 1, second));
    let addresses: Vec<String> =
        kept.iter().map(Exporter::address).chain([leaves.address()]).collect();
    let monitor =
        format!("NO_COLOR=1 {MONITOR} --config /dev/null monitor {}", addresses.join(" "));
    let terminal =
        Terminal::start(80, 24, &format!("{monitor}; echo ended with $?; exec sleep 600"));
    let expected: Vec<&str> = service::SCREEN.lines().collect();
    let seen = terminal.wait_for("report", |screen| {
        // The first line ends with the clock.
        let title = screen[0].split("   ").next().unwrap_or_default();
        let lines = [title].into_iter().chain(screen[1..].iter().map(String::as_str));
        screen.len() == expected.len()
            && lines.zip(&expected).all(|(line, like)| is_like(line, like))
    });
    assert!(seen[10].starts_with(" decode   ██"), "{seen:#?}");
    let curves = seen[9..15].iter().flat_map(|line| line.chars().skip(40));
    assert!(curves.filter(|c| ('▁'..='█').contains(c)).count() > 4, "{seen:#?}");
    let coloured = terminal.coloured();
    // 38 begins one of 256 colours; 39 is the terminal's own.
    let colours = (0..9).map(|colour| format!("\u{1b}[3{colour}")).chain(["\u{1b}[9".to_owned()]);
    let used: Vec<String> = colours.filter(|colour| coloured.contains(colour)).collect();
    assert!(used.is_empty(), "NO_COLOR is set: {used:?}");

    let table =
        |screen: &[String]| screen[17].split_whitespace().next().unwrap_or_default().to_owned();
    terminal.press_until("Tab", "table of workers", table, |screen| table(screen) == "worker");
    let gone = leaves.address();
    drop(leaves);
    let gone = format!("{gone}: connection refused");
    terminal.press_until("BTab", "rank that has gone", table, |screen| {
        let rank = |line: &String| line.starts_with(" run7 rank 1 (down) ");
        screen.iter().any(rank) && screen[16].contains("troubles 1")
    });

    terminal.resize(120, 60);
    let heads =
        ["ranks 2", "workers 2", "storage 1", "caches 1", "links 2", "weights 2", "troubles 1"];
    let large = terminal.wait_for("large screen", |screen| {
        let has = |text: &str| screen.iter().any(|line| line.trim() == text);
        screen.len() == 60 && heads.iter().all(|head| has(head)) && has(&gone)
    });
    assert!(large.iter().all(|line| line.chars().count() <= 120));

    terminal.press("q");
    terminal.wait_for("shell", |screen| screen.iter().any(|line| line == "ended with 0"));
}
