//! The token that keeps the other users of a host away from local services.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use headwater_config::Config;
use headwater_core::hex;
use headwater_own_files::is_still_at;
use rustix::fs::{FlockOperation, flock};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::LocalError;
use crate::folder::RuntimeFolder;

const BYTES: usize = 32;
const NAME_BYTES: usize = 16;
const MODE: u32 = 0o600;

/// A token in a file, which is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Token {
    path: PathBuf,
    text: String,
    /// Holds a lock, by which others see that it is in use.
    file: File,
}

// === impl Token ===

impl Token {
    /// Draws a token and writes it to a file of that name. A file that services of the name have left is
    /// replaced.
    pub(crate) fn make(folder: &RuntimeFolder, name: &str) -> Result<Self, LocalError> {
        // Those that still end keep theirs open, and do not remove this one.
        Self::make_at(folder.token(name))
    }

    /// Draws a token and writes it to a file whose name nobody else has: numbers of processes are not
    /// enough where containers share the folder.
    pub(crate) fn make_unnamed(folder: &RuntimeFolder) -> Result<Self, LocalError> {
        let fault = |error: io::Error| LocalError::folder(&folder.token("threads"), &error);
        let name = drawn::<NAME_BYTES>().map_err(fault)?;
        Self::make_at(folder.token(&format!("threads-{name}")))
    }

    fn make_at(path: PathBuf) -> Result<Self, LocalError> {
        let made = drawn::<BYTES>().and_then(|text| Ok((write(&path, &text)?, text)));
        let (file, text) = made.map_err(|error| LocalError::folder(&path, &error))?;
        Ok(Self { path, text, file })
    }

    /// Puts the file back where it was removed, and has it look new to who removes old files.
    ///
    /// # Errors
    /// The folder is gone, or the system is short of something.
    pub(crate) fn keep(&mut self) -> io::Result<()> {
        if self.path.try_exists()? {
            // Where it is another's by now, that one knows.
            return self.file.set_modified(SystemTime::now());
        }
        self.file = write(&self.path, &self.text)?;
        Ok(())
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
        if self.file.metadata().is_ok_and(|made| is_still_at(&made, &self.path)) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn write(path: &Path, token: &str) -> io::Result<File> {
    // Without a lock it would be taken for one of services that were killed: it gets its name when it has one.
    let draft = path.with_extension("draft");
    let _ = fs::remove_file(&draft);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&draft)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    file.write_all(token.as_bytes())?;
    fs::rename(&draft, path)?;
    Ok(file)
}

/// So many bytes that nobody can guess, in hexadecimal digits.
fn drawn<const BYTES: usize>() -> io::Result<String> {
    let mut drawn = [0; BYTES];
    let mut filled = 0;
    while filled < BYTES {
        filled += getrandom(&mut drawn[filled..], GetRandomFlags::empty())?;
    }
    Ok(hex(&drawn))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_was_removed_is_put_back_and_one_of_others_stays() {
        let top = tempfile::tempdir().unwrap();
        let folder = RuntimeFolder::of(&top.path().join("own/any.sock")).unwrap();
        let mut token = Token::make(&folder, "name").unwrap();
        let text = fs::read_to_string(token.path()).unwrap();
        fs::remove_file(token.path()).unwrap();
        token.keep().unwrap();
        assert_eq!(fs::read_to_string(token.path()).unwrap(), text);
        folder.sweep();
        assert!(token.path().exists(), "it is locked");
        let other = Token::make(&folder, "name").unwrap();
        token.keep().unwrap();
        drop(token);
        assert_ne!(fs::read_to_string(other.path()).unwrap(), text);
    }
}
