//! docs/sizing.md has what `headwater plan --size` prints.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn plan(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    Command::new(env!("CARGO_BIN_EXE_headwater"))
        .current_dir(folder.path())
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn said(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Each command of the page that is followed by what it prints.
fn cases(page: &str) -> Vec<(String, String)> {
    let mut cases = Vec::new();
    for part in page.split("```sh\n").skip(1) {
        let (command, rest) = part.split_once("```").expect("a block ends");
        if let Some(printed) = rest.trim_start().strip_prefix("```text\n") {
            let (printed, _) = printed.split_once("```").expect("a block ends");
            cases.push((command.trim().to_owned(), printed.to_owned()));
        }
    }
    cases
}

#[test]
fn the_page_has_what_the_command_prints() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/sizing.md");
    let mut page = std::fs::read_to_string(&path).expect("docs/sizing.md");
    let cases = cases(&page);
    assert!(cases.len() >= 5, "{cases:?}");
    let mut wrong = Vec::new();
    for (command, printed) in cases {
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        let prints = said(plan(&words));
        if prints != printed {
            page = page.replace(
                &format!("{command}\n```\n\n```text\n{printed}```"),
                &format!("{command}\n```\n\n```text\n{prints}```"),
            );
            wrong.push(command);
        }
    }
    if std::env::var_os("HEADWATER_WRITE_DOCS").is_some() {
        std::fs::write(&path, page).expect("docs/sizing.md");
        return;
    }
    let remedy = "HEADWATER_WRITE_DOCS=1 cargo test --test all sizing::";
    assert!(wrong.is_empty(), "docs/sizing.md is not up to date, run {remedy}: {wrong:#?}");
}

#[test]
fn figures_for_programs_are_those_of_a_calculation_by_hand() {
    let output = plan(&[
        "plan",
        "--size",
        "--json",
        "--world-size",
        "256",
        "--batch",
        "64",
        "--rate",
        "210450",
        "--core-rate",
        "400",
        "--link",
        "rdma",
    ]);
    let size: Value = serde_json::from_str(&said(output)).expect("JSON");
    let number = |path: &str| size.pointer(path).and_then(Value::as_f64).expect(path);
    let near = |path: &str, wanted: f64| {
        let value = number(path);
        assert!((value - wanted).abs() < 1e-3 * wanted, "{path}: {value}, not {wanted}");
    };
    // 2 x 3 x 224^2 + 8 x 3 x 96^2 values of two bytes, and a label of eight.
    near("/sample_bytes", 2.0 * 522_240.0 + 8.0);
    near("/step_ms", 256.0 * 64.0 / 210.450);
    let nodes = number("/tiers/1/nodes");
    near("/tiers/1/out_gb_per_s", 210_450.0 * 1_044_488.0 / 1e9 / nodes);
    near("/tiers/1/cores", (210_450.0 / 400.0 + 0.51 * 210_450.0 * 115e3 / 1e9) / nodes);
    near("/tiers/2/in_gb_per_s", 210_450.0 * 1_044_488.0 / 1e9 / 32.0);
    near("/sessions/of_worker", 256.0 * nodes.min(16.0) / nodes);
}

#[test]
fn the_jobs_of_the_page_begin_with_what_a_worker_takes_by_default() {
    let default = headwater_augment::AugmentConfig::default().sessions.sessions_max;
    for (ranks, of_node) in [("256", "8"), ("288", "4")] {
        let words = [
            "plan",
            "--size",
            "--json",
            "--rate",
            "210450",
            "--batch",
            "64",
            "--world-size",
            ranks,
        ];
        let size: Value = serde_json::from_str(&said(plan(
            &[&words[..], &["--ranks-per-node", of_node]].concat(),
        )))
        .expect("JSON");
        let sessions = size["sessions"]["of_worker"].as_u64().expect("a number");
        assert!(sessions <= default as u64 && sessions > 0, "{ranks} ranks: {sessions}");
        assert_eq!(size["short"], Value::Array(Vec::new()));
    }
}

#[test]
fn what_cannot_be_sized_is_refused_with_the_remedy() {
    for (arguments, parts) in [
        (&["plan", "--size"][..], &["--step-ms", "--rate"][..]),
        (&["plan", "--size", "--rate", "0"][..], &["--rate is 0"][..]),
        (&["plan", "--size", "--rate", "9", "--busy", "2"][..], &["--busy is 2"][..]),
        (&["plan", "--size", "--rate", "9", "--recipe", "ijepa"][..], &["`ijepa`", "--bench"][..]),
    ] {
        let output = plan(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        let said = String::from_utf8(output.stderr).expect("text");
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
}
