//! File systems that are mounted on this host: local disks, Lustre, NFS.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headwater_storage_client::{FileIdentity, Object, ObjectError, ShardFile, ShardFileError};

use super::{Listed, Source, SourceUrl, Stat, Version};

/// File systems on drives and in memory of this host, by the kernel's numbers (`statfs(2)`): btrfs,
/// ext2 to ext4, f2fs, overlayfs, ramfs, tmpfs, xfs, zfs.
const LOCAL_KINDS: [u64; 8] = [
    0x9123_683e,
    0xef53,
    0xf2f5_2010,
    0x794c_7630,
    0x8584_58f6,
    0x0102_1994,
    0x5846_5342,
    0x2fc1_2fc1,
];

/// Files, within the folders that may be read.
#[derive(Debug)]
pub(crate) struct LocalSource {
    /// Whether files of this host's own drives go through the cache too.
    copies_all: bool,
    /// Folders that files must lie in, all links and `..` followed; `None`: anywhere.
    roots: Option<Vec<PathBuf>>,
}

// === impl LocalSource ===

impl LocalSource {
    /// By `storage.roots`; those that are URLs say nothing about files.
    pub(crate) fn within(roots: &[PathBuf], copies_all: bool) -> Self {
        let is_url = |root: &&PathBuf| root.to_str().is_some_and(SourceUrl::is_one);
        let folders = roots.iter().filter(|root| !is_url(root)).cloned().collect();
        Self { copies_all, roots: (!roots.is_empty()).then_some(folders) }
    }

    /// Checks that a path, wherever `..` and links lead, lies within one of the roots.
    fn check(&self, path: &Path) -> Result<(), ObjectError> {
        let Some(roots) = &self.roots else { return Ok(()) };
        let leads_to = path.canonicalize().map_err(|source| failed(path, source))?;
        for root in roots {
            if leads_to.starts_with(root.canonicalize().map_err(|source| failed(root, source))?) {
                return Ok(());
            }
        }
        Err(ObjectError::Forbidden(format!(
            "shard `{}` leads to `{}`, which is in no folder of `storage.roots`: \
             move it there, or add its folder",
            path.display(),
            leads_to.display()
        )))
    }

    fn below(
        &self,
        folder: &Path,
        needed: &dyn Fn(&Path) -> bool,
        found: &mut Vec<Listed>,
    ) -> Result<(), ObjectError> {
        for entry in std::fs::read_dir(folder).map_err(|source| failed(folder, source))? {
            let entry = entry.map_err(|source| failed(folder, source))?;
            let path = entry.path();
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            // Links are followed, as they are where a file is named.
            let metadata = match path.metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound && !needed(&path) => continue,
                found => found.map_err(|source| failed(&path, source))?,
            };
            if metadata.is_dir() {
                self.below(&path, needed, found)?;
            } else if metadata.is_file() {
                found.push(Listed { path, version: version(&metadata) });
            }
        }
        Ok(())
    }
}

impl Source for LocalSource {
    fn name(&self, path: &Path) -> String {
        path.display().to_string()
    }

    fn stat(&self, path: &Path) -> Result<Stat, ObjectError> {
        let metadata = path.metadata().map_err(|source| failed(path, source))?;
        self.check(path)?;
        if metadata.is_dir() {
            return Ok(Stat::Folder);
        }
        ShardFile::check_kind(path, &metadata)?;
        Ok(Stat::Object(version(&metadata)))
    }

    fn list(&self, folder: &Path) -> Result<Vec<Listed>, ObjectError> {
        self.list_needed(folder, &|_| true)
    }

    fn list_needed(
        &self,
        folder: &Path,
        needed: &dyn Fn(&Path) -> bool,
    ) -> Result<Vec<Listed>, ObjectError> {
        self.check(folder)?;
        let mut found = Vec::new();
        self.below(folder, needed, &mut found)?;
        let bytes = |listed: &Listed| listed.path.as_os_str().as_encoded_bytes().to_vec();
        found.sort_by_cached_key(bytes);
        Ok(found)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Object>, ObjectError> {
        self.check(path)?;
        match ShardFile::open(path) {
            Err(ShardFileError::Open { source, .. }) => Err(failed(path, source)),
            opened => Ok(Arc::new(opened?)),
        }
    }

    fn is_local(&self) -> bool {
        true
    }

    /// Whether it lies on a file system of other hosts: any that is not known to be of this one.
    fn is_distant(&self, path: &Path) -> bool {
        if self.copies_all {
            return true;
        }
        rustix::fs::statfs(path).is_ok_and(|fs| !LOCAL_KINDS.contains(&(fs.f_type as u64)))
    }
}

fn version(metadata: &Metadata) -> Version {
    let identity = FileIdentity::of(metadata);
    Version { bytes: identity.bytes, tag: identity.modified_ns.to_string() }
}

fn failed(path: &Path, source: io::Error) -> ObjectError {
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            ObjectError::NotFound { name: path.display().to_string() }
        }
        _ => ShardFileError::Open { path: path.to_owned(), source }.into(),
    }
}
