//! Chrome's trace events, in its array format, which may lack its end.
//!
//! "Trace Event Format", the document of the Chromium project: `X` is a span, `M` a name, `s`, `t` and `f` a
//! flow's begin, step and end, `i` an instant. Times are whole microseconds since 1970.

use std::fmt::Write as _;

use super::{Format, Process, quoted};
use crate::clock::Clock;
use crate::event::{Arg, Event, FlowStep};
use crate::lanes::LaneName;
use crate::names::host;

/// One line for each trace event.
#[derive(Debug)]
pub(crate) struct Chrome {
    pid: u32,
    clock: Clock,
}

// === impl Chrome ===

impl Default for Chrome {
    fn default() -> Self {
        Self { pid: std::process::id(), clock: Clock::get() }
    }
}

impl Chrome {
    fn named(&self, what: &str, tid: u32, key: &str, value: &str, out: &mut String) {
        let pid = self.pid;
        let _ = write!(out, r#"{{"ph":"M","name":"{what}","pid":{pid},"tid":{tid},"args":{{"#);
        let _ = writeln!(out, r#""{key}":{value}}}}},"#);
    }
}

impl Format for Chrome {
    fn head(&mut self, process: &Process) -> String {
        let mut out = "[\n".to_owned();
        let mut name = String::new();
        quoted(&process.name, &mut name);
        self.named("process_name", self.pid, "name", &name, &mut out);
        let place = process.place.to_string();
        self.named("process_sort_index", self.pid, "sort_index", &place, &mut out);
        let mut labels = String::new();
        quoted(&format!("host {}, process {}", host(), self.pid), &mut labels);
        self.named("process_labels", self.pid, "labels", &labels, &mut out);
        out
    }

    fn lane(&mut self, named: &LaneName, out: &mut String) {
        let mut name = String::new();
        quoted(&named.name, &mut name);
        self.named("thread_name", named.lane, "name", &name, out);
        let place = named.place.to_string();
        self.named("thread_sort_index", named.lane, "sort_index", &place, out);
    }

    fn event(&mut self, event: &Event, out: &mut String) {
        let Event { name, tier, lane, .. } = event;
        let (pid, cat) = (self.pid, tier.name());
        let start = self.clock.unix_us(event.start);
        // A flow ends within a span: such a one has a length.
        let shortest = u64::from(event.step == FlowStep::Last);
        let end = self.clock.unix_us(event.end).max(start + shortest);
        let dur = end - start;
        let _ = write!(
            out,
            r#"{{"ph":"X","name":"{name}","cat":"{cat}","pid":{pid},"tid":{lane},"ts":{start},"dur":{dur},"args":{{"#
        );
        args(event, out);
        out.push_str("}},\n");
        let (phase, at) = match event.step {
            FlowStep::First => ("s", start),
            FlowStep::Between => ("t", start),
            FlowStep::Last => ("f", end - 1),
        };
        for flow in &event.flows {
            let id = flow.flow();
            let _ = writeln!(
                out,
                r#"{{"ph":"{phase}","name":"lease","cat":"lease","id":"{id:#x}","pid":{pid},"tid":{lane},"ts":{at},"bp":"e"}},"#
            );
        }
    }

    fn tail(&mut self, note: Option<&str>, out: &mut String) {
        let (pid, ts) = (self.pid, self.clock.unix_us(std::time::Instant::now()));
        let mut name = String::new();
        quoted(note.unwrap_or("end of the trace"), &mut name);
        let _ = writeln!(
            out,
            r#"{{"ph":"i","s":"p","name":{name},"cat":"trace","pid":{pid},"tid":{pid},"ts":{ts}}}"#
        );
        out.push_str("]\n");
    }
}

/// The arguments of a span, without braces.
pub(super) fn args(event: &Event, out: &mut String) {
    let mut comma = "";
    if event.is_of_lease {
        let _ = write!(out, r#""flow":"{:#x}""#, event.context.flow());
        comma = ",";
    }
    for (key, value) in &event.args {
        let _ = write!(out, r#"{comma}"{key}":"#);
        comma = ",";
        match value {
            Arg::Number(number) => {
                let _ = write!(out, "{number}");
            }
            Arg::Flag(flag) => {
                let _ = write!(out, "{flag}");
            }
            Arg::Word(word) => quoted(word, out),
            Arg::Text(text) => quoted(text, out),
        }
    }
}
