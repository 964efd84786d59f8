//! A series of `.ten` files, each with one batch.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use headwater_config::publish::FileSeries;

use crate::tenbin::{Chunk, write_framed};

/// Writes batches to files, each whole or not at all.
pub(super) struct FileOutlet {
    series: FileSeries,
    /// Whether files may be there already, from before a stop: they have the same bytes then.
    resumes: bool,
}

// === impl FileOutlet ===

impl FileOutlet {
    /// Makes the folder of the files.
    ///
    /// # Errors
    /// The file system refuses.
    pub(super) fn open(series: &FileSeries, resumes: bool) -> Result<Self> {
        if let Some(first) = series.path(0) {
            let folder = folder(&first);
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        Ok(Self { series: series.clone(), resumes })
    }

    /// Whether there is a file for the batch of this number.
    pub(super) fn takes(&self, number: u64) -> bool {
        self.series.path(number).is_some()
    }

    /// Writes a batch. Returns its bytes in the file, or `None` if the series has ended.
    ///
    /// # Errors
    /// The file is there already, and no stream is resumed or its bytes are others; the file system refuses.
    pub(super) fn send(&self, number: u64, chunks: &[Chunk]) -> Result<Option<u64>> {
        let Some(path) = self.series.path(number) else { return Ok(None) };
        // Looks at a link itself, not at its target, because the rename would replace the link.
        ensure!(
            self.resumes || fs::symlink_metadata(&path).is_err(),
            "{} is there already: remove the earlier files, write to other names, or go on where they end with \
             receiver.resume",
            path.display()
        );
        if let (true, Ok(there)) = (self.resumes, fs::read(&path)) {
            return already(&path, &there, chunks).map(Some);
        }
        let bytes = write_whole(&path, chunks).with_context(|| {
            format!("cannot write {}: check the disk's free space", path.display())
        })?;
        Ok(Some(bytes))
    }
}

/// Takes a file of before a stop for a batch's own; its bytes. A stream that goes on with another number of ranks
/// or another batch counts its batches anew, and could come to the files of earlier ones.
fn already(path: &Path, there: &[u8], chunks: &[Chunk]) -> Result<u64> {
    let mut own = Vec::with_capacity(there.len());
    write_framed(chunks, &mut own)?;
    ensure!(
        own == there,
        "{} is there already with another batch: the stream goes on with another number of ranks, batch or length of \
         epoch; write to other names",
        path.display()
    );
    Ok(own.len() as u64)
}

/// Temporary name, fsync, rename, fsync of the folder: at any moment the file is there whole or not at all.
fn write_whole(path: &Path, chunks: &[Chunk]) -> std::io::Result<u64> {
    let temporary = temporary(path);
    // A run that was cut off has left one, or others a link, which is not followed.
    let _ = fs::remove_file(&temporary);
    let written = File::create_new(&temporary).and_then(|mut file| {
        write_framed(chunks, &mut file)?;
        file.sync_all()?;
        file.metadata()
    });
    let named = written.and_then(|metadata| {
        fs::rename(&temporary, path)?;
        Ok(metadata.len())
    });
    if named.is_err() {
        // On a full disk, it would keep some more space.
        let _ = fs::remove_file(&temporary);
    }
    let bytes = named?;
    File::open(folder(path))?.sync_all()?;
    Ok(bytes)
}

/// In the same folder, hidden, and without the ending `.ten`, so that nobody takes it for a batch.
fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.tmp"))
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_the_place_of_an_unfinished_file_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (precious, path) = (folder.path().join("precious"), folder.path().join("1.ten"));
        fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(&precious, temporary(&path)).unwrap();
        write_whole(&path, &[]).unwrap();
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        assert!(path.symlink_metadata().unwrap().is_file());
    }
}
