//! Lines of a stream that is read in pieces.

use std::io::{self, Read};

/// Longest line; errors name paths.
const LINE_BYTES_MAX: usize = 1 << 20;
const PIECE_BYTES: usize = 4096;

/// What was read and not taken.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    held: Vec<u8>,
}

// === impl Lines ===

impl Lines {
    /// Reads once; 0 at the end of the stream.
    pub(crate) fn read_from(&mut self, mut stream: impl Read) -> io::Result<usize> {
        if self.held.len() > LINE_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a line has no end"));
        }
        let mut piece = [0; PIECE_BYTES];
        let read = stream.read(&mut piece)?;
        self.held.extend_from_slice(&piece[..read]);
        Ok(read)
    }

    /// The next whole line, without its end.
    pub(crate) fn take(&mut self) -> Option<Vec<u8>> {
        let end = self.held.iter().position(|&byte| byte == b'\n')?;
        let rest = self.held.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.held, rest);
        line.truncate(end);
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        let mut lines = Lines::default();
        let mut taken = Vec::new();
        for piece in ["a", "b\nc", "", "d\n\ne"] {
            lines.read_from(piece.as_bytes()).unwrap();
            while let Some(line) = lines.take() {
                taken.push(String::from_utf8(line).unwrap());
            }
        }
        assert_eq!(taken, ["ab", "cd", ""]);
    }

    #[test]
    fn a_line_without_an_end_is_refused() {
        let mut lines = Lines::default();
        let mut endless = io::repeat(b'x');
        let error = loop {
            match lines.read_from(&mut endless) {
                Ok(_) => assert!(lines.held.len() < LINE_BYTES_MAX + 2 * PIECE_BYTES),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
