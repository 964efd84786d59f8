//! The token that keeps the other users of a host away from local services.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use headwater_config::Config;
use rustix::fs::{FlockOperation, flock};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::LocalError;
use crate::folder::RuntimeFolder;

const BYTES: usize = 32;
const MODE: u32 = 0o600;

/// A token in a file, which is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Token {
    path: PathBuf,
    /// Holds a lock, by which others see that it is in use.
    _file: File,
}

// === impl Token ===

impl Token {
    /// Draws a token and writes it to a file of that name.
    pub(crate) fn make(folder: &RuntimeFolder, name: &str) -> Result<Self, LocalError> {
        let path = folder.token(name);
        let made = write(&path);
        let file = made.map_err(|error| LocalError::folder(&path, &error))?;
        Ok(Self { path, _file: file })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it what callers of these services have to show, in place of all that is configured for
    /// those of a cluster.
    pub(crate) fn guard(&self, config: &mut Config) {
        config.security = Config::default().security;
        config.security.token_file.clone_from(&self.path);
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn write(path: &Path) -> io::Result<File> {
    let mut drawn = [0; BYTES];
    let mut filled = 0;
    while filled < BYTES {
        filled += getrandom(&mut drawn[filled..], GetRandomFlags::empty())?;
    }
    // Without a lock it would be taken for one of services that were killed: it gets its name when it has one.
    let draft = path.with_extension("draft");
    let _ = fs::remove_file(&draft);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&draft)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let text: String = drawn.iter().map(|byte| format!("{byte:02x}")).collect();
    file.write_all(text.as_bytes())?;
    fs::rename(&draft, path)?;
    Ok(file)
}
