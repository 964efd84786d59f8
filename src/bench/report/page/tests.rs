//! Pages of given figures.

use super::*;
use crate::bench::PipelineSummary;
use crate::bench::report::{self, Dataset, Ran};

fn ran(kind: Kind, what: &str, outcome: Outcome) -> Ran {
    Ran { kind, what: what.to_owned(), command: format!("headwater bench {what}"), outcome }
}

fn pipeline(recipe: &str, threads: usize, speed: f64) -> Ran {
    let (tiers_images_per_s, plain_images_per_s) = (speed, 1000.0);
    let summary = PipelineSummary {
        recipe: recipe.to_owned(),
        threads,
        rounds: 3,
        tiers_images_per_s,
        plain_images_per_s,
        ratio: speed / 1000.0,
        ..PipelineSummary::default()
    };
    ran(Kind::Pipeline, "pipeline", Outcome::Measured(Measured::Pipeline(summary)))
}

fn figures(benches: Vec<Ran>) -> Figures {
    let dataset = Dataset { is_synthetic: false, text: "`photos=a.tar`".to_owned() };
    Figures { benches, ..Figures::begin(false, dataset, Description::default()) }
}

fn link() -> link::Summary {
    let json = serde_json::json!({
        "batch_bytes": 33_400_000,
        "rows": [
            {"way": "raw-socket", "is_yardstick": true, "bytes_per_s": 1.9e9, "cpu_s_per_gb": null, "part_us": 6.0},
            {"way": "shm-empty", "is_yardstick": false, "bytes_per_s": null, "cpu_s_per_gb": null, "part_us": 6.0},
        ],
        "ratios": [],
        "compared": [],
        "absent": ["rdma: no port is active"],
    });
    serde_json::from_value(json).unwrap()
}

#[test]
fn each_bench_has_its_heading_command_and_table() {
    let page = markdown(&figures(vec![
        ran(Kind::Link, "link", Outcome::Measured(Measured::Link(link()))),
        pipeline("dinov2", 1, 500.0),
        pipeline("dinov2", 2, 990.0),
    ]));
    for expected in [
        "## Links\n",
        "\n```sh\nheadwater bench link\n```\n",
        "| `raw-socket` | 1.90 | - | 6.00 |\n| `shm-empty` | - | - | 6.00 |\n",
        "- Not measured: rdma: no port is active.\n",
        "| `dinov2` | 2 | 990 | 1,000 | 0.99 |\n",
    ] {
        assert!(page.contains(expected), "{expected}\n\nis not in\n\n{page}");
    }
    for unexpected in ["## GPU", "## Storage", "## Not measured", "imagenet-train", ".svg", "NaN"] {
        assert!(!page.contains(unexpected), "{unexpected} is in\n\n{page}");
    }
}

#[test]
fn a_bench_that_failed_is_named_with_its_reason_beside_the_others() {
    let reason = Outcome::NotMeasured("there is no GPU | to measure".to_owned());
    let benches = vec![pipeline("imagenet-train", 1, 500.0), ran(Kind::Gpu, "gpu", reason)];
    let page = markdown(&figures(benches));
    let expected = "## Not measured\n\n| bench | reason |\n| --- | --- |\n\
                    | gpu | there is no GPU \\| to measure |\n";
    assert!(page.ends_with(expected) && page.contains("| `imagenet-train` | 1 | 500 |"), "{page}");
}

#[test]
fn a_machine_under_load_and_few_rounds_are_said_at_the_top() {
    let machine = Description { load_at_start: Some(3.2), usable_cores: 2, ..Default::default() };
    let loaded = Figures { machine, is_quick: true, ..figures(Vec::new()) };
    let page = markdown(&loaded);
    let top = page.split("## Machine").next().unwrap();
    assert!(top.contains("in use**: the load was 3.2 at the start, on 2 cores."), "{top}");
    assert!(top.contains("few rounds"), "{top}");
    let idle = markdown(&figures(Vec::new()));
    assert!(!idle.contains("in use") && !idle.contains("few rounds"), "{idle}");
}

#[test]
fn a_report_leaves_what_else_is_in_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("link.svg"), "<svg/>").unwrap();
    report::write(folder.path(), &figures(vec![pipeline("dinov2", 1, 500.0)])).unwrap();
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort_unstable();
    assert_eq!(names, ["figures.json", "link.svg", "report.md"]);
}
