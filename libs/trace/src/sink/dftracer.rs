//! DFTracer's `.pfw` lines: one object for each span, numbered, without commas between them.
//!
//! As its writer (`src/dftracer/writer/chrome_writer.cpp`) leaves them: `[`, then `HH` names the host by a
//! hash that each span repeats as `hhash`, and lanes are named by `M` lines. What joins the spans of a lease is
//! the argument `flow`: the format has no flow events.

use std::fmt::Write as _;

use super::chrome::args;
use super::{Format, Process, quoted};
use crate::clock::Clock;
use crate::event::Event;
use crate::lanes::LaneName;
use crate::names::host;

/// One line for each span.
#[derive(Debug)]
pub(crate) struct Dftracer {
    pid: u32,
    clock: Clock,
    hhash: String,
    next: u64,
}

// === impl Dftracer ===

impl Default for Dftracer {
    fn default() -> Self {
        let hhash = format!("{:016x}", xxhash_rust::xxh3::xxh3_64(host().as_bytes()));
        Self { pid: std::process::id(), clock: Clock::get(), hhash, next: 1 }
    }
}

impl Dftracer {
    fn named(&mut self, what: &str, tid: u32, name: &str, value: Option<&str>, out: &mut String) {
        let (id, pid) = (self.number(), self.pid);
        let mut quoted_name = String::new();
        quoted(name, &mut quoted_name);
        let hhash = &self.hhash;
        let _ = write!(
            out,
            r#"{{"id":{id},"name":"{what}","cat":"dftracer","pid":{pid},"tid":{tid},"ph":"M","args":{{"hhash":"{hhash}","name":{quoted_name}"#
        );
        if let Some(value) = value {
            out.push_str(",\"value\":");
            quoted(value, out);
        }
        out.push_str("}}\n");
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}

impl Format for Dftracer {
    fn head(&mut self, process: &Process) -> String {
        let mut out = "[\n".to_owned();
        let (pid, hhash) = (self.pid, self.hhash.clone());
        self.named("HH", pid, &host(), Some(&hhash), &mut out);
        self.named("process_name", pid, &process.name, None, &mut out);
        out
    }

    fn lane(&mut self, named: &LaneName, out: &mut String) {
        self.named("thread_name", named.lane, &named.name, None, out);
    }

    fn event(&mut self, event: &Event, out: &mut String) {
        let Event { name, tier, lane, .. } = event;
        let (id, pid, cat) = (self.number(), self.pid, tier.name());
        let start = self.clock.unix_us(event.start);
        let dur = self.clock.unix_us(event.end).saturating_sub(start);
        let hhash = &self.hhash;
        let _ = write!(
            out,
            r#"{{"id":{id},"name":"{name}","cat":"{cat}","pid":{pid},"tid":{lane},"ts":{start},"dur":{dur},"ph":"X","args":{{"hhash":"{hhash}""#
        );
        if event.is_of_lease || !event.args.is_empty() {
            out.push(',');
            args(event, out);
        }
        out.push_str("}}\n");
    }

    fn tail(&mut self, note: Option<&str>, out: &mut String) {
        if let Some(note) = note {
            self.named("note", self.pid, note, None, out);
        }
        out.push_str("]\n");
    }
}
