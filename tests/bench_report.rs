//! `headwater bench --report`: its smallest bench, from the command line to the page.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::data;

/// Runs `headwater bench` to its end, with the photographs of the tests.
fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command.args(["--config", "/dev/null", "bench"]).args(arguments);
    command.stdin(Stdio::null()).output().expect("the program starts")
}

fn read(folder: &Path, name: &str) -> String {
    let path = folder.join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn a_page_has_what_was_measured_and_why_the_rest_was_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let into = folder.path().join("made/by/it");
    let dataset = format!("photos={}", data("photos/photos-000003.tar").display());
    let out = into.to_str().expect("text");
    let flags = ["--report", out, "--dataset", &dataset, "--quick", "--only", "storage,gpu"];
    let Output { status, stdout, stderr } = bench(&flags);
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    let page = into.join("report.md");
    assert_eq!(String::from_utf8_lossy(&stdout).trim_end(), page.to_str().expect("text"));

    let figures: Value = serde_json::from_str(&read(&into, "figures.json")).expect("JSON");
    let [storage, gpu] = [0, 1].map(|at| &figures["benches"][at]);
    assert_eq!(storage["measured"]["samples"], 41);
    let rows = storage["measured"]["rows"].as_array().expect("rows");
    let ways: Vec<&str> = rows.iter().filter_map(|row| row["way"].as_str()).collect();
    assert_eq!(ways, ["map", "file", "cache", "grpc"]);
    let machine = &figures["machine"];
    assert!(machine["usable_cores"].as_u64() > Some(0) && machine["memory_bytes"].is_u64());

    let page = read(&into, "report.md");
    assert!(page.contains(&dataset) && page.contains("## Machine"), "{page}");
    assert!(ways.iter().all(|way| page.contains(&format!("\n| `{way}` | "))), "{page}");
    match gpu["not_measured"].as_str() {
        Some(reason) => {
            assert!(page.contains("## Not measured") && reason.contains("GPU"), "{page}")
        }
        None => assert!(page.contains("## GPU"), "{page}"),
    }
}

#[test]
fn a_report_in_which_nothing_was_measured_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().to_str().expect("text");
    let dataset = format!("photos={}/none-*.tar", folder.path().display());
    let Output { status, stderr, .. } =
        bench(&["--report", out, "--dataset", &dataset, "--quick", "--only", "storage"]);
    let errors = String::from_utf8_lossy(&stderr);
    assert!(!status.success() && errors.contains("no bench could be run"), "{errors}");
    let page = read(folder.path(), "report.md");
    assert!(page.contains("## Not measured") && page.contains("none-*.tar"), "{page}");
}

#[test]
fn one_bench_and_all_of_them_exclude_each_other() {
    for (arguments, expected) in [
        (&["--report", "/no/such", "storage"][..], "leave out the one that is named"),
        (&[][..], "`bench --report DIR` for all"),
        (&["--quick"][..], "--report <DIR>"),
    ] {
        let Output { status, stderr, .. } = bench(arguments);
        let errors = String::from_utf8_lossy(&stderr);
        assert!(!status.success() && errors.contains(expected), "{errors}");
    }
}
