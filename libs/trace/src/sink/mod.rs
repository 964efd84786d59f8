//! Where spans go.

mod chrome;
mod dftracer;
mod file;

use std::path::Path;

use crate::error::TraceError;
use crate::event::Event;
use crate::lanes::LaneName;
use crate::names::TracePath;
use file::FileSink;

pub(crate) use chrome::Chrome;
pub(crate) use dftracer::Dftracer;

/// Takes what was recorded, several times a second, from one thread.
///
/// It may be called with nothing new: what it keeps is then to be brought to where a process that is
/// killed leaves it behind. After an error it is not called again.
pub trait Sink: Send {
    /// Takes lanes that have not been named yet, or have another name now, and then spans in no particular
    /// order.
    ///
    /// # Errors
    /// A sentence: why the trace ends here.
    fn write(&mut self, lanes: &[LaneName], events: &[Event]) -> Result<(), String>;

    /// Ends the trace; `dropped` spans are missing in it.
    ///
    /// # Errors
    /// A sentence: what could not be written.
    fn finish(&mut self, dropped: u64) -> Result<(), String>;
}

/// The process whose trace it is.
#[derive(Clone, Debug)]
pub struct Process {
    /// What people call it: its tier and its name.
    pub name: String,
    /// Lower ones are shown above: 0 storage, 1 augment, 2 receivers.
    pub place: u32,
}

/// How spans are written to a file.
pub(crate) trait Format: Send {
    /// What the file begins with.
    fn head(&mut self, process: &Process) -> String;

    /// The name of a lane.
    fn lane(&mut self, named: &LaneName, out: &mut String);

    /// A span.
    fn event(&mut self, event: &Event, out: &mut String);

    /// What it ends with; `note` says what is missing, where something is.
    fn tail(&mut self, note: Option<&str>, out: &mut String);
}

/// A sink that writes to a file: trace events where it ends in `.json`, DFTracer's where in `.pfw.gz`. The
/// file ends at `bytes_max`.
///
/// # Errors
/// The file cannot be made, or another process writes to it.
pub fn file_sink(
    path: &Path,
    bytes_max: u64,
    process: &Process,
) -> Result<Box<dyn Sink>, TraceError> {
    let packed = TracePath::is_dftracer(path);
    let format: Box<dyn Format> =
        if packed { Box::<Dftracer>::default() } else { Box::<Chrome>::default() };
    Ok(Box::new(FileSink::create(path, packed, bytes_max, format, process)?))
}

/// Appends a JSON string.
pub(crate) fn quoted(text: &str, out: &mut String) {
    match serde_json::to_string(text) {
        Ok(quoted) => out.push_str(&quoted),
        Err(_) => out.push_str("\"\""),
    }
}
