//! Which figures are drawn.

use super::figures::{Figures, Measured};
use super::pieces::{Kind, RECIPES};
use super::svg::{Bar, BarChart, Line, LineChart, Side};
use crate::bench::{PipelineSummary, gpu, link, storage};

/// Files of all plots that there may be.
pub(super) const NAMES: [&str; 5] =
    ["link.svg", "reading.svg", "pipeline-dinov2.svg", "pipeline-imagenet-train.svg", "gpu.svg"];

/// A plot.
pub(super) struct Plot {
    /// One of [`NAMES`].
    pub(super) name: &'static str,
    /// For readers that show no images.
    pub(super) title: String,
    pub(super) svg: String,
}

/// The plots of all that was measured.
pub(super) fn of(figures: &Figures) -> Vec<Plot> {
    let mut plots = Vec::new();
    let mut add = |name, title: &str, svg: Option<String>| {
        plots.extend(svg.map(|svg| Plot { name, title: title.to_owned(), svg }));
    };
    for kind in [Kind::Link, Kind::Storage, Kind::Gpu] {
        for (_, measured) in figures.measured(kind) {
            match measured {
                Measured::Link(link) => add(NAMES[0], LINKS, links(link)),
                Measured::Storage(storage) => add(NAMES[1], STORAGE, ways(storage)),
                Measured::Gpu(gpu) => add(NAMES[4], GPU, speeds(gpu)),
                Measured::Pipeline(_) => {}
            }
        }
    }
    for (name, recipe) in NAMES[2..4].iter().zip(RECIPES) {
        let title = format!("Three tiers and a plain loop, recipe {recipe}");
        add(name, &title, threads(&title, &figures.pipeline(recipe)));
    }
    plots
}

const LINKS: &str = "Links between two processes of this machine";
const STORAGE: &str = "Reading samples from the kernel's cache";
const GPU: &str = "Images on the GPU and on the processor";

fn links(summary: &link::Summary) -> Option<String> {
    let bars = summary.rows.iter().filter_map(|row| {
        let side = if row.is_yardstick { Side::Theirs } else { Side::Ours };
        Some(Bar { name: row.way.clone(), value: row.bytes_per_s? / 1e9, side })
    });
    let sides = ["link", "yardstick"];
    BarChart { title: LINKS, unit: "GB/s", sides, bars: bars.collect() }.svg()
}

fn ways(summary: &storage::Summary) -> Option<String> {
    let bars = summary.rows.iter().map(|row| {
        let side = if row.way == "map" { Side::Theirs } else { Side::Ours };
        Bar { name: row.way.clone(), value: row.bytes_per_s / 1e9, side }
    });
    let sides = ["way to samples", "plain scan of mapped files"];
    BarChart { title: STORAGE, unit: "GB/s", sides, bars: bars.collect() }.svg()
}

fn speeds(summary: &gpu::summary::Summary) -> Option<String> {
    let bars = summary.speeds.iter().map(|speed| {
        let side = if speed.on_gpu { Side::Ours } else { Side::Theirs };
        Bar { name: speed.what.clone(), value: speed.images_per_s, side }
    });
    let nvjpeg = summary.nvjpeg.iter().map(|row| {
        let name = format!("nvJPEG, {} for engines", row.engine_share);
        Bar { name, value: row.whole_images_per_s, side: Side::Ours }
    });
    let (sides, bars) = (["GPU", "processor"], bars.chain(nvjpeg).collect());
    BarChart { title: GPU, unit: "images/s", sides, bars }.svg()
}

fn threads(title: &str, rows: &[&PipelineSummary]) -> Option<String> {
    let points = |figure: fn(&PipelineSummary) -> f64| {
        rows.iter().map(|row| (row.threads, figure(row))).collect::<Vec<_>>()
    };
    let lines = vec![
        Line {
            name: "three tiers",
            side: Side::Ours,
            points: points(|row| row.tiers_images_per_s),
        },
        Line {
            name: "plain loop",
            side: Side::Theirs,
            points: points(|row| row.plain_images_per_s),
        },
    ];
    LineChart { title, counts: "threads", unit: "images/s", lines }.svg()
}
