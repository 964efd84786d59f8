//! A file through a map: only here, as a yardstick. The tiers never map shards (docs/adr/023).
#![allow(unsafe_code)]

use std::fs::File;
use std::path::Path;
use std::ptr;

use anyhow::{Context, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Calls with all bytes of a file. Whoever truncates the file meanwhile ends this process.
pub(super) fn with_bytes_of<T>(path: &Path, look: impl FnOnce(&[u8]) -> T) -> Result<T> {
    let file = File::open(path).with_context(|| format!("cannot open `{}`", path.display()))?;
    let length = usize::try_from(file.metadata()?.len()).context("the file is too large to map")?;
    if length == 0 {
        return Ok(look(&[]));
    }
    // SAFETY: no address is asked for, so that the kernel takes one where nothing is.
    let start =
        unsafe { mmap(ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, &file, 0) };
    let start = start.with_context(|| format!("cannot map `{}`", path.display()))?;
    // SAFETY: the map has `length` bytes and stays until `look` has returned; its pages are only read.
    let looked = look(unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) });
    // SAFETY: exactly what was mapped above, and no reference into it is left.
    unsafe { munmap(start, length) }.context("cannot unmap a file")?;
    Ok(looked)
}
