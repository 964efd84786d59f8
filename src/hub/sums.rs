//! `SHA256SUMS` beside shards, as `sha256sum` writes and reads it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use headwater_storage::{SUMS_FILE, sum_of_line};
use sha2::{Digest as _, Sha256};

/// Bytes that are read and digested at a time.
const BLOCK_BYTES: usize = 256 << 10;

/// What the shards of a dataset should be.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    by_path: BTreeMap<PathBuf, String>,
}

// === impl Sums ===

impl Sums {
    /// Reads the files in the folders of these shards, where there are some.
    pub(crate) fn beside(shards: &[PathBuf]) -> Result<Self> {
        let mut folders: Vec<&Path> = shards.iter().filter_map(|path| path.parent()).collect();
        folders.dedup();
        let mut sums = Self::default();
        for folder in folders {
            let file = folder.join(SUMS_FILE);
            if !file.exists() {
                continue;
            }
            let name = file.display();
            let text =
                fs::read_to_string(&file).with_context(|| format!("cannot read `{name}`"))?;
            for (at, line) in text.lines().enumerate() {
                let Some((sum, shard)) = sum_of_line(line) else {
                    bail!("`{name}` line {}: write it by `sha256sum *.tar > {SUMS_FILE}`", at + 1);
                };
                sums.by_path.insert(folder.join(shard), hex(&sum));
            }
        }
        Ok(sums)
    }

    /// What a shard should be, as far as it is known.
    pub(crate) fn of(&self, shard: &Path) -> Option<&str> {
        self.by_path.get(shard).map(String::as_str)
    }

    /// Files that are named and not there.
    pub(crate) fn missing(&self) -> impl Iterator<Item = &Path> {
        self.by_path.keys().map(PathBuf::as_path).filter(|path| !path.exists())
    }
}

/// A line of the file.
pub(crate) fn sum_line(sum: &str, name: &str) -> String {
    format!("{sum}  {name}\n")
}

/// SHA-256 in hexadecimal digits.
///
/// # Errors
/// The bytes cannot be read.
pub(crate) fn sha256(mut bytes: impl Read) -> io::Result<String> {
    let mut digest = Sha256::new();
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        match bytes.read(&mut block)? {
            0 => break,
            read => digest.update(&block[..read]),
        }
    }
    Ok(hex(&digest.finalize()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-2, appendix B.1.
    const OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_line_that_is_written_is_read() {
        assert_eq!(sha256(&b"abc"[..]).unwrap(), OF_ABC);
        let line = sum_line(OF_ABC, "a b.tar");
        let (sum, name) = sum_of_line(line.trim_end()).unwrap();
        assert_eq!((hex(&sum).as_str(), name), (OF_ABC, "a b.tar"));
    }
}
