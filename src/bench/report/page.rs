//! The page in Markdown.

use super::figures::{Figures, Measured, Outcome};
use super::machine::Description;
use super::pieces::{Kind, RECIPES};
use super::tables::{Table, figure};
use crate::bench::{gpu, link, storage};

/// The page of some figures.
pub(super) fn markdown(figures: &Figures) -> String {
    let mut sections = vec![head(figures), machine(&figures.machine)];
    sections.extend(Kind::ALL.into_iter().filter_map(|kind| section(figures, kind)));
    sections.extend(absent(figures));
    sections.join("\n")
}

fn head(figures: &Figures) -> String {
    let Figures { version, build, date, is_quick, dataset, machine, .. } = figures;
    let quick = if *is_quick { " --quick" } else { "" };
    let mut text = format!(
        "# Benchmarks of one machine\n\n\
         Written by `headwater bench --report DIR{quick}`: Headwater {version}, {build} build, {date}.\n\
         All figures are medians over rounds, and are in [figures.json](figures.json) too.\n\n\
         DATASET in the commands: {}.\nPHOTOS: a folder with the same images.\n",
        dataset.text
    );
    if let Some(trouble) = machine.trouble() {
        text += &format!(
            "\n**This machine was in use**: {trouble}.\nFigures are lower than on an idle machine, and ratios are \
             less certain.\n"
        );
    }
    if *build == "dev" {
        text += "\n**This is a dev build**: it is much slower than a release build. Do not quote its figures.\n";
    }
    if *is_quick {
        text +=
            "\nThese are few rounds (`--quick`): a second report may differ by several percent.\n";
    }
    text
}

fn machine(machine: &Description) -> String {
    let bytes = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
    let none = || "not known".to_owned();
    let or_none =
        |list: Vec<String>| if list.is_empty() { "none".to_owned() } else { list.join("; ") };
    let memory = |total: u64| {
        let available = machine.available_bytes.map_or_else(none, bytes);
        format!("{}, {available} available", bytes(total))
    };
    let limits = [
        machine.limits.cores.map(|cores| format!("{cores} cores")),
        machine.limits.memory_bytes.map(|limit| format!("{} of memory", bytes(limit))),
    ];
    let interfaces = machine.interfaces.iter().map(|interface| {
        let rate = interface.rate_gbit.map(|rate| format!(", {rate} Gbit/s"));
        let mtu = interface.mtu_bytes.map(|mtu| format!(", MTU {mtu}"));
        format!("{}{}{}", interface.name, rate.unwrap_or_default(), mtu.unwrap_or_default())
    });
    let driver = machine.nvidia_driver.as_ref().map(|driver| format!(" (driver {driver})"));
    let gpus = or_none(machine.gpus.clone()) + &driver.unwrap_or_default();
    let load = machine.load_at_start.map_or_else(none, |load| format!("{load:.2}"));
    let others = machine.others_share.map_or_else(none, |share| format!("{:.0} %", 100.0 * share));
    let mut table = Table::new(&["what", "this machine"], 2);
    for (what, found) in [
        ("processor", machine.processor.clone().unwrap_or_else(none)),
        ("logical cores", format!("{}, {} usable", machine.cores, machine.usable_cores)),
        ("kernels of the augment tier", machine.kernels.to_owned()),
        ("memory", machine.memory_bytes.map_or_else(none, memory)),
        ("container's limits", or_none(limits.into_iter().flatten().collect())),
        ("Linux", machine.kernel.clone().unwrap_or_else(none)),
        ("GPUs", gpus),
        ("network interfaces", or_none(interfaces.collect())),
        ("RDMA ports", or_none(machine.rdma.clone())),
        ("load at the start", load),
        ("processor time taken by others", others),
    ] {
        table.row([what.to_owned(), found]);
    }
    format!("## Machine\n\n{}", table.markdown())
}

/// Heading, commands and tables of one kind of bench; `None` if nothing of it was measured.
fn section(figures: &Figures, kind: Kind) -> Option<String> {
    let commands: Vec<&str> = figures.measured(kind).map(|(ran, _)| ran.command.as_str()).collect();
    let (name, about) = match kind {
        Kind::Link => ("Links", LINKS),
        Kind::Storage => ("Storage", STORAGE),
        Kind::Pipeline => ("Three tiers", PIPELINE),
        Kind::Gpu => ("GPU", GPU),
    };
    if commands.is_empty() {
        return None;
    }
    let mut text = format!("## {name}\n\n{about}\n\n```sh\n{}\n```\n", commands.join("\n"));
    for (_, measured) in figures.measured(kind) {
        match measured {
            Measured::Link(summary) => text += &links(summary),
            Measured::Storage(summary) => text += &ways(summary),
            Measured::Gpu(summary) => text += &speeds(summary),
            Measured::Pipeline(_) => {}
        }
    }
    if kind == Kind::Pipeline {
        text += &pipeline(figures);
    }
    Some(text)
}

const LINKS: &str = "\
Batches between two processes of this machine. `memcpy`, `raw-socket` (a plain socket loop) and `private-fill` (memset in\n\
private memory) are yardsticks, as are `ib_write_bw` and `ucx_perftest` where they are installed. `shm-empty` moves nothing:\n\
it shows what a part costs.";
const STORAGE: &str = "\
Samples from the kernel's page cache, every byte read. `map` is the yardstick: a plain scan of the mapped files by one thread.\n\
`file` and `cache` are how a worker of the same host reads, four reads at a time; `grpc` is how other hosts read. A small\n\
dataset stays in the processor's caches, which favours `map` most.";
const PIPELINE: &str = "\
Storage node, worker and receiver as three processes, beside the same kernels in a plain loop on as many threads. The ratio is\n\
the tiers' throughput over the plain loop's.";
const GPU: &str = "The GPU back end beside the processor's, which makes the same bytes.";

