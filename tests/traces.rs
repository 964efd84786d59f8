//! Traces of three tiers, each a process of its own: what a file holds, whatever becomes of its process, and
//! what a collector hears.

mod collector;
mod reader;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use collector::{Collector, SpanSeen};
use reader::{Event, Trace};

use crate::support::data;

const LIMIT: Duration = Duration::from_secs(120);
const BATCH: u64 = 8;

/// `headwater run` over some photographs, which storage nodes send: nothing is read as a file.
fn run(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    let photos = format!("photos={}", data("photos/photos-000003.tar").display());
    // A test that fails leaves none behind.
    command
        .args(["--die-with", &std::process::id().to_string()])
        .args(["run", "--threads", "1", "--batch", &BATCH.to_string()])
        .args(["--recipe", "imagenet-train", "--dataset", &photos])
        .args(["--set", "storage.index_dir=index", "--set", "augment.local_files=off"])
        .args(["--set", "receiver.part_samples=4"])
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null());
    command
}

fn ended(mut command: Command) -> Output {
    let output = command.output().expect("the program");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    output
}

fn merged(folder: &Path, traces: &[PathBuf], to: &str) -> PathBuf {
    let out = folder.join(to);
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    ended({
        command.args(["trace", "merge", "--output"]).arg(&out).args(traces);
        command
    });
    out
}

/// Waits until a file has `bytes` bytes.
fn grown(path: &Path, bytes: u64) {
    let begun = Instant::now();
    while fs::metadata(path).map_or(0, |found| found.len()) < bytes {
        assert!(begun.elapsed() < LIMIT, "{} does not grow", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn every_part_of_a_batch_can_be_followed_from_its_shard_to_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = ["--processes", "--workers", "2", "--trace", "out.json"];
    ended(run(folder.path(), &args));
    let files = ["out.json", "out-storage.json", "out-augment-0.json", "out-augment-1.json"];
    let files = files.map(|name| folder.path().join(name));
    let tiers: Vec<Trace> = files.iter().map(|path| Trace::whole(path)).collect();
    let names = ["receiver", "storage", "augment", "augment"];
    assert_eq!(tiers.iter().map(Trace::process).collect::<Vec<_>>(), names);

    let all = Trace::whole(&merged(folder.path(), &files, "all.json"));
    let events: usize = tiers.iter().map(|tier| tier.spans.len()).sum();
    assert_eq!(all.spans.len(), events);
    all.check_nesting();
    let threads: BTreeSet<&str> = all.named("render").map(|event| all.lane(event)).collect();
    assert!(threads.iter().all(|name| name.starts_with("render-")), "{threads:?}");

    let batches: Vec<&Event> = all.named("next").filter(|next| next.has("step")).collect();
    assert!(batches.len() > 2, "{} batches", batches.len());
    for next in batches {
        let flows = all.flows_ending_in(next);
        let of_flows = flows.iter().map(|flow| follow(&all, flow, next));
        assert_eq!(of_flows.sum::<u64>(), next.number("samples"), "{next:?}");
    }
}

/// Follows a lease through the tiers, in the order in which things happen; its samples.
fn follow(all: &Trace, flow: &str, next: &Event) -> u64 {
    let through = all.spans_of_flow(flow);
    let one = |name: &str, process: &str| {
        let found: Vec<_> = through.iter().filter(|event| event.name == name).collect();
        let [event] = found[..] else { panic!("{flow} has {} spans `{name}`", found.len()) };
        assert_eq!(all.process_of(event), process, "{event:?}");
        *event
    };
    let part = one("part", "receiver");
    assert_eq!(
        (part.number("epoch"), part.number("step")),
        (next.number("epoch"), next.number("step"))
    );
    let made = one("make part", "augment");
    let samples = made.number("samples");
    let of_storage = |name: &str| {
        let found: Vec<_> = through.iter().filter(|event| event.name == name).collect();
        let samples = found.iter().map(|event| event.number("samples")).sum::<u64>();
        let first = found.first().unwrap_or_else(|| panic!("{flow} has no `{name}`"));
        (samples, **first)
    };
    // A worker's reads, and what the storage node made of each.
    let (read, reading) = of_storage("read samples");
    let (served, serving) = of_storage("serve samples");
    let (rendered, rendering) = of_storage("render");
    assert_eq!((read, served, rendered), (samples, samples, samples));
    assert_eq!(all.process_of(serving), "storage");
    let begins = [part, made, reading, serving, rendering].map(|event| event.start);
    assert!(begins.is_sorted(), "{begins:?}");
    assert!(rendering.start < next.end && made.start >= part.start);
    all.check_flow(flow);
    samples
}

/// The trace of a process that was killed after it had taken batches. On a busy machine it may look for its data for
/// long, so it is left to write more and more.
fn killed(name: &str) -> (tempfile::TempDir, Trace) {
    for bytes in (0..8).map(|times| 20_000 << times) {
        let folder = tempfile::tempdir().expect("a folder");
        let args = ["--epochs", "100000", "--trace", name];
        let mut process = run(folder.path(), &args).stderr(Stdio::null()).spawn().expect("it");
        let path = folder.path().join(name);
        grown(&path, bytes);
        process.kill().expect("a kill");
        process.wait().expect("its end");
        let trace = Trace::cut_off(&path);
        if trace.named("render").count() > 5 && trace.named("next").count() > 0 {
            return (folder, trace);
        }
    }
    panic!("{name} has no batch");
}

#[test]
fn a_killed_process_leaves_a_file_that_can_be_read() {
    for name in ["out.json", "out.pfw.gz"] {
        let (folder, trace) = killed(name);
        let path = folder.path().join(name);
        let to = format!("all-{name}");
        let again = Trace::whole(&merged(folder.path(), &[path], &to));
        assert_eq!(again.spans.len(), trace.spans.len(), "{name}");
    }
}

#[test]
fn a_trace_ends_at_its_bytes_and_the_epoch_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let told = ended(run(folder.path(), &[]));
    for name in ["out.json", "out.pfw.gz"] {
        // Fewer than an epoch has.
        let args = ["--set", "telemetry.trace_bytes_max=6000", "--trace", name];
        let output = ended(run(folder.path(), &args));
        let path = folder.path().join(name);
        let bytes = fs::metadata(&path).expect("a trace").len();
        assert!(bytes <= 6000, "{name} has {bytes} bytes");
        Trace::whole(&path);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(name) && said.contains("telemetry.trace_bytes_max"), "{said}");
        assert_eq!(epochs(&output), epochs(&told), "a trace changes no byte");
    }
}

