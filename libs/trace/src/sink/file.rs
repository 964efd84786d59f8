//! A file of limited size that is readable at every moment.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::{Format, Process, Sink};
use crate::error::TraceError;
use crate::event::Event;
use crate::lanes::LaneName;

/// Kept for what the file ends with.
const TAIL_BYTES: u64 = 4 << 10;
/// Text that is written at once.
const WRITE_BYTES: usize = 256 << 10;

pub(super) struct FileSink {
    path: PathBuf,
    file: File,
    /// Each piece is packed as a gzip member of its own: a file that ends between two is whole.
    packed: bool,
    format: Box<dyn Format>,
    written: u64,
    bytes_max: u64,
}

// === impl FileSink ===

impl FileSink {
    pub(super) fn create(
        path: &Path,
        packed: bool,
        bytes_max: u64,
        format: Box<dyn Format>,
        process: &Process,
    ) -> Result<Self, TraceError> {
        let name = || path.display().to_string();
        let fault = |source: io::Error| TraceError::Open { path: name(), source };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(fault)?;
        }
        // Not cut before it is known that nobody else writes to it.
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).open(path).map_err(fault)?;
        // File systems without locks have none to respect.
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        if locked == Err(Errno::WOULDBLOCK) {
            return Err(TraceError::Busy { path: name() });
        }
        // A pipe or `/dev/null` has no length.
        if file.metadata().map_err(fault)?.is_file() {
            file.set_len(0).map_err(fault)?;
        }
        let path = path.to_owned();
        let mut sink = Self { path, file, packed, format, written: 0, bytes_max };
        let head = sink.format.head(process);
        sink.piece(&head).and_then(|piece| sink.put(&piece)).map_err(fault)?;
        Ok(sink)
    }

    /// As it stands in the file.
    fn piece(&self, text: &str) -> io::Result<Vec<u8>> {
        if self.packed { packed(text) } else { Ok(text.as_bytes().to_vec()) }
    }

    /// Writes a piece whole or not at all.
    fn put(&mut self, piece: &[u8]) -> io::Result<()> {
        if let Err(error) = self.file.write_all(piece) {
            // Half a line would spoil what is before it.
            let _ = self.file.set_len(self.written);
            return Err(error);
        }
        self.written += piece.len() as u64;
        Ok(())
    }

    fn flush(&mut self, text: &mut String) -> Result<(), String> {
        let piece = self.piece(text).map_err(|error| self.lost(&error))?;
        if self.written + piece.len() as u64 + TAIL_BYTES > self.bytes_max {
            let most = self.bytes_max;
            let note = format!("the trace ends here: telemetry.trace_bytes_max is {most}");
            self.end(Some(&note))?;
            let path = self.path.display();
            return Err(format!(
                "trace `{path}` ends here, the process goes on: it has as many bytes as \
                 telemetry.trace_bytes_max allows, {most}"
            ));
        }
        self.put(&piece).map_err(|error| self.lost(&error))?;
        text.clear();
        Ok(())
    }

    fn end(&mut self, note: Option<&str>) -> Result<(), String> {
        let mut tail = String::new();
        self.format.tail(note, &mut tail);
        let ended = self.piece(&tail).and_then(|piece| self.put(&piece));
        ended.map_err(|error| self.lost(&error))
    }

    fn lost(&self, error: &io::Error) -> String {
        let path = self.path.display();
        format!("trace `{path}` ends here, the process goes on: it cannot be written: {error}")
    }
}

impl Sink for FileSink {
    fn write(&mut self, lanes: &[LaneName], events: &[Event]) -> Result<(), String> {
        let mut text = String::new();
        for named in lanes {
            self.format.lane(named, &mut text);
        }
        for event in events {
            self.format.event(event, &mut text);
            if text.len() >= WRITE_BYTES {
                self.flush(&mut text)?;
            }
        }
        if text.is_empty() { Ok(()) } else { self.flush(&mut text) }
    }

    fn finish(&mut self, dropped: u64) -> Result<(), String> {
        let note = format!("{dropped} spans are missing: they came too fast");
        self.end((dropped > 0).then_some(note.as_str()))
    }
}

fn packed(text: &str) -> io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::with_capacity(text.len() / 4), Compression::fast());
    packer.write_all(text.as_bytes())?;
    packer.finish()
}
