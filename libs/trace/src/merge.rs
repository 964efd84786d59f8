//! Several processes' traces in one file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::error::TraceError;
use crate::names::TracePath;

/// Bytes of a line; ours have some hundred.
const LINE_BYTES_MAX: usize = 1 << 20;

/// Writes the events of all `traces` to `out`, which is of their kind; the number of events. Processes of
/// the same number, as on several hosts or in containers, get numbers of their own. The last line of a
/// trace may be cut off, as where its process was killed while it wrote.
///
/// # Errors
/// A trace of another kind than `out`, or that cannot be read; `out` cannot be written.
pub fn merge(traces: &[PathBuf], out: &Path) -> Result<u64, TraceError> {
    let path = || out.display().to_string();
    let fault = |source| TraceError::Open { path: path(), source };
    let packed = TracePath::is_dftracer(out);
    for trace in traces.iter().chain([&out.to_owned()]) {
        TracePath::parse(&trace.to_string_lossy().replace('%', "%%"))?;
        if TracePath::is_dftracer(trace) != packed {
            let (path, kind) =
                (trace.display().to_string(), if packed { "pfw.gz" } else { "json" });
            let reason = format!("it is of another kind than the others, which end in `.{kind}`");
            return Err(TraceError::Read { path, reason });
        }
    }
    let mut merged = Merged::default();
    // Read whole before the first byte is written: `out` may be one of them.
    let mut lines = Vec::new();
    for trace in traces {
        merged.add(trace, packed, &mut lines)?;
    }
    let file = BufWriter::new(File::create(out).map_err(fault)?);
    let written = if packed {
        let mut packer = GzEncoder::new(file, Compression::default());
        write_lines(&mut packer, &lines, "").and_then(|()| packer.finish()?.flush())
    } else {
        let mut file = file;
        write_lines(&mut file, &lines, ",").and_then(|()| file.flush())
    };
    written.map_err(fault)?;
    Ok(lines.len() as u64)
}

#[derive(Default)]
struct Merged {
    /// Numbers of processes that are taken.
    pids: BTreeSet<u64>,
}

// === impl Merged ===

impl Merged {
    fn add(
        &mut self,
        path: &Path,
        packed: bool,
        lines: &mut Vec<String>,
    ) -> Result<(), TraceError> {
        let wrong = |reason: String| TraceError::Read { path: path.display().to_string(), reason };
        let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
        let reader: Box<dyn BufRead> = if packed {
            Box::new(BufReader::new(MultiGzDecoder::new(file)))
        } else {
            Box::new(BufReader::new(file))
        };
        // Of this file's processes, those that others have too.
        let mut new_pids = BTreeMap::new();
        let mut unread = None;
        for (number, line) in split(reader).enumerate() {
            // Of a member of a gzip file that is cut off nothing is read.
            let Ok(line) = line else { break };
            let text = line.trim().trim_end_matches(',');
            if let "" | "[" | "]" = text {
                continue;
            }
            if let Some(reason) = unread {
                return Err(wrong(reason));
            }
            let event =
                if text.len() > LINE_BYTES_MAX { None } else { serde_json::from_str(text).ok() };
            match event {
                Some(Value::Object(mut event)) => {
                    if packed {
                        event.insert("id".to_owned(), (lines.len() as u64 + 1).into());
                    }
                    if let Some(pid) = event.get("pid").and_then(Value::as_u64) {
                        let new = *new_pids.entry(pid).or_insert_with(|| self.number(pid));
                        event.insert("pid".to_owned(), new.into());
                    }
                    lines.push(Value::Object(event).to_string());
                }
                // The last one may be cut off.
                _ => unread = Some(format!("line {} is no event of a trace", number + 1)),
            }
        }
        self.pids.extend(new_pids.values());
        Ok(())
    }

    /// The number of a process, or the next one that no other file has.
    fn number(&self, pid: u64) -> u64 {
        (pid..).find(|pid| !self.pids.contains(pid)).unwrap_or(pid)
    }
}

/// Lines as text, whatever bytes a cut-off one ends with.
fn split(reader: Box<dyn BufRead>) -> impl Iterator<Item = io::Result<String>> {
    reader.split(b'\n').map(|line| line.map(|line| String::from_utf8_lossy(&line).into_owned()))
}

fn write_lines(out: &mut dyn Write, lines: &[String], comma: &str) -> io::Result<()> {
    out.write_all(b"[\n")?;
    for (number, line) in lines.iter().enumerate() {
        let comma = if number + 1 < lines.len() { comma } else { "" };
        writeln!(out, "{line}{comma}")?;
    }
    out.write_all(b"]\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn processes_of_one_number_are_told_apart_and_cut_off_lines_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let a = "[\n{\"ph\":\"X\",\"pid\":1,\"ts\":5},\n{\"ph\":\"X\",\"pid\":2,\"ts\":6}\n]\n";
        let a = file(folder.path(), "a.json", a);
        let b = "[\n{\"ph\":\"X\",\"pid\":1,\"ts\":7},\n{\"ph\":\"X\",\"pi";
        let b = file(folder.path(), "b.json", b);
        let out = folder.path().join("all.json");
        assert_eq!(merge(&[a, b.clone()], &out).unwrap(), 3);
        let all: Vec<Value> = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
        let seen: Vec<_> = all.iter().map(|e| (e["pid"].as_u64(), e["ts"].as_u64())).collect();
        assert_eq!(seen, [(Some(1), Some(5)), (Some(2), Some(6)), (Some(3), Some(7))]);
        std::fs::write(&b, "[\nnonsense\n{\"ph\":\"X\"}\n").unwrap();
        let error = merge(&[b], &out).unwrap_err().to_string();
        assert!(error.contains("b.json") && error.contains("line 2"), "{error}");
    }
}
