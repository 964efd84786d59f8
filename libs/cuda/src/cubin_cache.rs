//! Compiled kernels on disk, so that a worker that starts again need not wait for the compiler.
//!
//! A file is named by all that it follows from: source, options, architecture, driver. It is written
//! under another name and renamed, and begins with its length and checksum: whatever is torn,
//! cut off or of somebody else's making is compiled anew.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use headwater_core::Digester;
use headwater_own_files::{is_own, open_file};
use xxhash_rust::xxh3::xxh3_64;

use crate::kernels::KernelSource;

const MAGIC: &[u8; 8] = b"HWCUBIN1";
const HEAD_BYTES: usize = 24;

/// A folder of compiled kernels.
#[derive(Clone, Debug)]
pub struct CubinCache {
    folder: PathBuf,
}

// === impl CubinCache ===

impl CubinCache {
    /// The cache in a folder, which is made when there is something to put there.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// The cache in a named folder; where none is named, in the user's cache folder, if there is one.
    #[must_use]
    pub fn in_folder(named: &str) -> Option<Self> {
        Self::folder(named).as_deref().map(Self::new)
    }

    /// The folder of that cache.
    #[must_use]
    pub fn folder(named: &str) -> Option<PathBuf> {
        if !named.is_empty() {
            return Some(named.into());
        }
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let cache =
            absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
        Some(cache.join("headwater").join("cubin"))
    }

    /// The file of the kernels for an architecture and a version of the driver.
    #[must_use]
    pub(crate) fn path(&self, source: &KernelSource, architecture: &str, driver: i32) -> PathBuf {
        let mut digester = Digester::new("headwater cubin 1");
        source.digest_into(&mut digester);
        digester.bytes(architecture.as_bytes());
        digester.bytes(&driver.to_le_bytes());
        self.folder.join(format!("{architecture}-{}.cubin", digester.finish()))
    }

    /// What the file holds, if it is whole.
    #[must_use]
    pub(crate) fn read(path: &Path) -> Option<Vec<u8>> {
        let mut file = open_file(path).ok()?;
        if !is_own(&file.metadata().ok()?) {
            let path = path.display();
            tracing::warn!(%path, "other users can write these compiled kernels: made anew");
            return None;
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        let code = bytes.get(HEAD_BYTES..)?;
        if bytes[..HEAD_BYTES] != head(code) {
            tracing::warn!(path = %path.display(), "these compiled kernels are damaged: made anew");
            return None;
        }
        bytes.drain(..HEAD_BYTES);
        Some(bytes)
    }

    /// Puts compiled kernels there; readers see all of it or nothing.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub(crate) fn write(&self, path: &Path, code: &[u8]) -> io::Result<()> {
        // What lies here is run: nobody else may put anything there.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        // Random name, O_EXCL, mode 0600.
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(&head(code))?;
        file.write_all(code)?;
        file.persist(path)?;
        Ok(())
    }
}

fn head(code: &[u8]) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(MAGIC);
    head[8..16].copy_from_slice(&(code.len() as u64).to_le_bytes());
    head[16..].copy_from_slice(&xxh3_64(code).to_le_bytes());
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: KernelSource = KernelSource { texts: &["kernels"], options: &["--one"] };

    fn cache(name: &str) -> CubinCache {
        let folder = std::env::temp_dir().join(format!("headwater-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        CubinCache::new(&folder)
    }

    #[test]
    fn what_was_written_is_read_again() {
        let cache = cache("cubin-again");
        let path = cache.path(&SOURCE, "sm_90", 13_000);
        assert_eq!(CubinCache::read(&path), None);
        cache.write(&path, b"code").unwrap();
        cache.write(&path, b"code of another worker").unwrap();
        assert_eq!(CubinCache::read(&path).as_deref(), Some(&b"code of another worker"[..]));
        let files = fs::read_dir(&cache.folder).unwrap().count();
        fs::remove_dir_all(&cache.folder).unwrap();
        assert_eq!(files, 1);
    }

    #[test]
    fn a_torn_file_is_as_good_as_none() {
        let cache = cache("cubin-torn");
        let path = cache.path(&SOURCE, "sm_90", 13_000);
        cache.write(&path, b"some machine code").unwrap();
        let whole = fs::read(&path).unwrap();
        for len in 0..whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            assert_eq!(CubinCache::read(&path), None, "{len} bytes");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(CubinCache::read(&path), None, "byte {at}");
        }
        fs::remove_dir_all(&cache.folder).unwrap();
    }

    #[test]
    fn what_others_can_write_is_not_run_and_links_are_not_followed() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let cache = cache("cubin-others");
        let path = cache.path(&SOURCE, "sm_90", 13_000);
        cache.write(&path, b"code").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o622)).unwrap();
        assert_eq!(CubinCache::read(&path), None);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let precious = cache.folder.join("precious");
        fs::rename(&path, &precious).unwrap();
        symlink(&precious, &path).unwrap();
        let draft = path.with_extension(format!("{}.unfinished", std::process::id()));
        symlink(&precious, draft).unwrap();
        assert_eq!(CubinCache::read(&path), None);
        cache.write(&path, b"other code").unwrap();
        let code = [CubinCache::read(&precious), CubinCache::read(&path)];
        assert_eq!(code.map(Option::unwrap), [b"code".to_vec(), b"other code".to_vec()]);
        fs::remove_dir_all(&cache.folder).unwrap();
    }

    #[test]
    fn each_source_architecture_and_driver_has_a_file_of_its_own() {
        let cache = cache("cubin-names");
        let names = [("sm_80", 13_000), ("sm_90", 13_000), ("sm_90", 12_080)];
        let paths = names.map(|(architecture, driver)| cache.path(&SOURCE, architecture, driver));
        assert!(paths[0] != paths[1] && paths[1] != paths[2]);
        let other = KernelSource { options: &["--two"], ..SOURCE };
        assert_ne!(cache.path(&other, "sm_90", 13_000), paths[0]);
    }
}
