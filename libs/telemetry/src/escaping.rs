//! Log lines on their way out: whatever a file or a peer put into them, a terminal gets text.

use std::io::{self, Write};

use headwater_core::escape_control;
use tracing_subscriber::fmt::MakeWriter;

/// Maximum bytes of one line; what is longer is cut, and says so.
const LINE_BYTES_MAX: usize = 16 << 10;

/// Makes writers that escape what `M`'s get.
pub(crate) struct Escaping<M>(pub(crate) M);

/// A writer of whole lines: each is written by one call, as `tracing-subscriber` does.
pub(crate) struct EscapedLine<W>(W);

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for Escaping<M> {
    type Writer = EscapedLine<M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        EscapedLine(self.0.make_writer())
    }
}

impl<W: Write> Write for EscapedLine<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let (text, end) = match line.strip_suffix(b"\n") {
            Some(text) => (text, "\n"),
            None => (line, ""),
        };
        let cut = text.len().saturating_sub(LINE_BYTES_MAX);
        let text = String::from_utf8_lossy(&text[..text.len() - cut]);
        let rest = if cut > 0 { format!(".. and {cut} bytes more") } else { String::new() };
        self.0.write_all(format!("{}{rest}{end}", escape_control(&text)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What one event becomes.
    fn logged(what: &str) -> String {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let lines = tracing_subscriber::fmt().with_ansi(false).without_time();
        let writer = Kept(Arc::clone(&kept));
        let lines = lines.with_writer(Escaping(move || writer.clone())).finish();
        tracing::subscriber::with_default(lines, || {
            tracing::info!(receiver = %what, "session begins");
        });
        let kept = kept.lock().expect("no panic");
        String::from_utf8(kept.clone()).expect("text")
    }

    #[test]
    fn a_name_neither_moves_the_cursor_nor_forges_a_line() {
        let said = logged("a\u{1b}[2J\n INFO all is well\u{9b}");
        assert_eq!(said.lines().count(), 1, "{said:?}");
        assert!(!said.trim_end().contains(char::is_control), "{said:?}");
        assert!(said.contains("all is well") && said.contains("receiver=a"), "{said:?}");
    }

    #[test]
    fn a_name_without_end_becomes_no_line_without_end() {
        let said = logged(&"n".repeat(10 << 20));
        assert!(said.len() < LINE_BYTES_MAX + 100, "{} bytes", said.len());
        assert!(said.ends_with("bytes more\n"), "{}", &said[said.len() - 100..]);
    }
}