#[test]
fn a_path_that_cannot_be_written_ends_no_training() {
    let folder = tempfile::tempdir().expect("a folder");
    let told = ended(run(folder.path(), &[]));
    std::os::unix::fs::symlink("/dev/full", folder.path().join("full.json")).expect("a link");
    let wrong = ["/proc/no/out.json", "out.txt", "full.json", "out-%q.json"];
    for path in wrong {
        let output = ended(run(folder.path(), &["--trace", path]));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("no trace is written") && said.contains(path), "{path}: {said}");
        assert_eq!(epochs(&output), epochs(&told));
    }
}

/// The lines that name batches' bytes.
fn epochs(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<String> =
        text.lines().filter(|line| line.starts_with("epoch ")).map(str::to_owned).collect();
    assert!(!lines.is_empty(), "{text}");
    lines
}

#[test]
fn a_collector_hears_a_lease_as_one_trace_of_all_tiers() {
    let collector = Collector::start();
    let folder = tempfile::tempdir().expect("a folder");
    let endpoint = format!("telemetry.otlp_endpoint=\"{}\"", collector.endpoint());
    ended(run(folder.path(), &["--processes", "--workers", "1", "--set", &endpoint]));
    let spans = collector.spans();
    let services: BTreeSet<&str> = spans.iter().map(|span| span.service.as_str()).collect();
    let tiers = ["headwater-augment", "headwater-receiver", "headwater-storage"];
    assert_eq!(Vec::from_iter(services), tiers);
    let by_id: BTreeMap<&[u8], &SpanSeen> =
        spans.iter().map(|span| (span.span.span_id.as_slice(), span)).collect();
    assert_eq!(by_id.len(), spans.len(), "each span has a number of its own");

    let served: Vec<&SpanSeen> =
        spans.iter().filter(|span| span.span.name == "serve samples").collect();
    assert!(!served.is_empty());
    for span in served {
        let up = std::iter::successors(Some(span), |span| {
            by_id.get(span.span.parent_span_id.as_slice()).copied()
        });
        let up: Vec<(&str, &str)> =
            up.map(|span| (span.span.name.as_str(), span.service.as_str())).collect();
        let names = ["serve samples", "read samples", "read", "make part", "part"];
        assert_eq!(up.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
        assert_eq!((up[0].1, up[3].1, up[4].1), (tiers[2], tiers[0], tiers[1]));
        let trace = &span.span.trace_id;
        let taken = spans.iter().filter(|span| span.span.name == "next");
        let linked =
            taken.filter(|next| next.span.links.iter().any(|link| link.trace_id == *trace));
        assert_eq!(linked.count(), 1, "one batch has the part");
    }
}

#[test]
fn a_collector_that_is_away_ends_no_training() {
    let folder = tempfile::tempdir().expect("a folder");
    let endpoint = "telemetry.otlp_endpoint=\"http://127.0.0.1:1\"";
    let output = ended(run(folder.path(), &["--set", endpoint]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("127.0.0.1:1") && said.contains("spans are lost"), "{said}");
}
