//! A strict reader of traces: of Chrome's trace events as their format has them, and of DFTracer's lines.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde_json::Value;

/// A trace that was read.
pub(crate) struct Trace {
    /// Spans in the order of their begin, longer ones first.
    pub(crate) spans: Vec<Event>,
    steps: Vec<Step>,
    processes: BTreeMap<u64, String>,
    lanes: BTreeMap<(u64, u64), String>,
}

/// A span.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) name: String,
    pid: u64,
    tid: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    args: Value,
}

/// A step of a flow.
#[derive(Debug)]
struct Step {
    phase: String,
    id: String,
    pid: u64,
    tid: u64,
    at: u64,
}

fn number(event: &Value, key: &str) -> u64 {
    event[key].as_u64().unwrap_or_else(|| panic!("`{key}` of {event}"))
}

fn text<'a>(event: &'a Value, key: &str) -> &'a str {
    event[key].as_str().unwrap_or_else(|| panic!("`{key}` of {event}"))
}

// === impl Trace ===

impl Trace {
    /// A trace that has ended.
    pub(crate) fn whole(path: &Path) -> Self {
        let (text, packed) = contents(path);
        if packed {
            assert!(text.ends_with("\n]\n"), "{}", path.display());
            return Self::of(lines(&text, false), true);
        }
        let events = serde_json::from_str(&text);
        Self::of(events.unwrap_or_else(|error| panic!("{}: {error}", path.display())), false)
    }

    /// A trace whose process was killed.
    pub(crate) fn cut_off(path: &Path) -> Self {
        let (text, packed) = contents(path);
        assert!(!text.ends_with("]\n"), "it was not killed");
        Self::of(lines(&text, true), packed)
    }

    fn of(events: Vec<Value>, dftracer: bool) -> Self {
        let (spans, steps) = (Vec::new(), Vec::new());
        let (processes, lanes) = (BTreeMap::new(), BTreeMap::new());
        let mut trace = Self { spans, steps, processes, lanes };
        let mut hosts = BTreeSet::new();
        let mut last = 0;
        for event in &events {
            let (pid, tid) = (number(event, "pid"), number(event, "tid"));
            let args = &event["args"];
            if dftracer {
                let id = number(event, "id");
                assert!(id > std::mem::replace(&mut last, id), "{event}");
                if text(event, "name") == "HH" {
                    hosts.insert(text(args, "value").to_owned());
                }
                assert!(hosts.contains(text(args, "hhash")), "{event}");
            }
            match (text(event, "ph"), text(event, "name")) {
                ("M", "process_name") => {
                    drop(trace.processes.insert(pid, text(args, "name").into()))
                }
                ("M", "thread_name") => {
                    drop(trace.lanes.insert((pid, tid), text(args, "name").into()))
                }
                ("M", _) => {}
                ("X", name) => {
                    let (start, dur) = (number(event, "ts"), number(event, "dur"));
                    assert!(["storage", "augment", "receiver"].contains(&text(event, "cat")));
                    let (name, args) = (name.to_owned(), args.clone());
                    trace.spans.push(Event { name, pid, tid, start, end: start + dur, args });
                }
                ("i", _) => drop(number(event, "ts")),
                (phase @ ("s" | "t" | "f"), _) => {
                    let (id, at) = (text(event, "id").to_owned(), number(event, "ts"));
                    trace.steps.push(Step { phase: phase.to_owned(), id, pid, tid, at });
                }
                (phase, _) => panic!("phase {phase} of {event}"),
            }
        }
        trace.spans.sort_by_key(|event| (event.start, std::cmp::Reverse(event.end)));
        for event in &trace.spans {
            assert!(trace.lanes.contains_key(&(event.pid, event.tid)), "no name for {event:?}");
            assert!(trace.processes.contains_key(&event.pid), "no process for {event:?}");
        }
        trace
    }

    /// The name of its only process.
    pub(crate) fn process(&self) -> &str {
        let names: Vec<&String> = self.processes.values().collect();
        let [name] = names[..] else { panic!("{names:?}") };
        name
    }