fn links(summary: &link::Summary) -> String {
    let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), figure);
    let mut table = Table::new(&["way", "GB/s", "CPU s/GB", "µs a part"], 1);
    for row in &summary.rows {
        let speed = row.bytes_per_s.map(|bytes| bytes / 1e9);
        let figures = [speed, row.cpu_s_per_gb, row.part_us].map(shown);
        table.row([format!("`{}`", row.way)].into_iter().chain(figures));
    }
    let megabytes = figure(summary.batch_bytes as f64 / 1e6);
    let mut text = format!("\nBatches of {megabytes} MB.\n\n{}", table.markdown());
    if !summary.ratios.is_empty() {
        let mut ratios = Table::new(&["throughput of", "ratio"], 1);
        let rows = summary.ratios.iter();
        rows.for_each(|ratio| ratios.row([ratio.name.clone(), figure(ratio.ratio)]));
        text += &format!("\n{}", ratios.markdown());
    }
    let notes = summary.compared.iter().cloned();
    let absent = summary.absent.iter().map(|absent| format!("Not measured: {absent}."));
    text + &list(notes.chain(absent))
}

fn ways(summary: &storage::Summary) -> String {
    let map = summary.rows.iter().find(|row| row.way == "map");
    let mut table =
        Table::new(&["way", "samples/s", "GB/s", "GB per CPU second", "samples/s over `map`'s"], 1);
    for row in &summary.rows {
        let ratio = map.map(|map| row.samples_per_s / map.samples_per_s);
        let giga = [row.bytes_per_s, row.bytes_per_cpu_s].map(|bytes| figure(bytes / 1e9));
        let ratio = ratio.map_or_else(|| "-".to_owned(), figure);
        let name = [format!("`{}`", row.way), figure(row.samples_per_s)];
        table.row(name.into_iter().chain(giga).chain([ratio]));
    }
    let (samples, bytes) = (figure(summary.samples as f64), figure(summary.bytes as f64 / 1e6));
    format!("\n{samples} samples in {bytes} MB.\n\n{}", table.markdown())
}

fn pipeline(figures: &Figures) -> String {
    let columns = ["recipe", "threads", "three tiers, images/s", "plain loop, images/s", "ratio"];
    let cpu = ["storage", "worker", "receiver", "plain loop"];
    let mut speeds = Table::new(&columns, 1);
    let mut costs = Table::new(&[&columns[..2], &cpu[..]].concat(), 1);
    for row in RECIPES.into_iter().flat_map(|recipe| figures.pipeline(recipe)) {
        let name = || [format!("`{}`", row.recipe), row.threads.to_string()].into_iter();
        let found = [row.tiers_images_per_s, row.plain_images_per_s, row.ratio].map(figure);
        speeds.row(name().chain(found));
        let cpu = &row.cpu_ms_an_image;
        let cpu = [cpu.storage, cpu.worker, cpu.receiver, cpu.plain];
        costs.row(name().chain(cpu.map(|ms| format!("{ms:.3}"))));
    }
    let (speeds, costs) = (speeds.markdown(), costs.markdown());
    format!("\n{speeds}\nCPU time of each process, in ms an image:\n\n{costs}")
}

fn speeds(summary: &gpu::summary::Summary) -> String {
    let mut text = format!("\n{}, {} threads.\n", summary.gpu, summary.threads);
    let mut table = Table::new(&["what", "images/s"], 1);
    let rows = summary.speeds.iter();
    rows.for_each(|speed| table.row([speed.what.clone(), figure(speed.images_per_s)]));
    text += &format!("\n{}", table.markdown());
    if !summary.nvjpeg.is_empty() {
        let columns = ["nvJPEG, share for engines", "decode, images/s", "whole back end, images/s"];
        let mut table = Table::new(&columns, 1);
        for row in &summary.nvjpeg {
            let found = [row.decoded_images_per_s, row.whole_images_per_s].map(figure);
            table.row([row.engine_share.to_string()].into_iter().chain(found));
        }
        text += &format!("\n{}", table.markdown());
    }
    if !summary.uploads.is_empty() {
        let mut table = Table::new(&["a batch to a receiver's GPU", "ms", "GB/s"], 1);
        for upload in &summary.uploads {
            let speed = figure(upload.bytes as f64 / upload.ms / 1e6);
            table.row([upload.what.clone(), figure(upload.ms), speed]);
        }
        text += &format!("\n{}", table.markdown());
    }
    text + &list(summary.absent.iter().map(|absent| format!("Not measured: {absent}.")))
}

/// What was not measured, and why; `None` where everything was.
fn absent(figures: &Figures) -> Option<String> {
    let mut table = Table::new(&["bench", "reason"], 2);
    let mut is_empty = true;
    for ran in &figures.benches {
        if let Outcome::NotMeasured(reason) = &ran.outcome {
            table.row([ran.what.clone(), reason.clone()]);
            is_empty = false;
        }
    }
    (!is_empty).then(|| format!("## Not measured\n\n{}", table.markdown()))
}

fn list(points: impl Iterator<Item = String>) -> String {
    let points: Vec<String> = points.map(|point| format!("- {point}\n")).collect();
    if points.is_empty() { String::new() } else { format!("\n{}", points.concat()) }
}

#[cfg(test)]
mod tests;