    pub(crate) fn process_of(&self, event: &Event) -> &str {
        &self.processes[&event.pid]
    }

    pub(crate) fn lane(&self, event: &Event) -> &str {
        &self.lanes[&(event.pid, event.tid)]
    }

    pub(crate) fn named(&self, name: &str) -> impl Iterator<Item = &Event> {
        self.spans.iter().filter(move |event| event.name == name)
    }

    /// Spans of a lane lie within each other or beside each other.
    pub(crate) fn check_nesting(&self) {
        let mut lanes: BTreeMap<(u64, u64), Vec<&Event>> = BTreeMap::new();
        for event in &self.spans {
            let open = lanes.entry((event.pid, event.tid)).or_default();
            while open.last().is_some_and(|around| around.end <= event.start) {
                open.pop();
            }
            if let Some(around) = open.last() {
                assert!(event.end <= around.end, "{event:?} juts out of {around:?}");
            }
            open.push(event);
        }
    }

    /// Flows that end within a span.
    pub(crate) fn flows_ending_in(&self, span: &Event) -> Vec<&str> {
        let ends = self.steps.iter().filter(|step| step.phase == "f" && span.holds(step));
        ends.map(|step| step.id.as_str()).collect()
    }

    /// Spans that a flow passes through, in the order of time: of several that lie around a step, those that
    /// say that they are of the flow.
    pub(crate) fn spans_of_flow(&self, id: &str) -> Vec<&Event> {
        let steps: Vec<&Step> = self.steps.iter().filter(|step| step.id == id).collect();
        let of =
            |event: &&Event| event.args["flow"] == id && steps.iter().any(|step| event.holds(step));
        self.spans.iter().filter(of).collect()
    }

    /// A flow has a begin, which is first, and an end, which is last.
    pub(crate) fn check_flow(&self, id: &str) {
        let mut steps: Vec<&Step> = self.steps.iter().filter(|step| step.id == id).collect();
        steps.sort_by_key(|step| (step.at, step.phase == "t", step.phase == "f"));
        let count = |phase: &str| steps.iter().filter(|step| step.phase == phase).count();
        assert_eq!((count("s"), count("f")), (1, 1), "{steps:?}");
        assert_eq!(steps.first().map(|step| step.phase.as_str()), Some("s"), "{steps:?}");
        assert_eq!(steps.last().map(|step| step.phase.as_str()), Some("f"), "{steps:?}");
    }
}

// === impl Event ===

impl Event {
    pub(crate) fn has(&self, key: &str) -> bool {
        !self.args[key].is_null()
    }

    pub(crate) fn number(&self, key: &str) -> u64 {
        number(&self.args, key)
    }

    fn holds(&self, step: &Step) -> bool {
        let here = (self.pid, self.tid) == (step.pid, step.tid);
        here && self.start <= step.at && step.at <= self.end
    }
}

/// A file's text, and whether it is DFTracer's.
fn contents(path: &Path) -> (String, bool) {
    let packed = path.to_string_lossy().ends_with(".pfw.gz");
    let mut file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (mut text, mut bytes) = (String::new(), Vec::new());
    if packed {
        MultiGzDecoder::new(file).read_to_string(&mut text).expect("whole members of gzip");
    } else {
        file.read_to_end(&mut bytes).expect("a file");
        text = String::from_utf8(bytes).expect("text");
    }
    (text, packed)
}

/// Events, one a line; the last line may be half a line.
fn lines(text: &str, cut_off: bool) -> Vec<Value> {
    let mut lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.first(), Some(&"["));
    let whole = |line: &str| serde_json::from_str::<Value>(line.trim_end_matches(',')).is_ok();
    if cut_off && lines.last().is_some_and(|last| !whole(last)) {
        lines.pop();
    }
    let lines = lines.iter().filter(|line| !matches!(**line, "[" | "]"));
    let read = |line: &&str| serde_json::from_str(line.trim_end_matches(','));
    lines.map(|line| read(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}
